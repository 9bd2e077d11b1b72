"""Sizes of what the heads of branches and tags show in the namespace: sums over the ranges of their metaranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Stage
from lakegc_core.policy.facts import Amount
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.ranges.range_files import RangeReader, reading
from lakegc_core.spark.session import Mapped, collected, many
from lakegc_core.spark.versions import frame_of
from lakegc_core.tables.gather import rows_of_feeds
from lakegc_core.tables.parts import spark_width, tasks_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HELD = pa.schema(
    [pa.field("metarange_id", pa.string(), nullable=False), pa.field("range_id", pa.string(), nullable=False)]
)
_SUMS = pa.schema(
    [
        pa.field("mark_id", pa.string(), nullable=False),
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("objects", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)


def shown_by(
    spark: SparkSession, context: MarkContext, layers: Sequence[Layer], metaranges: Sequence[str]
) -> dict[str, Amount]:
    """The entries of some retained metaranges that lie in the namespace, and their bytes. A repository has as many of
    these as it has heads: they are no more than its branches and tags."""
    from pyspark.sql import functions as F

    wanted = sorted({each for each in metaranges if each})
    if not wanted:
        return {}
    ids = pa.table({"metarange_id": pa.array(wanted, pa.string())}, schema=pa.schema([_HELD.field(0)]))
    frame = frame_of(spark, ids).repartition(tasks_for(len(wanted), 16, 4 * spark_width(spark)))
    held = Mapped(frame, _HELD, _RangesHeld(reading(context))).as_frame()
    feeds = [
        feed
        for layer in layers
        for feed in layer.dataset(Stage.COMMITTED_ADDRESSES, ENTRIES_SCHEMA).feeds(
            "range_id", "exact", "size", make=_Sums(layer.mark_id)
        )
    ]
    sums = rows_of_feeds(spark, feeds, _SUMS).as_frame().groupBy("mark_id", "range_id")
    # A range that several marks have read has the same sums in each.
    each = sums.agg(F.sum("objects").alias("objects"), F.sum("bytes").alias("bytes"))
    once = each.groupBy("range_id").agg(F.max("objects").alias("objects"), F.max("bytes").alias("bytes"))
    found = held.join(many(once), "range_id").groupBy("metarange_id").agg(F.sum("objects"), F.sum("bytes"))
    return {row[0]: Amount(row[1], row[2]) for row in collected(found)}


@dataclass(frozen=True)
class _RangesHeld:
    """Reads the ranges of metaranges."""

    work: RangeReader

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows in self.work.metarange_rows(batch.column("metarange_id").to_pylist()):
                ranges = rows.filter(pc.not_equal(rows["range_id"], "")).select(_HELD.names)
                yield from ranges.cast(_HELD).combine_chunks().to_batches()


@dataclass(frozen=True)
class _Sums:
    """Makes sums by range of some entries that a mark has read. An address that can be read in several ways counts
    once."""

    mark_id: str

    def __call__(self, rows: pa.RecordBatch) -> Mapping[str, Any]:
        table = pa.Table.from_batches([rows.filter(rows["exact"])])
        found = table.group_by("range_id").aggregate([("size", "count"), ("size", "sum")]).combine_chunks()
        return {
            "mark_id": pa.repeat(self.mark_id, len(found)),
            "range_id": found["range_id"].combine_chunks(),
            "objects": found["size_count"].combine_chunks(),
            "bytes": found["size_sum"].combine_chunks(),
        }
