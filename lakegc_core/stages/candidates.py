"""What no retained commit refers to, as a clean mark finds it: all that lies there against all that is referred to.

The two are compared by hash. What an optimized mark has to judge is in `changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakegc_core.context import MarkContext
from lakegc_core.errors import MarkError
from lakegc_core.namespace import xid_times
from lakegc_core.spark import Mapped, many
from lakegc_core.stages import inventory, range_reading, uncommitted_addresses
from lakegc_core.stages.findings import STAGE as FINDINGS
from lakegc_core.stages.hash_scan import LAYER, MOST, by_address, scan
from lakegc_core.stages.judging import NamedBefore
from lakegc_core.stages.layers import Layer
from lakegc_core.stages.range_reading import INDEX
from lakegc_core.store.parquet import Part, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MISSING, ABSENT = "missing", "absent"
_ROWS_PER_PARTITION = 1_000_000  # of a join: one side of a partition is held in memory
_ADDRESS = pa.schema([inventory.SCHEMA.field("address")])


@dataclass(frozen=True)
class Unreferenced:
    """What a mark has to judge.

    `objects`: address, size, last_modified, etag, foreign, of what no retained commit refers to. `missing`: address of
    live objects that do not lie there, if there are any. `holding` gives address and range_id of entries, for any that
    are missing. `learnt`: parts of objects that turned out to lie in units that were taken over.
    """

    objects: Mapped
    missing: DataFrame | None
    holding: Callable[[], DataFrame]
    learnt: Sequence[Part] = ()


def against_all(spark: SparkSession, context: MarkContext, own: Layer, listed_from: float) -> Unreferenced:
    """All that the mark listed, without all that it read. What was named since `listed_from` (unix seconds) is not
    missing where it does not lie there, but new."""
    references, objects = own.rows(range_reading.STAGE), own.rows(inventory.STAGE)
    subtract = _by_scan if max(references, objects) <= MOST else _by_join
    unreferenced, absent = subtract(spark, context, own)
    old = absent.then(_ADDRESS, NamedBefore(xid_times, listed_from))
    missing = write(old, context.workspace, {ABSENT: context.mark.stage_folder(FINDINGS, ABSENT)}, _ADDRESS)[ABSENT]
    return Unreferenced(
        objects=unreferenced,
        missing=own.read(spark, FINDINGS, ABSENT, missing, _ADDRESS).distinct() if missing else None,
        holding=lambda: own.frame(spark, range_reading.STAGE, "", range_reading.SCHEMA).select("address", "range_id"),
    )


def _by_scan(spark: SparkSession, context: MarkContext, own: Layer) -> tuple[Mapped, Mapped]:
    """What lies there and nothing refers to, and addresses that are referred to and do not lie there: each side is
    read through once, by workers that hold the hashes of the other one."""

    if own.rows(range_reading.STAGE, INDEX) != own.rows(range_reading.STAGE):
        raise MarkError(f"The index of mark {own.mark_id} does not hold every address that was read. Make a new mark.")
    live = own.wanted(range_reading.STAGE, INDEX)
    listed = own.sources(inventory.STAGE)
    unreferenced = scan(spark, listed, inventory.SCHEMA, live, by_address, found=False)
    lying = own.wanted(inventory.STAGE, columns=("address",), keys=by_address)
    named = own.sources(range_reading.STAGE) + own.sources(uncommitted_addresses.STAGE)
    shape = uncommitted_addresses.SCHEMA
    return unreferenced, scan(spark, named, shape, lying, by_address, found=False, only=_exact)


def _exact(rows: pa.RecordBatch, layer: str) -> np.ndarray:
    found: np.ndarray = rows["exact"].to_numpy(zero_copy_only=False)
    return found


def _by_join(spark: SparkSession, context: MarkContext, own: Layer) -> tuple[Mapped, Mapped]:
    """The same, for more hashes than a worker can hold."""
    from pyspark.sql import functions as F

    listing = inventory.find(spark, [own]).as_frame()
    committed = own.frame(spark, range_reading.STAGE, "", range_reading.SCHEMA)
    staged = own.frame(spark, uncommitted_addresses.STAGE, "", uncommitted_addresses.SCHEMA)
    told = context.settings.scale.address_num_partitions
    larger = max(own.rows(range_reading.STAGE), own.rows(inventory.STAGE))
    partitions = told or max(2 * spark_width(spark), -(-larger // _ROWS_PER_PARTITION))

    def spread(rows: DataFrame) -> DataFrame:
        return rows.repartition(partitions, "h")

    hashed = spread(listing.withColumn("h", F.xxhash64("address")))
    live = spread(committed.select(F.xxhash64("address").alias("h")))
    listed = spread(listing.select(F.xxhash64("address").alias("h")))
    exact = committed.where("exact").select("address").unionByName(staged.where("exact").select("address"))
    named = spread(exact.withColumn("h", F.xxhash64("address")))
    unreferenced = hashed.join(many(live), "h", "left_anti").drop("h")
    absent = named.join(many(listed), "h", "left_anti").drop("h")
    return Mapped(unreferenced, pa.schema([*inventory.SCHEMA, LAYER])), Mapped(absent, _ADDRESS)
