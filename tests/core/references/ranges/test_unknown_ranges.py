"""A look reads what the mark did not know, and nothing twice; what it cannot read whole is an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core.errors import LakegcError, ObjectNotFoundError
from lakegc_core.names import STAGES, Stage
from lakegc_core.policy.retention import HOLD
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA
from lakegc_core.references.ranges import range_files
from lakegc_core.references.ranges.range_files import INDEX, RANGES, RANGES_SCHEMA
from lakegc_core.references.ranges.unknown_ranges import ReadSince, read_unknown
from lakegc_core.spark import tasks
from lakegc_core.sweep.look import Reads
from lakegc_core.tables import gather
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from tests.support.marks import dataset, finish
from tests.support.path_world import World, path_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A mark that knows all ranges of its only commit, but for the last one."""
    with path_world(spark, tmp_path_factory.mktemp("look"), ranges_known=-1) as found:
        yield found


def read(spark: SparkSession, world: World, reads: ReadSince, *metarange_ids: str) -> Dataset:
    """What a look reads of commits with these metaranges."""
    rows = [{"commit_id": each, "metarange_id": each, "kept_by": "rules"} for each in metarange_ids]
    retained = dataset(world.context, f"{reads.out.path}/retained", COMMITS_SCHEMA, rows)
    return read_unknown(spark, world.context, retained, reads)


def reading(world: World, folder: str) -> ReadSince:
    return ReadSince(DatasetFolder(world.context.workspace, folder, "look"))


def addresses(read: Dataset) -> list[str]:
    return sorted(row["address"] for batch in read.batches() for row in batch.to_pylist())


def test_what_the_mark_read_is_not_read_again(spark: SparkSession, world: World) -> None:
    known = world.commits[0]["metarange_id"]
    assert (
        0
        < sum(part.rows for part in world.context.mark.require(Stage.COMMITTED_ADDRESSES).datasets[RANGES])
        < len(world.ranges)
    )
    reads = reading(world, "look-1")
    assert not read(spark, world, reads, known, known, "").rows
    assert not any(each.rows for each in reads.datasets.values())
    assert reads.facts.metaranges == reads.facts.ranges == 0


def test_few_commits_and_files_are_read_without_spark_and_many_by_tasks(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = world.commits[0]["metarange_id"]
    world.repo.upload("main", "zzz/newer", b"newer")
    new = world.repo.commit("main", "one that is newer").meta_range_id
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "collect_results", None)
        here = addresses(read(spark, world, reading(world, "look-6"), "", known, new, new))
    assert dict(world.repo.objects("main"))["zzz/newer"].address in here
    for most in ("_FEW_METARANGES", "_FEW_RANGES", "FEW"):
        monkeypatch.setattr(gather if most == "FEW" else range_files, most, 0)
        assert addresses(read(spark, world, reading(world, f"look-{most}"), "", known, new, new)) == here


def test_of_a_new_commit_the_ranges_are_read_that_the_mark_did_not_know(spark: SparkSession, world: World) -> None:
    world.repo.upload("main", "zzz/new", b"new")
    commit = world.repo.commit("main", "one more")
    reads = reading(world, "look-2")
    rows = addresses(read(spark, world, reads, commit.meta_range_id))
    shown = dict(world.repo.objects("main"))
    assert shown["zzz/new"].address in rows
    assert world.addresses["legal/2024/é b.pdf"] not in rows, "its range is one that the mark has read"
    assert reads.datasets[INDEX].rows == len(rows)
    assert reads.facts.metaranges == 1 and reads.facts.entries == len(rows)


