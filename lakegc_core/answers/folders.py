"""Folders of logical paths in which lies what would go: read from the ranges that nothing would keep any more.

The index of a mark knows no paths. So these ranges are read again, the largest first, as many as a mark may read for
the origins of garbage. Nothing is decided by it: a file that is gone or damaged is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.answers.counting import numbers_in, rows_schema
from lakegc_core.answers.question import Question, fields_of
from lakegc_core.marks.context import MarkContext
from lakegc_core.past.ranges import MOST_ENTRIES, entries_of
from lakegc_core.policy.causes import FOLDERS
from lakegc_core.policy.scenarios import NEVER
from lakegc_core.references.ranges.range_files import RangeReader, range_reader
from lakegc_core.spark.tasks import Mapped, collected
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import rows_of_feeds
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = "folder"
"""The column of a question that asks for folders: a number in the names `folders`, and `len(folders)` for others."""
MOST_FOLDERS = 200
_RANGE = ("range_id", "count")
_ROWS = pa.schema([pa.field("hash", pa.int64(), nullable=False), pa.field("folder", pa.string(), nullable=False)])


@dataclass(frozen=True)
class Folders:
    """The folders with the most entries of these ranges, rows for them (`rows_schema`), and how many entries of other
    ranges were not read."""

    names: tuple[str, ...]
    rows: Mapped
    unread: int


def folders_of(
    spark: SparkSession, context: MarkContext, question: Question, ranges: Dataset, aside: DatasetFolder
) -> Folders:
    """The folders of all entries of the ranges in `ranges` that go in some case of the question. None where paths are
    private (`origins: false`)."""
    shape = rows_schema(question)
    if not context.policy.origins:
        return Folders((), rows_of_feeds(spark, [], shape), 0)
    chosen, unread = _chosen(spark, context, question, ranges)
    tasks = 4 * spark_width(spark)
    found = Mapped(chosen.repartition(tasks, "range_id"), _ROWS, partial(_entries, range_reader(context)))
    entries = aside.put(FOLDER, found, _ROWS)
    names = _largest(spark, entries)
    make = partial(_numbered, names, numbers_in(shape), numbers_in(shape)[question.columns.index(FOLDER)])
    return Folders(names, rows_of_feeds(spark, entries.feeds(make=make), shape), unread)


def _chosen(spark: SparkSession, context: MarkContext, question: Question, ranges: Dataset) -> tuple[Any, int]:
    """The ranges to read, and how many entries the others have."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    columns = dict(zip(question.columns, fields_of(question), strict=True))
    every = ranges.frame(spark, *_RANGE, *(columns[name].name for name in ("today", *question.goes)))
    goes = reduce(lambda one, other: one | other, (F.col(columns[name].name) == NEVER for name in question.goes))
    before = Window.orderBy(F.desc("count"), "range_id").rowsBetween(Window.unboundedPreceding, -1)
    going = every.where((F.col(columns["today"].name) != NEVER) & goes).select("range_id", "count")
    most = context.settings.scale.origin_entries or MOST_ENTRIES
    placed = going.withColumn("before", F.coalesce(F.sum("count").over(before), F.lit(0)))
    ((unread,),) = collected(placed.where(F.col("before") >= most).agg(F.sum("count")))
    return placed.where(F.col("before") < most).select("range_id"), unread or 0


def _largest(spark: SparkSession, entries: Dataset) -> tuple[str, ...]:
    from pyspark.sql import functions as F

    sums = entries.frame(spark, "folder").groupBy("folder").agg(F.count("*").alias("count"))
    return tuple(row["folder"] for row in collected(sums.orderBy(F.desc("count"), "folder").limit(MOST_FOLDERS)))


def _entries(work: RangeReader, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the addresses of ranges, and the folders of their paths."""
    for batch in batches:
        for rows in entries_of(work, batch["range_id"].to_pylist()):
            folders = pc.struct_field(pc.extract_regex(rows["path"], FOLDERS), "folder")
            table = pa.table({"hash": hash_strings(rows["address"]), "folder": folders})
            yield from table.cast(_ROWS).combine_chunks().to_batches()


def _numbered(names: tuple[str, ...], columns: tuple[str, ...], folder: str, rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Make rows of a question of addresses with their folders."""
    never = pa.repeat(pa.scalar(NEVER, pa.int32()), rows.num_rows)
    place = pc.index_in(rows["folder"], value_set=pa.array(names, pa.string()))
    numbers = pc.fill_null(place, len(names)).cast(pa.int32())
    return {"hash": rows["hash"], **dict.fromkeys(columns, never), folder: numbers}
