"""committed_addresses: everything that the retained commits refer to, each metarange and each range read once.

Metaranges are immutable and shared by many commits, ranges by many metaranges, so neither is ever read twice. Reading
is whole or an error: every count is compared with what the level above says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakegc_core.context import MarkContext
from lakegc_core.errors import IncompleteError
from lakegc_core.spark import Mapped, many, run_on_rows
from lakegc_core.stages.base import StageOutput, StageResult, run_stage
from lakegc_core.stages.commit_walk import COMMITS, OTHERS
from lakegc_core.stages.layers import below
from lakegc_core.stages.path_holds import held_by_path
from lakegc_core.stages.range_changes import read_changes
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
    split_metaranges,
    sum_metaranges,
    summary,
    tasks_for,
    total,
)
from lakegc_core.store.parquet import Part, parts_of, read, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HELD = "held"
"""Addresses that holds by path keep, of commits that nothing else retains."""


def committed_addresses(spark: SparkSession, context: MarkContext) -> StageResult:
    """Read what retained commits refer to. Columns: range_id, address, exact, size, e_tag: of the ranges read here.

    Datasets: `ranges`, all that are retained, with the mark that read each; `index`, hashes of what was read here;
    `checksums` of all retained metaranges; `held`, and `dropped`: what was referred to at the mark before, and is not.
    """

    def body(spark: SparkSession, context: MarkContext) -> StageOutput:
        commits = context.mark.require(COMMITS).datasets[COMMITS]
        folder = context.mark.stage_folder(COMMITS)
        expected = context.mark.require(COMMITS).facts["retained_metaranges"]
        target = context.mark.stage_folder(STAGE)
        output = read_changes(spark, context, below(context), commits, target, expected=expected)
        others = context.mark.require(COMMITS).datasets[OTHERS]
        held = held_by_path(spark, context, folder, others, f"{target}/{HELD}")
        facts = {**output.facts, "held_by_path": sum(part.rows for part in held)}
        return StageOutput({**output.datasets, HELD: held}, facts)

    return run_stage(STAGE, spark, context, body)


def read_committed(
    spark: SparkSession,
    context: MarkContext,
    retained: DataFrame,
    folder: str,
    *,
    expected: int,
    known: Sequence[Part] | None = None,
) -> StageOutput:
    """Read all ranges of the metaranges in `retained` (column metarange_id) into parts below `folder`.

    `expected`: how many distinct metaranges that must be. `known`: the mark's own list of ranges, whose addresses need
    not be read again (for the look of a sweep).
    """
    from pyspark.sql import functions as F

    work = reading(context, folder)
    told = context.settings.scale.range_num_partitions
    tasks = told or tasks_for(expected, 16, 4 * spark_width(spark))
    distinct = retained.where(F.col("metarange_id") != "").distinct().repartition(tasks)
    found = write(
        Mapped(distinct, METARANGES_SCHEMA, work.metaranges),
        context.workspace,
        {name: f"{folder}/{name}" for name in (METARANGES, CHECKSUMS)},
        METARANGES_SCHEMA,
        split=split_metaranges,
        schemas={CHECKSUMS: CHECKSUMS_SCHEMA},
        summarise=sum_metaranges,
    )
    metaranges, checksums = found[METARANGES], found[CHECKSUMS]
    check_metaranges(checksums, expected)
    references = total(metaranges, "ranges")
    if references != total(checksums, "stated_ranges"):
        raise IncompleteError("Metaranges hold fewer ranges than they say. Run the mark again.")
    rows = read(spark, context.workspace, f"{folder}/{METARANGES}", metaranges, METARANGES_SCHEMA)
    ranges = (
        rows.where(F.col("range_id") != "")
        .groupBy("range_id")
        .agg(
            F.count("*").alias("references"),
            F.min("count").alias("count"),
            F.max("count").alias("most"),
            F.min("min_key").alias("min_key"),
            F.max("max_key").alias("max_key"),
        )
    )
    if known is not None:
        ours = context.mark.stage_folder(STAGE, RANGES)
        mine = read(spark, context.workspace, ours, known, RANGES_SCHEMA, ["range_id"])
        ranges = ranges.join(many(mine), "range_id", "left_anti")
    results = run_on_rows(ranges.repartition(told or tasks_for(references, 32, 8 * spark_width(spark))), work.ranges)
    parts = parts_of(results, [STAGE, INDEX, RANGES])
    facts = summary(checksums, parts[RANGES], parts)
    if known is None:
        check_references(facts)
    return StageOutput(parts | {METARANGES: metaranges, CHECKSUMS: checksums, DROPPED: ()}, facts)
