"""What a look reads of commits: metaranges and ranges that the mark did not know. They are compared by their whole ids.

What a mark reads is in `range_counts`, which counts what came and what went. A look needs no counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.errors import IncompleteError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE
from lakegc_core.names import Stage
from lakegc_core.policy.facts import ReadFacts
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA
from lakegc_core.references.ranges.range_files import (
    CHECKSUMS,
    CHECKSUMS_SCHEMA,
    INDEX,
    METARANGES,
    METARANGES_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    check_metaranges,
    reading,
    split_metaranges,
    sum_metaranges,
    summary,
    total,
)
from lakegc_core.spark.session import Mapped, clear_errors, many, run_on_rows
from lakegc_core.tables.parts import Part, parts_of, read, spark_width, tasks_for, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_DATASETS = (CHECKSUMS, RANGES, Stage.COMMITTED_ADDRESSES, INDEX, ELSEWHERE)


@dataclass(frozen=True)
class ReadSince:
    """What looks have read of commits that a mark did not know, each metarange and each range once. Grows with each
    reading. Parts by dataset, in folders of their names below `folder`; those of STAGE in `folder` itself."""

    folder: str
    parts: Mapping[str, list[Part]] = field(default_factory=lambda: {name: [] for name in _DATASETS})

    @property
    def facts(self) -> ReadFacts:
        return summary(self.parts[CHECKSUMS], self.parts[RANGES], self.parts)

    def add(self, found: Mapping[str, Sequence[Part]]) -> None:
        """Take over the parts of a reading that is whole."""
        for name in _DATASETS:
            self.parts[name].extend(found[name])


def read_unknown(spark: SparkSession, context: MarkContext, retained: DataFrame, so_far: ReadSince) -> Sequence[Part]:
    """Read the metaranges in `retained` (column metarange_id) that neither the mark nor anyone since has read, and of
    them the ranges that were not read either. Returns the parts of the addresses that are new in `so_far`."""
    from pyspark.sql import functions as F

    folder = so_far.folder
    wanted = retained.select("metarange_id").where("metarange_id != ''").distinct()
    known = _marked_metaranges(spark, context).unionByName(_ids(spark, context, so_far, CHECKSUMS, CHECKSUMS_SCHEMA))
    unknown = wanted.join(many(known), "metarange_id", "left_anti")
    with clear_errors():
        expected = unknown.count()
    if expected == 0:  # the usual case: nothing was committed since
        return ()
    found = _read_metaranges(spark, context, unknown, expected, folder)
    references = total(found[METARANGES], "ranges")
    rows = read(spark, context.workspace, f"{folder}/{METARANGES}", found[METARANGES], METARANGES_SCHEMA)
    held = _marked_ranges(spark, context).unionByName(_ids(spark, context, so_far, RANGES, RANGES_SCHEMA))
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
        .join(many(held), "range_id", "left_anti")
        .repartition(context.settings.scale.range_num_partitions or tasks_for(references, 32, 8 * spark_width(spark)))
    )
    parts = parts_of(
        run_on_rows(ranges, reading(context, folder).ranges), [Stage.COMMITTED_ADDRESSES, INDEX, ELSEWHERE, RANGES]
    )
    summary(found[CHECKSUMS], parts[RANGES], parts)
    so_far.add({**parts, CHECKSUMS: found[CHECKSUMS]})
    return parts[Stage.COMMITTED_ADDRESSES]


def _read_metaranges(
    spark: SparkSession, context: MarkContext, unknown: DataFrame, expected: int, folder: str
) -> Mapping[str, Sequence[Part]]:
    """The ranges of so many metaranges, and their checksums. IncompleteError if they are not whole."""
    tasks = context.settings.scale.range_num_partitions or tasks_for(expected, 16, 4 * spark_width(spark))
    found = write(
        Mapped(unknown.repartition(tasks), METARANGES_SCHEMA, reading(context, folder).metaranges),
        context.workspace,
        {name: f"{folder}/{name}" for name in (METARANGES, CHECKSUMS)},
        {METARANGES: METARANGES_SCHEMA, CHECKSUMS: CHECKSUMS_SCHEMA},
        split=split_metaranges,
        summarise=sum_metaranges,
    )
    check_metaranges(found[CHECKSUMS], expected)
    if total(found[METARANGES], "ranges") != total(found[CHECKSUMS], "stated_ranges"):
        raise IncompleteError("Metaranges hold fewer ranges than they say. Run the sweep again.")
    return found


def _ids(spark: SparkSession, context: MarkContext, so_far: ReadSince, name: str, schema: pa.Schema) -> DataFrame:
    """The first column of a dataset that was read since."""
    place = f"{so_far.folder}/{name}"
    return read(spark, context.workspace, place, so_far.parts[name], schema, [schema.names[0]])


def _marked_metaranges(spark: SparkSession, context: MarkContext) -> DataFrame:
    parts, folder = (
        context.mark.require(Stage.RETENTION_COMMITS).datasets[Stage.RETENTION_COMMITS],
        context.mark.stage_folder(Stage.RETENTION_COMMITS),
    )
    return read(spark, context.workspace, folder, parts, COMMITS_SCHEMA, ["metarange_id"]).distinct()


def _marked_ranges(spark: SparkSession, context: MarkContext) -> DataFrame:
    parts, folder = (
        context.mark.require(Stage.COMMITTED_ADDRESSES).datasets[RANGES],
        context.mark.stage_folder(Stage.COMMITTED_ADDRESSES, RANGES),
    )
    return read(spark, context.workspace, folder, parts, RANGES_SCHEMA, ["range_id"])
