"""A shorter rule takes effect only after it has been seen for a week; a longer one at once."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.marks.context import MarkContext
from lakegc_core.policy.retention import Rules
from lakegc_core.references.commits.rules_memory import FOLDER, RulesRecord, effective_rules, remember
from tests.support.lake import NOW, Lake

DAY = 86_400.0
WEEK = timedelta(days=7)


def test_a_rule_that_was_just_shortened_does_not_count_yet() -> None:
    seen = [RulesRecord(0, Rules(30, {"main": 90})), RulesRecord(100 * DAY, Rules(30, {"main": 1}))]
    assert effective_rules(seen, 100 * DAY, WEEK) == Rules(30, {"main": 90})
    assert effective_rules(seen, 106.9 * DAY, WEEK) == Rules(30, {"main": 90})


def test_a_shortened_rule_counts_after_a_week() -> None:
    seen = [RulesRecord(0, Rules(30, {"main": 90})), RulesRecord(100 * DAY, Rules(30, {"main": 1}))]
    assert effective_rules(seen, 107 * DAY, WEEK) == Rules(30, {"main": 1})


def test_a_lengthened_rule_counts_at_once() -> None:
    seen = [RulesRecord(0, Rules(7)), RulesRecord(DAY, Rules(14))]
    assert effective_rules(seen, DAY, WEEK) == Rules(14)


def test_a_branch_rule_that_was_removed_counts_for_a_week_more() -> None:
    seen = [RulesRecord(0, Rules(7, {"main": 400})), RulesRecord(DAY, Rules(7))]
    assert effective_rules(seen, DAY, WEEK) == Rules(7, {"main": 400})


def test_a_branch_rule_shorter_than_the_default_it_replaced_does_not_count_yet() -> None:
    seen = [RulesRecord(0, Rules(30)), RulesRecord(DAY, Rules(30, {"dev": 1}))]
    assert effective_rules(seen, DAY, WEEK) == Rules(30, {"dev": 30})


def test_rules_that_were_set_where_every_commit_counted_do_not_count_yet() -> None:
    seen = [RulesRecord(0, None), RulesRecord(DAY, Rules(1))]
    assert effective_rules(seen, 2 * DAY, WEEK) is None
    assert effective_rules(seen, 9 * DAY, WEEK) == Rules(1)


def test_the_first_rules_ever_seen_count_at_once() -> None:
    assert effective_rules([RulesRecord(5, Rules(3))], 5, WEEK) == Rules(3)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 5 * int(DAY)),
            st.integers(-5, 400),
            st.dictionaries(st.sampled_from("abc"), st.integers(-5, 400)),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_no_branch_ever_keeps_less_than_any_rule_of_the_last_week_says(
    changes: list[tuple[int, int, dict[str, int]]],
) -> None:
    at, seen = 0.0, []
    for pause, default, branches in changes:
        at += pause
        seen.append(RulesRecord(at, Rules(default, branches)))
    found = effective_rules(seen, at, WEEK)
    assert found is not None
    for each, end in zip(seen, [later.at for later in seen[1:]] + [at + 1], strict=True):
        if end > at - 7 * DAY and each.rules is not None:
            for branch in "abcd":
                assert found.days(branch) >= each.rules.days(branch)


@pytest.mark.parametrize("name", ["copy of 00001743422400000000.json", ".DS_Store", "_$folder$", "now.json"])
def test_files_among_the_records_of_rules_that_are_none_are_passed_over(served: Lake, name: str) -> None:
    context = served.begin("lake", "m1", safety_level="full", min_age=timedelta(hours=25))
    folder = served.files("lake") / context.home / FOLDER
    folder.mkdir()
    (folder / name).write_text("no record")
    assert remember(context, Rules(3)) == (Rules(3), 1)


@pytest.mark.parametrize(
    "record", ["", "[]", "{}", '{"at": 1, "rules": {"default": 1, "branches": {}}, "digest": "x"}']
)
def test_a_record_of_rules_that_somebody_replaced_keeps_every_commit_for_a_week_and_stops_nothing(
    served: Lake, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    context = served.begin("lake", "m1", safety_level="full", min_age=timedelta(hours=25))
    remember(context, Rules(3))
    (file,) = (served.files("lake") / context.home / FOLDER).iterdir()
    file.write_text(record)
    monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp() + DAY))
    assert remember(context, Rules(3)) == (None, 2)
    monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp() + 9 * DAY))
    assert remember(context, Rules(3)) == (Rules(3), 2)


def dated(served: Lake, context: MarkContext, at: float) -> None:
    """Let the store say that it wrote the newest record of rules then."""
    newest = max((served.files("lake") / context.home / FOLDER).iterdir())
    os.utime(newest, (at, at))


def test_a_collector_whose_clock_is_behind_cannot_let_a_shorter_rule_count_early(
    served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = served.begin("lake", "m1", safety_level="full", min_age=timedelta(hours=25))
    start = NOW.timestamp()
    remember(context, Rules(365))
    dated(served, context, start)
    monkeypatch.setenv("LAKEGC_NOW", str(start + 20 * DAY))  # it is the 30th day by the store's clock
    remember(context, Rules(7))
    dated(served, context, start + 30 * DAY)
    monkeypatch.setenv("LAKEGC_NOW", str(start + 31 * DAY))
    assert remember(context, Rules(7))[0] == Rules(365)
    monkeypatch.setenv("LAKEGC_NOW", str(start + 38 * DAY))
    assert remember(context, Rules(7))[0] == Rules(7)


def test_a_collector_whose_clock_was_ahead_lets_a_longer_rule_count_for_a_week_and_not_for_years(
    served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = served.begin("lake", "m1", safety_level="full", min_age=timedelta(hours=25))
    start = NOW.timestamp()
    monkeypatch.setenv("LAKEGC_NOW", str(start + 1000 * DAY))
    remember(context, Rules(365))
    dated(served, context, start)
    monkeypatch.setenv("LAKEGC_NOW", str(start + DAY))
    assert remember(context, Rules(7)) == (Rules(365), 2)
    monkeypatch.setenv("LAKEGC_NOW", str(start + 9 * DAY))
    assert remember(context, Rules(7)) == (Rules(7), 2)


def test_a_store_whose_clock_was_ahead_does_so_neither(served: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    context = served.begin("lake", "m1", safety_level="full", min_age=timedelta(hours=25))
    start = NOW.timestamp()
    remember(context, Rules(365))
    dated(served, context, start + 1000 * DAY)
    monkeypatch.setenv("LAKEGC_NOW", str(start + DAY))
    remember(context, Rules(7))
    monkeypatch.setenv("LAKEGC_NOW", str(start + 9 * DAY))
    assert remember(context, Rules(7)) == (Rules(7), 2)


def test_a_copy_of_the_workspace_in_any_order_forgets_no_longer_rule(
    served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = served.begin("lake", "m1", safety_level="full", min_age=timedelta(hours=25))
    start = NOW.timestamp()
    for days, rules in ((0, Rules(30)), (5, Rules(365))):
        monkeypatch.setenv("LAKEGC_NOW", str(start + days * DAY))
        remember(context, rules)
    first, last = sorted((served.files("lake") / context.home / FOLDER).iterdir())
    os.utime(last, (start + 100 * DAY, start + 100 * DAY))
    os.utime(first, (start + 100 * DAY + 1, start + 100 * DAY + 1))
    monkeypatch.setenv("LAKEGC_NOW", str(start + 108 * DAY))
    assert remember(context, Rules(7))[0] == Rules(365)
