"""Since when an object has been unreferenced, without a break."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from lakegc_core.judging import since as findings
from lakegc_core.marks import rescues
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.names import STAGES
from lakegc_core.spark.tasks import Few, Mapped
from lakegc_core.store.base import connect
from lakegc_core.tables import gather
from tests.support.lake import NO_SPARK, NOW, Lake
from tests.support.marks import Marked, finish, marker, parts
from tests.support.rows import BOTH, Rows, few, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CANDIDATES = pa.schema([FINDINGS_SCHEMA.field(name) for name in ("address", "since")])
ADDRESS = pa.schema([FINDINGS_SCHEMA.field("address")])


@pytest.fixture
def marked(served: Lake, monkeypatch: pytest.MonkeyPatch) -> Marked:
    return marker(served, monkeypatch)


@pytest.mark.parametrize("held", [findings.MOST_CARRIED, -1], ids=["looked up by workers", "joined by Spark"])
def test_what_was_unreferenced_without_a_break_is_so_since_the_mark_before(
    spark: SparkSession, marked: Marked, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(findings, "MOST_CARRIED", held)
    first = marked(1, len(STAGES) - 1)
    long_ago, now = NOW - timedelta(days=5), NOW + timedelta(days=2)
    found = {
        "garbage": "unreferenced",
        "young": "young",
        "staged": "staged",
        "rescued": "unreferenced",
        "rescued before": "unreferenced",
        "far": "foreign",
    }
    told = [
        {"address": name, "size": 1, "last_modified": long_ago, "etag": None, "reason": reason, "since": long_ago}
        for name, reason in found.items()
    ]
    schema = FINDINGS_SCHEMA
    kept = [row for row in told if row["reason"] != "unreferenced"]
    expired = [row for row in told if row["reason"] == "unreferenced"]
    earlier, dump, commits = long_ago - timedelta(days=1), NOW + timedelta(days=1), NOW + timedelta(days=1.5)
    resumed = {"rescued before its dump": earlier, "rescued between its dump and its commits": dump}
    expired += [{**expired[0], "address": name, "since": commits} for name in resumed]
    finish(first, STAGES[-1], {"expired_addresses": (schema, expired), "kept": (schema, kept)})
    journal = [("rescued", NOW), ("rescued", earlier), ("rescued before", earlier), *resumed.items()]
    parts(
        first,
        rescues.folder_of(first),
        rescues.SCHEMA,
        [{"address": name, "at": at} for name, at in journal],
    )

    rows = Mapped(spark.createDataFrame([(name,) for name in (*found, *resumed, "new")], "address string"), ADDRESS)
    second = findings.with_since(spark, marked(2, 0), rows, now.timestamp()).as_frame()
    since = {row[0]: row[1] / 1e6 for row in second.selectExpr("address", "unix_micros(since)").collect()}
    assert {name for name, at in since.items() if at == long_ago.timestamp()} == {"garbage", "rescued before"}
    assert {name for name, at in since.items() if at == commits.timestamp()} == {"rescued before its dump"}
    anew = {"young", "far", "staged", "rescued", "rescued between its dump and its commits", "new"}
    assert {name for name, at in since.items() if at == now.timestamp()} == anew


@pytest.mark.parametrize(("longer_by", "carried"), [(1.0, False), (0.0, True), (-1.0, True)])
def test_a_mark_with_a_longer_minimum_age_than_the_mark_before_carries_nothing_over(
    marked: Marked, longer_by: float, carried: bool
) -> None:
    """The mark before may have begun a series with an upload that a client was still free to link."""
    row = {"address": "a", "size": 1, "last_modified": NOW, "etag": None, "reason": "unreferenced", "since": NOW}
    finish(marked(1, len(STAGES) - 1), STAGES[-1], {"expired_addresses": (FINDINGS_SCHEMA, [row])})
    second = marked(2, 0)
    second = replace(second, header=replace(second.header, min_age=second.header.min_age + longer_by))
    rows = Mapped(Few(NO_SPARK, lambda: iter([pa.RecordBatch.from_pylist([{"address": "a"}], ADDRESS)])), ADDRESS)
    now = NOW + timedelta(days=2)
    [batch] = findings.with_since(NO_SPARK, second, rows, now.timestamp()).here()
    assert batch["since"].to_pylist() == [NOW if carried else now]


@pytest.mark.parametrize("kept", [0, 9], ids=["is missing", "is shorter"])
def test_where_a_part_of_what_the_mark_before_found_does_not_read_all_gaps_begin_anew(
    marked: Marked, kept: int
) -> None:
    """Before, the clean mark that such a mark causes failed by it."""
    row = {"address": "a", "size": 1, "last_modified": NOW, "etag": None, "reason": "unreferenced", "since": NOW}
    first = marked(1, len(STAGES) - 1)
    finish(first, STAGES[-1], {"expired_addresses": (FINDINGS_SCHEMA, [row])})
    said = list[str]()
    second = replace(marked(2, 0), say=said.append)
    rows = Mapped(Few(NO_SPARK, lambda: iter([pa.RecordBatch.from_pylist([{"address": "a"}], ADDRESS)])), ADDRESS)
    now = NOW + timedelta(days=2)

    def since() -> list[datetime]:
        [batch] = findings.with_since(NO_SPARK, second, rows, now.timestamp()).here()
        found: list[datetime] = batch["since"].to_pylist()
        return found

    assert (since(), said) == ([NOW], [])
    (part,) = findings.in_series(first.mark).sources
    store, key = connect(part.config), f"{part.folder}/{part.part.name}"
    data = store.read(key)
    store.delete_many([key])
    if kept:
        store.write(key, data[:kept])
    assert since() == [now] and "what mark m1 found cannot be read" in said[0]


def test_addresses_whose_hashes_collide_do_not_lend_one_another_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "hash_strings", lambda rows: np.array([len(row) for row in rows.to_pylist()]))
    known = {"a": 5, "bb": 7, "cc": 6, "dddd": 8}
    schema = pa.schema([FINDINGS_SCHEMA.field("address"), FINDINGS_SCHEMA.field("since")])
    rows = [pa.array(list(known)), pa.array(list(known.values()), pa.int64()).cast(schema.field("since").type)]
    asked = ["a", "b", "bb", "cc", "dddd", "eeeee", ""]
    numbers, since = findings._Series(pa.Table.from_arrays(rows, schema=schema)).find(pa.array(asked))
    assert dict(zip((asked[number] for number in numbers), since.tolist(), strict=True)) == {"a": 5, "bb": 7, "dddd": 8}


@pytest.mark.parametrize("made", BOTH)
def test_what_later_marks_and_looks_found_live_is_not_swept_before_a_mark_finds_it_dead_again(
    spark: SparkSession, marked: Marked, monkeypatch: pytest.MonkeyPatch, made: Rows
) -> None:
    """However long ago it was seen live: when it ceased to be, nobody has seen."""
    monkeypatch.setattr(gather, "FEW", gather.FEW if made is few else 0)
    own = marked(1)
    seen_again = NOW + timedelta(days=3)
    theirs = {"garbage": NOW, "began anew": seen_again}
    rows = [
        {"address": name, "size": 1, "last_modified": NOW, "etag": None, "reason": "unreferenced", "since": since}
        for name, since in theirs.items()
    ]
    dump, commits = NOW + timedelta(days=1), NOW + timedelta(days=2)
    found = [{"address": each, "at": NOW + timedelta(days=1.5)} for each in ("rescued", "since its dump")]
    found.append({"address": "before its dump", "at": dump - timedelta(seconds=1)})
    parts(own, rescues.folder_of(own), rescues.SCHEMA, found)
    series = dict.fromkeys(("garbage", "rescued", "found live", "began anew"), NOW)
    resumed = dict.fromkeys(("since its dump", "before its dump"), commits)

    def since(candidates: dict[str, datetime]) -> dict[str, float]:
        rows = [{"address": name, "since": since} for name, since in candidates.items()]
        after = findings.with_later_findings(spark, own, made(spark, rows, CANDIDATES)).as_frame()
        return {row[0]: row[1] / 1e6 for row in after.selectExpr("address", "unix_micros(since)").collect()}

    now, long_ago = own.header.started_at, NOW.timestamp()
    assert since(series) == {"garbage": long_ago, "rescued": now, "found live": long_ago, "began anew": long_ago}
    assert since(resumed) == {"since its dump": now, "before its dump": commits.timestamp()}
    later = marked(3, len(STAGES) - 1)
    rows.append({**rows[0], "address": "rescued"})
    finish(later, STAGES[-1], {"expired_addresses": (FINDINGS_SCHEMA, rows), "kept": (FINDINGS_SCHEMA, [])})
    now = later.header.started_at
    found = {"garbage": long_ago, "rescued": now, "found live": now, "began anew": seen_again.timestamp()}
    assert since(series) == found
    marked(4, 2)
    assert set(since(series).values()) == {(NOW + timedelta(days=4)).timestamp()}


def test_what_came_back_after_the_listing_is_named_and_everything_where_the_journal_does_not_read(
    quick: SparkSession, marked: Marked
) -> None:
    own = marked(5)
    candidates = few(quick, [{"address": "a"}, {"address": "b"}], ADDRESS)

    def back() -> list[str] | None:
        found = findings.brought_back(quick, own, candidates)
        return None if found is None else [row["address"] for row in told(found)]

    assert back() is None
    journal = [{"address": "before", "at": NOW}, {"address": "since", "at": NOW + timedelta(days=9)}]
    parts(own, rescues.folder_of(own), rescues.SCHEMA, journal)
    assert back() == ["since"]
    connect(own.workspace).write(f"{rescues.folder_of(own)}/part-1.parquet", b"half")
    assert back() == ["a", "b"]


def test_times_of_frames_in_another_zone_are_compared_with_those_of_a_later_mark() -> None:
    """Spark gives times in the session's zone."""
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(["dead", "live", "later"]),
            pa.array([NOW] * 3, pa.timestamp("us", tz="Europe/Berlin")),
            pa.array([NOW, None, NOW + timedelta(days=1)], pa.timestamp("us", tz="UTC")),
        ],
        ["address", "since", "later"],
    )
    (found,) = findings._anew_if_later(NOW + timedelta(days=2), iter([rows]))
    assert found.schema == rows.schema.remove(2)
    assert found["since"].to_pylist() == [NOW, NOW + timedelta(days=2), NOW + timedelta(days=1)]
