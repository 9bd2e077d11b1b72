"""The walk over the commit graph: on a dump that is short, odd or unknown it decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.errors import CorruptFileError, IncompleteError, LakegcError
from lakegc_core.names import Stage
from lakegc_core.policy.retention import Rules
from lakegc_core.references.commits.commit_walk import OTHERS, REFS, REFS_SCHEMA, CommitWalk, read_server_csv
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import Part, read_part
from lakegc_sandbox import Repository
from lakegc_sandbox.files.graveler_writer import Commit
from tests.support.lake import NOW, Lake, lake
from tests.support.marks import parts

A, B = "a" * 64, "b" * 64
DAY = 86_400 * 10**6


@dataclass
class World:
    """A repository of three commits, of which the first is old, and a walk over its dump."""

    served: Lake
    repository: Repository
    commits: list[Commit]
    walk: CommitWalk

    def rows(self, results: list[dict[str, Any]], dataset: str) -> list[dict[str, str]]:
        out = self.walk.out
        folder = out.path if dataset == Stage.RETENTION_COMMITS else f"{out.path}/{dataset}"
        found = [Part.from_json(each["part"]) for each in results if each.get("dataset") == dataset]
        return [row for part in found for batch in read_part(out.config, folder, part) for row in batch.to_pylist()]

    def csv(self, *lines: str) -> CommitWalk:
        """The walk with a list of the server's."""
        self.walk.outputs.connect().write(
            "commits.csv", "\n".join(["commit_id,expired,metarange_id", *lines, ""]).encode()
        )
        return replace(self.walk, server_csv="commits.csv")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        commits = []
        for number, days in enumerate((90, 60, 1)):
            repository.upload("main", f"a/{number}", bytes(number + 1))
            commits.append(repository.commit("main", f"{number}", date=NOW - timedelta(days=days)))
        context = served.begin("lake", "m1")
        dump = context.client.dump("lake")
        (ref,) = context.client.branches("lake")
        refs = [{"kind": "branch", "name": ref.name, "commit_id": ref.commit_id}]
        out = DatasetFolder(context.workspace, "walk")
        walk = CommitWalk(
            outputs=LocalConfig(str(tmp_path / "outputs")),
            files=context.metadata,
            out=out,
            refs=out.dataset(REFS, parts(context, out.at(REFS), REFS_SCHEMA, refs), REFS_SCHEMA),
            former=Dataset(REFS_SCHEMA),
            commits_metarange=dump.commits_metarange_id,
            branches_metarange=dump.branches_metarange_id,
            tags_metarange=dump.tags_metarange_id,
            server_csv=None,
            rules=Rules(7),
            protect_tags=True,
            holds=(),
            now=int(NOW.timestamp() * 10**6),
            margin=0,
        )
        yield World(served, repository, commits, walk)


def test_every_commit_of_the_dump_is_retained_or_among_the_others(world: World) -> None:
    results = list(world.walk.run())
    kept = {row["commit_id"]: row["kept_by"] for row in world.rows(results, Stage.RETENTION_COMMITS)}
    assert kept[world.commits[2].id] == "head:main" and world.commits[1].id in kept, "shown until yesterday"
    others = {row["commit_id"] for row in world.rows(results, OTHERS)}
    assert world.commits[0].id in others and not others & kept.keys()
    (facts,) = [each["facts"] for each in results if "facts" in each]
    assert facts["known"] == len(kept) + len(others) and facts["retained"] == len(kept)
    assert facts["refs_not_retained"] == 0 and facts["server_retained"] is None


def test_a_ref_that_points_at_an_unknown_commit_ends_the_walk_before_it_decides(world: World) -> None:
    refs = [{"kind": "tag", "name": "v1", "commit_id": A}]
    context = world.served.begin("lake", "m1")
    tag = world.walk.out.dataset(REFS, parts(context, f"walk/{REFS}", REFS_SCHEMA, refs), REFS_SCHEMA)
    walk = replace(world.walk, refs=world.walk.refs + tag)
    assert list(walk.run()) == [{"unknown": [A]}]
    told = {"commit_id": A, "metarange_id": B, "creation_us": 1, "parents": [world.commits[2].id], "version": 1}
    results = list(replace(walk, extra={A: told}).run())
    assert {row["commit_id"]: row["kept_by"] for row in world.rows(results, Stage.RETENTION_COMMITS)}[A] == "tag:v1"


def test_a_branch_that_the_listing_lacks_and_the_dump_has_counts(world: World) -> None:
    world.repository.create_branch("old", world.commits[0].id)
    dump = world.served.client.dump("lake")
    results = list(replace(world.walk, branches_metarange=dump.branches_metarange_id).run())
    kept = {row["commit_id"]: row["kept_by"] for row in world.rows(results, Stage.RETENTION_COMMITS)}
    assert kept[world.commits[0].id] == "head:old"
    assert world.rows(results, REFS) == [{"kind": "branch", "name": "old", "commit_id": world.commits[0].id}]


def test_a_commit_that_only_the_server_retains_is_kept_too(world: World) -> None:
    first = world.commits[0]
    results = list(world.csv(f"{first.id},false,{first.meta_range_id}").run())
    assert {row["commit_id"]: row["kept_by"] for row in world.rows(results, Stage.RETENTION_COMMITS)}[
        first.id
    ] == "server"
    (facts,) = [each["facts"] for each in results if "facts" in each]
    assert (facts["server_retained"], facts["server_beyond_ours"]) == (1, 1)


