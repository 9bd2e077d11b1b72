"""Candidates of a sweep: what a look, lakeFS and canaries say of each, alike in this process and in tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core.names import Json
from lakegc_core.spark.tasks import both, run_on_rows
from lakegc_core.sweep.candidates import (
    JUDGED,
    WITH_RANK,
    answered,
    as_judged,
    by_rank,
    live,
    looked_at,
    not_shown,
    shown_of,
    stamped,
    with_rank,
)
from tests.support.rows import BOTH, Rows, few, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LOOKED_AT = pa.schema([*JUDGED, pa.field("referred", pa.bool_()), pa.field("held", pa.bool_())])
ANSWERED = pa.schema([*JUDGED, pa.field("verdict", pa.string())])


def row(address: str, outcome: str = "planned", **more: Any) -> Json:
    plain = {"address": address, "size": 1, "last_modified": NOW, "etag": None, "since": NOW - timedelta(days=3)}
    return plain | {"outcome": outcome, "canary": False, "referred": False, "held": False, "verdict": None} | more


def outcomes(rows: Any) -> dict[str, str]:
    return {each["address"]: each["outcome"] for each in told(rows)}


@pytest.mark.parametrize("made", BOTH)
def test_what_a_look_found_decides_and_what_is_gone_already_stays_so(quick: SparkSession, made: Rows) -> None:
    rows = [
        row("goes"),
        row("live", referred=True, held=True, since=NOW),
        row("held", held=True, since=NOW),
        row("late", since=NOW),
        row("gone", "already_gone", referred=True),
        row("another", "unconfirmed", since=NOW),
        row("another, and live", "unconfirmed", referred=True),
    ]
    ready = (NOW - timedelta(days=2)).timestamp()
    found = made(quick, rows, LOOKED_AT).then(JUDGED, partial(looked_at, ready))
    assert outcomes(found) == {
        "goes": "planned",
        "live": "rescued",
        "held": "held",
        "late": "unconfirmed",
        "gone": "already_gone",
        "another": "unconfirmed",
        "another, and live": "rescued",
    }


@pytest.mark.parametrize("made", BOTH)
def test_an_answer_of_lakefs_counts_and_where_there_is_none_all_stays(quick: SparkSession, made: Rows) -> None:
    rows = [
        row("a", verdict="rescued"),
        row("b", verdict="unconfirmed"),
        row("c"),
        row("told before", "held", verdict="unconfirmed"),
    ]
    found = made(quick, rows, ANSWERED).then(JUDGED, answered)
    assert outcomes(found) == {"a": "rescued", "b": "unconfirmed", "c": "planned", "told before": "held"}


@pytest.mark.parametrize("made", BOTH)
def test_canaries_are_told_leave_the_candidates_and_take_what_lakefs_shows_with_them(
    quick: SparkSession, made: Rows
) -> None:
    rows = made(quick, [row("a"), row("b"), row("c", "rescued")], JUDGED)
    rows = both(rows, few(quick, [row("a", canary=True), row("x", canary=True)], JUDGED))
    shown = pa.array(["a", "c", "x"])
    passed = run_on_rows(rows, partial(shown_of, shown))
    assert sorted((each["address"], each["canary"]) for each in passed) == [("a", False), ("a", True), ("x", True)]
    assert outcomes(rows.then(JUDGED, partial(not_shown, shown))) == {
        "a": "unconfirmed",
        "b": "planned",
        "c": "rescued",
    }


@pytest.mark.parametrize("made", BOTH)
def test_what_is_live_is_remembered_but_no_canary(quick: SparkSession, made: Rows) -> None:
    rows = [row("a", "rescued"), row("b", "held"), row("c"), row("d", "rescued", canary=True), row("e", "lost")]
    assert set(outcomes(made(quick, rows, JUDGED).then(JUDGED, live))) == {"a", "b"}


@pytest.mark.parametrize("made", BOTH)
def test_an_outcome_that_is_known_stays_and_the_others_are_planned(quick: SparkSession, made: Rows) -> None:
    shape = pa.schema([each for each in JUDGED if each.name != "canary"])
    rows = made(
        quick, [row("a", "already_gone"), row("b") | {"outcome": None}], shape.set(5, pa.field("outcome", pa.string()))
    )
    assert outcomes(rows.then(JUDGED, partial(as_judged, is_canary=False))) == {"a": "already_gone", "b": "planned"}


def test_small_ranks_come_first_and_every_row_has_its_rank(quick: SparkSession) -> None:
    rows = few(quick, [row(f"data/{number}") for number in range(5_000)], JUDGED).then(WITH_RANK, with_rank)
    every = told(rows.then(WITH_RANK, partial(by_rank, WITH_RANK)))
    assert len(every) == 5_000 and [each["rank"] for each in every] == sorted(each["rank"] for each in every)
    share = [sum(each["rank"] == rank for each in every) / 5_000 for rank in (5, 4, 3)]
    assert share == pytest.approx([0.9, 0.09, 0.009], rel=0.2)
    assert {(each["attempt"], each["at"].timestamp()) for each in told(stamped(rows, 3, 7.5))} == {(3, 7.5)}
