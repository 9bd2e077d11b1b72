"""The stage reads everything that retained commits refer to, each range once; what it cannot read whole is an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakegc_core.errors import IncompleteError, LakegcError, MarkError, ObjectNotFoundError
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import STAGES
from lakegc_core.policy.facts import CommittedFacts
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS, REFS_SCHEMA
from lakegc_core.references.ranges.committed import naming_commits
from lakegc_core.stages import committed_addresses
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import Dataset, Source
from lakegc_core.tables.parts import PartWriter, read_part
from lakegc_sandbox import Repository
from lakegc_sandbox.files.graveler_writer import Commit
from tests.support.lake import Lake, lake
from tests.support.marks import Rows, finish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class World:
    """Two commits that share most of what they show, and a mark that has come as far as their retention."""

    served: Lake
    repository: Repository
    commits: tuple[Commit, Commit]
    context: MarkContext

    def retain(self, *commits: Commit, others: tuple[Commit, ...] = (), stated: int | None = None) -> MarkContext:
        rows, idle = (
            [{"commit_id": each.id, "metarange_id": each.meta_range_id, "kept_by": "rules"} for each in some]
            for some in (commits, others)
        )
        datasets: dict[str, tuple[object, Rows]] = {
            STAGES[2]: (COMMITS_SCHEMA, rows),
            OTHERS: (COMMITS_SCHEMA, idle),
            "refs": (REFS_SCHEMA, []),
        }
        finish(self.context, STAGES[2], datasets, retained_metaranges=len(rows) if stated is None else stated)  # type: ignore[arg-type]
        return self.context

    def rows(self) -> list[tuple[str, str]]:
        """Range and address of all that was read."""
        parts = self.context.mark.require(STAGES[3]).datasets[STAGES[3]]
        folder = self.context.mark.stage_folder(STAGES[3])
        return sorted(
            (row["range_id"], row["address"])
            for part in parts
            for batch in read_part(self.context.workspace, folder, part)
            for row in batch.to_pylist()
        )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        for number in range(6):
            repository.upload("main", f"a/{number}", bytes(number + 1), age=timedelta(days=9))
        first = repository.commit("main", "six")
        repository.upload("main", "z", b"new", age=timedelta(days=8))
        second = repository.commit("main", "seven")
        context = served.begin("lake", "m1")
        finish(context, STAGES[0])
        finish(context, STAGES[1])
        yield World(served, repository, (first, second), context)


def test_what_two_commits_share_is_read_once_and_all_of_it_is_there(quick: SparkSession, world: World) -> None:
    committed_addresses(quick, world.retain(*world.commits))
    rows = world.rows()
    live = {entry.address for _, entry in world.repository.objects("main")}
    assert {address for _, address in rows} == live and len(live) == 7
    assert len(rows) == len(set(rows)), "a range that both commits hold is read once"
    facts = world.context.mark.facts(CommittedFacts)
    assert (facts.metaranges, facts.addresses) == (2, len(rows))
    assert facts.references == facts.references_read > facts.ranges
    assert facts.checksum == facts.checksum_read != 0


def test_a_range_that_is_missing_or_damaged_ends_the_stage_with_an_error(quick: SparkSession, world: World) -> None:
    context = world.retain(*world.commits)
    metadata = world.served.files("lake") / "_lakefs"
    first, second = (metadata / commit.meta_range_id for commit in world.commits)
    ranges = {each.name for each in metadata.iterdir() if len(each.name) == 64} - {first.name, second.name}
    file = next(metadata / each for each in sorted(ranges) if each.encode() in first.read_bytes())
    shared = file.name.encode() in second.read_bytes()
    named = [commit.id for commit in world.commits[: 1 + shared]]
    whole = file.read_bytes()
    for damage in (whole[:-1], b"", None):
        file.unlink() if damage is None else file.write_bytes(damage)
        with pytest.raises(LakegcError, match=rf"^Range {file.name}: .* {len(named)} retained commits have it") as told:
            committed_addresses(quick, context)
        assert all(each in str(told.value) for each in named)
    assert context.mark.manifest(STAGES[3]) is None, "what is half read does not count"
    file.write_bytes(whole)
    committed_addresses(quick, context)


def test_of_an_ignored_commit_a_lost_range_is_passed_over_and_the_others_count_unless_another_commit_has_it(
    quick: SparkSession, world: World
) -> None:
    (first, second), metadata = world.commits, world.served.files("lake") / "_lakefs"
    names = {each.name for each in metadata.iterdir() if len(each.name) == 64}
    held = [
        {name for name in names if name.encode() in (metadata / each.meta_range_id).read_bytes()}
        for each in world.commits
    ]
    shared, own = min(held[0] & held[1]), min(held[1] - held[0])
    context = world.retain(first, second)

    def ignoring(*commits: Commit) -> MarkContext:
        return replace(context, header=replace(context.header, ignore_commits=tuple(each.id for each in commits)))

    (metadata / own).unlink()
    with pytest.raises(
        ObjectNotFoundError, match=rf"Range {own}.*such as {second.id}\..*ignore_commits: \[{second.id}"
    ):
        committed_addresses(quick, ignoring(first))
    whole = (metadata / shared).read_bytes()
    (metadata / shared).unlink()
    with pytest.raises(ObjectNotFoundError, match=rf"Range {shared}.* 1 retained commits have it, such as {first.id}"):
        committed_addresses(quick, ignoring(second))
    (metadata / shared).write_bytes(whole)
    committed_addresses(quick, ignoring(second))
    facts = context.mark.facts(CommittedFacts)
    assert (facts.ranges_ignored, facts.ranges_ignored_ids) == (1, (own,))
    assert facts.references == facts.references_read and facts.checksum == facts.checksum_read
    assert own not in {range_id for range_id, _ in world.rows()} and shared in {each for each, _ in world.rows()}


def test_a_metarange_that_is_missing_is_named_with_its_commit_and_a_way_out(quick: SparkSession, world: World) -> None:
    first, second = world.commits
    (world.served.files("lake") / "_lakefs" / first.meta_range_id).unlink()
    with pytest.raises(ObjectNotFoundError, match=rf"metarange of 1 commit, such as {first.id}.*ignore_commits: \["):
        committed_addresses(quick, world.retain(first, second))


def test_fewer_metaranges_than_were_retained_are_an_error(quick: SparkSession, world: World) -> None:
    with pytest.raises(IncompleteError):
        committed_addresses(quick, world.retain(*world.commits, stated=3))


def test_without_the_stage_before_it_nothing_is_read(world: World) -> None:
    with pytest.raises(MarkError, match="retention_commits of mark m1 is not finished"):
        committed_addresses(None, world.context)  # type: ignore[arg-type]


@pytest.mark.parametrize(("commits", "way_out"), [(0, False), (12, True)])
def test_the_way_out_names_all_commits_of_a_lost_metarange_and_none_is_told_where_no_commit_has_it(
    tmp_path: Path, commits: int, way_out: bool
) -> None:
    lost, config = "a" * 64, LocalConfig(str(tmp_path))
    rows = [{"commit_id": f"c{number}", "metarange_id": lost, "kept_by": "rules"} for number in range(commits)]
    writer = PartWriter(config, "commits", COMMITS_SCHEMA)
    writer.write(pa.RecordBatch.from_pylist(rows, COMMITS_SCHEMA))
    dataset = Dataset(COMMITS_SCHEMA, tuple(Source(config, "commits", part, "m1") for part in writer.close()))
    with pytest.raises(ObjectNotFoundError) as told, naming_commits(dataset):
        raise ObjectNotFoundError(f"Metarange {lost}: not there.")
    assert ("ignore_commits: [" in str(told.value)) is way_out
    assert all(f"c{number}" in str(told.value) for number in range(commits))
