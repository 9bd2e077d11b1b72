"""The subtraction of a clean mark: all that lies in the namespace, without all that retained commits refer to.

The two are compared by hash, as `tables.joins` finds best. `optimized` is the subtraction of an optimized mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import MarkError
from lakegc_core.inventory.carried import OBJECTS_SCHEMA
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import MISSTATED, MISSTATED_SCHEMA
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Stage
from lakegc_core.policy.safety import RELIST
from lakegc_core.policy.xids import latest_told, told_until, xid_times
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.ranges.range_files import INDEX, INDEX_SCHEMA
from lakegc_core.references.staged import STAGED_SCHEMA
from lakegc_core.spark.tasks import Mapped
from lakegc_core.store.base import StoreConfig, connect, heads
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.gather import columns_of
from lakegc_core.tables.hashing import hash_strings, mixed
from lakegc_core.tables.joins import flagged, scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ABSENT = "absent"
_LATE, _GONE = "late", "late_absent"
_UNDATED = "undated"
_MOST_ASKED = 10_000  # far more uploads than end within one listing and have been referred to since
_ADDRESS = pa.schema([OBJECTS_SCHEMA.field("address")])
_NAMED = pa.schema([_ADDRESS.field("address"), pa.field("size", pa.int64())])  # null for staged: the dump lacks it
_LIES = "lies"
_OF_NAMED = {ABSENT: _ADDRESS, _LATE: _ADDRESS, MISSTATED: MISSTATED_SCHEMA, _UNDATED: MISSTATED_SCHEMA}


@dataclass(frozen=True)
class Unreferenced:
    """The objects that a mark has to judge.

    - `objects`: what no retained commit refers to (OBJECTS_SCHEMA)
    - `missing`: addresses of live objects that do not lie there; None where there are none
    - `holding`: gives address and range_id of entries, for any that are missing
    - `learnt`: objects in carried units that no listing had, and that the store has (OBJECTS_SCHEMA)
    - `returned`: objects that sweeps had deleted from carried units, and that the store has (OBJECTS_SCHEMA)
    - `misstated`: entries that no mark below has read (MISSTATED_SCHEMA)
    """

    objects: Mapped
    missing: DataFrame | None
    holding: Callable[[], DataFrame]
    learnt: Dataset
    returned: Dataset
    misstated: Dataset


def against_all(
    spark: SparkSession, context: MarkContext, own: Layer, listed_from: float, canaries: Dataset
) -> Unreferenced:
    """All that the mark listed, and the canaries (OBJECTS_SCHEMA), without all that it read. `listed_from`: when its
    listing began, unix seconds. An address that was given out later need not be in the listing, so it does not count as
    missing."""
    index = own.dataset(Stage.COMMITTED_ADDRESSES, INDEX_SCHEMA, INDEX)
    entries = own.dataset(Stage.COMMITTED_ADDRESSES, ENTRIES_SCHEMA)
    if index.rows != entries.rows:
        raise MarkError(f"The index of mark {own.mark_id} does not hold every address that was read. Make a new mark.")
    listed = own.dataset(Stage.NAMESPACE_LISTING, OBJECTS_SCHEMA)
    partitions = context.settings.scale.address_num_partitions
    lying = (listed + canaries).feeds()
    objects = scan(spark, lying, OBJECTS_SCHEMA, index.keys("hash"), found=False, partitions=partitions)
    staged = own.dataset(Stage.UNCOMMITTED_ADDRESSES, STAGED_SCHEMA)
    named = _named(spark, context, listed, entries, staged, listed_from)
    absent = named[ABSENT] + _without_late(spark, context, named[_LATE], listed_from)
    return Unreferenced(
        objects=objects,
        missing=absent.frame(spark).distinct() if absent.rows else None,
        holding=lambda: entries.frame(spark, "address", "range_id"),
        learnt=Dataset(OBJECTS_SCHEMA),
        returned=Dataset(OBJECTS_SCHEMA),
        misstated=named[MISSTATED] + _of_another_size(spark, context, named[_UNDATED]),
    )


def _named(
    spark: SparkSession, context: MarkContext, listed: Dataset, entries: Dataset, staged: Dataset, listed_from: float
) -> dict[str, Dataset]:
    """Addresses that entries name: those that were not listed (ABSENT, or _LATE where they may have come since), and
    those of another size (MISSTATED, or _UNDATED where only the store can tell)."""
    feeds = [*entries.feeds("address", "exact", "size", make=_exact), *staged.feeds("address", "exact", make=_exact)]
    if not feeds:
        return {name: Dataset(schema) for name, schema in _OF_NAMED.items()}
    partitions = context.settings.scale.address_num_partitions
    sized = listed.keys("address", "size", by=_with_size)
    rows = scan(spark, feeds, _NAMED, sized, found=False, partitions=partitions)
    rows = flagged(spark, rows, _LIES, listed.keys(), partitions=partitions)
    return context.mark.out(Stage.EXPIRED_ADDRESSES).divide(rows, _OF_NAMED, partial(_split_named, listed_from))


def _without_late(spark: SparkSession, context: MarkContext, late: Dataset, listed_from: float) -> Dataset:
    """Addresses of `late` without those that the store has had since the listing began: uploads that were in flight.

    What lay there before, and was not listed, stays: it is the sign of a listing that was short.
    """
    if not 0 < late.rows <= _MOST_ASKED:  # more than uploads explain: all count as absent, and nobody asks
        return late
    rows = Mapped(late.frame(spark).distinct(), _ADDRESS).then(_ADDRESS, partial(_not_since, context.data, listed_from))
    return context.mark.out(Stage.EXPIRED_ADDRESSES).put(_GONE, rows, _ADDRESS)


def _not_since(data: StoreConfig, moment: float, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        told = heads(connect(data), batch["address"].to_pylist())
        before = [each is None or each.last_modified.timestamp() < int(moment) for each in told]  # HEADs tell seconds
        yield batch.filter(pa.array(before, pa.bool_()))


def _of_another_size(spark: SparkSession, context: MarkContext, undated: Dataset) -> Dataset:
    """The entries of `undated` whose object has another size, as the store tells now. What lies nowhere has none: it is
    missing. However many they are, each is asked about: if they all counted as misstated, they might hide all garbage,
    at each clean mark anew."""
    if not undated.rows:
        return undated
    rows = Mapped(undated.frame(spark).distinct(), MISSTATED_SCHEMA)
    rows = rows.then(MISSTATED_SCHEMA, partial(_not_as_claimed, context.data))
    return context.mark.out(Stage.EXPIRED_ADDRESSES).put(MISSTATED, rows, MISSTATED_SCHEMA)


def _not_as_claimed(data: StoreConfig, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        told = heads(connect(data), batch["address"].to_pylist())
        sizes = zip(told, batch["size"].to_pylist(), strict=True)
        other = [found is not None and found.size != size for found, size in sizes]
        yield batch.filter(pa.array(other, pa.bool_()))


def _exact(rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Only the likely reading of an address must exist."""
    return columns_of(rows.filter(rows["exact"]))


