"""Answers a question about commits for the objects of a mark: one pass from metaranges over ranges to objects.

The mark's own index says which addresses a range refers to. Only ranges that the mark did not read (a question may be
about commits that are not retained) are read here. What a mark would keep for other reasons than commits is told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.answers import standing
from lakegc_core.answers.counting import Group, grouped, numbers_in, rows_schema
from lakegc_core.answers.folders import folders_of
from lakegc_core.answers.question import Question, ask_of_commits, fields_of
from lakegc_core.answers.scratch import scratch
from lakegc_core.errors import IncompleteError, RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer, layers_of, restored_since
from lakegc_core.marks.ledger import journals
from lakegc_core.names import Json, Reason, Stage
from lakegc_core.policy.facts import NOTHING, Amount, ExpiredFacts, ListingFacts
from lakegc_core.policy.scenarios import NEVER, Columns
from lakegc_core.references.ranges.range_files import (
    INDEX,
    INDEX_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    RangeReader,
    range_reader,
    range_writer,
)
from lakegc_core.references.staged import were_listed
from lakegc_core.spark.shipping import runs_here
from lakegc_core.spark.tasks import Mapped, count_of, many, run_on_rows
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import only, partitions_for, rows_of_feeds
from lakegc_core.tables.key_scan import MOST, Source, read_all
from lakegc_core.tables.parts import spark_width, tasks_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READ = "read"
_RANGE = [
    pa.field("range_id", pa.string(), nullable=False),
    pa.field("count", pa.int64(), nullable=False),  # entries, as metaranges say
]


@dataclass(frozen=True)
class Answer:
    """All objects of a mark, in groups for each view of the question. `names`: see `Asked`."""

    groups: Sequence[Group]
    names: Json

    def amount(
        self,
        view: tuple[str, ...],
        wanted: Callable[[Mapping[str, int]], bool] = lambda results: True,
        reasons: Collection[Reason] = (Reason.UNREFERENCED,),
    ) -> Amount:
        """The objects whose results in a view are wanted, of those that one of the reasons keeps besides commits."""
        own = (each for each in self.groups if each.view == view and each.reason in reasons)
        return sum((each.amount for each in own if wanted(each.results)), NOTHING)

    def amounts(
        self,
        view: tuple[str, ...],
        name: str,
        reasons: Collection[Reason],
        wanted: Callable[[Mapping[str, int]], bool] = lambda results: True,
    ) -> dict[int, Amount]:
        """The objects by the value of a result, for every value at once."""
        found: dict[int, Amount] = {}
        for each in self.groups:
            if each.view == view and each.reason in reasons and wanted(each.results):
                value = each.results[name]
                found[value] = found.get(value, NOTHING) + each.amount
        return found


TODAY = ("today",)
"""The view that every question has."""

LATER = (Reason.UNREFERENCED, Reason.YOUNG)
"""Reasons of objects that only commits keep, once they are old enough."""


def check_stands(context: MarkContext) -> None:
    """RefusedError if what a complete mark found is not so any more."""
    if restored := restored_since(context, context.header.started_at):
        raise RefusedError(
            f"Objects of mark {restored.mark_id} were restored, and mark {context.header.mark_id} may not know of "
            f"them. Only a mark that begins after {restored.known_from:%Y-%m-%d %H:%M} UTC knows of them for certain: "
            "clocks may differ by an hour. Make a mark then."
        )


def answer(spark: SparkSession, context: MarkContext, question: Question) -> Answer:
    """Ask a question of all objects that a complete mark found, if it still stands (`check_stands`)."""
    check_stands(context)
    layers = layers_of(context.mark)
    with scratch(context, here=runs_here(spark)) as aside:
        asked = ask_of_commits(spark, context, question, aside)
        ranges = _ranges(spark, context, question, asked.metaranges, aside)
        of_marks = (layer.dataset(Stage.COMMITTED_ADDRESSES, INDEX_SCHEMA, INDEX) for layer in layers)
        index = sum(of_marks, Dataset(INDEX_SCHEMA)) + _index_read(spark, context, layers[0], ranges, aside)
        rows = _rows_of_index(spark, question, ranges, index)
        objects = standing.objects_of(spark, context, layers, asked.commits, aside)
        partitions = partitions_for(index.rows + context.mark.facts(ListingFacts).objects)
        names, every = asked.names, [rows]
        if question.goes:
            folders = folders_of(spark, context, question, ranges, aside)
            names |= {"folders": folders.names, "entries_unread": folders.unread}
            every.append(folders.rows)
        groups = grouped(question, names, objects, every, partitions, branches_listed=were_listed(context))
    found = Answer(groups, names)
    _check(context, found)
    return found


def _check(context: MarkContext, found: Answer) -> None:
    """IncompleteError unless the answer has just the garbage that the mark has, less what was deleted since."""
    facts = context.mark.facts(ExpiredFacts)
    garbage = found.amount(TODAY, lambda results: results["today"] == NEVER)
    if garbage.objects > facts.expired.objects or (garbage != facts.expired and not _was_swept(context)):
        raise IncompleteError(
            f"By this answer {garbage.objects:,} objects are garbage, by mark {context.header.mark_id} "
            f"{facts.expired.objects:,}. So the answer is wrong, and is not given. Make a new mark; if it happens "
            "again, report it as a bug."
        )


def _was_swept(context: MarkContext) -> bool:
    return any(journals(context, context.header.started_at))


def _ranges(
    spark: SparkSession, context: MarkContext, question: Question, metaranges: Dataset, aside: DatasetFolder
) -> Dataset:
    """The ranges of the metaranges that anything keeps, each with its numbers."""
    from pyspark.sql import functions as F

    tasks = tasks_for(metaranges.rows, 64, 4 * spark_width(spark))
    shape = pa.schema([*_RANGE, *fields_of(question)])
    read = Mapped(metaranges.frame(spark).repartition(tasks), shape, partial(_ranges_of, range_reader(context), shape))
    how = [F.max("count").alias("count"), *(F.min(name).alias(name) for name in numbers_in(shape))]
    return aside.put(RANGES, read.as_frame().groupBy("range_id").agg(*how), shape)


def _ranges_of(work: RangeReader, shape: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make ranges of metaranges, each once for some metaranges."""
    for batch in batches:
        ids = batch.column("metarange_id")
        for found in work.metarange_rows(ids.to_pylist()):
            rows = found.filter(pc.not_equal(found["range_id"], ""))
            owners = pc.index_in(rows["metarange_id"], value_set=ids)
            for name in numbers_in(shape):
                rows = rows.append_column(name, batch.column(name).take(owners.combine_chunks()))
            told = [("count", "max"), *((name, "min") for name in numbers_in(shape))]
            once = rows.group_by("range_id").aggregate(told)
            names = {f"{name}_{how}": name for name, how in told}
            once = once.rename_columns([names.get(name, name) for name in once.column_names])
            yield from once.select(shape.names).cast(shape).combine_chunks().to_batches()


