"""Which ranges the heads of branches hold, and on how many branches: read once, and put down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.lakefs.http import PAGE
from lakegc_core.marks.context import MarkContext
from lakegc_core.references.ranges.range_files import METARANGES_SCHEMA, reading
from lakegc_core.references.shown.asking import INTERVALS
from lakegc_core.references.shown.heads import Heads
from lakegc_core.spark.session import Mapped, many
from lakegc_core.tables.gather import Feed, columns_of
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.joins import scan
from lakegc_core.tables.key_scan import Wanted
from lakegc_core.tables.parts import Part, read, rows_of, spark_width, write

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
    """`ranges`: parts of RANGES. `held`: parts of the rows of the heads' metaranges (METARANGES_SCHEMA)."""

    spark: SparkSession
    context: MarkContext
    heads: Heads
    ranges: Sequence[Part]
    held: Sequence[Part]

    @property
    def pages(self) -> int:
        """How many pages list all of them whole, on all branches, at most."""
        return sum(part.sums["pages"] for part in self.ranges)

    def read(self, *columns: str) -> DataFrame:
        """These columns of RANGES."""
        return _read(self.spark, self.context, self.heads, _RANGES, self.ranges, RANGES, columns)

    def times(self) -> DataFrame:
        """On how many branches each range is (range_id, branches), for a join."""
        return many(self.read("range_id", "branches"), rows_of(self.ranges))

    def on_branches(self, places: DataFrame) -> DataFrame:
        """INTERVALS: each place (PLACES) on every branch whose head holds its range."""
        held = _read(self.spark, self.context, self.heads, _HELD, self.held, METARANGES_SCHEMA)
        rows = places.join(many(held.select("metarange_id", "range_id")), "range_id")
        rows = rows.join(many(self.heads.branches()), "metarange_id").drop("metarange_id").distinct()
        return rows.withColumnRenamed("name", "branch").select(*INTERVALS.names)


def read_held(spark: SparkSession, context: MarkContext, heads: Heads) -> HeldRanges:
    """Bring together what marks have read of the heads' metaranges; those that none has read are read here."""
    from pyspark.sql import functions as F

    def put(name: str, rows: DataFrame, schema: pa.Schema) -> list[Part]:
        place = {name: f"{heads.folder}/{name}"}
        return write(rows, context.workspace, place, schema, summarise=_pages if name == _RANGES else None)[name]

    branches = heads.branches().where("metarange_id != ''")
    ids = put(_WANTED, branches.select("metarange_id").distinct(), _IDS)
    wanted = Wanted.at(
        context.workspace, ((f"{heads.folder}/{_WANTED}", tuple(ids)),), ("metarange_id",), _by_metarange
    )
    columns = tuple(METARANGES_SCHEMA.names)
    feeds = [Feed(each, columns, columns_of, ("metarange_id",)) for each in heads.metaranges]
    known = _written(context, heads, scan(spark, feeds, METARANGES_SCHEMA, wanted))
    asked = _read(spark, context, heads, _WANTED, ids, _IDS)
    found = _read(spark, context, heads, _FOUND, known[_FOUND], METARANGES_SCHEMA, ["metarange_id"])
    new = put(_NEW, asked.join(many(found), "metarange_id", "left_anti"), _IDS)
    held = known[_HELD]
    if new:
        width = context.settings.scale.range_num_partitions or 2 * spark_width(spark)
        rows = _read(spark, context, heads, _NEW, new, _IDS).repartition(width)
        held += _written(context, heads, Mapped(rows, METARANGES_SCHEMA, reading(context, heads.folder).metaranges))[
            _HELD
        ]
    counted = branches.groupBy("metarange_id").agg(F.count("*").alias("branches"))
    ranges = (
        _read(spark, context, heads, _HELD, held, METARANGES_SCHEMA, columns[:-1])
        .join(many(counted, rows_of(ids)), "metarange_id")
        .groupBy("range_id")
        .agg(
            F.min("min_key").alias("min_key"),
            F.max("max_key").alias("max_key"),
            F.max("count").alias("count"),
            F.sum("branches").alias("branches"),
        )
    )
    return HeldRanges(spark, context, heads, put(_RANGES, ranges.select(*RANGES.names), RANGES), held)


def _written(context: MarkContext, heads: Heads, rows: Mapped) -> dict[str, list[Part]]:
    """The rows of metaranges in parts: their ranges (_HELD), and apart the row that counts them (_FOUND)."""
    folders = {name: f"{heads.folder}/{name}" for name in (_HELD, _FOUND)}
    return write(rows, context.workspace, folders, METARANGES_SCHEMA, split=_split)


def _split(table: pa.Table) -> dict[str, pa.Table]:
    own = pc.equal(table["range_id"], "")
    return {_FOUND: table.filter(own), _HELD: table.filter(pc.invert(own))}


def _read(
    spark: SparkSession,
    context: MarkContext,
    heads: Heads,
    name: str,
    parts: Sequence[Part],
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    return read(spark, context.workspace, f"{heads.folder}/{name}", parts, schema, columns)


def _by_metarange(rows: pa.RecordBatch) -> np.ndarray:
    ids = rows["metarange_id"]
    if not pa.types.is_dictionary(ids.type):
        return hash_strings(ids)
    found: np.ndarray = hash_strings(ids.dictionary.cast(pa.string()))[ids.indices.to_numpy()]
    return found


def _pages(table: pa.Table) -> Mapping[str, int]:
    counts, branches = table["count"].to_numpy(), table["branches"].to_numpy()
    return {"pages": int((-(-counts // PAGE) * branches).sum())}
