"""Which old commits are read for paths, and which branch took what they showed with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.past.commits import LOST_BRANCHES, LOST_SCHEMA, PASTS, PASTS_SCHEMA, PastWalk
from lakegc_core.past.ranges import LOOKED_SCHEMA
from lakegc_core.policy.facts import CommitsFacts, read_facts
from lakegc_core.policy.retention import Graph, Rules
from lakegc_core.policy.scenarios import Known
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, REFS_SCHEMA
from lakegc_core.references.commits.known_walk import KnownCommits
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import PartWriter, parts_of
from tests.support.facts import whole_facts

GRAPH, _ = Graph.build(
    ["a", "b", "c", "x", "y"],
    ["ma", "mb", "mc", "mx", "my"],
    [10, 20, 30, 15, 25],
    [[], ["a"], ["b"], ["a"], ["x"]],
    [1] * 5,
)
"""main: a, b, c; a branch that is gone: x, y, from a on."""


@dataclass(frozen=True)
class Walked:
    folder: Path

    def place(self, name: str, schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> Dataset:
        writer = PartWriter(self.config, self.out.at(name), schema)
        if rows:
            writer.write(pa.RecordBatch.from_pylist(list(rows), schema=schema))
        return self.out.dataset(name, writer.close(), schema)

    @property
    def out(self) -> DatasetFolder:
        return DatasetFolder(self.config, "out")

    @property
    def config(self) -> LocalConfig:
        return LocalConfig(str(self.folder))

    def commits(self, name: str, rows: Sequence[str]) -> Dataset:
        told = [{"commit_id": each, "metarange_id": f"m{each}", "kept_by": ""} for each in rows]
        return self.place(name, COMMITS_SCHEMA, told)

    def refs(self, name: str, refs: Mapping[str, str]) -> Dataset:
        told = [{"kind": "branch", "name": branch, "commit_id": commit} for branch, commit in refs.items()]
        return self.place(name, REFS_SCHEMA, told)

    def walk(
        self,
        kept: str = "c",
        looked: Sequence[str] = (),
        lost: Sequence[Mapping[str, Any]] = (),
        former: Mapping[str, str] | None = None,
        refs: Mapping[str, str] | None = None,
        most: int = 10,
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
        """What is read, which branches are remembered, and how many metaranges are left."""
        facts = read_facts(CommitsFacts, whole_facts("retention_commits", {"began_at": 99.0}))
        heads = refs or {"main": "c"}
        commits = KnownCommits(
            files=MetadataFiles(self.config, ""),
            facts=facts,
            retained=self.commits("commits", kept),
            others=self.commits("others", [each for each in GRAPH.commit_ids if each not in kept]),
            refs=self.refs("refs", heads),
            margin=0,
        )
        walk = PastWalk(
            commits=commits,
            out=self.out,
            looked=sum(
                (self.place(f"looked-{each}", LOOKED_SCHEMA, [{"id": each}]) for each in looked),
                Dataset(LOOKED_SCHEMA),
            ),
            lost=self.place("lost", LOST_SCHEMA, lost),
            former=self.refs("former", former or {}),
            most=most,
        )
        row = {commit: number for number, commit in enumerate(GRAPH.commit_ids)}
        heads_of = [(name, row[commit]) for name, commit in heads.items()]
        known = Known(GRAPH, heads_of, [], Rules(7), True, (), [row[each] for each in kept], (), 100, 0)
        results = [*walk.decide(known), *walk._write(LOST_BRANCHES, LOST_SCHEMA, walk._lost())]
        parts = parts_of(results, [PASTS, LOST_BRANCHES])
        pasts, left_behind = (
            list(self.out.dataset(name, parts[name], schema).dicts())
            for name, schema in ((PASTS, PASTS_SCHEMA), (LOST_BRANCHES, LOST_SCHEMA))
        )
        return pasts, left_behind, sum(result.get("unread", 0) for result in results)


@pytest.fixture
def walked(tmp_path: Path) -> Walked:
    return Walked(tmp_path)


def test_the_newest_commits_that_nothing_retains_are_read_and_the_rest_is_counted(walked: Walked) -> None:
    pasts, _, left = walked.walk(most=2)
    assert [each["commit_id"] for each in pasts] == ["y", "b"] and left == 2
    pasts, _, left = walked.walk(looked=["my", "mb"], most=2)
    assert [each["commit_id"] for each in pasts] == ["x", "a"] and left == 0
    pasts, _, left = walked.walk(kept="cbxya")
    assert (pasts, left) == ([], 0)


def test_each_commit_names_what_became_of_it(walked: Walked) -> None:
    pasts, lost, _ = walked.walk(former={"main": "b", "exp": "y"})
    assert lost == [{"name": "exp", "commit_id": "y", "gone": 99}]
    told = {each["commit_id"]: (each["cause"], each["by"], each["branch"], each["gone"]) for each in pasts}
    assert told == {
        "a": ("replaced", "b", "main", None),
        "b": ("replaced", "c", "main", None),
        "x": ("deleted", "", "exp", 99),
        "y": ("deleted", "", "exp", 99),
    }


def test_a_branch_that_is_gone_is_remembered_from_when_it_was_missed_first(walked: Walked) -> None:
    before = {"name": "exp", "commit_id": "y", "gone": 50}
    _, lost, _ = walked.walk(lost=[before], former={"main": "b", "exp": "y"})
    assert lost == [before]
    pasts, lost, _ = walked.walk(lost=[before], former={"main": "b"})
    assert lost == [before] and {each["gone"] for each in pasts if each["branch"] == "exp"} == {50}


def test_a_branch_that_no_mark_saw_has_no_name(walked: Walked) -> None:
    pasts, lost, _ = walked.walk()
    assert lost == [] and {each["branch"] for each in pasts if each["cause"] == "deleted"} == {""}


def test_a_branch_that_stands_is_not_lost(walked: Walked) -> None:
    _, lost, _ = walked.walk(kept="cy", former={"exp": "y"}, refs={"main": "c", "exp": "y"})
    assert lost == []
