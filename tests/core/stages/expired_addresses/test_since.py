"""Which mark a mark is compared with, and whose findings it carries on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from lakegc_core.marks import sweeps
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.previous import previous_findings, previous_mark
from lakegc_core.names import STAGES
from lakegc_core.spark.session import Mapped
from lakegc_core.stages.expired_addresses import since as findings
from tests.support.lake import NOW, Lake, lake
from tests.support.marks import finish, parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Marked = Callable[..., MarkContext]
ADDRESS = pa.schema([findings.SCHEMA.field("address")])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as found:
        found.create("lake")
        yield found


@pytest.fixture
def marked(served: Lake, monkeypatch: pytest.MonkeyPatch) -> Marked:
    """Begins a mark on a day from NOW, and finishes so many of its stages."""

    def mark(day: int, stages: int = len(STAGES)) -> MarkContext:
        monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=day)).timestamp()))
        context = served.begin("lake", f"m{day}")
        for stage in STAGES[:stages]:
            finish(context, stage)
        return context

    return mark


def before(context: MarkContext) -> tuple[str | None, str | None]:
    """The ids of the mark it is compared with, and of the one whose findings it carries on."""
    found = previous_mark(context), previous_findings(context)
    return found[0] and found[0].mark_id, found[1] and found[1].mark_id


def test_the_first_mark_has_none_before_it(marked: Marked) -> None:
    assert before(marked(1, 0)) == (None, None)


def test_a_mark_that_ended_before_its_staged_dump_stands_in_nobodys_way(marked: Marked) -> None:
    marked(1)
    marked(2, 1)
    assert before(marked(3, 0)) == ("m1", "m1")


@pytest.mark.parametrize(
    "other", [{"repository_created": 1}, {"allow_list": 0}, {"storage_namespace": "s3://bucket/else"}], ids=str
)
def test_a_mark_of_another_repository_or_allow_list_is_not_carried_on(marked: Marked, other: dict[str, object]) -> None:
    marked(1)
    context = marked(2, 0)
    assert before(context) == ("m1", "m1")
    assert before(replace(context, header=replace(context.header, **other))) == (None, None)


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
    schema = findings.SCHEMA
    kept = [row for row in told if row["reason"] != "unreferenced"]
    expired = [row for row in told if row["reason"] == "unreferenced"]
    finish(first, STAGES[-1], {"expired_addresses": (schema, expired), "kept": (schema, kept)})
    earlier = long_ago - timedelta(days=1)
    journal = [("rescued", NOW), ("rescued", earlier), ("rescued before", earlier)]
    parts(
        first,
        sweeps.rescues_folder(first),
        sweeps.RESCUES_SCHEMA,
        [{"address": name, "at": at} for name, at in journal],
    )

    rows = Mapped(spark.createDataFrame([(name,) for name in (*found, "new")], "address string"), ADDRESS)
    second = findings.with_since(spark, marked(2, 0), rows, now.timestamp()).as_frame()
    since = {row[0]: row[1] / 1e6 for row in second.selectExpr("address", "unix_micros(since)").collect()}
    assert {name for name, at in since.items() if at == long_ago.timestamp()} == {"garbage", "rescued before"}
    assert {name for name, at in since.items() if at == now.timestamp()} == {"young", "far", "staged", "rescued", "new"}


def test_addresses_whose_hashes_collide_do_not_lend_one_another_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "hash_strings", lambda rows: np.array([len(row) for row in rows.to_pylist()]))
    known = {"a": 5, "bb": 7, "cc": 6, "dddd": 8}
    schema = pa.schema([findings.SCHEMA.field("address"), findings.SCHEMA.field("since")])
    rows = [pa.array(list(known)), pa.array(list(known.values()), pa.int64()).cast(schema.field("since").type)]
    asked = ["a", "b", "bb", "cc", "dddd", "eeeee", ""]
    numbers, since = findings._Carried(pa.Table.from_arrays(rows, schema=schema)).find(pa.array(asked))
    assert dict(zip((asked[number] for number in numbers), since.tolist(), strict=True)) == {"a": 5, "bb": 7, "dddd": 8}


def test_what_later_marks_and_looks_found_live_is_not_swept_before_a_mark_finds_it_dead_again(
    spark: SparkSession, marked: Marked
) -> None:
    """However long ago it was seen live: when it ceased to be, nobody has seen."""
    own = marked(1)
    seen_again = NOW + timedelta(days=3)
    theirs = {"garbage": NOW, "began anew": seen_again}
    rows = [
        {"address": name, "size": 1, "last_modified": NOW, "etag": None, "reason": "unreferenced", "since": since}
        for name, since in theirs.items()
    ]
    rescue = {"address": "rescued", "at": NOW + timedelta(days=1.5)}
    parts(own, sweeps.rescues_folder(own), sweeps.RESCUES_SCHEMA, [rescue])

    def since() -> dict[str, float]:
        candidates = [(name, NOW) for name in ("garbage", "rescued", "found live", "began anew")]
        frame = spark.createDataFrame(candidates, "address string, since timestamp")
        after = findings.with_later_findings(spark, own, frame)
        return {row[0]: row[1] / 1e6 for row in after.selectExpr("address", "unix_micros(since)").collect()}

    now, long_ago = own.header.started_at, NOW.timestamp()
    assert since() == {"garbage": long_ago, "rescued": now, "found live": long_ago, "began anew": long_ago}
    later = marked(3, len(STAGES) - 1)
    rows.append({**rows[0], "address": "rescued"})
    finish(later, STAGES[-1], {"expired_addresses": (findings.SCHEMA, rows), "kept": (findings.SCHEMA, [])})
    now = later.header.started_at
    assert since() == {"garbage": long_ago, "rescued": now, "found live": now, "began anew": seen_again.timestamp()}
    marked(4, 2)
    assert set(since().values()) == {(NOW + timedelta(days=4)).timestamp()}
