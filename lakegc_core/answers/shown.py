"""Sizes of what the heads of branches and tags show in the namespace: sums over the ranges of their metaranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Stage
from lakegc_core.policy.facts import Amount
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.ranges.range_files import METARANGES_SCHEMA, range_reader
from lakegc_core.spark.tasks import Mapped, collected, many
from lakegc_core.spark.versions import frame_of
from lakegc_core.tables.gather import rows_of_feeds
from lakegc_core.tables.parts import spark_width, tasks_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    ids = pa.table({"metarange_id": pa.array(wanted, pa.string())}, schema=pa.schema([METARANGES_SCHEMA.field(0)]))
    frame = frame_of(spark, ids).repartition(tasks_for(len(wanted), 16, 4 * spark_width(spark)))
    held = Mapped(frame, METARANGES_SCHEMA, range_reader(context).metaranges).as_frame().where("range_id != ''")
    feeds = [
        feed
        for layer in layers
        for feed in layer.dataset(Stage.COMMITTED_ADDRESSES, ENTRIES_SCHEMA).feeds(
            "range_id", "exact", "size", make=partial(_sums, layer.mark_id)
        )
    ]
    sums = rows_of_feeds(spark, feeds, _SUMS).as_frame().groupBy("mark_id", "range_id")
    # A range that several marks have read has the same sums in each.
    each = sums.agg(F.sum("objects").alias("objects"), F.sum("bytes").alias("bytes"))
    once = each.groupBy("range_id").agg(F.max("objects").alias("objects"), F.max("bytes").alias("bytes"))
    found = held.join(many(once), "range_id").groupBy("metarange_id").agg(F.sum("objects"), F.sum("bytes"))
    return {row[0]: Amount(row[1], row[2]) for row in collected(found)}


def _sums(mark_id: str, rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Make sums by range of some entries that a mark has read. An address that can be read in several ways counts
    once."""
    table = pa.Table.from_batches([rows.filter(rows["exact"])])
    found = table.group_by("range_id").aggregate([("size", "count"), ("size", "sum")]).combine_chunks()
    return {
        "mark_id": pa.repeat(mark_id, len(found)),
        "range_id": found["range_id"].combine_chunks(),
        "objects": found["size_count"].combine_chunks(),
        "bytes": found["size_sum"].combine_chunks(),
    }
