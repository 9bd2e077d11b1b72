"""What an optimized mark reads of commits: metaranges that came or went since the mark below, and ranges that differ.

The mark below knows how many retained metaranges hold each range; from the metaranges that changed follow the counts
of now. Ranges that nothing held before are read; the addresses of those that nothing holds any more may be garbage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.context import MarkContext
from lakegc_core.errors import CorruptFileError
from lakegc_core.spark import many, run_on_rows
from lakegc_core.stages.base import StageOutput
from lakegc_core.stages.layers import Layer
from lakegc_core.stages.range_reading import (
    CHECKSUMS,
    CHECKSUMS_SCHEMA,
    DROPPED,
    INDEX,
    METARANGES,
    METARANGES_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    STAGE,
    check_metaranges,
    check_references,
    reading,
    sum_metaranges,
    sum_ranges,
    summary,
    tasks_for,
    with_schema,
)
from lakegc_core.store.parquet import Part, parts_of, read, rows_of, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMER = "former_metaranges"
_ADDED, _GONE, _ODD = "added_ranges", "dropped_ranges", "odd_ranges"
_SIGNED = pa.schema([*METARANGES_SCHEMA, pa.field("sign", pa.int64(), nullable=False)])
_JUDGED = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("references", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("most", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=True),
        pa.field("max_key", pa.binary(), nullable=True),
        pa.field("read_in", pa.string(), nullable=True),
        pa.field("verdict", pa.string(), nullable=False),
    ]
)


def read_changes(
    spark: SparkSession,
    context: MarkContext,
    layers: Sequence[Layer],
    retained: DataFrame,
    folder: str,
    *,
    expected: int,
) -> StageOutput:
    """What the metaranges in `retained` (column metarange_id) refer to, from what the mark below knew of its own.

    `layers`: that mark and those that it rests on, newest first. `expected`: how many distinct metaranges are retained.
    """
    base = layers[0]
    work, config = reading(context, folder), context.workspace
    now = retained.where("metarange_id != ''").distinct()
    before = base.frame(spark, STAGE, CHECKSUMS, CHECKSUMS_SCHEMA)
    sizes = expected, base.rows(STAGE, CHECKSUMS)
    metaranges = _read_metaranges(spark, context, now, before, sizes, folder)
    added = read(spark, config, f"{folder}/{METARANGES}", metaranges[METARANGES], METARANGES_SCHEMA)
    kept = before.join(many(now, expected), "metarange_id", "left_semi")
    checksums = write(
        kept.unionByName(added.where("range_id = ''").select(*CHECKSUMS_SCHEMA.names)),
        config,
        {CHECKSUMS: f"{folder}/{CHECKSUMS}"},
        CHECKSUMS_SCHEMA,
        summarise=sum_metaranges,
    )[CHECKSUMS]
    check_metaranges(checksums, expected)
    judged = _judge(spark, context, layers, metaranges, folder)
    told = context.settings.scale.range_num_partitions

    def spread(name: str) -> DataFrame:
        rows = rows_of(judged[name])
        frame = read(spark, config, f"{folder}/{name}", judged[name], _JUDGED)
        return frame.repartition(told or tasks_for(rows, 32, 8 * spark_width(spark)))

    parts = parts_of(run_on_rows(spread(_ADDED), work.ranges) if judged[_ADDED] else [], [STAGE, INDEX, RANGES])
    dropped = parts_of(run_on_rows(spread(_GONE), work.dropped) if judged[_GONE] else [], [DROPPED])
    ranges = [*judged[RANGES], *parts[RANGES]]
    facts = summary(checksums, ranges, parts)
    check_references(facts)
    more = {"ranges_added": rows_of(judged[_ADDED]), "ranges_dropped": rows_of(judged[_GONE])}
    return StageOutput(
        {**parts, RANGES: ranges, METARANGES: metaranges[METARANGES], CHECKSUMS: checksums, **dropped}, facts | more
    )


def _read_metaranges(
    spark: SparkSession,
    context: MarkContext,
    now: DataFrame,
    before: DataFrame,
    sizes: tuple[int, int],
    folder: str,
) -> dict[str, list[Part]]:
    """Rows of the metaranges that are retained only now, and of those that were only before. `sizes`: how many."""
    from pyspark.sql import functions as F

    was = before.select("metarange_id")
    changed = (
        now.join(many(was, sizes[1]), "metarange_id", "left_anti")
        .withColumn("sign", F.lit(1).cast("long"))
        .unionByName(
            was.join(many(now, sizes[0]), "metarange_id", "left_anti").withColumn("sign", F.lit(-1).cast("long"))
        )
        .repartition(context.settings.scale.range_num_partitions or spark_width(spark))
    )
    return write(
        with_schema(changed, reading(context, folder).changes, _SIGNED),
        context.workspace,
        {name: f"{folder}/{name}" for name in (METARANGES, _FORMER)},
        METARANGES_SCHEMA,
        split=_split_signed,
    )


def _split_signed(table: pa.Table) -> dict[str, pa.Table]:
    added = pc.greater(table["sign"], 0)
    return {METARANGES: table.filter(added), _FORMER: table.filter(pc.invert(added))}


def _judge(
    spark: SparkSession,
    context: MarkContext,
    layers: Sequence[Layer],
    metaranges: dict[str, list[Part]],
    folder: str,
) -> dict[str, list[Part]]:
    """Every range that is held now or was before, told apart: held still, added, dropped. CorruptFileError where the
    counts of the mark below and the metaranges contradict each other, or no layer holds what a range protects."""
    from pyspark.sql import functions as F

    def of(name: str, sign: int) -> DataFrame:
        rows = read(spark, context.workspace, f"{folder}/{name}", metaranges[name], METARANGES_SCHEMA)
        return rows.where("range_id != ''").withColumn("sign", F.lit(sign).cast("long"))

    changes = (
        of(METARANGES, 1)
        .unionByName(of(_FORMER, -1))
        .groupBy("range_id")
        .agg(
            F.sum("sign").alias("change"),
            F.min("count").alias("least"),
            F.max("count").alias("most"),
            F.min("min_key").alias("min_key"),
            F.max("max_key").alias("max_key"),
        )
    )
    base = layers[0]
    known = base.frame(spark, STAGE, RANGES, RANGES_SCHEMA)
    nowhere = ~F.col("read_in").isin([layer.mark_id for layer in layers])
    counts = F.coalesce("references", F.lit(0).cast("long")) + F.coalesce("change", F.lit(0).cast("long"))
    differs = (F.col("least") != F.col("most")) | (F.col("count") != F.col("most"))
    judged = (
        known.join(many(changes), "range_id", "full_outer")
        .withColumn("now", counts)
        .withColumn(
            "verdict",
            F.when((F.col("now") < 0) | F.coalesce(differs, F.lit(False)) | F.coalesce(nowhere, F.lit(False)), _ODD)
            .when(F.col("read_in").isNull() & (F.col("now") == 0), _ODD)
            .when(F.col("read_in").isNull(), _ADDED)
            .when(F.col("now") == 0, _GONE)
            .otherwise(RANGES),
        )
        .select(
            "range_id",
            F.col("now").alias("references"),
            F.coalesce("count", "most").alias("count"),
            F.coalesce("most", "count").alias("most"),
            "min_key",
            "max_key",
            "read_in",
            "verdict",
        )
    )
    names = (RANGES, _ADDED, _GONE, _ODD)
    found = write(
        judged,
        context.workspace,
        {name: f"{folder}/{name}" for name in names},
        _JUDGED,
        split=_split_judged,
        schemas={RANGES: RANGES_SCHEMA},
        summarise=sum_ranges,
    )
    if found[_ODD]:
        raise CorruptFileError(
            f"{rows_of(found[_ODD]):,} ranges do not agree with what mark {base.mark_id} knew of them: the counts of "
            "references do not add up. This mark cannot rest on it. Make a new mark: it will be a clean one."
        )
    return found


def _split_judged(table: pa.Table) -> dict[str, pa.Table]:
    return {name: table.filter(pc.equal(table["verdict"], name)) for name in (RANGES, _ADDED, _GONE, _ODD)}
