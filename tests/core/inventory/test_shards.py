"""Sharded namespaces: a clean mark lists whole shards, an optimized one only the slices that can have changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.inventory import carried as inventory
from lakegc_core.inventory.carried import UNITS
from lakegc_core.inventory.listing import _SHARDS, _SHARDS_SCHEMA, _FolderListing, _Listing, _of_shards
from lakegc_core.inventory.shards import ShardReading, covering
from lakegc_core.marks.artifacts import CLEAN, INCREMENTAL
from lakegc_core.marks.context import MarkContext, begin_mark
from lakegc_core.marks.layers import all_layers
from lakegc_core.names import STAGES, Stage
from lakegc_core.store.base import connect
from lakegc_core.tables.parts import parts_of
from lakegc_sandbox import Layout
from tests.support.lake import MIN_AGE, NOW, Lake, lake, leave, quick
from tests.support.watching import WatchedConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICES = tuple(f"{time}{'0' * 13}" for time in ("gqv3ep0", "gqv3epg", "gqv3f00", "gqv4000", "h000000"))
NAME = "ce8co454fd2o8m3menag"


@pytest.mark.parametrize(
    ("anew", "kept", "expected"),
    [
        ([], [], []),
        ([SLICES[0]], [], [f"{SLICES[0]}/"]),
        (SLICES[:4], [], ["g"]),
        (SLICES, [], ["g", f"{SLICES[4]}/"]),
        (SLICES[:3], SLICES[3:], ["gqv3"]),
        (SLICES[:2], SLICES[2:], ["gqv3e"]),
        ((SLICES[0], SLICES[2]), (SLICES[1],), [f"{SLICES[0]}/", f"{SLICES[2]}/"]),
    ],
)
def test_few_beginnings_cover_slices_of_one_time(anew: Any, kept: Any, expected: list[str]) -> None:
    assert covering(anew, kept) == expected


def test_beginnings_cover_all_that_is_asked_for_once_and_nothing_else() -> None:
    chance = random.Random(0)
    for _ in range(500):
        names = {"".join(chance.choices("01", k=6)) for _ in range(chance.randrange(1, 30))}
        anew = {name for name in names if chance.random() < 0.6}
        found = covering(sorted(anew), sorted(names - anew))
        covered = [name for start in found for name in names if f"{name}/".startswith(start)]
        assert sorted(covered) == sorted(anew) and len(found) <= len(anew)


def test_what_is_listed_of_a_shard_is_each_object_once_but_for_slices_that_are_taken_over(tmp_path: Path) -> None:
    anew = [f"data/!ab/c/{each}/{NAME}" for each in SLICES[:2]] + [f"data/!ab/{SLICES[0]}/{NAME}"]
    # Names beside the slices that begin like them, folders of no slice, slices deeper down.
    anew += [f"data/!ab/{SLICES[0]}x", "data/!ab/readme", "data/!ab/c/gqv3e", f"data/!ab/c/gqv3/{SLICES[0]}/{NAME}"]
    anew += [f"data/!ab/c/gqv3ex/{NAME}", f"data/!ab/c/d/e/{SLICES[1]}/{NAME}"]
    carried = [f"data/!ab/{place}{SLICES[3]}/{NAME}" for place in ("", "c/", "c/d/e/")]
    watched = WatchedConfig(str(tmp_path / "store"), str(tmp_path / "log"))
    for key in (*anew, *carried, f"data/!ac/c/{SLICES[0]}/{NAME}"):
        connect(watched).write(key, b"x")
    units = {f"data/!/{each}/" for each in SLICES[3:]}
    reading = ShardReading(connect(watched), frozenset(units))
    found = [address for batch in reading.read("data/!ab/") for address in batch["address"].to_pylist()]
    assert sorted(found) == sorted(anew)
    assert reading.seen == {f"data/!/{SLICES[3]}/"}, "the other one lies in no shard any more"
    whole = ShardReading(connect(watched), frozenset())
    found = [address for batch in whole.read("data/!ab/") for address in batch["address"].to_pylist()]
    assert sorted(found) == sorted([*anew, *carried])
    assert watched.listings()[-1] == ("list", "data/!ab/"), "nothing is taken over, so one listing says all"


@pytest.fixture
def served(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path / "lake", layout=Layout(range_modulus=3, shards=24)) as found, quick(spark):
        yield found


def begin(served: Lake, log: Path, mark_id: str, **options: Any) -> tuple[MarkContext, WatchedConfig]:
    """A mark whose listings are noted."""
    watched = WatchedConfig(str(served.files("lake")), str(log))
    opened = replace(served.open("lake"), data=watched)
    return begin_mark(opened, mark_id, min_age=MIN_AGE, safety_level="none", **options), watched


def of_data(watched: WatchedConfig) -> list[tuple[str, str]]:
    return [(how, prefix) for how, prefix in watched.listings() if prefix.startswith("data/!")]


def test_an_optimized_mark_of_a_sharded_namespace_lists_only_slices_that_can_have_changed(
    served: Lake, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = served.create("lake")
    repository.set_rules(7)
    for number in range(60):
        repository.upload("main", f"a/{number}", bytes(number + 1), age=timedelta(days=40))
    repository.commit("main", "old", date=NOW - timedelta(days=40))
    for number in range(40):
        repository.upload("main", f"forgotten/{number}", bytes(number + 1), age=timedelta(days=30))
        repository.delete("main", f"forgotten/{number}")
    unsharded = leave(repository, f"data/{SLICES[0]}/{NAME}", 300)
    first, watched = begin(served, tmp_path / "first", "m0")
    pipeline.mark(spark, first)
    shards = [f"data/{path.name}/" for path in served.files("lake").glob("data/!*")]
    assert sorted(of_data(watched)) == sorted(("list", shard) for shard in shards) and len(shards) == 2

    for number in range(30):
        repository.upload("main", f"new/{number}", bytes(number + 1), age=timedelta(hours=1))
    repository.commit("main", "new", date=NOW)
    monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=1)).timestamp()))
    second, watched = begin(served, tmp_path / "second", "m1", mode=INCREMENTAL)
    pipeline.mark(spark, second)
    listed = {prefix for how, prefix in of_data(watched) if how == "list"}
    levels = [prefix for how, prefix in of_data(watched) if how == "list_level"]
    folders = {path.parent for path in served.files("lake").glob("data/!*/*/*/*")}
    leaves = {f"data/{path.parent.relative_to(served.files('lake') / 'data')}/" for path in folders}
    assert sorted(levels) == sorted({*shards, *leaves}), "each shard is descended once"
    new = {entry.address.rpartition("/")[0] + "/" for path, entry in repository.objects("main") if path > "new"}
    assert listed == new and listed, "of the slices those of this week, of which there is one a shard"

    facts = second.mark.require(STAGES[0]).facts
    assert (facts["units"], facts["units_listed"]) == (4, 1), "4 slices, of which 1 is new"
    twin, _ = begin(served, tmp_path / "twin", "twin", mode=CLEAN)
    pipeline.mark(spark, twin)
    found = {each.header.mark_id: sorted(pipeline.expired_of(each)) for each in (second, twin)}
    assert found["m1"] == found["twin"] and len(found["m1"]) == 41 and unsharded in found["m1"]
    known = [inventory.find(spark, all_layers(each)).as_frame().select("address").collect() for each in (second, twin)]
    assert sorted(known[0]) == sorted(known[1])
    assert len(known[0]) == facts["objects"] == twin.mark.require(STAGES[0]).facts["objects"] == 131


@pytest.mark.parametrize("carried", [False, True])
def test_what_a_task_tells_the_driver_does_not_grow_with_the_slices_of_its_shards(
    tmp_path: Path, carried: bool
) -> None:
    """Each shard holds each slice: the driver would hold as many rows as there are tasks, for each of them."""
    with lake(tmp_path) as served:
        repository = served.create("lake")
        listing = _Listing.of(served.begin("lake", "m1"), 0.0)
        told = []
        for number in range(1, 65):
            name = f"gqv3{number:03}{'0' * 13}"
            leave(repository, f"data/!ab/c/{name}/{NAME}", 5)
            units = (
                frozenset(f"data/!/gqv3{each:03}{'0' * 13}/" for each in range(1, number + 1))
                if carried
                else frozenset()
            )
            if number in (1, 64):
                told.append(list(_FolderListing(listing, units).run(["data/!ab/"])))
        assert len(told[0]) == len(told[1])
        assert all(len(str(row)) < 1_000 for row in told[1])
        found = parts_of(told[1], [Stage.NAMESPACE_LISTING, UNITS, _SHARDS])[_SHARDS]
        counts, seen = _of_shards(listing.out.dataset(_SHARDS, found, _SHARDS_SCHEMA))
        assert len(seen) == (64 if carried else 0) and len(counts) == (0 if carried else 64)
        assert all(each["objects"] == 1 and each["bytes"] for each in counts.values())


def test_what_was_swept_of_a_sharded_namespace_is_not_known_any_more(
    served: Lake, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakegc_core.stages import swept_report

    repository = served.create("lake")
    repository.set_rules(7)
    for number in range(20):
        repository.upload("main", f"a/{number}", bytes(number + 1), age=timedelta(days=40 + number % 2))
        repository.delete("main", f"a/{number}") if number % 2 else None
    repository.commit("main", "old", date=NOW - timedelta(days=40))
    context, _ = begin(served, tmp_path / "first", "m0")
    pipeline.mark(spark, context)
    assert swept_report(spark, context).outcomes["deleted"] == 10
    monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=1)).timestamp()))
    context, _ = begin(served, tmp_path / "second", "m1")
    pipeline.mark(spark, context)
    facts = context.mark.require(STAGES[-1]).facts
    assert context.mark.require(STAGES[0]).facts["rests_on"], "an optimized mark"
    assert facts["listed"]["objects"] == facts["committed"]["objects"] == 10
    assert facts["expired"]["objects"] == 0
