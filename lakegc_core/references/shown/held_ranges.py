"""The ranges in the heads of branches, and the number of branches of each: read once, and written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.lakefs.http import PAGE
from lakegc_core.marks.context import MarkContext
from lakegc_core.references.ranges.range_files import METARANGES_SCHEMA, reading
from lakegc_core.references.shown.asking import INTERVALS
from lakegc_core.references.shown.heads import BranchHeads
from lakegc_core.spark.session import Mapped, many
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.joins import scan
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEAD_RANGES_SCHEMA = pa.schema(
    [
        *(METARANGES_SCHEMA.field(name) for name in ("range_id", "min_key", "max_key", "count")),
        pa.field("branches", pa.int64(), nullable=False),  # whose heads contain it
    ]
)
_IDS = pa.schema([METARANGES_SCHEMA.field("metarange_id")])
_HELD, _OWN_ROWS, _RANGES, _WANTED, _NEW = "held", "found", "held-ranges", "metaranges-of-heads", "new-metaranges"


@dataclass(frozen=True)
class HeldRanges:
    """The ranges of all heads. `ranges`: each once (HEAD_RANGES_SCHEMA). `held`: the heads' metaranges, with a row for
    each of their ranges (METARANGES_SCHEMA)."""

    spark: SparkSession
    heads: BranchHeads
    ranges: Dataset
    held: Dataset

    @property
    def pages(self) -> int:
        """The number of pages that list all of them whole, on all branches, at most."""
        return self.ranges.sum("pages")

    def branch_counts(self) -> DataFrame:
        """The number of branches of each range (range_id, branches), for a join."""
        return many(self.ranges.frame(self.spark, "range_id", "branches"), self.ranges.rows)

    def on_branches(self, places: DataFrame) -> DataFrame:
        """INTERVALS: each place (PLACES) on every branch whose head contains its range."""
        held = self.held.frame(self.spark, "metarange_id", "range_id")
        rows = places.join(many(held), "range_id")
        rows = rows.join(many(self.heads.branches(self.spark)), "metarange_id").drop("metarange_id").distinct()
        return rows.withColumnRenamed("name", "branch").select(*INTERVALS.names)

    def whole_branches(self) -> DataFrame:
        """INTERVALS: every branch from its beginning to its end, cut where a range of its head begins. Something may be
        staged where no range is."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        held = self.held.frame(self.spark, "metarange_id", "min_key", "count").distinct()
        rows = self.heads.branches(self.spark).join(held, "metarange_id", "left")
        place = Window.partitionBy("name").orderBy("min_key")
        first = F.when(F.row_number().over(place) == 1, F.lit(b"")).otherwise(F.col("min_key"))
        return rows.select(
            F.col("name").alias("branch"),
            first.alias("first"),
            F.lead("min_key").over(place).alias("last"),
            F.coalesce("count", F.lit(0)).alias("reach"),
        )


def read_held(spark: SparkSession, context: MarkContext, heads: BranchHeads, out: DatasetFolder) -> HeldRanges:
    """Bring together the heads' metaranges that marks have read; those that none has read are read here."""
    from pyspark.sql import functions as F

    branches = heads.branches(spark).where("metarange_id != ''")
    ids = out.put(_WANTED, branches.select("metarange_id").distinct(), _IDS)
    feeds = heads.metaranges.feeds(repeated=("metarange_id",))
    wanted = ids.keys("metarange_id", by=_by_metarange)
    known = _divided(out, scan(spark, feeds, METARANGES_SCHEMA, wanted))
    found = many(known[_OWN_ROWS].frame(spark, "metarange_id"))
    new = out.put(_NEW, ids.frame(spark).join(found, "metarange_id", "left_anti"), _IDS)
    held = known[_HELD]
    if new.rows:
        rows = new.frame(spark).repartition(context.settings.scale.range_num_partitions or 2 * spark_width(spark))
        held += _divided(out, Mapped(rows, METARANGES_SCHEMA, reading(context).metaranges))[_HELD]
    counted = branches.groupBy("metarange_id").agg(F.count("*").alias("branches"))
    ranges = (
        held.frame(spark, *METARANGES_SCHEMA.names[:-1])
        .join(many(counted, ids.rows), "metarange_id")
        .groupBy("range_id")
        .agg(
            F.min("min_key").alias("min_key"),
            F.max("max_key").alias("max_key"),
            F.max("count").alias("count"),
            F.sum("branches").alias("branches"),
        )
    )
    return HeldRanges(
        spark, heads, out.put(_RANGES, ranges.select(*HEAD_RANGES_SCHEMA.names), HEAD_RANGES_SCHEMA, _pages), held
    )


def _divided(out: DatasetFolder, rows: Mapped) -> dict[str, Dataset]:
    """The rows of metaranges: those of their ranges (_HELD), and the one that counts these (_OWN_ROWS)."""
    return out.divide(rows, dict.fromkeys((_HELD, _OWN_ROWS), METARANGES_SCHEMA), _split)


def _split(table: pa.Table) -> dict[str, pa.Table]:
    own = pc.equal(table["range_id"], "")
    return {_OWN_ROWS: table.filter(own), _HELD: table.filter(pc.invert(own))}


def _by_metarange(rows: pa.RecordBatch) -> np.ndarray:
    return hash_strings(rows["metarange_id"])


def _pages(table: pa.Table) -> Mapping[str, int]:
    counts, branches = table["count"].to_numpy(), table["branches"].to_numpy()
    return {"pages": int((-(-counts // PAGE) * branches).sum())}
