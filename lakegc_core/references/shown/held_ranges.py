"""The ranges that the heads of branches hold, and on how many branches: read once, and put down."""

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

RANGES = pa.schema(
    [
        *(METARANGES_SCHEMA.field(name) for name in ("range_id", "min_key", "max_key", "count")),
        pa.field("branches", pa.int64(), nullable=False),  # whose heads hold it
    ]
)
_IDS = pa.schema([METARANGES_SCHEMA.field("metarange_id")])
_HELD, _FOUND, _RANGES, _WANTED, _NEW = "held", "found", "held-ranges", "metaranges-of-heads", "new-metaranges"


@dataclass(frozen=True)
class HeldRanges:
    """`ranges`: each range once (RANGES). `held`: the rows of the heads' metaranges (METARANGES_SCHEMA)."""

    spark: SparkSession
    heads: BranchHeads
    ranges: Dataset
    held: Dataset

    @property
    def pages(self) -> int:
        """The number of pages that list all of them whole, on all branches, at most."""
        return self.ranges.sum("pages")

    def times(self) -> DataFrame:
        """On how many branches each range is (range_id, branches), for a join."""
        return many(self.ranges.frame(self.spark, "range_id", "branches"), self.ranges.rows)

    def on_branches(self, places: DataFrame) -> DataFrame:
        """INTERVALS: each place (PLACES) on every branch whose head holds its range."""
        held = self.held.frame(self.spark, "metarange_id", "range_id")
        rows = places.join(many(held), "range_id")
        rows = rows.join(many(self.heads.branches(self.spark)), "metarange_id").drop("metarange_id").distinct()
        return rows.withColumnRenamed("name", "branch").select(*INTERVALS.names)


def read_held(spark: SparkSession, context: MarkContext, heads: BranchHeads, out: DatasetFolder) -> HeldRanges:
    """Bring together what marks have read of the heads' metaranges; those that none has read are read here."""
    from pyspark.sql import functions as F

    branches = heads.branches(spark).where("metarange_id != ''")
    ids = out.put(_WANTED, branches.select("metarange_id").distinct(), _IDS)
    feeds = heads.metaranges.feeds(repeated=("metarange_id",))
    wanted = ids.keys("metarange_id", by=_by_metarange)
    known = _divided(out, scan(spark, feeds, METARANGES_SCHEMA, wanted))
    found = many(known[_FOUND].frame(spark, "metarange_id"))
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
    return HeldRanges(spark, heads, out.put(_RANGES, ranges.select(*RANGES.names), RANGES, _pages), held)


def _divided(out: DatasetFolder, rows: Mapped) -> dict[str, Dataset]:
    """The rows of metaranges: their ranges (_HELD), and apart the row that counts them (_FOUND)."""
    return out.divide(rows, dict.fromkeys((_HELD, _FOUND), METARANGES_SCHEMA), _split)


def _split(table: pa.Table) -> dict[str, pa.Table]:
    own = pc.equal(table["range_id"], "")
    return {_FOUND: table.filter(own), _HELD: table.filter(pc.invert(own))}


def _by_metarange(rows: pa.RecordBatch) -> np.ndarray:
    return hash_strings(rows["metarange_id"])


def _pages(table: pa.Table) -> Mapping[str, int]:
    counts, branches = table["count"].to_numpy(), table["branches"].to_numpy()
    return {"pages": int((-(-counts // PAGE) * branches).sum())}
