"""The totals of a sweep count each object once, by its final outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakegc_core.sweep.totals import Totals, totals_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "address string, outcome string, attempt int, size long, own boolean, by_other_marks boolean, planned boolean"
NONE = {"deleted": 0, "already_gone": 0, "rescued": 0, "unconfirmed": 0}
Told = tuple[str, int]


def totals(spark: SparkSession, *told: Told, own: bool = True, by_other_marks: bool = False) -> Totals:
    """Of one object of ten bytes, which was planned; `told`: outcomes and attempts."""
    planned = ("a", None, None, None, False, None, True)
    rows = [("a", outcome, attempt, 10, own, by_other_marks, False) for outcome, attempt in told]
    return totals_of(spark.createDataFrame([planned, *rows], COLUMNS))


@pytest.mark.parametrize(
    ("told", "outcome", "size"),
    [
        ([("rescued", 1), ("deleted", 2)], "deleted", 10),
        ([("deleted", 1), ("lost", 2)], "lost", 10),
        ([("already_gone", 1), ("lost", 2)], "lost", 0),
        ([("already_gone", 1), ("deleted", 1)], "deleted", 10),
        ([("failed:no_answer", 1), ("already_gone", 2)], "deleted", 10),
        ([("failed:503", 1), ("already_gone", 2)], "already_gone", 0),
        ([("failed:no_answer", 1), ("changed", 2)], "changed", 0),
        ([("changed", 1), ("deleted", 1)], "deleted", 10),
        ([("left", 1), ("failed:AccessDenied", 1)], "failed:AccessDenied", 0),
    ],
)
def test_the_outcome_of_the_last_attempt_counts_and_of_one_attempt_the_gravest(
    quick: SparkSession, told: list[Told], outcome: str, size: int
) -> None:
    assert totals(quick, *told) == Totals(NONE | {outcome: 1}, size)


def test_what_the_sweep_of_another_mark_deleted_is_gone_by_it(quick: SparkSession) -> None:
    found = totals(quick, ("failed:no_answer", 1), ("already_gone", 2), by_other_marks=True)
    assert found == Totals(NONE | {"already_gone": 1}, 0, gone_by_sweeps=1)


def test_a_planned_object_without_an_outcome_of_this_sweep_is_untold(quick: SparkSession) -> None:
    assert totals(quick) == totals(quick, ("deleted", 0), own=False) == Totals(NONE, 0, untold=1)