def _with_size(rows: pa.RecordBatch) -> np.ndarray:
    """The hash of column `address`, mixed with column `size`; -1 where there is none, as of staged entries."""
    told = "size" in rows.schema.names
    sizes = pc.fill_null(rows["size"], -1).to_numpy() if told else np.full(rows.num_rows, -1)
    return mixed(hash_strings(rows["address"]), sizes)


def _split_named(listed_from: float, table: pa.Table) -> dict[str, pa.Table]:
    """Divide addresses by what the listing has, and by the time at which their name was given out.

    Old: given out more than RELIST before the listing. Due: not given out after the listing began.

    - MISSTATED: listed with another size; or not listed, and not old by a name that tells a time: no later optimized
      mark compares its size
    - _UNDATED: not listed, and its name tells no time: nor does any compare its size
    - _LATE: not listed, due, and not old: it may have come since
    - ABSENT: not listed, and old
    """
    given, lies = xid_times(table["address"].combine_chunks()), table[_LIES]
    named = told_until(given, latest_told(listed_from))
    relisted = listed_from - RELIST.total_seconds()
    # Not < and >=: a name without a time (NaN) is due, and not old.
    due, fresh = pa.array(~(named >= listed_from)), pa.array(given >= relisted)
    unlisted, not_old = pc.and_not(due, lies), pa.array(~(named < relisted))
    sized, undated = pc.is_valid(table["size"]), pc.and_not(pa.array(np.isnan(given)), lies)
    return {
        ABSENT: table.filter(pc.and_not(unlisted, not_old)),
        _LATE: table.filter(pc.and_(unlisted, not_old)),
        MISSTATED: table.filter(pc.and_(pc.or_(lies, fresh), sized)),
        _UNDATED: table.filter(pc.and_(undated, sized)),
    }
