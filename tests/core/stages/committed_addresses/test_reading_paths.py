"""Stages that go from addresses to the paths users know, and back: missing objects, the sample, holds by path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import STAGES
from lakegc_core.stages.committed_addresses import idle_paths
from lakegc_core.stages.committed_addresses.held_paths import HeldByPath, held_by_path
from lakegc_core.stages.expired_addresses.missing_paths import SHOWN, missing_paths
from lakegc_core.stages.retention_commits.commit_walk import COMMITS_SCHEMA, OTHERS, REFS_SCHEMA
from lakegc_core.stages.swept_report import read_sample
from lakegc_core.tables.parts import read_part
from lakegc_sandbox import Repository
from tests.support.lake import Lake, lake, quick
from tests.support.marks import Rows, finish, parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATHS = ("legal/a.pdf", "legal/2024/é b.pdf", "legalese/c.pdf", "tables/1", "tables/2", "tables/3")


@dataclass
class World:
    """A repository of few paths, and a mark of it whose commits and ranges stand."""

    lake: Lake
    repo: Repository
    context: MarkContext
    addresses: dict[str, str]
    commits: Rows
    ranges: Rows


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with lake(tmp_path_factory.mktemp("paths")) as served, quick(spark):
        repo = served.create("lake")
        addresses = {path: repo.upload("main", path, path.encode(), age=timedelta(days=9)) for path in PATHS}
        commit = repo.commit("main", "all of them")
        context = served.begin("lake", "m1")
        metarange = (served.files("lake") / "_lakefs" / commit.meta_range_id).read_bytes()
        ranges = [
            row | {"metarange_id": commit.meta_range_id} for row in graveler.read_metarange(metarange).to_pylist()
        ]
        assert 1 < len(ranges) < len(PATHS)
        commits = [{"commit_id": commit.id, "metarange_id": commit.meta_range_id, "kept_by": "head:main"}]
        refs = [{"kind": "branch", "name": "main", "commit_id": commit.id}]
        finish(context, STAGES[0])
        finish(context, STAGES[1])
        finish(context, STAGES[2], {STAGES[2]: (COMMITS_SCHEMA, commits), "refs": (REFS_SCHEMA, refs)})
        finish(context, STAGES[3])
        yield World(served, repo, context, addresses, commits, ranges)


def entries(spark: SparkSession, world: World) -> object:
    """What the mark would know of the ranges: address and range_id."""
    found = [
        (address, row["range_id"])
        for row in world.ranges
        for address in graveler.read_range((world.lake.files("lake") / "_lakefs" / row["range_id"]).read_bytes())[
            "address"
        ].to_pylist()
    ]
    return spark.createDataFrame(found, "address string, range_id string")


# --- missing objects ---


def test_missing_objects_are_named_with_the_paths_that_show_them(spark: SparkSession, world: World) -> None:
    lost = {world.addresses[path]: path for path in PATHS} | {"data/staged/x": ""}
    missing = spark.createDataFrame([(address,) for address in lost], "address string")
    found = missing_paths(spark, world.context, missing, entries(spark, world))
    assert found == [{"address": address, "path": lost[address]} for address in sorted(lost)]


def test_of_many_missing_objects_a_hundred_are_named(spark: SparkSession, world: World) -> None:
    missing = spark.range(SHOWN + 50).selectExpr("concat('data/', id) as address")
    assert len(missing_paths(spark, world.context, missing, entries(spark, world))) == SHOWN


# --- the sample ---


def test_a_sample_of_no_size_asks_nothing(world: World) -> None:
    before = len(world.lake.server.requests)
    assert read_sample.take_sample(None, world.context, 0).asked == 0  # type: ignore[arg-type]
    assert len(world.lake.server.requests) == before


def test_a_sample_reads_paths_of_heads_and_tells_those_whose_data_is_gone(spark: SparkSession, world: World) -> None:
    assert 1 <= read_sample.take_sample(spark, world.context, 2).asked <= 2
    whole = read_sample.take_sample(spark, world.context, 1000)
    assert set(whole.paths) == {("main", path) for path in PATHS}
    assert whole.unreadable == {}
    world.repo.files.delete(world.addresses["tables/1"])
    world.repo.delete("main", "tables/3")  # no such path any more: nothing is wrong with that
    assert read_sample.read_again(world.context, whole) == {"main/tables/1": 410}
    known = replace(whole, unreadable={"main/tables/1": 410})
    assert read_sample.read_again(world.context, known) == {}, "what did not read before is no news"


# --- holds by path ---


def searched(spark: SparkSession, world: World, *holds: str) -> tuple[MarkContext, HeldByPath]:
    """What these holds keep if the commit is not retained."""
    context = replace(world.context, header=replace(world.context.header, holds=holds))
    others = parts(context, f"commits/{OTHERS}", COMMITS_SCHEMA, world.commits)
    return context, held_by_path(spark, context, "commits", others, "held", "elsewhere")


def held(spark: SparkSession, world: World, *holds: str) -> Rows:
    """The rows that these holds keep if the commit is not retained."""
    context, found = searched(spark, world, *holds)
    return [
        row for part in found.parts for batch in read_part(context.workspace, "held", part) for row in batch.to_pylist()
    ]


def test_what_an_old_commit_shows_under_a_held_path_is_kept_and_nothing_beside_it(
    spark: SparkSession, world: World
) -> None:
    rows = held(spark, world, "path:legal/**", "tag:v*")
    assert {row["address"] for row in rows} == {world.addresses[path] for path in PATHS if path.startswith("legal/")}
    assert not any(row["exact"] for row in rows), "its data may be gone already, and is not missing then"
    one = held(spark, world, "path:*/2")
    assert [row["address"] for row in one] == [world.addresses["tables/2"]]
    of_letters = held(spark, world, "path:legal/2024/??b.pdf")
    assert [row["address"] for row in of_letters] == [world.addresses["legal/2024/é b.pdf"]], "é is one letter"


def test_without_holds_by_path_no_old_commit_is_read(spark: SparkSession, world: World) -> None:
    assert held(spark, world, "branch:main", "tag:legal/**") == []
    assert held(spark, world) == []
    assert held(spark, world, "path:nothing/**") == []


def test_a_hold_that_no_commit_shows_a_path_of_is_told(spark: SparkSession, world: World) -> None:
    assert searched(spark, world, "path:lgeal/**", "path:tables/4", "path:tables/?", "tag:x")[1].idle == (
        "lgeal/**",
        "tables/4",
    )


def test_a_hold_whose_paths_only_retained_commits_show_is_not_idle(spark: SparkSession, world: World) -> None:
    globs = ["lgeal/**", "legal/**", "tables/4", "**/3", "**/nothing", "legal/2024/??b.pdf"]
    found = idle_paths.idle_paths(spark, world.context, globs)
    assert found.idle == ("**/nothing", "lgeal/**", "tables/4")
    assert found.untold == ()
    assert idle_paths.idle_paths(spark, world.context, []).idle == ()


@pytest.mark.parametrize(
    ("limit", "most", "idle"), [("MOST_RANGES", 1, ("lgeal/**",)), ("MOST_METARANGES", 0, ()), ("MOST_RANGES", 0, ())]
)
def test_what_was_not_looked_through_to_the_end_is_not_called_idle(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, idle: tuple[str, ...]
) -> None:
    monkeypatch.setattr(idle_paths, limit, most)
    monkeypatch.setattr(idle_paths, "run_tasks", lambda spark, items, task, width: list(task(items[0])))
    found = idle_paths.idle_paths(spark, world.context, ["**/nothing", "lgeal/**"])
    assert found.idle == idle
    assert set(found.untold) == {"**/nothing", "lgeal/**"} - set(idle)
