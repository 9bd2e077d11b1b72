"""Which units an optimized mark takes over from the one below, and in which unit an address lies."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakegc_core import pipeline
from lakegc_core.inventory.carried import _SWEPT, Units, _once, _swept, carried_units, known_slices, unit_of
from lakegc_core.marks.artifacts import INCREMENTAL
from lakegc_core.policy.facts import ListingFacts
from lakegc_core.policy.safety import RELIST
from lakegc_core.tables.hashing import hash_strings
from lakegc_sandbox.files.names import Names
from tests.support.lake import NOW, lake, quick
from tests.support.swept import Swept, mark_garbage
from tests.support.units import layer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400.0
BEGUN = NOW.timestamp()


THERE = ("failed:still_there", "seen_again", "changed")
SLICE = "gqv3epl4fd2o8m3men70"


def slice_of(seconds: float) -> str:
    """The unit of a slice that began then."""
    return Names(seed=1).data_address(seconds).rpartition("/")[0] + "/"


def test_a_slice_is_taken_over_once_it_was_listed_a_week_after_it_began(tmp_path: Path) -> None:
    unit = slice_of(BEGUN)
    week = RELIST.total_seconds()
    for number, (listed_at, carried) in enumerate([(BEGUN + week - 60, []), (BEGUN + week + 60, [unit])]):
        below = layer(tmp_path / str(number), {unit: listed_at})
        assert list(carried_units([below], [unit], BEGUN + 30 * DAY)) == carried


@pytest.mark.parametrize(
    "unit", ["data/other/", "tables/", "data/repo-main:1234-5/", "data/!ab/", f"data/{'0' * 19}z/"]
)
def test_what_is_no_slice_is_listed_every_time(tmp_path: Path, unit: str) -> None:
    assert carried_units([layer(tmp_path, {unit: BEGUN})], [unit], BEGUN + 30 * DAY) == {}


def test_a_slice_of_a_sharded_namespace_is_taken_over_like_any_other_and_its_shards_are_not(tmp_path: Path) -> None:
    unit = slice_of(BEGUN).replace("data/", "data/!/")
    below = layer(tmp_path, dict.fromkeys((unit, "data/!ab/", slice_of(BEGUN)), BEGUN + 20 * DAY))
    assert known_slices([below]) == [unit] and known_slices([]) == []
    assert list(carried_units([below], [unit, "data/!ab/"], BEGUN + 30 * DAY)) == [unit]


def test_units_that_are_new_gone_or_said_to_be_of_the_future_are_not_taken_over(tmp_path: Path) -> None:
    known, gone, future = (slice_of(BEGUN + days * DAY) for days in (0, 1, 900))
    below = layer(tmp_path, {known: BEGUN + 20 * DAY, gone: BEGUN + 20 * DAY, future: BEGUN + 2_000 * DAY})
    new = slice_of(BEGUN - 50 * DAY)
    assert list(carried_units([below], [known, new, future], BEGUN + 30 * DAY)) == [known]


def test_a_unit_that_was_listed_by_a_mark_which_is_no_layer_is_listed_anew(tmp_path: Path) -> None:
    unit = slice_of(BEGUN)
    below = layer(tmp_path, {unit: BEGUN + 20 * DAY}, listed_in="m0")
    assert carried_units([below], [unit], BEGUN + 30 * DAY) == {}


def test_the_unit_of_an_address_is_the_folder_in_which_it_is_listed() -> None:
    units = {
        "data/s/a": "data/s/",
        "data/s/a/b": "data/s/",
        "data/s/": "data/s/",
        "data/a": "data/",
        "data/": "data/",
        "datax/a": "datax/",
        "tables/x/y": "tables/",
        "0123": "",
        "/a": "/",
        "data//a": "data//",
        f"data/!ab/c/{SLICE}/a": f"data/!/{SLICE}/",
        f"data/!cd/e/{SLICE}/a": f"data/!/{SLICE}/",
        f"data/!ab/{SLICE}/a": f"data/!/{SLICE}/",
        f"data/{SLICE}/a": f"data/{SLICE}/",
        "data/!ab/c/a": "data/!ab/",
        "data/!ab/a": "data/!ab/",
    }
    assert unit_of(pa.array(list(units))).to_pylist() == list(units.values())


def test_what_a_journal_calls_deleted_gone_or_lost_is_not_there_any_more(tmp_path: Path) -> None:
    unit = slice_of(BEGUN)
    outcomes = ["deleted", "already_gone", "lost", "rescued", "held", "unconfirmed", "failed:no_answer", *THERE]
    rows = {
        "address": [f"{unit}{outcome}" for outcome in outcomes],
        "outcome": outcomes,
        "at": pa.array([NOW] * len(outcomes), pa.timestamp("us", "UTC")),
        "size": [1] * len(outcomes),
    }
    swept = partial(_swept, Units.of_top([layer(tmp_path, {unit: BEGUN})]), 0)
    gone = swept(pa.RecordBatch.from_pydict(rows))["address"]
    assert gone.to_pylist() == [f"{unit}{outcome}" for outcome in ("deleted", "already_gone", "lost", *THERE)]
    assert swept(pa.RecordBatch.from_pydict(rows))["there"].to_pylist() == [False] * 3 + [True] * len(THERE)


def test_an_object_that_the_store_shows_after_its_delete_is_not_gone_until_it_is_deleted_again() -> None:
    events = [
        ("kept", 1, False),
        ("kept", 2, True),
        ("gone", 1, True),
        ("gone", 2, False),
        ("twice", 1, False),
        ("twice", 2, True),
        ("twice", 3, False),
        ("never", 1, False),
    ]
    rows = {
        "hash": hash_strings(pa.array([address for address, _, _ in events])),
        "address": [address for address, _, _ in events],
        "size": [1] * len(events),
        "at": [at for _, at, _ in events],
        "there": [there for _, _, there in events],
        "sure": [True] * len(events),
    }
    found = pa.concat_tables(_once(pa.table(rows, schema=_SWEPT)))
    assert sorted(found["address"].to_pylist()) == ["gone", "never", "twice"]


def test_a_sweep_whose_report_is_torn_counts_by_its_journal_and_stops_no_mark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake(tmp_path) as found, quick(spark):
        mark_garbage(spark, found)
        swept = Swept(spark, found, monkeypatch)
        assert swept.sweep().outcomes["deleted"] == 3
        folder = found.files("lake") / swept.context.mark.folder
        report = folder / "sweeps/1/report.json"
        report.write_bytes(report.read_bytes()[:100])
        os.environ["LAKEGC_NOW"] = str(NOW.timestamp() + DAY)  # until the lake ends
        context = found.begin("lake", "m2", mode=INCREMENTAL)
        pipeline.mark(spark, context)
        facts = context.mark.facts(ListingFacts)
        assert (facts.rests_on[0][0], facts.objects) == ("m1", 0)
