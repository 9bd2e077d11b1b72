"""Ages and sizes of what is expired, counted part by part."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakegc_core.judging import statistics
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.names import Reason
from lakegc_core.policy.facts import Folder
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables import gather as gathering
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import PartWriter
from lakegc_sandbox.files.names import Names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2026, 11, 21, tzinfo=UTC)
EXPIRED = pa.schema([("address", pa.string()), ("size", pa.int64())])

LATEST = (NOW + timedelta(days=1)).timestamp()


def table(*rows: tuple[float, int]) -> pa.Table:
    """Rows of (age in days, size in bytes)."""
    return pa.table(
        {
            "last_modified": pa.array([NOW - timedelta(days=days) for days, _ in rows], pa.timestamp("us", tz="UTC")),
            "size": pa.array([size for _, size in rows], pa.int64()),
            "since": pa.array([NOW for _ in rows], pa.timestamp("us", tz="UTC")),
        }
    )


def test_each_object_is_in_one_class_of_age_and_one_of_size_and_parts_add_up() -> None:
    one = statistics.sums(table((6.9, 999), (7, 1000), (800, 10**9)), NOW.timestamp())
    two = statistics.sums(table((7.1, 5)), NOW.timestamp())
    ages, sizes = (
        {
            each.name: (each.objects, each.bytes)
            for each in statistics.by_class(Counter(one) + Counter(two), kind)
            if each.objects
        }
        for kind in ("age", "size")
    )
    assert ages == {"under a week": (1, 999), "1–4 weeks": (2, 1005), "over 2 years": (1, 10**9)}
    assert sizes == {"under 1 kB": (2, 1004), "1–100 kB": (1, 1000), "1 GB and more": (1, 10**9)}


def test_no_objects_are_in_no_class() -> None:
    assert statistics.sums(table(), NOW.timestamp()) == {}
    assert [each.objects for each in statistics.by_class({}, "age")] == [0] * (len(statistics.AGES) + 1)


@pytest.mark.parametrize(("together", "few", "here"), [(250_000, 250_000, 9_000), (1, 250_000, 0), (1, 0, 0)])
def test_the_largest_prefixes_are_folders_by_bytes(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int, few: int, here: int
) -> None:
    monkeypatch.setattr(gathering, "FEW", here)
    monkeypatch.setattr(gathering, "_ROWS_PER_PARTITION", together)
    monkeypatch.setattr(gathering, "_FEW_ROWS", few)
    config = LocalConfig(str(tmp_path))
    rows = [("data/a/1", 5), ("data/a/2", 6), ("data/b/1", 10), ("0123", 3), ("data/a\n/x", 4)]
    rows += [(f"more/{number}/x", 1) for number in range(20)]
    sources = []
    for share in (rows[:2], rows[2:]):
        writer = PartWriter(config, "parts", EXPIRED)
        writer.write(pa.RecordBatch.from_arrays(list(map(list, zip(*share, strict=True))), schema=EXPIRED))
        sources += [Source(config, "parts", part, "m1") for part in writer.close()]
    found, _ = statistics.largest(quick, Dataset(EXPIRED, tuple(sources)), Dataset(EXPIRED), ())
    assert found[:4] == (
        Folder("data/a/", 2, 11),
        Folder("data/b/", 1, 10),
        Folder("data/a\n/", 1, 4),
        Folder("", 1, 3),
    )
    assert [each.prefix for each in found[4:]] == sorted(f"more/{number}/" for number in range(20))[:6]


@pytest.mark.parametrize(("reason", "hours"), [(Reason.YOUNG, 21), (Reason.STAGED, None)])
def test_the_first_young_object_is_old_enough_by_the_later_of_its_two_dates(
    quick: SparkSession, tmp_path: Path, reason: Reason, hours: int | None
) -> None:
    """Nothing counts that is kept for another reason."""
    named = f"data/a/{Names(1).xid(int((NOW - timedelta(hours=4)).timestamp()))}"  # the store gives it an older date
    rows = [("data/a/plain", 3, reason), (named, 9, reason), ("data/a/staged", 50, Reason.STAGED)]
    found = [
        {"address": address, "size": 1, "last_modified": NOW - timedelta(hours=age), "reason": why, "since": NOW}
        for address, age, why in rows
    ]
    config = LocalConfig(str(tmp_path))
    writer = PartWriter(
        config,
        "kept",
        FINDINGS_SCHEMA,
        lambda table: {f"{each}:objects": 1 for each in table["reason"].unique().to_pylist()},
    )
    writer.write(pa.RecordBatch.from_pylist(found, FINDINGS_SCHEMA))
    kept = Dataset(FINDINGS_SCHEMA, tuple(Source(config, "kept", part, "m1") for part in writer.close()))
    until = statistics.young_until(quick, kept, LATEST, timedelta(hours=25).total_seconds())
    assert until == (None if hours is None else (NOW + timedelta(hours=hours)).timestamp())
    unknown = Namespace("s3://bucket/lake").unknown  # such as data/a/plain, which never goes
    later = statistics.young_until(quick, kept, LATEST, timedelta(hours=25).total_seconds(), unknown=unknown)
    assert later is None or later > until


@pytest.mark.parametrize("parts", [(), ((-24, -3, -30), (-1,)), ((-1,), ()), ((-3,), (-30,), (-30, -2))])
def test_the_first_of_the_expired_is_known_from_the_totals_of_their_parts(parts: tuple[tuple[int, ...], ...]) -> None:
    total = Counter[str]()
    for hours in parts:
        rows = [
            {"address": "data/a", "size": 1, "last_modified": NOW, "reason": "unreferenced"}
            | {"since": NOW + timedelta(hours=each)}
            for each in hours
        ]
        total.update(statistics.sums(pa.Table.from_pylist(rows, FINDINGS_SCHEMA), NOW.timestamp()))
    first = min((each for hours in parts for each in hours), default=None)
    assert statistics.first_since(total) == (None if first is None else (NOW + timedelta(hours=first)).timestamp())


def test_a_part_of_an_upload_is_young_for_longer() -> None:
    modified = pa.array([NOW - timedelta(hours=3)], pa.timestamp("us", tz="UTC"))
    row = {"address": ["data/a/b.part_00001"], "last_modified": modified, "reason": [str(Reason.YOUNG)]}
    (found,) = statistics._first_young(LATEST, 86_400.0, None, iter([pa.RecordBatch.from_pydict(row)]))
    assert found["first"] == (NOW - timedelta(hours=3)).timestamp() + 86_400.0


def test_a_name_with_a_time_to_come_does_not_make_people_wait_for_it() -> None:
    ahead = f"data/a/{Names(1).xid(int((NOW + timedelta(days=400)).timestamp()))}"
    row = {"address": ahead, "size": 1, "last_modified": NOW, "reason": Reason.YOUNG, "since": NOW}
    rows = pa.RecordBatch.from_pylist([row], FINDINGS_SCHEMA)
    assert list(statistics._first_young(LATEST, 0.0, None, iter([rows]))) == [{"first": NOW.timestamp()}]
