"""What a question about commits means for the objects of a mark: one pass from metaranges over ranges to objects.

The mark's own index says which addresses a range refers to. Only ranges that the mark did not read (a question may be
about commits that are not retained) are read here. What a mark would keep for other reasons than commits is told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.answers import standing
from lakegc_core.answers.counting import Group, grouped, numbers_in, rows_schema
from lakegc_core.answers.folders import folders_of
from lakegc_core.answers.question import METARANGES, Asked, Question, ask_of_commits, fields_of, metaranges_schema
from lakegc_core.answers.scratch import Scratch, scratch
from lakegc_core.errors import IncompleteError, RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE
from lakegc_core.marks.layers import Layer, layers_of, restored_since
from lakegc_core.marks.ledger import journals
from lakegc_core.names import Reason, Stage
from lakegc_core.policy.facts import NOTHING, Amount, ExpiredFacts, ListingFacts
from lakegc_core.policy.scenarios import NEVER, Columns
from lakegc_core.references.ranges.range_files import INDEX, RANGES, RANGES_SCHEMA, RangeReader, reading
from lakegc_core.spark.session import Json, Mapped, clear_errors, many, run_on_rows, runs_here
from lakegc_core.tables.gather import Feed, only, partitions_for, rows_of_feeds
from lakegc_core.tables.key_scan import MOST, Names, Source, Wanted, read_named, sources_of
from lakegc_core.tables.parts import Part, parts_of, read, rows_of, spark_width, tasks_for, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READ = "read"
_RANGE = [
    pa.field("range_id", pa.string(), nullable=False),
    pa.field("count", pa.int64(), nullable=False),
    pa.field("most", pa.int64(), nullable=False),  # another count than that one, if some metarange says another
    pa.field("min_key", pa.binary(), nullable=False),
    pa.field("max_key", pa.binary(), nullable=False),
]


@dataclass(frozen=True)
class Answer:
    """Every object of a mark, in groups for each view of the question. `names`: see `Asked`."""

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
        """The same for every value of a result at once."""
        found: dict[int, Amount] = {}
        for each in self.groups:
            if each.view == view and each.reason in reasons and wanted(each.results):
                value = each.results[name]
                found[value] = found.get(value, NOTHING) + each.amount
        return found


TODAY = ("today",)
"""The view that every question has."""

LATER = (Reason.UNREFERENCED, Reason.YOUNG)
"""What only commits keep, once it is old enough."""


def answer(spark: SparkSession, context: MarkContext, question: Question) -> Answer:
    """Ask a question of all objects that a complete mark found. RefusedError if what it found is not so any more."""
    if restored := restored_since(context, context.header.started_at):
        raise RefusedError(
            f"Objects were restored by mark {restored.mark_id}, and mark {context.header.mark_id} may not know of "
            f"them. Only a mark that begins after {restored.known_from:%Y-%m-%d %H:%M} UTC knows of them for certain: "
            "clocks may differ by an hour. Make a mark then."
        )
    layers = layers_of(context.mark)
    with scratch(context, here=runs_here(spark)) as aside:
        asked = ask_of_commits(spark, context, question, aside)
        ranges = _ranges(spark, context, question, asked, aside)
        index = [*_index_of_marks(layers), *_index_read(spark, context, layers[0], ranges, aside)]
        rows = _rows_of_index(spark, question, ranges, index, aside)
        objects = standing.objects_of(spark, context, layers, asked.commits, aside)
        partitions = partitions_for(sum(each.part.rows for each in index) + context.mark.facts(ListingFacts).objects)
        names, every = asked.names, [rows]
        if question.goes:
            folders = folders_of(spark, context, question, ranges, aside)
            names |= {"folders": folders.names, "entries_unread": folders.unread}
            every.append(folders.rows)
        groups = grouped(question, names, objects, every, partitions, local=context.namespace.is_local)
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


def _ranges(spark: SparkSession, context: MarkContext, question: Question, asked: Asked, aside: Scratch) -> list[Part]:
    """Every range of the metaranges that anything keeps, with its numbers."""
    from pyspark.sql import functions as F

    schema = metaranges_schema(question)
    found = read(spark, aside.config, f"{aside.folder}/{METARANGES}", asked.parts, schema)
    tasks = tasks_for(rows_of(asked.parts), 64, 4 * spark_width(spark))
    shape = pa.schema([*_RANGE, *fields_of(question)])
    told = Mapped(found.repartition(tasks), shape, _RangesOf(reading(context, aside.folder), shape))
    how = [F.min("count").alias("count"), F.max("most").alias("most")]
    how += [F.min(name).alias(name) for name in ("min_key", "max_key", *numbers_in(shape))]
    frame = told.as_frame().groupBy("range_id").agg(*how)
    return write(frame, aside.config, {RANGES: f"{aside.folder}/{RANGES}"}, shape)[RANGES]


@dataclass(frozen=True)
class _RangesOf:
    """Makes ranges of metaranges, each once for some metaranges; a picklable value that tasks carry."""

    work: RangeReader
    shape: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.column("metarange_id")
            for found in self.work.metarange_rows(ids.to_pylist()):
                rows = found.filter(pc.not_equal(found["range_id"], ""))
                owners = pc.index_in(rows["metarange_id"], value_set=ids)
                for name in numbers_in(self.shape):
                    rows = rows.append_column(name, batch.column(name).take(owners.combine_chunks()))
                told = [("count", "min"), ("count", "max"), ("min_key", "min"), ("max_key", "max")]
                told += [(name, "min") for name in numbers_in(self.shape)]
                once = rows.group_by("range_id").aggregate(told)
                names = {"count_max": "most"} | {f"{name}_{how}": name for name, how in told if (name, how) != told[1]}
                once = once.rename_columns([names.get(name, name) for name in once.column_names])
                yield from once.select(self.shape.names).cast(self.shape).combine_chunks().to_batches()


def _index_of_marks(layers: Sequence[Layer]) -> list[Source]:
    return [source for layer in layers for source in layer.sources(Stage.COMMITTED_ADDRESSES, INDEX)]


def _index_read(
    spark: SparkSession, context: MarkContext, own: Layer, ranges: Sequence[Part], aside: Scratch
) -> list[Source]:
    """The index of the ranges that the mark does not know, which are read for it."""
    from pyspark.sql import functions as F

    known = own.frame(spark, Stage.COMMITTED_ADDRESSES, RANGES, RANGES_SCHEMA).select("range_id")
    wanted = read(spark, aside.config, f"{aside.folder}/{RANGES}", ranges, pa.schema(_RANGE))
    unknown = wanted.join(many(known), "range_id", "left_anti").withColumn("references", F.lit(1).cast("long"))
    with clear_errors():
        count = unknown.count()
    if not count:
        return []
    target = f"{aside.folder}/{_READ}"
    tasks = tasks_for(count, 32, 8 * spark_width(spark))
    results = run_on_rows(unknown.repartition(tasks), reading(aside.of(context), target).ranges)
    parts = parts_of(results, [Stage.COMMITTED_ADDRESSES, INDEX, ELSEWHERE, RANGES])[INDEX]
    return sources_of(aside.config, f"{target}/{INDEX}", parts, context.header.mark_id)


def _rows_of_index(
    spark: SparkSession, question: Question, ranges: Sequence[Part], index: Sequence[Source], aside: Scratch
) -> Mapped:
    """The addresses of all ranges that anything keeps, with the numbers of their ranges.

    Every worker holds ranges and their numbers, so many at a time; the index is read once for each of these shares.
    """
    shape = rows_schema(question)
    sources = sources_of(aside.config, f"{aside.folder}/{RANGES}", ranges, "")
    shares = [_Numbered(Wanted(share).names, numbers_in(shape)) for share in _shares(sources)]
    feeds = [Feed(source, ("range_id", "hash"), share, repeated=("range_id",)) for share in shares for source in index]
    return rows_of_feeds(spark, feeds, shape)


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


@dataclass(frozen=True)
class _Numbered:
    """The numbers of some ranges for rows of an index; a picklable value that tasks carry."""

    names: Names
    columns: tuple[str, ...]

    def __call__(self, rows: pa.RecordBatch) -> Mapping[str, Any]:
        ids, numbers = _numbers(self.names, self.columns)
        named = rows["range_id"]
        places = pc.fill_null(pc.index_in(named.dictionary, value_set=ids), -1).take(named.indices).to_numpy()
        found = {name: numbers[name][places] for name in self.columns}
        return only({"hash": rows["hash"], **found}, places >= 0)


@lru_cache(maxsize=2)
def _numbers(names: Names, columns: tuple[str, ...]) -> tuple[pa.Array, Columns]:
    """The ids of the ranges, and their numbers."""
    wanted = ["range_id", *columns]
    table = pa.Table.from_batches(read_named(names, wanted))
    return table["range_id"].combine_chunks(), {name: table[name].to_numpy() for name in columns}
