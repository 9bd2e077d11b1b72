"""What no retained commit refers to, as a clean mark finds it: all that lies there against all that is referred to.

The two are compared by hash. What an optimized mark has to judge is in `optimized`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import MarkError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer
from lakegc_core.policy.namespace import xid_times
from lakegc_core.policy.safety import RELIST
from lakegc_core.spark.session import Mapped, many
from lakegc_core.stages.committed_addresses import range_files
from lakegc_core.stages.committed_addresses.protected import ROWS_SCHEMA
from lakegc_core.stages.committed_addresses.range_files import INDEX
from lakegc_core.stages.expired_addresses.reasons import NamedBefore
from lakegc_core.stages.expired_addresses.since import STAGE as FINDINGS
from lakegc_core.stages.namespace_listing import inventory
from lakegc_core.stages.uncommitted_addresses import stage as uncommitted_addresses
from lakegc_core.tables.gather import HASH, Feed, columns_of, rows_of_feeds
from lakegc_core.tables.hashing import hash_strings, mixed
from lakegc_core.tables.key_scan import LAYER, MOST, Keys, Wanted, by_address, filter_of, scan
from lakegc_core.tables.parts import Part, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MISSING, ABSENT = "missing", "absent"
MISSTATED = "misstated"
"""Dataset of addresses whose entry claims another size than the object has that lies there, or was not listed yet."""
MISSTATED_SCHEMA = pa.schema([inventory.SCHEMA.field("address"), ROWS_SCHEMA.field("size")])
_ROWS_PER_PARTITION = 1_000_000  # of a join: one side of a partition is held in memory
_ADDRESS = pa.schema([inventory.SCHEMA.field("address")])
_NAMED = pa.schema([HASH, _ADDRESS.field("address"), pa.field("size", pa.int64()), pa.field("lies", pa.bool_())])
_ODD = "odd"
_ODD_SCHEMA = pa.schema([_ADDRESS.field("address"), pa.field("size", pa.int64())])  # of staged entries nobody tells it


@dataclass(frozen=True)
class Unreferenced:
    """What a mark has to judge.

    `objects`: address, size, last_modified, etag, foreign, of what no retained commit refers to. `missing`: address of
    live objects that do not lie there, if there are any. `holding` gives address and range_id of entries, for any that
    are missing. `learnt`: parts of objects that turned out to lie in units that were taken over. `misstated`: parts of
    MISSTATED_SCHEMA, of entries that no mark below has read.
    """

    objects: Mapped
    missing: DataFrame | None
    holding: Callable[[], DataFrame]
    learnt: Sequence[Part] = ()
    misstated: Sequence[Part] = ()


def against_all(spark: SparkSession, context: MarkContext, own: Layer, listed_from: float) -> Unreferenced:
    """All that the mark listed, without all that it read. What was named since `listed_from` (unix seconds) is not
    missing where it does not lie there, but new."""
    references, objects = own.rows(range_files.STAGE), own.rows(inventory.STAGE)
    subtract = _by_scan if max(references, objects) <= MOST else _by_join
    unreferenced, parts = subtract(spark, context, own, NamedBefore(xid_times, listed_from))
    missing = parts[ABSENT]
    return Unreferenced(
        objects=unreferenced,
        missing=own.read(spark, FINDINGS, ABSENT, missing, _ADDRESS).distinct() if missing else None,
        holding=lambda: own.frame(spark, range_files.STAGE, "", range_files.SCHEMA).select("address", "range_id"),
        misstated=parts[MISSTATED],
    )


def _by_scan(
    spark: SparkSession, context: MarkContext, own: Layer, old: NamedBefore
) -> tuple[Mapped, dict[str, list[Part]]]:
    """What lies there and nothing refers to; and what is referred to and does not lie there, or with another size. Each
    side is read through once, by workers that hold the hashes of the other one."""

    if own.rows(range_files.STAGE, INDEX) != own.rows(range_files.STAGE):
        raise MarkError(f"The index of mark {own.mark_id} does not hold every address that was read. Make a new mark.")
    live = own.wanted(range_files.STAGE, INDEX)
    listed = own.sources(inventory.STAGE)
    unreferenced = scan(spark, listed, inventory.SCHEMA, live, by_address, found=False)
    make = _Named(
        own.wanted(inventory.STAGE, columns=("address",), keys=by_address),
        own.wanted(inventory.STAGE, columns=("address", "size"), keys=_by_size_too),
    )
    committed = [Feed(source, ("address", "exact", "size"), make) for source in own.sources(range_files.STAGE)]
    staged = [Feed(source, ("address", "exact"), make) for source in own.sources(uncommitted_addresses.STAGE)]
    if not committed and not staged:
        return unreferenced, {ABSENT: [], MISSTATED: []}
    rows = rows_of_feeds(spark, [*committed, *staged], _NAMED)
    return unreferenced, _write_named(context, rows, old)


def _by_size_too(rows: pa.RecordBatch) -> Sequence[np.ndarray]:
    """The hash of column `address`, mixed with column `size`."""
    return (mixed(hash_strings(rows["address"]), rows["size"].to_numpy()),)


@dataclass(frozen=True)
class _Named:
    """Of rows that name addresses those that do not lie there, or not with the size that is told. A picklable value.

    `lying`: addresses of objects; `sized`: the same with their sizes.
    """

    lying: Wanted
    sized: Wanted

    def __call__(self, rows: pa.RecordBatch) -> Mapping[str, Any]:
        rows = rows.filter(rows["exact"])
        if "size" in rows.schema.names:
            rows = self._without(rows, self.sized, _by_size_too)
        hashes = hash_strings(rows["address"])
        lies = np.zeros(len(hashes), np.bool_)
        lies[filter_of(self.lying).rows(hashes)] = True
        if "size" not in rows.schema.names:
            rows, hashes, lies = rows.filter(pa.array(~lies)), hashes[~lies], lies[~lies]
        return columns_of(rows) | {"hash": hashes, "lies": lies}

    def _without(self, rows: pa.RecordBatch, wanted: Wanted, keys: Keys) -> pa.RecordBatch:
        hits = filter_of(wanted).any(keys(rows))
        return rows.take(pa.array(np.delete(np.arange(rows.num_rows), hits)))


def _write_named(context: MarkContext, rows: Mapped, old: NamedBefore) -> dict[str, list[Part]]:
    """Rows of _NAMED in parts: what does not lie there, and what lies there with another size."""
    folders = {name: context.mark.stage_folder(FINDINGS, name) for name in (ABSENT, MISSTATED)}
    schemas = {MISSTATED: MISSTATED_SCHEMA}
    return write(rows, context.workspace, folders, _ADDRESS, split=_SplitNamed(old), schemas=schemas)


@dataclass(frozen=True)
class _SplitNamed:
    """Tells what is missing from what has another size; a picklable value that tasks carry."""

    old: NamedBefore

    def __call__(self, table: pa.Table) -> dict[str, pa.Table]:
        lies = table["lies"]
        absent = table.filter(pc.invert(lies)).select(["address"])
        missing = pa.Table.from_batches(self.old(iter(absent.to_batches())), _ADDRESS)
        # What was uploaded since the listing has a size that nobody has compared: no optimized mark does it later.
        named = self.old.times(table["address"].combine_chunks())
        fresh = pa.array(named >= self.old.moment - RELIST.total_seconds())
        return {ABSENT: missing, MISSTATED: table.filter(pc.and_(pc.or_(lies, fresh), pc.is_valid(table["size"])))}


def _by_join(
    spark: SparkSession, context: MarkContext, own: Layer, old: NamedBefore
) -> tuple[Mapped, dict[str, list[Part]]]:
    """The same, for more hashes than a worker can hold."""
    from pyspark.sql import functions as F

    listing = inventory.find(spark, [own]).as_frame()
    committed = own.frame(spark, range_files.STAGE, "", range_files.SCHEMA)
    staged = own.frame(spark, uncommitted_addresses.STAGE, "", uncommitted_addresses.SCHEMA)
    told = context.settings.scale.address_num_partitions
    larger = max(own.rows(range_files.STAGE), own.rows(inventory.STAGE))
    partitions = told or max(2 * spark_width(spark), -(-larger // _ROWS_PER_PARTITION))

    def spread(rows: DataFrame) -> DataFrame:
        return rows.repartition(partitions, "h")

    hashed = spread(listing.withColumn("h", F.xxhash64("address")))
    live = spread(committed.select(F.xxhash64("address").alias("h")))
    unreferenced = hashed.join(many(live), "h", "left_anti").drop("h")
    # With the size in the hash, one join finds what is missing and what has another size: few of either.
    sized = spread(listing.select(F.xxhash64("address", "size").alias("h")))
    exact = committed.where("exact").select("address", "size").withColumn("h", F.xxhash64("address", "size"))
    odd = spread(exact).join(many(sized), "h", "left_anti").drop("h")
    odd = odd.unionByName(staged.where("exact").select("address", F.lit(None).cast("long").alias("size")))
    named = context.mark.stage_folder(FINDINGS, _ODD)
    parts = write(odd, context.workspace, {_ODD: named}, _ODD_SCHEMA)[_ODD]
    lying = inventory.SCHEMA.field("address")
    wanted = Wanted(context.workspace, ((named, tuple(parts)),), ("address",), by_address)
    if wanted.rows <= MOST:
        there = scan(spark, own.sources(inventory.STAGE), pa.schema([lying]), wanted, by_address).as_frame()
    else:
        there = listing.select("address")
    there = there.select("address").distinct().withColumn("lies", F.lit(True))
    rows = own.read(spark, FINDINGS, _ODD, parts, _ODD_SCHEMA).join(many(there), "address", "left")
    rows = rows.withColumn("lies", F.coalesce("lies", F.lit(False))).where("not lies or size is not null")
    shape = pa.schema([*inventory.SCHEMA, LAYER])
    return Mapped(unreferenced, shape), _write_named(context, Mapped(rows, _NAMED), old)
