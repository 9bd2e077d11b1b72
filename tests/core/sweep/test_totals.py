"""The totals of a sweep count each object once, by its final outcome."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.sweep.totals import Totals, totals_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    "address string, outcome string, attempt int, size long, own boolean, by_other_marks boolean, planned boolean, "
    "at timestamp, since timestamp"
)
NOW = datetime(2026, 11, 26, tzinfo=UTC)
NONE = {"deleted": 0, "already_gone": 0, "rescued": 0, "unconfirmed": 0}
Told = tuple[str, int]


def totals(spark: SparkSession, *told: Told, own: bool = True, by_other_marks: bool = False) -> Totals:
    """Of one object of ten bytes, which was planned; `told`: outcomes and attempts."""
    planned = ("a", None, None, None, False, None, True, None, None)
    rows = [("a", outcome, attempt, 10, own, by_other_marks, False, NOW, None) for outcome, attempt in told]
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


OUTCOMES = ("deleted", "already_gone", "rescued", "changed", "held", "unconfirmed", "over_budget", "left", "failed:503")
WAITING = OUTCOMES[4:]
Lives = dict[str, tuple[datetime, list[tuple[str, datetime]]]]
"""Of each object since when it is unreferenced, and its outcomes with their times, an attempt each."""


def lives(count: int, seed: int) -> Lives:
    pick = random.Random(seed)
    found: Lives = {}
    for number in range(count):
        since = NOW - timedelta(hours=pick.choice([25, 49, 73, 24 * 90]), seconds=pick.randrange(9))
        outcomes = [pick.choice(OUTCOMES) for _ in range(pick.choice([1, 1, 2]))]
        found[f"data/{number:03}"] = since, [(each, NOW + timedelta(minutes=pick.randrange(90))) for each in outcomes]
    return found


def nearest_rank(values: Sequence[float], percent: int) -> float:
    return sorted(values)[-(-percent * len(values) // 100) - 1]


def _end(outcomes: list[tuple[str, datetime]]) -> tuple[str, datetime]:
    """What is gone after a delete of this sweep was deleted by it."""
    last, at = outcomes[-1]
    return ("deleted" if last == "already_gone" and outcomes[0][0] == "deleted" else last), at


def told_plainly(lives: Lives) -> tuple[dict[str, float], dict[str, Any]]:
    ends = {address: (since, *_end(outcomes)) for address, (since, outcomes) in lives.items()}
    delays = [(at - since).total_seconds() for since, outcome, at in ends.values() if outcome == "deleted"]
    waiting = [(since, address, outcome) for address, (since, outcome, _) in ends.items() if outcome in WAITING]
    since, address, outcome = min(waiting)
    quantiles = {"p50": nearest_rank(delays, 50), "p99": nearest_rank(delays, 99)}
    return {"objects": len(delays)} | quantiles, {"since": since.timestamp(), "address": address, "outcome": outcome}


@pytest.mark.parametrize("seed", [1, 2])
def test_the_delays_of_what_was_deleted_and_what_waits_longest_are_those_that_plain_python_finds(
    quick: SparkSession, seed: int
) -> None:
    found = lives(1_000, seed)
    rows: list[tuple[Any, ...]] = []
    for address, (since, outcomes) in found.items():
        for attempt, (outcome, at) in enumerate(outcomes, 1):
            rows.append((address, outcome, attempt, 10, True, False, False, at, None))
        # The mark's own row comes first where a later mark found the object live in between: the plan's counts.
        rows += [
            (address, None, None, None, False, None, False, None, since - timedelta(days=1)),
            (address, None, None, None, False, None, True, None, since),
        ]
    never_planned = ("data/other", None, None, None, False, None, False, None, NOW - timedelta(days=900))
    told = totals_of(quick.createDataFrame([*rows, never_planned], COLUMNS))
    assert (told.delay, told.oldest) == told_plainly(found)


def test_a_clock_that_was_set_back_makes_no_delay_less_than_nothing(quick: SparkSession) -> None:
    rows = [
        ("a", "deleted", 1, 10, True, False, False, NOW, None),
        ("a", None, None, None, False, None, True, None, NOW + timedelta(hours=1)),
    ]
    told = totals_of(quick.createDataFrame(rows, COLUMNS))
    assert (told.delay, told.oldest) == ({"objects": 1, "p50": 0.0, "p99": 0.0}, {})
