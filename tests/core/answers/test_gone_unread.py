"""`gone` says nothing is gone while nobody knows what some commits showed."""

from __future__ import annotations

from dataclasses import replace

from lakegc_core.answers.gone import unread
from lakegc_core.names import Stage
from lakegc_core.policy.facts import CommitsFacts, read_facts
from tests.support.facts import whole_facts


def test_commits_that_the_mark_could_not_read_are_a_reason_to_state_nothing() -> None:
    facts = replace(read_facts(CommitsFacts, whole_facts(Stage.RETENTION_COMMITS)), commits_odd=0)
    assert list(unread(facts)) == []
    (ignored,) = unread(replace(facts, commits_ignored=("a", "b")))
    assert ignored.startswith("2 commits that lakegc.yaml says to ignore cannot be read")
    (odd,) = unread(replace(facts, commits_odd=1))
    assert odd.startswith("1 old commits have no metarange")
    (untold,) = unread(replace(facts, commits_odd=None))
    assert untold.startswith("an older lakegc made the mark")
