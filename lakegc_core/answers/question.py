"""A question about what keeps commits, and the task that answers it for every commit of a mark.

The commit graph is read again from the dump that the mark was made with. What the answer means for metaranges, ranges
and objects is in `keepers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, SettingsError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Json
from lakegc_core.policy.holds import BRANCH, TAG, matching_names
from lakegc_core.policy.scenarios import NEVER, Columns, Known, merged
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS
from lakegc_core.references.commits.known_walk import KnowingWalk, KnownCommits
from lakegc_core.references.commits.retained import walk_until_known
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import parts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METARANGES = "metaranges"
HEAD = "head"
"""The column that every question has: 0 where a branch or a protected tag shows a commit."""
PROBLEM = "problem"
"""Among the names of an answer: why nobody can ask so."""


@dataclass(frozen=True)
class Question:
    """A question about every commit.

    `columns`: the names of the numbers that are asked for. `ask` gives them for all commits, with what the driver must
    know to read them; as PROBLEM why nobody can ask so, a sentence, or "". They are merged by their minimum. `finish`
    makes results of that and of the merged numbers of some objects; one is `today`: NEVER where no commit keeps an
    object as things are. `views`: names of results. Objects are counted by those of each view, so that there are few
    groups. `goes`: columns of cases in which folders of what goes are wanted, see `folders`.
    """

    columns: tuple[str, ...]
    views: tuple[tuple[str, ...], ...]
    ask: Callable[[Known], tuple[Columns, Json]]
    finish: Callable[[Json, Mapping[str, np.ndarray]], Columns]
    goes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """The answer by metarange (`metaranges_schema`), the names that the numbers stand for, and all commits
    (COMMITS_SCHEMA, in the folder OTHERS)."""

    metaranges: Dataset
    names: Json
    commits: Dataset


def metaranges_schema(question: Question) -> pa.Schema:
    """A metarange, and the numbers of a question."""
    return pa.schema([pa.field("metarange_id", pa.string(), nullable=False), *fields_of(question)])


def fields_of(question: Question) -> list[pa.Field]:
    """The columns of a question as they stand in tables: by their numbers, since branches have any names."""
    return [pa.field(f"number_{place}", pa.int32(), nullable=False) for place in range(len(question.columns))]


def ask_of_commits(spark: SparkSession, context: MarkContext, question: Question, aside: DatasetFolder) -> Asked:
    """Ask it of the commits that a complete mark knew, into datasets `aside`. SettingsError for what nobody can ask."""
    walk = _QuestionWalk(commits=KnownCommits.of(context), aside=aside, question=question)
    results = walk_until_known(partial(run_tasks, spark), context, walk)
    parts = parts_of(results, [METARANGES, OTHERS])
    names = next(result["names"] for result in results if "names" in result)
    if problem := names.get(PROBLEM):
        raise SettingsError(problem)
    metaranges = aside.dataset(METARANGES, parts[METARANGES], metaranges_schema(question))
    return Asked(metaranges, names, aside.dataset(OTHERS, parts[OTHERS], COMMITS_SCHEMA))


@dataclass(frozen=True, kw_only=True)
class _QuestionWalk(KnowingWalk):
    """Asks a question of every commit, and writes the answer for every metarange."""

    aside: DatasetFolder
    question: Question

    def decide(self, known: Known) -> Iterator[Json]:
        columns, names = self.question.ask(known)
        metaranges = [each if graveler.is_id(each) else "" for each in known.graph.metarange_ids]
        yield from self._write(metaranges, columns)
        yield from self._write_commits(known.graph.commit_ids, metaranges)
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
        yield from self.aside.results(METARANGES, table.filter(pc.and_(wanted, some)), schema)

    def _write_commits(self, ids: Sequence[str], metaranges: Sequence[str]) -> Iterator[Json]:
        columns: list[Any] = [pa.array(ids, pa.string()), pa.array(metaranges, pa.string()), pa.repeat("", len(ids))]
        yield from self.aside.results(OTHERS, pa.table(columns, schema=COMMITS_SCHEMA), COMMITS_SCHEMA)


def meaning_nothing(known: Known, patterns: Iterable[str]) -> list[str]:
    """Those of some patterns that mean no branch and no tag which the mark saw."""
    idle = []
    for each in patterns:
        kind, _, glob = each.partition(":")
        names = known.heads if kind == BRANCH else known.tags
        if not any(matching_names(glob, [name for name, _ in names])):
            idle.append(each)
    return idle


def check_patterns(patterns: Iterable[str]) -> None:
    """SettingsError for a pattern that is neither of branches nor of tags."""
    for each in patterns:
        kind, _, glob = each.partition(":")
        if kind not in (BRANCH, TAG) or not glob:
            raise SettingsError(f"{each!r} names no branch and no tag; write branch:NAME or tag:NAME, with * for many.")
