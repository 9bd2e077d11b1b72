"""Of all that is on record of an object the last event counts; one sweep has counted it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakegc_core.marks.last_known import EVENTS, Events, last_known
from lakegc_core.marks.ledger import Kind, Record
from lakegc_core.tables.dataset import Dataset

NO_ROWS = Dataset(pa.schema([]))
Rows = list[tuple[str, str, int]]


def events(record: Record, rows: Rows, but: str = "", ever: bool = False) -> pa.Table:
    """Rows of (address, outcome, at) of a record, as events."""
    at = [datetime.fromtimestamp(each[2], UTC) for each in rows]
    told = pa.RecordBatch.from_pydict(
        {
            "address": [each[0] for each in rows],
            "size": [10] * len(rows),
            "outcome": [each[1] for each in rows],
            "at": pa.array(at, pa.timestamp("us", tz="UTC")),
        }
    )
    columns = [["address", "size", "outcome", "at"], ["address", "outcome"], ["address", "at"]]
    found = Events(record, None, but, ever)(told.select(columns[list(Kind).index(record.kind)]))
    rows_left = len(found["address"])
    arrays = [
        found[name]
        if hasattr(found[name], "__len__") and not isinstance(found[name], str)
        else [found[name]] * rows_left
        for name in EVENTS.names
    ]
    return pa.table({name: pa.array(each) for name, each in zip(EVENTS.names, arrays, strict=True)}).cast(EVENTS)


def sweep(mark_id: str, *rows: tuple[str, str, int], number: int = 1, but: str = "", ever: bool = False) -> pa.Table:
    return events(Record(Kind.SWEPT, mark_id, number, NO_ROWS), list(rows), but, ever)


def restore(at: int, *rows: tuple[str, str], ever: bool = False) -> pa.Table:
    return events(Record(Kind.RESTORED, "m0", 0, NO_ROWS, float(at)), [(*row, 0) for row in rows], ever=ever)


def seen(*rows: tuple[str, int]) -> pa.Table:
    return events(Record(Kind.SEEN, "m0", 0, NO_ROWS), [(address, "", at) for address, at in rows])


def known(*tables: pa.Table) -> dict[str, tuple[Any, ...]]:
    """By address: whose sweep counted it, whether it was lost, the bytes that were counted."""
    return {
        row["address"]: (row["mark_id"] and f"{row['mark_id']}/{row['sweep']}", row["lost"], row["bytes"])
        for found in last_known(pa.concat_tables(tables))
        for row in found.to_pylist()
    }


def test_what_was_deleted_is_gone_until_it_is_restored_or_seen_again() -> None:
    swept = sweep("m1", ("a", "deleted", 5), ("b", "deleted", 5), ("c", "deleted", 5), ("d", "failed:503", 5))
    assert known(swept) == dict.fromkeys("abc", ("m1/1", False, 10))
    assert set(known(swept, restore(6, ("a", "copied"), ("c", "missing")))) == {"b", "c"}
    assert set(known(swept, restore(6, ("a", "already_there"), ("c", "failed")))) == {"b", "c"}
    assert set(known(swept, seen(("b", 6)))) == {"a", "c"}
    assert set(known(swept, seen(("b", 4)))) == {"a", "b", "c"}


def test_what_was_deleted_once_more_after_it_came_back_counts_for_the_later_sweep() -> None:
    tables = sweep("m1", ("a", "deleted", 5)), restore(6, ("a", "copied")), sweep("m2", ("a", "deleted", 7))
    assert known(*tables) == {"a": ("m2/1", False, 10)}
    assert known(*tables, seen(("a", 8))) == {}


@pytest.mark.parametrize("outcome", ["failed:still_there", "seen_again", "changed"])
def test_a_sweep_that_finds_an_object_there_takes_back_what_was_recorded_before(outcome: str) -> None:
    assert known(sweep("m1", ("a", "deleted", 5)), sweep("m2", ("a", outcome, 6))) == {}
    again = sweep("m2", ("a", outcome, 6), ("a", "deleted", 7))
    assert known(sweep("m1", ("a", "deleted", 5)), again) == {"a": ("m2/1", False, 10)}


def test_of_two_sweeps_that_call_it_gone_the_one_counts_that_the_store_told_so() -> None:
    first, second = ("a", "deleted", 5), ("a", "already_gone", 6)
    assert known(sweep("m1", first), sweep("m2", second)) == {"a": ("m1/1", False, 10)}
    unanswered = sweep("m2", ("a", "failed:no_answer", 4), second)
    assert known(unanswered) == {"a": ("m2/1", False, 10)}
    assert known(sweep("m1", first), unanswered) == {"a": ("m1/1", False, 10)}
    assert known(sweep("m1", ("a", "failed:no_answer", 4)), sweep("m2", second)) == {"a": (None, False, 0)}


def test_an_answer_that_was_lost_in_an_earlier_sweep_of_the_mark_counts_for_the_sweep_that_found_it_gone() -> None:
    tables = sweep("m1", ("a", "failed:no_answer", 4)), sweep("m1", ("a", "already_gone", 5), number=2)
    assert known(*tables) == {"a": ("m1/2", False, 10)}


def test_what_somebody_else_deleted_is_gone_and_no_sweep_counted_it() -> None:
    assert known(sweep("m1", ("a", "already_gone", 5))) == {"a": (None, False, 0)}


def test_what_a_sweep_lost_is_told_until_it_is_restored() -> None:
    swept = sweep("m1", ("a", "deleted", 5), ("a", "lost", 6))
    assert known(swept) == {"a": ("m1/1", True, 10)}
    assert known(swept, restore(7, ("a", "copied"))) == {}


def test_of_a_mark_that_is_left_out_only_what_it_saw_counts() -> None:
    other = sweep("m1", ("a", "deleted", 5), ("b", "deleted", 5))
    own = sweep("m2", ("a", "seen_again", 6), ("a", "deleted", 7), ("c", "deleted", 7), but="m2")
    assert known(other, own) == {"b": ("m1/1", False, 10)}


def test_what_was_ever_gone_is_so_whatever_came_after() -> None:
    swept = [("a", "deleted", 5), ("b", "deleted", 5), ("b", "seen_again", 6), ("c", "seen_again", 6)]
    tables = sweep("m1", *swept, ever=True), restore(7, ("a", "copied"), ever=True)
    assert known(*tables) == dict.fromkeys("ab", ("m1/1", False, 10))
