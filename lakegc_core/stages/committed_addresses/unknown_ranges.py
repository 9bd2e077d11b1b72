"""What a look reads of commits: metaranges and ranges that the mark did not know. They are compared by their whole ids.

What a mark reads is in `range_changes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakegc_core.errors import IncompleteError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE
from lakegc_core.marks.stage_run import StageOutput
from lakegc_core.policy.facts import NOTHING_READ, ReadFacts
from lakegc_core.spark.session import Mapped, clear_errors, many, run_on_rows
from lakegc_core.stages.committed_addresses.range_files import (
    CHECKSUMS,
    CHECKSUMS_SCHEMA,
    INDEX,
    METARANGES,
    METARANGES_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    STAGE,
    check_metaranges,
    reading,
    split_metaranges,
    sum_metaranges,
    summary,
    tasks_for,
    total,
)
from lakegc_core.stages.retention_commits.commit_walk import COMMITS, COMMITS_SCHEMA
from lakegc_core.tables.parts import parts_of, read, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_unknown(spark: SparkSession, context: MarkContext, retained: DataFrame, folder: str) -> StageOutput[ReadFacts]:
    """Read the metaranges in `retained` (column metarange_id) that the mark did not read, and of them the ranges that
    it did not, into parts below `folder`."""
    from pyspark.sql import functions as F

    wanted = retained.select("metarange_id").where("metarange_id != ''").distinct()
    unknown = wanted.join(many(_marked_metaranges(spark, context)), "metarange_id", "left_anti")
    with clear_errors():
        expected = unknown.count()
    if expected == 0:  # the usual case: nothing was committed since
        return StageOutput(dict.fromkeys((STAGE, INDEX, ELSEWHERE, RANGES), ()), NOTHING_READ)
    work, width = reading(context, folder), spark_width(spark)
    told = context.settings.scale.range_num_partitions
    found = write(
        Mapped(unknown.repartition(told or tasks_for(expected, 16, 4 * width)), METARANGES_SCHEMA, work.metaranges),
        context.workspace,
        {name: f"{folder}/{name}" for name in (METARANGES, CHECKSUMS)},
        METARANGES_SCHEMA,
        split=split_metaranges,
        schemas={CHECKSUMS: CHECKSUMS_SCHEMA},
        summarise=sum_metaranges,
    )
    check_metaranges(found[CHECKSUMS], expected)
    references = total(found[METARANGES], "ranges")
    if references != total(found[CHECKSUMS], "stated_ranges"):
        raise IncompleteError("Metaranges hold fewer ranges than they say. Run the sweep again.")
    rows = read(spark, context.workspace, f"{folder}/{METARANGES}", found[METARANGES], METARANGES_SCHEMA)
    ranges = (
        rows.where("range_id != ''")
        .groupBy("range_id")
        .agg(
            F.count("*").alias("references"),
            F.min("count").alias("count"),
            F.max("count").alias("most"),
            F.min("min_key").alias("min_key"),
            F.max("max_key").alias("max_key"),
        )
        .join(many(_marked_ranges(spark, context)), "range_id", "left_anti")
        .repartition(told or tasks_for(references, 32, 8 * width))
    )
    parts = parts_of(run_on_rows(ranges, work.ranges), [STAGE, INDEX, ELSEWHERE, RANGES])
    return StageOutput(parts, summary(found[CHECKSUMS], parts[RANGES], parts))


def _marked_metaranges(spark: SparkSession, context: MarkContext) -> DataFrame:
    parts, folder = context.mark.require(COMMITS).datasets[COMMITS], context.mark.stage_folder(COMMITS)
    return read(spark, context.workspace, folder, parts, COMMITS_SCHEMA, ["metarange_id"]).distinct()


def _marked_ranges(spark: SparkSession, context: MarkContext) -> DataFrame:
    parts, folder = context.mark.require(STAGE).datasets[RANGES], context.mark.stage_folder(STAGE, RANGES)
    return read(spark, context.workspace, folder, parts, RANGES_SCHEMA, ["range_id"])
