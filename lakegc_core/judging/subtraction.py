"""What no retained commit refers to, as a clean mark finds it: all that lies there against all that is referred to.

The two are compared by hash, as `tables.joins` finds best. What an optimized mark has to judge is in `optimized`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import MarkError
from lakegc_core.inventory.carried import OBJECTS_SCHEMA
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import MISSTATED
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Stage
from lakegc_core.policy.safety import RELIST
from lakegc_core.policy.xids import xid_times
from lakegc_core.references.ranges.range_files import ENTRIES_SCHEMA, INDEX
from lakegc_core.spark.session import Mapped
from lakegc_core.tables.gather import Feed, columns_of, feeds_of
from lakegc_core.tables.hashing import hash_strings, mixed
from lakegc_core.tables.joins import flagged, scan
from lakegc_core.tables.parts import Part, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ABSENT = "absent"
MISSTATED_SCHEMA = pa.schema([OBJECTS_SCHEMA.field("address"), ENTRIES_SCHEMA.field("size")])
_ADDRESS = pa.schema([OBJECTS_SCHEMA.field("address")])
_NAMED = pa.schema([_ADDRESS.field("address"), pa.field("size", pa.int64())])  # of staged entries nobody tells it
_LIES = "lies"


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
    if own.rows(Stage.COMMITTED_ADDRESSES, INDEX) != own.rows(Stage.COMMITTED_ADDRESSES):
        raise MarkError(f"The index of mark {own.mark_id} does not hold every address that was read. Make a new mark.")
    live = own.wanted(Stage.COMMITTED_ADDRESSES, INDEX, columns=("hash",))
    listed = feeds_of(own.sources(Stage.NAMESPACE_LISTING), OBJECTS_SCHEMA)
    partitions = context.settings.scale.address_num_partitions
    objects = scan(spark, listed, OBJECTS_SCHEMA, live, found=False, partitions=partitions)
    parts = _write_named(spark, context, own, listed_from)
    missing = parts[ABSENT]
    return Unreferenced(
        objects=objects,
        missing=own.read(spark, Stage.EXPIRED_ADDRESSES, ABSENT, missing, _ADDRESS).distinct() if missing else None,
        holding=lambda: _held_by_ranges(spark, own),
        misstated=parts[MISSTATED],
    )


def _held_by_ranges(spark: SparkSession, own: Layer) -> DataFrame:
    rows = own.frame(spark, Stage.COMMITTED_ADDRESSES, "", ENTRIES_SCHEMA)
    return rows.select("address", "range_id")


def _write_named(spark: SparkSession, context: MarkContext, own: Layer, listed_from: float) -> dict[str, list[Part]]:
    """What is referred to and does not lie there (ABSENT), or lies there with another size (MISSTATED), in parts."""
    feeds = [Feed(each, ("address", "exact", "size"), _exact) for each in own.sources(Stage.COMMITTED_ADDRESSES)]
    feeds += [Feed(each, ("address", "exact"), _exact) for each in own.sources(Stage.UNCOMMITTED_ADDRESSES)]
    if not feeds:
        return {ABSENT: [], MISSTATED: []}
    partitions = context.settings.scale.address_num_partitions
    sized = own.wanted(Stage.NAMESPACE_LISTING, columns=("address", "size"), keys=_with_size)
    rows = scan(spark, feeds, _NAMED, sized, found=False, partitions=partitions)
    rows = flagged(spark, rows, _LIES, own.wanted(Stage.NAMESPACE_LISTING), partitions=partitions)
    return write(
        rows,
        context.workspace,
        {name: context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, name) for name in (ABSENT, MISSTATED)},
        {ABSENT: _ADDRESS, MISSTATED: MISSTATED_SCHEMA},
        split=partial(_split_named, listed_from),
    )


def _exact(rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Only the likely reading of an address has to lie there."""
    return columns_of(rows.filter(rows["exact"]))


def _with_size(rows: pa.RecordBatch) -> np.ndarray:
    """The hash of column `address`, mixed with column `size`; -1 where there is none, as of staged entries."""
    told = "size" in rows.schema.names
    sizes = pc.fill_null(rows["size"], -1).to_numpy() if told else np.full(rows.num_rows, -1)
    return mixed(hash_strings(rows["address"]), sizes)


def _split_named(listed_from: float, table: pa.Table) -> dict[str, pa.Table]:
    """Tells what is missing from what has another size. A name that does not say when it was given out counts as old.

    What was uploaded since the listing has a size that nobody has compared: no optimized mark does it later.
    """
    named, lies = xid_times(table["address"].combine_chunks()), table[_LIES]
    old, fresh = pa.array(~(named >= listed_from)), pa.array(named >= listed_from - RELIST.total_seconds())
    return {
        ABSENT: table.filter(pc.and_not(old, lies)),
        MISSTATED: table.filter(pc.and_(pc.or_(lies, fresh), pc.is_valid(table["size"]))),
    }
