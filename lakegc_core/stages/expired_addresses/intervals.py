"""Where branches may hide candidates: the key intervals of heads' ranges that hold entries alike a candidate.

An identical re-upload lies at a path that the head holds too. Which entries are alike is said by `reuploads`; here
ranges are read for their paths, and few paths become few intervals, each about a page of lakeFS's listing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import graveler
from lakegc_core.lakefs.http import PAGE
from lakegc_core.stages.committed_addresses.stage import METARANGES_SCHEMA, RANGES_SCHEMA
from lakegc_core.stages.expired_addresses.asking import INTERVALS
from lakegc_core.store.base import StoreConfig, connect

CLASS = pa.field("rank", pa.int32(), nullable=False)

ALIKE = pa.schema(
    [
        RANGES_SCHEMA.field("range_id"),
        RANGES_SCHEMA.field("count"),
        pa.field("size", pa.int64(), nullable=False),  # entries that claim this size are alike
        CLASS,  # of the class of candidates that they are alike to
    ]
)
SINGLE = ALIKE.append(pa.field("number", pa.int64(), nullable=False))
"""Entries, by their number in the range."""
ALIKE_OR_SINGLE = ALIKE.append(pa.field("number", pa.int64(), nullable=True))
"""SINGLE, and without a number ALIKE: all entries of the range that claim this size."""
PLACES = pa.schema([RANGES_SCHEMA.field("range_id"), CLASS, *(INTERVALS.field(n) for n in ("first", "last", "reach"))])


@dataclass(frozen=True)
class RangePaths:
    """Reads ranges for the paths of some of their entries; a picklable value that tasks carry."""

    data: StoreConfig
    prefix: str

    def places(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """PLACES of the ranges in a partition. The rows of one range (ALIKE_OR_SINGLE) are all in it."""
        for range_id, alike in self.by_range(batches, ALIKE_OR_SINGLE):
            yield self._of_range(range_id, alike)

    def by_range(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[tuple[str, pa.Table]]:
        """The rows of each range in a partition."""
        rows = pa.Table.from_batches(batches, schema).combine_chunks().sort_by("range_id")
        counted = rows.group_by("range_id").aggregate([("size", "count")]).sort_by("range_id")  # groups have no order
        start = 0
        for range_id, number in zip(*(counted[name].to_pylist() for name in ("range_id", "size_count")), strict=True):
            yield range_id, rows.slice(start, number)
            start += number

    def read(self, range_id: str, alike: pa.Table) -> tuple[pa.Table, np.ndarray]:
        """The entries of a range, and for each the least rank of the classes that it is alike to; -1: of none.
        `alike`: rows of ALIKE or ALIKE_OR_SINGLE."""
        data = connect(self.data).read(f"{self.prefix}/{range_id}")
        told = alike["count"][0].as_py()
        try:
            entries = graveler.read_range(data, count=told, paths=True, expected_id=range_id)
        except CorruptFileError as error:
            raise CorruptFileError(f"Range {range_id}: {error}. Make a new mark.") from None
        return entries, _ranks(entries, alike)

    def _of_range(self, range_id: str, alike: pa.Table) -> pa.RecordBatch:
        entries, ranks = self.read(range_id, alike)
        numbers = np.flatnonzero(ranks >= 0)
        found: list[tuple[str, int, bytes, bytes, int]] = []
        at = 0
        while at < len(numbers):
            end = int(np.searchsorted(numbers, numbers[at] + PAGE, "left"))
            first, last = int(numbers[at]), int(numbers[end - 1])
            rank = int(ranks[numbers[at:end]].min())
            paths = (entries["path"][first].as_py(), entries["path"][last].as_py())
            found.append((range_id, rank, *paths, last - first + 1))
            at = end
        return pa.RecordBatch.from_pylist([dict(zip(PLACES.names, row, strict=True)) for row in found], schema=PLACES)


def _ranks(entries: pa.Table, alike: pa.Table) -> np.ndarray:
    """For each entry the least rank of the classes that it is alike to; -1 for those that are alike to none."""
    none = np.iinfo(np.int32).max
    found = np.full(entries.num_rows, none, np.int32)
    if "number" in alike.column_names:
        single = alike.filter(pc.is_valid(alike["number"]))
        alike = alike.filter(pc.is_null(alike["number"]))
        found[single["number"].to_numpy()] = single["rank"].to_numpy()
    if alike.num_rows:
        told = alike.group_by("size").aggregate([("rank", "min")]).sort_by("size")
        sizes, claimed = told["size"].to_numpy(), entries["size"].to_numpy()
        places = np.minimum(np.searchsorted(sizes, claimed), len(sizes) - 1)
        ranks = np.where(sizes[places] == claimed, told["rank_min"].to_numpy()[places], none)
        found = np.minimum(found, ranks)
    result: np.ndarray = np.where(found == none, -1, found)
    return result


@dataclass(frozen=True)
class WholeRanges:
    """Every range as one interval from its first to its last key; a picklable value that tasks carry."""

    def places(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """PLACES of ranges in rows of METARANGES_SCHEMA."""
        names = {"first": "min_key", "last": "max_key", "reach": "count"}
        assert set(names.values()) <= set(METARANGES_SCHEMA.names)
        for batch in batches:
            columns = [batch["range_id"], pa.repeat(pa.scalar(0, CLASS.type), batch.num_rows)]
            columns += [batch[name].cast(PLACES.field(own).type) for own, name in names.items()]
            yield pa.RecordBatch.from_arrays(columns, schema=PLACES)
