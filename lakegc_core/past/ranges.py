"""Reads ranges of commits that are not retained: the paths at which unreferenced objects were last shown.

Nothing is decided by their contents, so a file that is gone or damaged is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.lakefs.files import graveler
from lakegc_core.names import Json
from lakegc_core.past.commits import PAST
from lakegc_core.references.ranges.protected import protected_rows
from lakegc_core.references.ranges.range_files import RangeReader
from lakegc_core.store.base import connect
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.parts import PartWriter, part_results

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
_IN_FLIGHT = 8


@dataclass(frozen=True)
class OldRanges:
    """Reads old metaranges and ranges."""

    work: RangeReader

    def ranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The ranges of metaranges (PASTS_SCHEMA) that can be read: CHOSEN_RANGES_SCHEMA."""
        for batch in batches:
            for past in batch.to_pylist():
                for found in self._metarange(past["metarange_id"]):
                    rows = found.filter(pc.not_equal(found["range_id"], ""))
                    columns = {name: pa.repeat(pa.scalar(past[name], each.type), len(rows)) for name, each in _fields()}
                    table = pa.table({"range_id": rows["range_id"], "count": rows["count"], **columns})
                    yield from table.cast(CHOSEN_RANGES_SCHEMA).to_batches()

    def entries(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The entries of ranges (CHOSEN_RANGES_SCHEMA) that can be read: ORIGINS_SCHEMA."""
        for batch in batches:
            chosen = {each["range_id"]: each for each in batch.to_pylist()}
            for range_id, rows in entries_of(self.work, list(chosen)):
                past = chosen[range_id]
                columns = {name: pa.repeat(pa.scalar(past[name], each.type), len(rows)) for name, each in _fields()}
                table = pa.table({"address": rows["address"], "path": rows["path"], **columns})
                yield from table.cast(ORIGINS_SCHEMA).to_batches()

    def _metarange(self, metarange_id: str) -> Iterator[pa.Table]:
        try:
            yield from self.work.metarange_rows([metarange_id])
        except (ObjectNotFoundError, CorruptFileError):
            return


def entries_of(work: RangeReader, range_ids: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The ranges that can be read, each with its entries in the namespace: `address` and `path`."""
    for start in range(0, len(range_ids), _IN_FLIGHT):
        some = range_ids[start : start + _IN_FLIGHT]
        for range_id, data in zip(some, _files(work, some), strict=True):
            try:
                if data is not None:
                    yield range_id, _entries(work, range_id, data)
            except CorruptFileError:
                continue


def _entries(work: RangeReader, range_id: str, data: bytes) -> pa.Table:
    entries = graveler.read_range(data, paths=True, expected_id=range_id)
    rows = protected_rows(work.namespace, [range_id], [len(entries)], entries)
    rows = rows.filter(rows["exact"])
    paths = [path.decode("utf-8", "replace") for path in rows["path"].cast(pa.binary()).to_pylist()]
    return pa.table({"address": rows["address"], "path": pa.array(paths, pa.string())})


def _files(work: RangeReader, ids: Sequence[str]) -> list[bytes | None]:
    store = connect(work.files.data)

    def one(range_id: str) -> bytes | None:
        try:
            return store.read(work.files.key(range_id))
        except ObjectNotFoundError:
            return None

    with ThreadPoolExecutor(len(ids)) as pool:
        return list(pool.map(one, ids))


def _fields() -> Iterator[tuple[str, pa.Field]]:
    return ((field.name, field) for field in PAST)


@dataclass(frozen=True)
class Budget:
    """Takes the newest ranges, as many as a mark may read; runs in one task.

    Yields parts of CHOSEN_RANGES_SCHEMA, and `complete_after` (microseconds): all ranges of newer commits are taken;
    None if all ranges are. `out`: the folder of the parts. `entries`: the number that a mark may read.
    """

    out: DatasetFolder
    entries: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        found = [batch.cast(CHOSEN_RANGES_SCHEMA) for batch in batches]  # Spark does not know what is never null
        table = pa.Table.from_batches(found, CHOSEN_RANGES_SCHEMA)
        table = table.sort_by([("moment", "descending"), ("range_id", "ascending")])
        before = pc.subtract(pc.cumulative_sum(table["count"]), table["count"])
        taken = table.filter(pc.less(before, self.entries))  # the first of all, however large: a mark gets on
        writer = PartWriter(self.out.config, self.out.at(CHOSEN_RANGES), CHOSEN_RANGES_SCHEMA)
        for each in taken.to_batches():
            writer.write(each)
        yield from part_results(CHOSEN_RANGES, writer.close())
        left = len(table) - len(taken)
        yield {"complete_after": table["moment"][len(taken)].as_py() if left else None}
