"""A question about what keeps commits, and the task that answers it for every commit of a mark.

The commit graph is read again from the dump that the mark was made with. What the answer means for metaranges, ranges
and objects is in `keepers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.answers.scratch import Scratch
from lakegc_core.errors import CorruptFileError, SettingsError
from lakegc_core.marks.context import MarkContext
from lakegc_core.policy.facts import CommitsFacts
from lakegc_core.policy.holds import BRANCH, TAG
from lakegc_core.policy.retention import Rules
from lakegc_core.policy.scenarios import NEVER, Columns, Known, merged
from lakegc_core.spark.session import Json
from lakegc_core.stages.retention_commits.commit_walk import COMMITS, COMMITS_SCHEMA, OTHERS, REFS, Walk
from lakegc_core.stages.retention_commits.dump_files import DumpFiles
from lakegc_core.stages.retention_commits.stage import walk_until_known
from lakegc_core.store.base import StoreConfig
from lakegc_core.tables.parts import Part, PartWriter, part_results, parts_of, read_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METARANGES = "metaranges"
HEAD = "head"
"""The column that every question has: 0 where a branch or a protected tag shows a commit."""
_SECOND = 1_000_000
_BY_SERVER = "server"


@dataclass(frozen=True)
class Question:
    """What is asked about every commit: a picklable value.

    `columns`: the names of the numbers that are asked for. `ask` gives them for all commits, with what the driver must
    know to read them. They are merged by their minimum. `finish` makes results of that and of the merged numbers of
    some objects; one is `today`: NEVER where no commit keeps an object as things are. `views`: names of results.
    Objects are counted by those of each view, so that there are few groups.
    """

    columns: tuple[str, ...]
    views: tuple[tuple[str, ...], ...]
    ask: Callable[[Known], tuple[Columns, Json]]
    finish: Callable[[Json, Mapping[str, np.ndarray]], Columns]


@dataclass(frozen=True)
class Asked:
    """The answer by metarange: parts in the folder METARANGES, the names that the numbers stand for, and parts of all
    commits in the folder OTHERS."""

    parts: Sequence[Part]
    names: Json
    commits: Sequence[Part]


def metaranges_schema(question: Question) -> pa.Schema:
    """A metarange, and the numbers of a question."""
    return pa.schema([pa.field("metarange_id", pa.string(), nullable=False), *fields_of(question)])


def fields_of(question: Question) -> list[pa.Field]:
    """The columns of a question as they stand in tables: by their numbers, since branches have any names."""
    return [pa.field(f"number_{place}", pa.int32(), nullable=False) for place in range(len(question.columns))]


def ask_of_commits(spark: SparkSession, context: MarkContext, question: Question, aside: Scratch) -> Asked:
    """Ask it of the commits that a complete mark knew, into parts `aside`."""
    results = walk_until_known(spark, context, _QuestionWalk(place=Place.of(context, aside), question=question))
    parts = parts_of(results, [METARANGES, OTHERS])
    names = next(result["names"] for result in results if "names" in result)
    return Asked(parts[METARANGES], names, parts[OTHERS])


@dataclass(frozen=True)
class Place:
    """Where a task finds what a mark knew of commits, and by what it judged; a picklable value that tasks carry.
    `commits`, `refs`: folders and parts; `aside`: for what it writes."""

    data: StoreConfig
    artifacts: StoreConfig
    aside: Scratch
    prefix: str
    facts: CommitsFacts
    commits: tuple[str, tuple[Part, ...]]
    refs: tuple[str, tuple[Part, ...]]
    margin: int

    @classmethod
    def of(cls, context: MarkContext, aside: Scratch) -> Place:
        """Of a complete mark."""
        commits = context.mark.require(COMMITS)
        return cls(
            data=context.data,
            artifacts=context.workspace,
            aside=aside,
            prefix=context.header.block_prefix,
            facts=context.mark.facts(CommitsFacts),
            commits=(context.mark.stage_folder(COMMITS), tuple(commits.datasets[COMMITS])),
            refs=(context.mark.stage_folder(COMMITS, REFS), tuple(commits.datasets[REFS])),
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
        refs, retained = self._rows(place.refs), self._rows(place.commits)
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

    def _rows(self, place: tuple[str, tuple[Part, ...]]) -> list[Json]:
        folder, parts = place
        config = self.place.artifacts
        return [row for part in parts for batch in read_part(config, folder, part) for row in batch.to_pylist()]


@dataclass(frozen=True, kw_only=True)
class _QuestionWalk(KnowingWalk):
    """Asks a question of every commit, and writes the answer for every metarange."""

    question: Question

    def decide(self, known: Known) -> Iterator[Json]:
        columns, names = self.question.ask(known)
        yield from self._write(known.graph.metarange_ids, columns)
        yield from self._write_commits(known.graph.commit_ids, known.graph.metarange_ids)
        yield {"names": names}

    def _write(self, metarange_ids: Sequence[str], columns: Columns) -> Iterator[Json]:
        """The numbers of each metarange that anything keeps."""
        if set(columns) != set(self.question.columns):
            raise CorruptFileError("A question was answered with other columns than it asks for.")
        ids, groups = np.unique(np.array(metarange_ids, np.str_), return_inverse=True)
        found = list(merged({name: columns[name] for name in self.question.columns}, groups, len(ids)).values())
        schema = metaranges_schema(self.question)
        table = pa.Table.from_arrays([pa.array(ids.tolist(), pa.string()), *map(pa.array, found)], schema=schema)
        wanted = pc.not_equal(table["metarange_id"], "")
        some = pa.array(np.logical_or.reduce([numbers != NEVER for numbers in found]))
        writer = PartWriter(self.place.aside.config, f"{self.place.aside.folder}/{METARANGES}", schema)
        for batch in table.filter(pc.and_(wanted, some)).to_batches():
            writer.write(batch)
        yield from part_results(METARANGES, writer.close())

    def _write_commits(self, ids: Sequence[str], metaranges: Sequence[str]) -> Iterator[Json]:
        writer = PartWriter(self.place.aside.config, f"{self.place.aside.folder}/{OTHERS}", COMMITS_SCHEMA)
        columns: list[Any] = [pa.array(ids, pa.string()), pa.array(metaranges, pa.string()), pa.repeat("", len(ids))]
        writer.write(pa.RecordBatch.from_arrays(columns, schema=COMMITS_SCHEMA))
        yield from part_results(OTHERS, writer.close())


def rules_of(told: Mapping[str, Any] | None) -> Rules | None:
    """Rules as facts have them."""
    return None if told is None else Rules(told["default"], dict(told["branches"]))


def check_patterns(patterns: Iterable[str]) -> None:
    """SettingsError for a pattern that is neither of branches nor of tags."""
    for each in patterns:
        kind, _, glob = each.partition(":")
        if kind not in (BRANCH, TAG) or not glob:
            raise SettingsError(f"{each!r} names no branch and no tag; write branch:NAME or tag:NAME, with * for many.")
