"""Intervals of paths with entries of heads that are alike to a candidate: branches may hide candidates there.

An identical re-upload lies at a path that the head has too. `alike` finds the entries; here ranges are read for their
paths, and few paths become few intervals, each about a page of lakeFS's listing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import graveler
from lakegc_core.lakefs.http import PAGE
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.ranges.range_files import RANGES_SCHEMA
from lakegc_core.references.shown.asking import INTERVALS

CLASS = pa.field("rank", pa.int32(), nullable=False)

ALIKE = pa.schema(
    [
        RANGES_SCHEMA.field("range_id"),
        RANGES_SCHEMA.field("count"),
        pa.field("size", pa.int64(), nullable=False),  # entries that claim this size are alike
        CLASS,  # of the class of candidates that they are alike to
    ]
)
CHOSEN = pa.schema([*ALIKE, pa.field("which", pa.int8(), nullable=False), pa.field("e_tag", pa.string())])
"""ALIKE, and a choice among the entries of this size: ALL, those with this `e_tag` (OF_TAG), or those whose objects may
lie in other namespaces (AWAY)."""
ALL, OF_TAG, AWAY = range(3)
PLACES = pa.schema([RANGES_SCHEMA.field("range_id"), CLASS, *(INTERVALS.field(n) for n in ("first", "last", "reach"))])

_NONE = 2**62  # above every rank


@dataclass(frozen=True)
class RangePaths:
    """Reads ranges for the paths of some of their entries."""

    files: MetadataFiles
    namespace: Namespace

    def places(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """PLACES of the ranges in a partition. The rows of one range (CHOSEN) are all in it."""
        for range_id, chosen in self._by_range(batches):
            yield self._of_range(range_id, chosen)

    def _by_range(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
        rows = pa.Table.from_batches(batches, CHOSEN).combine_chunks().sort_by("range_id")
        counted = rows.group_by("range_id").aggregate([("size", "count")]).sort_by("range_id")  # groups have no order
        start = 0
        for range_id, number in zip(*(counted[name].to_pylist() for name in ("range_id", "size_count")), strict=True):
            yield range_id, rows.slice(start, number)
            start += number

    def _read(self, range_id: str) -> pa.Table:
        data = self.files.read(range_id)
        try:
            return graveler.read_range(data, paths=True, expected_id=range_id)
        except CorruptFileError as error:
            raise CorruptFileError(f"Range {range_id}: {error}. Make a new mark.") from None

    def _of_range(self, range_id: str, chosen: pa.Table) -> pa.RecordBatch:
        """Cover the alike entries of a range with intervals of at most PAGE entries each, from the first one on."""
        entries = self._read(range_id)
        ranks = self._ranks(entries, chosen)
        alike_rows = np.flatnonzero(ranks >= 0)
        found: list[tuple[str, int, bytes, bytes, int]] = []
        at = 0
        while at < len(alike_rows):
            end = int(np.searchsorted(alike_rows, alike_rows[at] + PAGE, "left"))
            first, last = int(alike_rows[at]), int(alike_rows[end - 1])
            rank = int(ranks[alike_rows[at:end]].min())
            paths = (entries["path"][first].as_py(), entries["path"][last].as_py())
            found.append((range_id, rank, *paths, last - first + 1))
            at = end
        return pa.RecordBatch.from_pylist([dict(zip(PLACES.names, row, strict=True)) for row in found], schema=PLACES)

    def _ranks(self, entries: pa.Table, chosen: pa.Table) -> np.ndarray:
        """For each entry the least rank of the classes that it is alike to; -1 for those that are alike to none."""
        found = np.full(entries.num_rows, _NONE, np.int64)
        for which in pc.unique(chosen["which"]).to_pylist():
            rows = chosen.filter(pc.equal(chosen["which"], which))
            ranks = _least(_keys(entries, which), _keys(rows, which), rows["rank"])
            if which == AWAY:
                columns = (entries[name].combine_chunks() for name in ("address", "address_type"))
                ranks[~self.namespace.may_lie_elsewhere(*columns).to_numpy(zero_copy_only=False)] = _NONE
            found = np.minimum(found, ranks)
        result: np.ndarray = np.where(found == _NONE, -1, found)
        return result


def of_ranks(ranks: Sequence[int], rows: pa.RecordBatch) -> pa.Array:
    """True for the rows of these ranks (CLASS)."""
    return pc.is_in(rows["rank"], pa.array(ranks, CLASS.type))


def _keys(rows: pa.Table, which: int) -> pa.Array:
    """The columns that rows of CHOSEN and entries have in common: the size, or the size and the e_tag."""
    sizes = rows["size"].combine_chunks().cast(pa.string())
    return pc.binary_join_element_wise(sizes, rows["e_tag"].combine_chunks(), " ") if which == OF_TAG else sizes


def _least(keys: pa.Array, wanted: pa.Array, ranks: pa.ChunkedArray) -> np.ndarray:
    """The least rank of each key; _NONE for those that are not wanted."""
    least = pa.table({"key": wanted, "rank": ranks}).group_by("key").aggregate([("rank", "min")])
    places = pc.index_in(keys, value_set=least["key"].combine_chunks())
    found: np.ndarray = pc.fill_null(least["rank_min"].cast(pa.int64()).take(places), _NONE).to_numpy()
    return found.copy()