def test_a_server_that_retains_what_its_dump_lacks_or_contradicts_is_not_believed(world: World) -> None:
    assert list(world.csv(f"{A},false,{B}").run()) == [{"unknown": [A]}]
    with pytest.raises(CorruptFileError, match="its dump another one"):
        list(world.csv(f"{world.commits[0].id},false,{B}").run())


def odd_commit(world: World, metarange_id: str) -> CommitWalk:
    """The walk over a commit with this metarange, which only a tag shows. Its second parent is no id."""
    context = world.served.begin("lake", "m1")
    refs = [{"kind": "tag", "name": "odd", "commit_id": A}]
    tag = world.walk.out.dataset(REFS, parts(context, f"walk/{REFS}", REFS_SCHEMA, refs), REFS_SCHEMA)
    told = {"commit_id": A, "creation_us": world.walk.now, "parents": [world.commits[0].id], "version": 1}
    return replace(world.walk, refs=world.walk.refs + tag, extra={A: told | {"metarange_id": metarange_id}})


def test_a_commit_whose_metarange_is_no_id_stops_a_mark_only_while_it_is_retained(world: World) -> None:
    walk = odd_commit(world, "latest")
    with pytest.raises(CorruptFileError, match=rf"Commit {A} is retained, .* 'latest', .*ignore_commits: \[{A}\]"):
        list(walk.run())
    results = list(replace(walk, refs=world.walk.refs, now=world.walk.now + 30 * DAY).run())
    assert {row["commit_id"]: row["metarange_id"] for row in world.rows(results, OTHERS)}[A] == ""
    assert [each["facts"]["commits_odd"] for each in results if "facts" in each] == [1]
    assert [each["facts"]["commits_odd"] for each in world.walk.run() if "facts" in each] == [0]


def test_a_commit_that_is_to_be_ignored_hands_on_retention_and_has_no_content_if_that_cannot_be_read(
    world: World,
) -> None:
    for metarange_id, content in (("latest", ""), (B, ""), (world.commits[0].meta_range_id,) * 2):
        results = list(replace(odd_commit(world, metarange_id), ignored=(A, "gone")).run())
        kept = {row["commit_id"]: row["metarange_id"] for row in world.rows(results, Stage.RETENTION_COMMITS)}
        assert kept[A] == content and kept[world.commits[0].id] == world.commits[0].meta_range_id
        (facts,) = [each["facts"] for each in results if "facts" in each]
        assert facts["commits_ignored"] == ([] if content else [A])


def test_a_parent_that_nobody_has_stops_no_mark_if_its_child_is_to_be_ignored(world: World) -> None:
    walk = odd_commit(world, "latest")
    walk.extra[A]["parents"] = [B]
    assert list(walk.run()) == [{"unknown": [B]}]
    assert "unknown" not in next(replace(walk, ignored=(A,)).run())


def test_an_ignored_commit_that_can_be_read_is_told_if_a_parent_of_it_is_missing(world: World) -> None:
    """Later walks over the same commits, such as the sweep's, must pass over the same parents."""
    walk = replace(odd_commit(world, world.commits[0].meta_range_id), ignored=(A,))
    walk.extra[A]["parents"] = [B]
    (facts,) = [each["facts"] for each in walk.run() if "facts" in each]
    assert facts["commits_ignored"] == [A]


HEAD = b"commit_id,expired,metarange_id\n"
ROW = f"{A},false,{B}\n".encode()


def test_the_servers_list_gives_what_it_does_not_call_expired() -> None:
    assert read_server_csv(HEAD + ROW + f"{B},true,{A}\n".encode()) == [(A, B)]
    odd = 'la"t\r\n,é'  # as Go quotes it
    assert read_server_csv(HEAD + f'{A},false,"la""t\r\n,é"\n'.encode()) == [(A, odd)]
    assert read_server_csv(f"commit_id,expired\n{A},false\n".encode()) == [(A, None)], "servers before v0.100"


@pytest.mark.parametrize(
    ("data", "error", "sentence"),
    [
        (b"", IncompleteError, "middle of a line"),
        (HEAD + ROW[:-1], IncompleteError, "middle of a line"),
        (HEAD, IncompleteError, "is empty"),
        (HEAD + f"{A},true,{B}\n".encode(), IncompleteError, "is empty"),
        (b"\n", CorruptFileError, "columns"),
        (b"commit,expired\n", CorruptFileError, "columns"),
        (HEAD + f"{A},False,{B}\n".encode(), CorruptFileError, "odd line"),
        (HEAD + f"{A},false,{B},x\n".encode(), CorruptFileError, "odd line"),
        (HEAD + b",false,y\n", CorruptFileError, "odd line"),
        (HEAD + ROW + "é\n".encode(), CorruptFileError, "odd line"),
        (HEAD + ROW + b"\xff\n", CorruptFileError, "plain text"),
    ],
)
def test_a_list_that_is_short_or_odd_is_an_error(data: bytes, error: type[LakegcError], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        read_server_csv(data)
