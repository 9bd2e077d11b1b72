"""The record of a sweep: its number, its sealed plan, and an outcome for every object of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core.errors import IncompleteError, MarkError, RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.marks.json_files import digest
from lakegc_core.marks.sweeps import is_open
from lakegc_core.names import STAGES, Stage
from lakegc_core.store.base import connect
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA
from lakegc_core.sweep.record import PLAN, SweepRecord
from tests.support.lake import NO_SPARK, NOW, lake
from tests.support.marks import finish, parts
from tests.support.rows import few, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADDRESS = pa.schema([OUTCOMES_SCHEMA.field("address")])


DAY = timedelta(days=1)
EXPIRED = [
    {
        "address": each,
        "size": 10,
        "last_modified": NOW,
        "etag": None,
        "reason": "unreferenced",
        "since": NOW - days * DAY,
    }
    for each, days in (("a", 1), ("b", 2), ("waits", 9))
]


@pytest.fixture
def context(tmp_path: Path) -> Iterator[MarkContext]:
    with lake(tmp_path) as served:
        served.create("lake")
        found = served.begin("lake", "m1")
        for stage in STAGES:
            finish(found, stage, {stage: (FINDINGS_SCHEMA, EXPIRED)} if stage == Stage.EXPIRED_ADDRESSES else None)
        yield found


def record(context: MarkContext, spark: SparkSession = NO_SPARK, *, dry_run: bool = False) -> SweepRecord:
    return SweepRecord(spark, context, dry_run=dry_run)


def plan(context: MarkContext, sweep: SweepRecord, *addresses: str, attempt: int = 1) -> None:
    rows = [{"address": each, "size": 10, "last_modified": NOW, "etag": None, "since": NOW} for each in addresses]
    found = parts(context, sweep.attempt(attempt).at(PLAN), PLAN_SCHEMA, rows)
    sweep.begin(sweep.attempt(attempt).dataset(PLAN, found, PLAN_SCHEMA), attempt, {"only": None})


def journal(context: MarkContext, sweep: SweepRecord, *outcomes: tuple[str, str, int]) -> None:
    """Outcomes of (address, outcome, attempt)."""
    rows = [
        {"address": address, "size": 10, "outcome": outcome, "attempt": attempt, "at": NOW}
        for address, outcome, attempt in outcomes
    ]
    parts(context, sweep.journal.path, OUTCOMES_SCHEMA, rows)


def test_a_sweep_that_broke_off_is_gone_on_with_and_one_that_is_over_is_not(context: MarkContext) -> None:
    first = record(context)
    assert (first.number, first.is_begun, first.may_have_deleted) == (1, False, False)
    plan(context, first, "a")
    again = record(context)
    assert (again.number, again.is_begun, again.may_have_deleted) == (1, True, True)
    again.close({"outcomes": {"deleted": 1, "lost": 2}})
    second = record(context)
    assert (second.number, second.is_begun, second.may_have_deleted) == (2, False, True)
    assert second.lost_before() == 2


def test_a_sweep_whose_report_was_removed_is_closed_anew_although_a_later_one_stands(
    quick: SparkSession, context: MarkContext, tmp_path: Path
) -> None:
    """So a person is told where a report cannot be read."""
    first = record(context, quick)
    plan(context, first, "a", "b", "c")
    journal(context, first, ("a", "deleted", 1), ("b", "failed:503", 1), ("c", "failed:503", 1))
    first.close({"outcomes": {"deleted": 1}})
    second = record(context, quick)
    plan(context, second, "b", "c")
    journal(context, second, ("b", "deleted", 1), ("c", "failed:503", 1))
    second.close({"outcomes": {"deleted": 1}})
    assert record(context).number == 3
    (report,) = tmp_path.rglob("sweeps/1/report.json")
    report.unlink()
    again = record(context, quick)
    assert (again.number, again.is_begun) == (1, True)
    assert [row["address"] for row in again.left().collect()] == ["c"], "the second sweep counts what it deleted"
    assert record(context, dry_run=True).number == 3
    again.close({"outcomes": {"deleted": 1}})
    assert (record(context).number, is_open(connect(context.workspace), context.mark.folder)) == (3, False)


def test_a_plan_that_somebody_put_beside_the_sweeps_is_no_sweep_that_broke_off(context: MarkContext) -> None:
    connect(context.workspace).write(f"{context.mark.folder}/sweeps/0/plan.json", b"[]")
    sweep = record(context)
    assert (sweep.number, sweep.is_begun, sweep.may_have_deleted) == (1, False, False)


def test_a_dry_run_neither_goes_on_with_a_sweep_nor_counts_as_one(context: MarkContext) -> None:
    plan(context, record(context), "a")
    dry = record(context, dry_run=True)
    assert not dry.is_begun and "/dry-runs/" in dry.folder and dry.journal.path.startswith(dry.folder)
    assert record(context).number == 1


def test_a_plan_that_was_changed_or_is_of_another_mark_deletes_nothing_more(
    context: MarkContext, tmp_path: Path
) -> None:
    sweep = record(context)
    plan(context, sweep, "a")
    (file,) = tmp_path.rglob("plan.json")
    whole = file.read_text()
    told = json.loads(whole)
    told["parts"][0]["rows"] = 5
    others = json.loads(whole) | {"mark_digest": "0" * 64}
    del others["digest"]
    others["digest"] = digest(others)
    cases: list[Any] = [
        json.dumps(others),
        json.dumps(told),
        json.dumps(json.loads(whole) | {"mark_digest": "0" * 64}),
        "{}",
        "",
    ]
    for altered in cases:
        file.write_text(altered)
        with pytest.raises(MarkError):
            sweep.plan()
    file.write_text(whole)
    assert sweep.plan()["sweep"] == 1


def test_a_changed_plan_leads_to_a_close_or_where_its_sweep_is_over_to_a_new_mark(
    context: MarkContext, tmp_path: Path
) -> None:
    sweep = record(context)
    plan(context, sweep, "a")
    (file,) = tmp_path.rglob("plan.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"attempt": 2}))
    with pytest.raises(MarkError, match=r"was changed .*close the sweep \(lakegc sweep lake m1 --close\)"):
        sweep.plan()
    sweep.close({})
    with pytest.raises(MarkError, match=r"was changed .*mark m1 is not swept again: make a new mark\.$"):
        next(record(context).unanswered_before())


def test_a_plan_is_sealed_once(context: MarkContext) -> None:
    one, other = record(context), record(context)
    plan(context, one, "a")
    with pytest.raises(RefusedError, match="another collector sweeps mark m1"):
        plan(context, other, "b")
    assert not other.is_begun
    one.close({})
    with pytest.raises(RefusedError, match="another collector sweeps mark m1"):
        one.close({})


def test_of_several_outcomes_of_an_object_the_last_attempts_counts_and_in_it_the_gravest(
    quick: SparkSession, context: MarkContext
) -> None:
    sweep = record(context, quick)
    journal(context, sweep, ("a", "failed:503", 1), ("b", "deleted", 1), ("c", "deleted", 1), ("d", "unconfirmed", 1))
    journal(context, sweep, ("a", "deleted", 2), ("b", "already_gone", 1), ("c", "lost", 2), ("e", "failed:403", 2))
    journal(context, sweep, ("f", "rescued", 1), ("f", "failed:503", 2))
    totals = sweep.totals()
    assert totals.outcomes == {
        "deleted": 2,  # a; and b, which a task that ran twice found gone
        "already_gone": 0,
        "rescued": 0,
        "unconfirmed": 1,
        "lost": 1,
        "failed:403": 1,
        "failed:503": 1,
    }
    assert totals.bytes_deleted == 30


def test_what_waits_longest_is_dated_by_the_mark_where_the_plan_leaves_it_out(
    quick: SparkSession, context: MarkContext
) -> None:
    sweep = record(context, quick)
    plan(context, sweep, "a")
    journal(context, sweep, ("a", "failed:503", 1), ("b", "rescued", 1), ("waits", "over_budget", 1))
    nine_days_ago = (NOW - 9 * DAY).timestamp()
    assert sweep.totals().oldest == {"since": nine_days_ago, "address": "waits", "outcome": "over_budget"}


def test_a_planned_object_without_an_outcome_is_an_error(quick: SparkSession, context: MarkContext) -> None:
    sweep = record(context, quick)
    plan(context, sweep, "a", "b")
    journal(context, sweep, ("a", "deleted", 1), ("other", "rescued", 1))
    with pytest.raises(IncompleteError, match="1 of 2 planned objects have no outcome"):
        sweep.check_sums(sweep.totals())
    journal(context, sweep, ("b", "failed:503", 1))
    assert sweep.check_sums(sweep.totals()) == 2
    assert [row["address"] for row in sweep.left().collect()] == ["b"], "what failed is asked for again"


def test_an_unanswered_delete_of_an_earlier_sweep_is_no_outcome_of_this_one(
    quick: SparkSession, context: MarkContext
) -> None:
    first = record(context, quick)
    plan(context, first, "a")
    journal(context, first, ("a", "failed:no_answer", 1))
    first.close({"outcomes": {}})
    second = record(context, quick)
    plan(context, second, "a")
    totals = second.totals()
    assert totals.untold == 1 and not any(totals.outcomes.values())


def test_the_next_sweep_asks_only_for_what_no_sweep_has_finished_with(
    quick: SparkSession, context: MarkContext
) -> None:
    sweep = record(context, quick)
    plan(context, sweep, "a")
    outcomes = ("deleted", "already_gone", "rescued", "lost", "changed", "unconfirmed", "failed:503")
    journal(context, sweep, *((outcome, outcome, 1) for outcome in outcomes))
    sweep.close({})
    expired = few(quick, [{"address": each} for each in (*outcomes, "never planned")], ADDRESS)
    left = {row["address"] for row in told(record(context, quick).unfinished(expired))}
    assert left == {"unconfirmed", "failed:503", "never planned"}


def test_what_was_journalled_before_the_plan_was_sealed_belongs_to_no_sweep(
    quick: SparkSession, context: MarkContext
) -> None:
    """The first attempt, of another list, broke off before it had a plan."""
    sweep = record(context, quick)
    journal(context, sweep, ("x", "refused:live", 1), ("a", "rescued", 1))
    dry = record(context, quick, dry_run=True)
    expired = few(quick, [{"address": "a"}, {"address": "b"}], ADDRESS)
    assert sorted(row["address"] for row in told(dry.unfinished(expired))) == ["a", "b"]
    plan(context, sweep, "a", "b", attempt=2)
    journal(context, sweep, ("a", "deleted", 2), ("b", "failed:503", 2))
    totals = sweep.totals()
    assert {name: count for name, count in totals.outcomes.items() if count} == {"deleted": 1, "failed:503": 1}
    assert [row["address"] for row in sweep.left().collect()] == ["b"]


def test_an_object_that_is_gone_after_a_delete_without_an_answer_counts_as_deleted_with_its_bytes(
    quick: SparkSession, context: MarkContext
) -> None:
    sweep = record(context, quick)
    plan(context, sweep, "a", "b", "c")
    journal(context, sweep, ("a", "failed:no_answer", 1), ("b", "failed:no_answer", 1), ("c", "already_gone", 1))
    journal(context, sweep, ("a", "already_gone", 2))
    totals = sweep.totals()
    assert (totals.outcomes["deleted"], totals.outcomes["already_gone"], totals.bytes_deleted) == (1, 1, 10)
    sweep.close({"outcomes": {}})
    second = record(context, quick)
    plan(context, second, "b", "d")
    journal(context, second, ("b", "already_gone", 1), ("d", "already_gone", 1))
    totals = second.totals()
    assert (totals.outcomes["deleted"], totals.outcomes["already_gone"], totals.bytes_deleted) == (1, 1, 10)
