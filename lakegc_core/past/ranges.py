"""Reads ranges of commits that are not retained: the paths at which unreferenced objects were last shown.

Nothing is decided by their contents, so a file that is gone or damaged is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.names import Json
from lakegc_core.past.commits import PAST
from lakegc_core.references.ranges.protected import protected_rows
from lakegc_core.references.ranges.range_files import RangeReader
from lakegc_core.tables.dataset import DatasetFolder

CHOSEN_RANGES = "ranges"
ORIGINS = "origins"
"""Dataset: the paths and commits that last showed unreferenced objects."""
LOOKED = "looked_through"
"""Dataset: ids of metaranges and ranges that were read for paths; none is read twice."""

CHOSEN_RANGES_SCHEMA = pa.schema(
    [pa.field("range_id", pa.string(), nullable=False), pa.field("count", pa.int64(), nullable=False), *PAST]
)
ORIGINS_SCHEMA = pa.schema(
    [pa.field("address", pa.string(), nullable=False), pa.field("path", pa.string(), nullable=False), *PAST]
)
LOOKED_SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False)])
MOST_ENTRIES = 5_000_000
"""Entries that are read for paths at a time, unless the operator says otherwise."""
_TOGETHER = 64  # files; where one of them cannot be read, the others are read one by one


@dataclass(frozen=True)
class OldRanges:
    """Reads old metaranges and ranges."""

    work: RangeReader

    def ranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The ranges of metaranges (PASTS_SCHEMA) that can be read: CHOSEN_RANGES_SCHEMA."""
        for batch in batches:
            for _, found in _readable(self._metaranges, batch["metarange_id"].to_pylist()):
                rows = found.filter(pc.not_equal(found["range_id"], ""))
                past = _past_of(batch, "metarange_id", rows)
                table = pa.table({"range_id": rows["range_id"], "count": rows["count"], **past})
                yield from table.cast(CHOSEN_RANGES_SCHEMA).to_batches()

    def entries(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The entries of ranges (CHOSEN_RANGES_SCHEMA) that can be read: ORIGINS_SCHEMA."""
        for batch in batches:
            for rows in entries_of(self.work, batch["range_id"].to_pylist()):
                past = _past_of(batch, "range_id", rows)
                table = pa.table({"address": rows["address"], "path": rows["path"], **past})
                yield from table.cast(ORIGINS_SCHEMA).to_batches()

    def _metaranges(self, metarange_ids: Sequence[str]) -> Iterator[tuple[list[str], pa.Table]]:
        for rows in self.work.metarange_rows(metarange_ids):
            yield rows["metarange_id"].unique().to_pylist(), rows  # also of one without ranges: it counts them


def entries_of(work: RangeReader, range_ids: Sequence[str]) -> Iterator[pa.Table]:
    """The entries in the namespace of the ranges that can be read: `range_id`, `address` and `path`."""

    def read(ids: Sequence[str]) -> Iterator[tuple[list[str], pa.Table]]:
        for own, entries, counts in work.entries(ids, paths=True):
            rows = protected_rows(work.namespace, own, counts, entries)
            rows = rows.filter(rows["exact"]).select(["range_id", "address", "path"])
            yield own, rows.set_column(2, "path", _text(rows["path"]))

    return (rows for _, rows in _readable(read, range_ids))


def _text(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return paths.cast(pa.string())
    except pa.ArrowInvalid:  # one is not UTF-8
        return pa.chunked_array([[path.decode("utf-8", "replace") for path in paths.to_pylist()]], pa.string())


def _readable(
    read: Callable[[Sequence[str]], Iterator[tuple[list[str], pa.Table]]], ids: Sequence[str]
) -> Iterator[tuple[list[str], pa.Table]]:
    """The results of `read` for the files that can be read. It yields those of some files at a time, in order, with
    their ids."""
    for start in range(0, len(ids), _TOGETHER):
        left = list(ids[start : start + _TOGETHER])
        try:
            for found in read(tuple(left)):
                del left[: len(found[0])]
                yield found
        except (ObjectNotFoundError, CorruptFileError):  # of which file, nobody knows
            for each in left:
                with suppress(ObjectNotFoundError, CorruptFileError):
                    yield from read([each])


def _past_of(batch: pa.RecordBatch, name: str, rows: pa.Table) -> dict[str, pa.Array]:
    """The columns PAST for each of the rows, from the row of the batch with the same id in the column `name`."""
    owner = pc.index_in(rows[name], value_set=batch[name])
    return {field.name: batch[field.name].take(owner) for field in PAST}


def within_budget(out: DatasetFolder, entries: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
    """Take the newest ranges, as many as a mark may read; runs in one task.

    Yields parts of CHOSEN_RANGES_SCHEMA, and `complete_after` (microseconds): all ranges of newer commits are taken;
    None if all ranges are. `out`: the folder of the parts. `entries`: the number that a mark may read.
    """
    found = [batch.cast(CHOSEN_RANGES_SCHEMA) for batch in batches]  # Spark does not know what is never null
    table = pa.Table.from_batches(found, CHOSEN_RANGES_SCHEMA)
    table = table.sort_by([("moment", "descending"), ("range_id", "ascending")])
    before = pc.subtract(pc.cumulative_sum(table["count"]), table["count"])
    taken = table.filter(pc.less(before, entries))  # the first of all, however large: a mark gets on
    yield from out.results(CHOSEN_RANGES, taken, CHOSEN_RANGES_SCHEMA)
    left = len(table) - len(taken)
    yield {"complete_after": table["moment"][len(taken)].as_py() if left else None}