def _index_read(
    spark: SparkSession, context: MarkContext, own: Layer, ranges: Dataset, aside: DatasetFolder
) -> Dataset:
    """The index of the ranges that the mark does not know, which are read for it."""
    from pyspark.sql import functions as F

    known = own.dataset(Stage.COMMITTED_ADDRESSES, RANGES_SCHEMA, RANGES).frame(spark, "range_id")
    wanted = ranges.frame(spark, *(field.name for field in _RANGE))
    unknown = wanted.join(many(known), "range_id", "left_anti").withColumn("references", F.lit(1).cast("long"))
    count = count_of(unknown)
    if not count:
        return Dataset(INDEX_SCHEMA)
    tasks = tasks_for(count, 32, 8 * spark_width(spark))
    work = range_writer(context, aside.below(_READ))
    return work.datasets(run_on_rows(unknown.repartition(tasks), work.ranges))[INDEX]


def _rows_of_index(spark: SparkSession, question: Question, ranges: Dataset, index: Dataset) -> Mapped:
    """The addresses of all ranges that anything keeps, with the numbers of their ranges.

    Every worker holds ranges and their numbers, so many at a time; the index is read once for each of these shares.
    """
    shape = rows_schema(question)
    shares = [partial(_numbered, share, numbers_in(shape)) for share in _shares(ranges.sources)]
    feeds = [index.feeds("range_id", "hash", make=share, repeated=("range_id",)) for share in shares]
    return rows_of_feeds(spark, [feed for some in feeds for feed in some], shape)


def _shares(sources: Sequence[Source]) -> Iterator[tuple[Source, ...]]:
    """Parts in shares of at most MOST rows, one part at least."""
    share: list[Source] = []
    for each in sources:
        if share and sum(one.part.rows for one in share) + each.part.rows > MOST:
            yield tuple(share)
            share = []
        share.append(each)
    if share:
        yield tuple(share)


def _numbered(sources: tuple[Source, ...], columns: tuple[str, ...], rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Give rows of an index the numbers of their ranges, for some ranges."""
    ids, numbers = _numbers(sources, columns)
    named = rows["range_id"]
    places = pc.fill_null(pc.index_in(named.dictionary, value_set=ids), -1).take(named.indices).to_numpy()
    found = {name: numbers[name][places] for name in columns}
    return only({"hash": rows["hash"], **found}, places >= 0)


@lru_cache(maxsize=2)
def _numbers(sources: tuple[Source, ...], columns: tuple[str, ...]) -> tuple[pa.Array, Columns]:
    """The ids of the ranges, and their numbers."""
    wanted = ["range_id", *columns]
    table = pa.Table.from_batches(read_all(sources, wanted))
    return table["range_id"].combine_chunks(), {name: table[name].to_numpy() for name in columns}
