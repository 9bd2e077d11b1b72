"""`gone` says nothing is gone while nobody knows what some commits showed."""

from __future__ import annotations

from dataclasses import replace

from lakegc_core.answers.gone_unread import unread
from lakegc_core.names import Stage
from lakegc_core.policy.facts import CommitsFacts, CommittedFacts, read_facts
from tests.support.facts import whole_facts


def test_commits_that_the_mark_could_not_read_are_a_reason_to_state_nothing() -> None:
    facts = replace(read_facts(CommitsFacts, whole_facts(Stage.RETENTION_COMMITS)), commits_odd=0)
    committed = replace(read_facts(CommittedFacts, whole_facts(Stage.COMMITTED_ADDRESSES)), ranges_ignored=0)
    assert list(unread(facts, committed)) == []
    (lost,) = unread(facts, replace(committed, ranges_ignored=3))
    assert lost.startswith("3 ranges of commits that lakegc.yaml says to ignore cannot be read")
    (ignored,) = unread(replace(facts, commits_ignored=("a", "b")), committed)
    assert ignored.startswith("2 commits that lakegc.yaml says to ignore cannot be read")
    (odd,) = unread(replace(facts, commits_odd=1), committed)
    assert odd.startswith("1 old commits have no metarange")
    (untold,) = unread(replace(facts, commits_odd=None), committed)
    assert untold.startswith("an older lakegc made the mark")
