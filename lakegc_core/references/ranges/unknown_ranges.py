"""Reads the metaranges and ranges of commits that a mark did not know, for a look.

A mark reads with `range_counts`, which counts what came and what went. A look needs no counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakegc_core.errors import IncompleteError
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Stage
from lakegc_core.policy.facts import CommittedFacts, ReadFacts
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA
from lakegc_core.references.ranges.lost_ranges import NOTHING_IGNORED, UNREAD, Ignored, ignored_in
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.ranges.range_files import (
    CHECKSUMS,
    CHECKSUMS_SCHEMA,
    DROPPED,
    METARANGES,
    METARANGES_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    SCHEMAS,
    check_metaranges,
    reading,
    split_metaranges,
    sum_metaranges,
    summary,
    writing,
)
from lakegc_core.spark.session import Few, Mapped, clear_errors, many, run_on_rows
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import spark_width, tasks_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_SCHEMAS = {CHECKSUMS: CHECKSUMS_SCHEMA} | {name: each for name, each in SCHEMAS.items() if name != DROPPED}


@dataclass
class ReadSince:
    """Metaranges and ranges that looks have read and the mark had not, each once. Grows with each reading.

    `out`: the folder of its datasets; the addresses lie in `out` itself. `datasets`: by their names (`range_files`).
    """

    out: DatasetFolder
    datasets: dict[str, Dataset] = field(
        default_factory=lambda: {name: Dataset(schema) for name, schema in _SCHEMAS.items()}
    )

    @property
    def facts(self) -> ReadFacts:
        return summary(self.datasets[CHECKSUMS], self.datasets)

    def add(self, found: Mapping[str, Dataset]) -> None:
        """Take over a reading that is whole."""
        self.datasets = {name: known + found[name] for name, known in self.datasets.items()}


def ignored_now(spark: SparkSession, context: MarkContext, retained: DataFrame) -> Ignored:
    """What is ignored of the commits that the mark and a look found retained (`retained`: COMMITS_SCHEMA)."""
    marked = context.mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA).frame(spark, "commit_id", "metarange_id")
    return ignored_in(context, marked.unionByName(retained.select("commit_id", "metarange_id")))


def nothing_unknown(spark: SparkSession, context: MarkContext, retained: Dataset, so_far: ReadSince) -> bool:
    """True if the mark or `so_far` has all metaranges of the retained commits (COMMITS_SCHEMA). This process looks if
    they are few, and no commit is ignored; False says nothing."""
    if context.policy.ignore_commits or context.mark.facts(CommittedFacts).ranges_ignored:
        return False  # what was passed over is tried again
    marked, read = context.mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA), so_far.datasets[CHECKSUMS]
    every = [each.mapped(spark, "metarange_id") for each in (retained, marked, read)]
    if not all(isinstance(each.of, Few) for each in every):
        return False
    wanted, *known = ({name for rows in each.here() for name in rows["metarange_id"].to_pylist()} for each in every)
    return wanted - {""} <= set[str]().union(*known)


def read_unknown(
    spark: SparkSession,
    context: MarkContext,
    retained: DataFrame,
    so_far: ReadSince,
    ignored: Ignored = NOTHING_IGNORED,
    *,
    unread_too: bool = False,
) -> Dataset:
    """Read the metaranges in `retained` (column metarange_id) that neither the mark nor `so_far` has, and of their
    ranges those that neither has. Adds them to `so_far`. Returns the new addresses (ENTRIES_SCHEMA).

    `ignored`: whose ranges are passed over where they cannot be read; each call tries again. `unread_too`: read the
    ranges, too, that the mark passed over.
    """
    from pyspark.sql import functions as F

    mark, out = context.mark, so_far.out
    wanted = retained.select("metarange_id").where("metarange_id != ''").distinct()
    marked = mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA).frame(spark, "metarange_id").distinct()
    read = so_far.datasets[CHECKSUMS].frame(spark, "metarange_id")
    known = marked.unionByName(read.where(~F.col("metarange_id").isin(*ignored.metarange_ids)))
    unknown = wanted.join(many(known), "metarange_id", "left_anti")
    with clear_errors():
        expected = unknown.count()
    unread_too = unread_too and mark.facts(CommittedFacts).ranges_ignored > 0
    if expected == 0 and not unread_too:  # the usual case: nothing was committed since
        return Dataset(ENTRIES_SCHEMA)
    found = _read_metaranges(spark, context, unknown, expected, out)
    of_mark = mark.dataset(Stage.COMMITTED_ADDRESSES, RANGES_SCHEMA, RANGES).frame(spark)
    held = of_mark.unionByName(so_far.datasets[RANGES].frame(spark)).where(F.col("read_in") != UNREAD)
    tasks = tasks_for(found[METARANGES].sum("ranges"), 32, 8 * spark_width(spark))
    rows = found[METARANGES].frame(spark).where("range_id != ''").withColumn("references", F.lit(1).cast("long"))
    if unread_too:
        rows = rows.unionByName(of_mark.where(F.col("read_in") == UNREAD).drop("read_in"), allowMissingColumns=True)
    ranges = (
        rows.groupBy("range_id")
        .agg(
            F.sum("references").alias("references"),
            F.max("count").alias("count"),
        )
        .join(many(held.select("range_id")), "range_id", "left_anti")
        .repartition(context.settings.scale.range_num_partitions or tasks)
    )
    work = writing(context, out, ignored)
    read = work.datasets(run_on_rows(ranges, work.ranges)) | {CHECKSUMS: found[CHECKSUMS]}
    summary(found[CHECKSUMS], read)  # a check: IncompleteError unless each address is in the index
    so_far.add(read)
    return read[Stage.COMMITTED_ADDRESSES]


def _read_metaranges(
    spark: SparkSession, context: MarkContext, unknown: DataFrame, expected: int, out: DatasetFolder
) -> Mapping[str, Dataset]:
    """The ranges of the `unknown` metaranges (`expected`: their number), and their checksums. IncompleteError if they
    are not whole."""
    tasks = context.settings.scale.range_num_partitions or tasks_for(expected, 16, 4 * spark_width(spark))
    rows = Mapped(unknown.repartition(tasks), METARANGES_SCHEMA, reading(context).metaranges)
    schemas = {METARANGES: METARANGES_SCHEMA, CHECKSUMS: CHECKSUMS_SCHEMA}
    found = out.divide(rows, schemas, split_metaranges, sum_metaranges)
    check_metaranges(found[CHECKSUMS], expected)
    if found[METARANGES].sum("ranges") != found[CHECKSUMS].sum("stated_ranges"):
        raise IncompleteError("Metaranges hold fewer ranges than they say. Run the sweep again.")
    return found