def test_what_was_read_since_the_mark_is_not_read_again_and_of_a_later_commit_only_the_rest(
    spark: SparkSession, world: World
) -> None:
    """A glance that sees a head move every minute must not read all of it every minute."""
    reads = reading(world, "look-5")
    world.repo.upload("main", "aaa/first", b"first")
    first = world.repo.commit("main", "first")
    before = addresses(read(spark, world, reads, first.meta_range_id))
    assert read(spark, world, reads, first.meta_range_id).rows == 0
    world.repo.upload("main", "zzzzz/second", b"second")
    second = world.repo.commit("main", "second")
    new = addresses(read(spark, world, reads, first.meta_range_id, second.meta_range_id))
    shown = dict(world.repo.objects("main"))
    assert shown["zzzzz/second"].address in new and shown["aaa/first"].address in before
    assert shown["aaa/first"].address not in new
    assert addresses(reads.datasets[Stage.COMMITTED_ADDRESSES]) == sorted([*before, *new])
    assert reads.facts.metaranges == 2 and reads.facts.entries == len(before) + len(new)


def test_what_the_mark_passed_over_is_tried_again_by_each_look_and_passed_over_only_while_its_commit_is_ignored(
    spark: SparkSession, tmp_path: Path
) -> None:
    with path_world(spark, tmp_path) as world:
        lost = world.ranges[-1]
        world.repo.upload("main", "000/new", b"new")
        sharing = world.repo.commit("main", "another one that holds the lost range")
        rows = [{"references": 1, "count": row["count"], "range_id": row["range_id"]} for row in world.ranges]
        ranges = [row | {"read_in": "" if row["range_id"] == lost["range_id"] else "m2"} for row in rows]
        mark = world.lake.begin("lake", "m2")
        for stage in STAGES[:2]:
            finish(mark, stage)
        finish(mark, STAGES[2], {STAGES[2]: (COMMITS_SCHEMA, world.commits)})
        finish(mark, STAGES[3], {RANGES: (RANGES_SCHEMA, ranges)}, ranges_ignored=1)
        ignoring = replace(mark, header=replace(mark.header, ignore_commits=(world.commits[0]["commit_id"],)))
        file = world.lake.files("lake") / "_lakefs" / lost["range_id"]
        whole, reads = file.read_bytes(), Reads.below(mark, "read")
        retained = dataset(mark, "commits", COMMITS_SCHEMA, world.commits)

        file.unlink()
        assert reads.read(spark, ignoring, retained, by_holds=False).rows == 0
        with pytest.raises(ObjectNotFoundError, match=f"Range {lost['range_id']}"):
            reads.read(spark, mark, retained, by_holds=False)
        for kept_by in ("rules", f"{HOLD}:commit:another"):
            another = world.commits[0] | {"commit_id": "x", "metarange_id": sharing.meta_range_id, "kept_by": kept_by}
            retained_now = dataset(mark, f"more-{kept_by[:4]}", COMMITS_SCHEMA, [*world.commits, another])
            with pytest.raises(ObjectNotFoundError, match=f"Range {lost['range_id']}"):
                reads.read(spark, ignoring, retained_now, by_holds=kept_by != "rules")
        file.write_bytes(whole)
        assert reads.read(spark, ignoring, retained, by_holds=False).rows == lost["count"], "it is there again"
        assert reads.read(spark, ignoring, retained, by_holds=False).rows == 0, "and read once"


def test_a_new_range_that_is_missing_or_short_is_an_error_and_not_empty(spark: SparkSession, world: World) -> None:
    metadata = world.lake.files("lake") / "_lakefs"
    before = {each.name for each in metadata.iterdir()}
    world.repo.upload("main", "zzzz/newest", b"newest")
    commit = world.repo.commit("main", "and one more")
    (new,) = {each.name for each in metadata.iterdir() if len(each.name) == 64} - before - {commit.meta_range_id}
    whole, reads = (metadata / new).read_bytes(), reading(world, "look-3")
    for damage in (whole[: len(whole) // 2], None):
        (metadata / new).unlink() if damage is None else (metadata / new).write_bytes(damage)
        with pytest.raises(LakegcError, match=new):
            read(spark, world, reads, commit.meta_range_id)
    (metadata / new).write_bytes(whole)
    (metadata / commit.meta_range_id).unlink()
    with pytest.raises(LakegcError, match=commit.meta_range_id):
        read(spark, world, reads, commit.meta_range_id)
    assert not any(each.rows for each in reads.datasets.values()), "a reading that failed counts for nothing"
