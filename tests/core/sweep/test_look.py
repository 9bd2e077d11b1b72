"""The look and the glances after it: another server, moved heads, new refs and changed rules do not pass unseen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.errors import IncompleteError, RefusedError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.models import Commit
from lakegc_core.marks.context import MarkContext
from lakegc_core.policy.facts import CommitsFacts, NeighbourFacts, read_facts
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, REFS_SCHEMA
from lakegc_core.references.commits.known_walk import KnownCommits
from lakegc_core.references.commits.retained import heads_digest
from lakegc_core.references.of_neighbours import KEYS_SCHEMA, NeighbourReferences
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.shown.heads import LOOK, heads_of_mark
from lakegc_core.references.staged import STAGED_SCHEMA
from lakegc_core.spark.tasks import Mapped
from lakegc_core.sweep import look
from lakegc_core.sweep.look import Glance, Look, Reads, take_look
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.joins import among
from lakegc_sandbox import Repository
from tests.support.facts import whole_facts
from tests.support.lake import NO_SPARK, Lake, lake
from tests.support.marks import dataset
from tests.support.tasks import run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class World:
    served: Lake
    repository: Repository
    context: MarkContext

    def look(self, **seen: Any) -> Look:
        """A look that saw the refs of now, and nothing else but what is said."""
        client = self.context.client
        refs = [
            {"kind": kind, "name": ref.name, "commit_id": ref.commit_id}
            for kind, every in (("branch", client.branches("lake")), ("tag", client.tags("lake")))
            for ref in every
        ]
        empty = {"staged": STAGED_SCHEMA} | dict.fromkeys(("committed", "held"), ENTRIES_SCHEMA)
        nothing: dict[str, Any] = {name: Dataset(schema) for name, schema in empty.items()}
        neighbours = NeighbourReferences(Dataset(KEYS_SCHEMA), NeighbourFacts(0, 0, (), within=1.0, addresses=0))
        nothing |= {"neighbours": neighbours, "heads": (), "facts": None}
        facts = read_facts(CommitsFacts, whole_facts("retention_commits", {"rules": {"default": 7, "branches": {}}}))
        commits = KnownCommits(
            files=self.context.metadata,
            facts=facts,
            retained=Dataset(COMMITS_SCHEMA),
            others=Dataset(COMMITS_SCHEMA),
            refs=dataset(self.context, "look/commits/refs", REFS_SCHEMA, refs),
            margin=0,
        )
        told = {"commits": commits, "reads": Reads.below(self.context, "read")}
        return Look(began_at=1.0, began_uptime=1.0, finished_at=2.0, **{**nothing, **told, **seen})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        repository.set_rules(7)
        repository.upload("main", "a", b"1")
        repository.commit("main", "one")
        yield World(served, repository, served.begin("lake", "m1"))


# --- the look ---


@pytest.mark.parametrize(
    "other", [{"repository_created": 1}, {"storage_namespace": "s3://bucket/else"}], ids=["created anew", "moved"]
)
def test_a_repository_that_is_not_the_one_that_was_marked_is_not_swept(world: World, other: dict[str, Any]) -> None:
    context = replace(world.context, header=replace(world.context.header, **other))
    with pytest.raises(RefusedError, match="not the one that was marked"):
        take_look(NO_SPARK, context, "look", Reads.below(context, "read"))


def test_a_namespace_that_is_shared_by_now_is_not_swept(world: World) -> None:
    own = world.context.client.repository("lake")
    inside = replace(own, id="other", storage_namespace="s3://bucket/lake/data/x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.context.client), "repositories", lambda client: iter([own, inside]))
        with pytest.raises(RefusedError, match="shared with, or nested in or around, that of other"):
            take_look(NO_SPARK, world.context, "look", Reads.below(world.context, "read"))


def test_a_look_at_a_server_that_lists_no_branch_is_an_error(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.context.client), "branches", lambda *_: iter(()))
        with pytest.raises(IncompleteError, match="lists no branch"):
            take_look(NO_SPARK, world.context, "look", Reads.below(world.context, "read"))


def test_heads_that_moved_before_the_staged_dump_or_after_it_are_noticed(world: World) -> None:
    now = heads_digest(world.context.client.branches("lake"))
    assert not world.look(heads=(now, now)).heads_moved(world.context)
    assert world.look(heads=("other", now)).heads_moved(world.context)
    world.repository.upload("main", "b", b"2")
    world.repository.commit("main", "two")
    assert world.look(heads=(now, now)).heads_moved(world.context)


def test_live_is_what_is_staged_newly_committed_or_referred_to_by_neighbours(quick: SparkSession, world: World) -> None:
    row = {"range_id": "r", "address": "committed", "exact": False, "size": 1, "e_tag": "t"}
    theirs = dataset(world.context, "look/neighbours", KEYS_SCHEMA, [{"address": "theirs"}])
    look = world.look(
        staged=dataset(world.context, "look/uncommitted", STAGED_SCHEMA, [{"address": "staged", "exact": True}]),
        committed=dataset(world.context, "read/committed", ENTRIES_SCHEMA, [row]),
        neighbours=NeighbourReferences(theirs, NeighbourFacts(1, 0, (), within=1.0, addresses=1)),
    )
    every = ("staged", "committed", "theirs", "garbage")
    planned = Mapped(quick.createDataFrame([(name,) for name in every], "address string"), KEYS_SCHEMA)
    found = among(quick, planned, look.live()).as_frame()
    assert found.columns == ["address"]
    assert {each[0] for each in found.collect()} == {"staged", "committed", "theirs"}


def test_the_heads_of_a_look_are_those_of_now_and_their_ranges_the_marks_or_its_own(
    quick: SparkSession, world: World
) -> None:
    context = world.context
    pipeline.mark(quick, context)
    marked = heads_of_mark(context)
    world.repository.upload("main", "b", b"22")
    second = world.repository.commit("main", "two")
    world.repository.upload("main", "c", b"333")
    reads = Reads.below(context, "read")
    found = take_look(quick, context, "look", reads).branch_heads(context)
    assert [tuple(row) for row in found.branches(quick).as_frame().collect()] == [("main", second.meta_range_id)]
    assert {each.layer for each in marked.index.sources} == {"m1"}
    assert {each.layer for each in found.index.sources} == {"m1", LOOK}, "a head may hold ranges of either"
    layers = {row["range_id"]: row["layer"] for row in found.retained_ranges(quick).as_frame().collect()}
    assert sorted(layers.values()) == [LOOK, "m1"]
    assert (found.commits.facts.branches, found.entries_bound, found.entries.rows) == (
        1,
        marked.entries_bound + 2,
        marked.entries.rows + 2,
    )
    assert (marked.staged.rows, found.staged.rows) == (0, 1)


# --- the glances ---


def refs_of(glance: Glance) -> Dataset:
    refs = glance.changed_refs()
    assert refs is not None
    return refs


def changed_refs(glance: Glance) -> list[tuple[str, str, str]] | None:
    refs = glance.changed_refs()
    return None if refs is None else [tuple(row.values()) for batch in refs.batches() for row in batch.to_pylist()]


def test_refs_that_appear_move_or_go_are_told_once(quick: SparkSession, world: World) -> None:
    glance = Glance(quick, world.context, world.look())
    assert changed_refs(glance) is None
    world.repository.upload("main", "b", b"2")
    second = world.repository.commit("main", "two").id
    assert changed_refs(glance) == [("branch", "main", second)]
    assert changed_refs(glance) is None
    world.repository.create_branch("other", "main")
    assert changed_refs(glance) == [("branch", "main", second), ("branch", "other", second)], "its name may keep more"
    world.repository.delete_branch("other")
    assert changed_refs(glance) == [("branch", "main", second)]
    world.repository.tag("v1", second)
    assert changed_refs(glance) == [("branch", "main", second), ("tag", "v1", second)]


def test_a_glance_reads_what_each_of_many_new_commits_held(
    quick: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, asked, rounds = world.context, Counter[str](), Counter[str]()
    pipeline.mark(quick, context)
    glance = Glance(quick, context, take_look(quick, context, "look", Reads.below(context, "read")))
    fetch = LakeFSClient.commit

    def commit(client: LakeFSClient, repository: str, commit_id: str) -> Commit:
        asked[commit_id] += 1
        return fetch(client, repository, commit_id)

    def walk(*given: Any) -> list[Any]:
        rounds["walks"] += 1
        return run_here(*given)

    monkeypatch.setattr(LakeFSClient, "commit", commit)
    monkeypatch.setattr(look, "run_tasks", walk)
    made = {}
    for each in range(8):
        address = world.repository.upload("main", "a", bytes(2 + each))
        made[world.repository.commit("main", str(each)).id] = address
    found = glance.read(refs_of(glance))
    assert {row for batch in found.batches("address") for row in batch.column(0).to_pylist()} == set(made.values())
    assert made.keys() <= asked.keys() and set(asked.values()) == {1}, "each is asked for once"
    assert rounds["walks"] == 5, "twice as far back each time: 1, 2, 4, and the rest"
    asked.clear()
    last = world.repository.upload("main", "a", bytes(99))
    new = world.repository.commit("main", "last").id
    found = glance.read(refs_of(glance))
    assert (found.rows, set(asked)) == (1, {new}), "what an earlier glance asked for is known"
    assert next(found.batches("address")).column(0).to_pylist() == [last]


@pytest.mark.parametrize("lost", ["all", "parts", "number"])
def test_a_walk_of_a_glance_that_is_not_whole_is_an_error(
    quick: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    context = world.context
    pipeline.mark(quick, context)
    glance = Glance(quick, context, take_look(quick, context, "look", Reads.below(context, "read")))
    world.repository.upload("main", "b", b"2")
    world.repository.commit("main", "two")
    left = {"all": {"unknown"}, "parts": {"unknown", "newly_retained"}, "number": {"unknown", "part"}}[lost]

    def walk(*given: Any) -> list[Any]:
        return [each for each in run_here(*given) if left & each.keys()]

    monkeypatch.setattr(look, "run_tasks", walk)
    with pytest.raises(IncompleteError, match="not whole"):
        glance.read(refs_of(glance))


@pytest.mark.parametrize("days", [6, 8, None])
def test_rules_that_are_others_than_the_look_saw_are_noticed(
    quick: SparkSession, world: World, days: int | None
) -> None:
    glance = Glance(quick, world.context, world.look())
    assert not glance.rules_changed()
    if days is None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(world.context.client), "gc_rules", lambda *_: None)
            assert glance.rules_changed()
    else:
        world.repository.set_rules(days)
        assert glance.rules_changed()


def test_a_look_at_a_server_that_was_restored_since_the_mark_is_an_error(world: World) -> None:

    from lakegc_core.sweep import look as looks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looks, "dump_staged", lambda *_: None)
        facts = SimpleNamespace(former_heads_unknown=2)
        patch.setattr(looks, "find_retained", lambda *_, **__: SimpleNamespace(facts=facts))
        with pytest.raises(RefusedError, match="2 heads that the mark saw are unknown to lakeFS now"):
            take_look(NO_SPARK, world.context, "look", Reads.below(world.context, "read"))
