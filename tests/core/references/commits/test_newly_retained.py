"""What refs bring back since an earlier dump is what a new dump would show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Stage
from lakegc_core.policy.facts import CommitsFacts
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS, REFS, REFS_SCHEMA
from lakegc_core.references.commits.known_walk import KnownCommits, margin_of
from lakegc_core.references.commits.newly_retained import NewlyRetained
from lakegc_core.references.commits.retained import find_retained, walk_until_known
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import parts_of
from lakegc_sandbox import Repository
from tests.support.lake import NO_SPARK, NOW, lake
from tests.support.tasks import run_here

HOLDS = ("branch:held-*",)


@dataclass
class World:
    repository: Repository
    context: MarkContext
    old: str = ""  # the commit of a branch that is gone; it has expired

    def found(self, folder: str) -> tuple[dict[str, Dataset], CommitsFacts]:
        """What a dump of now shows."""
        output = find_retained(NO_SPARK, self.context, folder, former=None)
        out = DatasetFolder(self.context.workspace, folder)
        schemas = {Stage.RETENTION_COMMITS: COMMITS_SCHEMA, OTHERS: COMMITS_SCHEMA, REFS: REFS_SCHEMA}
        return {
            name: out.dataset(name if name in (OTHERS, REFS) else "", output.datasets[name], schema)
            for name, schema in schemas.items()
        }, output.facts

    def newly(self, before: dict[str, Dataset], facts: CommitsFacts, refs: Dataset) -> set[str]:
        commits, out = before[Stage.RETENTION_COMMITS], DatasetFolder(self.context.workspace, "newly")
        known = KnownCommits(self.context.metadata, facts, commits, before[OTHERS], refs, margin_of(self.context))
        results = walk_until_known(partial(run_here, NO_SPARK), self.context, NewlyRetained(commits=known, out=out))
        parts = parts_of(results, [Stage.RETENTION_COMMITS])[Stage.RETENTION_COMMITS]
        return ids(out.dataset("", parts, COMMITS_SCHEMA))

    def commit(self, branch: str, *, days: float = 0) -> str:
        self.repository.upload(branch, "a", bytes(len(self.repository.refs.commits)))
        return self.repository.commit(branch, branch, date=NOW - timedelta(days=days)).id


def ids(commits: Dataset) -> set[str]:
    return {row for batch in commits.batches("commit_id") for row in batch.column(0).to_pylist()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with lake(tmp_path) as served:
        repository, context = served.create("lake"), served.begin("lake", "m1")
        found = World(repository, replace(context, header=replace(context.header, holds=HOLDS)))
        found.repository.set_rules(7, {"long": 1000, "brief": 1})
        for days in (90, 60, 30):
            found.commit("main", days=days)
        repository.create_branch("gone", "main")
        found.old = found.commit("gone", days=90)
        repository.delete_branch("gone")
        repository.create_branch("brief", "main")
        for days in (5, 3):
            found.commit("brief", days=days)
        yield found


def picked(world: World) -> None:
    world.repository.cherry_pick("main", world.old)
    world.repository.delete("main", "a")
    world.repository.commit("main", "without it")


def merged(world: World) -> None:
    world.repository.create_branch("side", "main")
    world.repository.cherry_pick("side", world.old)
    world.repository.upload("side", "b", b"b")
    world.repository.delete("side", "a")
    world.repository.commit("side", "b alone")
    world.repository.merge("side", "main")
    world.repository.delete_branch("side")


def committed_on(world: World) -> None:
    world.repository.create_branch("again", world.old)
    for _ in range(3):
        world.commit("again")


CHANGES: dict[str, Callable[[World], object]] = {
    "nothing": lambda world: None,
    "a branch of an expired commit": lambda world: world.repository.create_branch("again", world.old),
    "commits on it": committed_on,
    "a tag on an expired commit": lambda world: world.repository.tag("v1", world.old),
    "a commit that is picked": picked,
    "a commit that is picked on a branch that is merged and gone": merged,
    "a branch with a longer rule": lambda world: world.repository.create_branch("long", "main"),
    "a branch that is held": lambda world: world.repository.create_branch("held-1", "main"),
    "a branch with a shorter rule goes": lambda world: world.repository.delete_branch("brief"),
    "a hard reset": lambda world: world.repository.hard_reset("main", world.old),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_what_a_new_dump_shows(world: World, change: str) -> None:
    before, facts = world.found("before")
    CHANGES[change](world)
    after, _ = world.found("after")
    expected = ids(after[Stage.RETENTION_COMMITS]) - ids(before[Stage.RETENTION_COMMITS])
    assert world.newly(before, facts, after[REFS]) == expected
    assert bool(expected) == (change != "nothing")
