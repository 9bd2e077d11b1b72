"""Walks that begin with what a mark knew of commits: the graph from the same dump, the refs, what was retained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Stage
from lakegc_core.policy.facts import CommitsFacts
from lakegc_core.policy.retention import rules_of
from lakegc_core.policy.scenarios import Known
from lakegc_core.references.commits.commit_walk import OTHERS, REFS, Walk
from lakegc_core.references.commits.dump_files import DumpFiles
from lakegc_core.spark.session import Json
from lakegc_core.store.base import StoreConfig
from lakegc_core.tables.parts import Part, read_part

_SECOND = 1_000_000
_BY_SERVER = "server"


@dataclass(frozen=True)
class Place:
    """Where a task finds what a mark knew of commits, and by what it judged; a picklable value that tasks carry.
    `commits`, `others` (those that are not retained), `refs`: folders and parts."""

    data: StoreConfig
    artifacts: StoreConfig
    prefix: str
    facts: CommitsFacts
    commits: tuple[str, tuple[Part, ...]]
    others: tuple[str, tuple[Part, ...]]
    refs: tuple[str, tuple[Part, ...]]
    margin: int

    @classmethod
    def of(cls, context: MarkContext) -> Place:
        """Of a mark whose commits are read."""
        commits = context.mark.require(Stage.RETENTION_COMMITS)
        return cls(
            data=context.data,
            artifacts=context.workspace,
            prefix=context.header.block_prefix,
            facts=context.mark.facts(CommitsFacts),
            commits=(
                context.mark.stage_folder(Stage.RETENTION_COMMITS),
                tuple(commits.datasets[Stage.RETENTION_COMMITS]),
            ),
            others=(context.mark.stage_folder(Stage.RETENTION_COMMITS, OTHERS), tuple(commits.datasets[OTHERS])),
            refs=(context.mark.stage_folder(Stage.RETENTION_COMMITS, REFS), tuple(commits.datasets[REFS])),
            margin=int(context.level.retention_margin.total_seconds() * _SECOND),
        )


@dataclass(frozen=True, kw_only=True)
class KnowingWalk(Walk):
    """Reads the dump, the refs and the retained commits of a mark, and decides on what that mark knew."""

    place: Place

    def decide(self, known: Known) -> Iterator[Json]:
        """The results, once all commits are known."""
        raise NotImplementedError

    def run(self) -> Iterator[Json]:
        place, facts = self.place, self.place.facts
        graph, unknown = DumpFiles(place.data, place.prefix).graph(facts.dump, self.extra)
        row = {commit_id: number for number, commit_id in enumerate(graph.commit_ids)}
        refs, retained = rows_at(place.artifacts, place.refs), rows_at(place.artifacts, place.commits)
        unknown |= {each["commit_id"] for each in (*refs, *retained)} - row.keys()
        if unknown:
            yield {"unknown": sorted(unknown)}
            return
        named: dict[str, set[tuple[str, int]]] = {"branch": set(), "tag": set()}
        for each in refs:
            named[each["kind"]].add((each["name"], row[each["commit_id"]]))
        known = Known(
            graph=graph,
            heads=sorted(named["branch"]),
            tags=sorted(named["tag"]),
            judged_by=rules_of(facts.judged_by),
            protect_tags=facts.tags_protected,
            holds=tuple(facts.holds),
            kept=[row[each["commit_id"]] for each in retained],
            server=[row[each["commit_id"]] for each in retained if each["kept_by"] == _BY_SERVER],
            now=int(facts.began_at * _SECOND),
            margin=place.margin,
        )
        yield from self.decide(known)


def rows_at(config: StoreConfig, place: tuple[str, tuple[Part, ...]]) -> list[Json]:
    """The rows of a dataset: its folder and its parts. Only for tasks: there may be many."""
    folder, parts = place
    return [row for part in parts for batch in read_part(config, folder, part) for row in batch.to_pylist()]


def column_at(config: StoreConfig, place: tuple[str, tuple[Part, ...]], column: str) -> set[str]:
    """The values of one column of a dataset. Only for tasks."""
    folder, parts = place
    batches = (batch for part in parts for batch in read_part(config, folder, part, [column]))
    return {value for batch in batches for value in batch.column(0).to_pylist()}
