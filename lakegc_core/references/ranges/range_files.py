"""Reads metaranges and ranges in tasks on the executors, and writes the addresses in them, as rows and as an index.

The id of a file proves that it is the one that was meant, and whole. The stage decides which files are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, IncompleteError, ObjectNotFoundError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE, ELSEWHERE_SCHEMA, elsewhere_rows, sum_authorities
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.names import Json, Stage
from lakegc_core.policy.facts import ReadFacts
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.ranges.lost_ranges import NOTHING_IGNORED, UNREAD, Ignored, read_in
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA, protected_rows
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import BY_TASKS, Feed, partitions_for, rows_in
from lakegc_core.tables.hashing import MODULUS, hash_strings, sum_of
from lakegc_core.tables.parts import part_results, parts_of

METARANGES = "metaranges"
CHECKSUMS = "checksums"
RANGES = "ranges"
INDEX = "index"
DROPPED = "dropped"
NOT_KNOWN = " What it refers to is not known, and nothing is collected while that is so."
_FEW_METARANGES, _FEW_RANGES = 64, 128
_TOGETHER_BYTES = 1 << 20  # of files that are decoded together
_IN_FLIGHT = 8  # requests of a task at a time: a store answers even a small one after many milliseconds
_BYTES_IN_FLIGHT = 1 << 25  # limits them further: each counts as many bytes as the largest file so far

METARANGES_SCHEMA = pa.schema(
    [
        pa.field("metarange_id", pa.string(), nullable=False),
        pa.field("range_id", pa.string(), nullable=False),  # "" on the one row that counts the metarange's ranges
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        # Entries of the range, as the metarange says; on the metarange's own row, its ranges.
        pa.field("count", pa.int64(), nullable=False),
        pa.field("checksum", pa.int64(), nullable=False),  # sum of the hashes of its ranges' ids; 0 on their rows
    ]
)
CHECKSUMS_SCHEMA = pa.schema([METARANGES_SCHEMA.field(name) for name in ("metarange_id", "count", "checksum")])
RANGES_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("references", pa.int64(), nullable=False),  # retained metaranges that contain it
        pa.field("count", pa.int64(), nullable=False),  # entries; as a metarange says if no mark has read it
        pa.field("read_in", pa.string(), nullable=False),  # the mark that has its addresses; UNREAD: none
    ]
)
INDEX_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("hash", pa.int64(), nullable=False),  # of the address
        pa.field("size", pa.int64(), nullable=False),  # bytes
    ]
)
ADDRESSES_SCHEMA = pa.schema([ENTRIES_SCHEMA.field("address"), INDEX_SCHEMA.field("hash")])

SCHEMAS = {
    Stage.COMMITTED_ADDRESSES: ENTRIES_SCHEMA,
    INDEX: INDEX_SCHEMA,
    ELSEWHERE: ELSEWHERE_SCHEMA,
    RANGES: RANGES_SCHEMA,
    DROPPED: ADDRESSES_SCHEMA,
}
"""The datasets that a RangeWriter writes."""


def split_metaranges(table: pa.Table) -> dict[str, pa.Table]:
    """Rows of metaranges as they are read (METARANGES), and of these the row of each metarange that counts its ranges
    (CHECKSUMS)."""
    return {METARANGES: table, CHECKSUMS: table.filter(pc.equal(table["range_id"], ""))}


def sum_metaranges(table: pa.Table) -> dict[str, int]:
    """Totals of rows of CHECKSUMS (`stated_ranges`, `checksum`), or of METARANGES (`ranges`, and `entries` as these
    state them): these have a column range_id."""
    if "range_id" in table.column_names:
        is_range = pc.not_equal(table["range_id"], "")
        entries = pc.sum(table["count"].filter(is_range)).as_py() or 0
        return {"ranges": pc.sum(is_range).as_py() or 0, "entries": entries}
    sums = pc.sum(table["count"]).as_py() or 0
    return {"stated_ranges": sums, "checksum": sum_of(table["checksum"].to_numpy())}


def sum_ranges(table: pa.Table) -> dict[str, int]:
    """Totals of rows of RANGES. `checksum`: of the ids, each as often as it is referred to."""
    return {
        "entries": pc.sum(table["count"]).as_py() or 0,
        "references": pc.sum(table["references"]).as_py() or 0,
        "checksum": sum_of(hash_strings(table["range_id"]), table["references"].to_numpy()),
        "unread": pc.sum(pc.equal(table["read_in"], UNREAD)).as_py() or 0,
    }


_Reader = Callable[[Sequence[bytes], Sequence[str]], tuple[pa.Table, list[int]]]
_Found = tuple[list[str], pa.Table, list[int]]  # ids, rows of all, how many of them each has


@dataclass(frozen=True)
class RangeReader:
    """Reads ranges and metaranges of a namespace, whole or an error."""

    files: MetadataFiles
    namespace: Namespace

    def metaranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read each metarange (column metarange_id): one row that counts its ranges, and one row a range."""
        for batch in batches:
            for rows in self.metarange_rows(batch.column("metarange_id").to_pylist()):
                yield from rows.to_batches()

    def metarange_rows(self, metarange_ids: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of `metaranges`, some metaranges at a time: METARANGES_SCHEMA."""
        for own, ranges, counts in self._read("Metarange", metarange_ids, graveler.read_metaranges):
            yield _metarange_rows(own, ranges, counts)

    def entries(self, range_ids: Sequence[str], *, paths: bool = False) -> Iterator[_Found]:
        """The entries of ranges, on request with a column `path` (bytes)."""
        yield from self._read("Range", range_ids, partial(graveler.read_ranges, paths=paths))

    def _read(self, kind: str, ids: Sequence[str], reader: _Reader) -> Iterator[_Found]:
        """Read files by their ids, which prove the contents. Small ones are decoded together."""
        some: list[str] = []
        files: list[bytes] = []
        for each, data in self.fetched(ids, kind):
            if files and len(data) + sum(map(len, files)) > _TOGETHER_BYTES:
                yield from self._decoded(kind, some, files, reader)
                some, files = [], []
            some.append(each)
            files.append(data)
        if files:
            yield from self._decoded(kind, some, files, reader)

    def fetched(self, ids: Sequence[str], kind: str = "Range") -> Iterator[tuple[str, bytes]]:
        """All these files with their bytes, in order: while some are decoded, the next are on their way."""
        coming: deque[tuple[str, Future[bytes]]] = deque()
        room, largest = 2, 1
        pool = ThreadPoolExecutor(_IN_FLIGHT)
        try:
            for each in (*ids, None):
                while coming and (each is None or len(coming) >= room):
                    first, answer = coming.popleft()
                    data = answer.result()
                    largest = max(largest, len(data))
                    room = max(1, min(_IN_FLIGHT, _BYTES_IN_FLIGHT // largest))
                    yield first, data
                if each is not None:
                    coming.append((each, pool.submit(self._bytes, kind, each)))
        finally:  # after an error the others are not waited for: a store may take minutes to give up
            pool.shutdown(wait=False, cancel_futures=True)

    def _bytes(self, kind: str, name: str) -> bytes:
        try:
            return self.files.read(name)
        except ObjectNotFoundError as error:
            raise ObjectNotFoundError(self._unreadable(kind, name, error)) from None

    def _decoded(self, kind: str, ids: list[str], files: Sequence[bytes], reader: _Reader) -> Iterator[_Found]:
        try:
            rows, counts = reader(files, ids)
        except CorruptFileError as error:
            if len(files) == 1:
                raise CorruptFileError(self._unreadable(kind, ids[0], error)) from None
            for each, data in zip(ids, files, strict=True):  # which of them it is
                yield from self._decoded(kind, [each], [data], reader)
        else:
            yield ids, rows, counts

    def _unreadable(self, kind: str, name: str, error: Exception) -> str:
        return (
            f"{kind} {name}: {str(error).rstrip('.')}.{NOT_KNOWN} Bring {self.files.data.root}/{self.files.key(name)} "
            "back from a version or a backup of the store, and run this again."
        )


@dataclass(frozen=True)
class RangeWriter:
    """Reads ranges, and writes their addresses into datasets of `out`. `mark_id`: the mark that reads (`read_in`)."""

    reader: RangeReader
    out: DatasetFolder
    mark_id: str
    ignored: Ignored = NOTHING_IGNORED  # whose ranges are passed over where they cannot be read

    def ranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        """Read each range of the batches (range_id, references, count), and write the addresses that it protects."""
        addresses = self.out.writer("", ENTRIES_SCHEMA)
        index = self.out.writer(INDEX, INDEX_SCHEMA)
        elsewhere = self.out.writer(ELSEWHERE, ELSEWHERE_SCHEMA, sum_authorities)
        ranges = self.out.writer(RANGES, RANGES_SCHEMA, sum_ranges)
        for batch in batches:
            wanted = batch.to_pylist()
            range_ids, lost = self.ignored.without_lost(self.reader.files, wanted, self.reader.entries)
            counts_by_id = {each["range_id"]: each["count"] for each in wanted}
            for read_ids, entries, counts in self.reader.entries(range_ids):
                counts_by_id.update(zip(read_ids, counts, strict=True))
                for rows in protected_rows(self.reader.namespace, read_ids, counts, entries).to_batches():
                    addresses.write(rows)
                    index.write(_indexed(rows))
                elsewhere.write(elsewhere_rows(self.reader.namespace, read_ids, counts, entries))
            own = {name: batch.column(name) for name in ("range_id", "references")}
            own["count"] = pa.array([counts_by_id[each["range_id"]] for each in wanted], pa.int64())
            own["read_in"] = read_in(own["range_id"], lost, self.mark_id)
            ranges.write(pa.RecordBatch.from_pydict(own, schema=RANGES_SCHEMA))
        writers = {Stage.COMMITTED_ADDRESSES: addresses, INDEX: index, ELSEWHERE: elsewhere, RANGES: ranges}
        for name, writer in writers.items():
            yield from part_results(name, writer.close())

    def dropped(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        """Read ranges (range_id) that nothing refers to any more, and write the addresses in them."""
        writer = self.out.writer(DROPPED, ADDRESSES_SCHEMA)
        for batch in batches:
            for read_ids, entries, counts in self.reader.entries(batch.column("range_id").to_pylist()):
                for rows in protected_rows(self.reader.namespace, read_ids, counts, entries).to_batches():
                    columns = [rows["address"], pa.array(hash_strings(rows["address"]))]
                    writer.write(pa.RecordBatch.from_arrays(columns, schema=ADDRESSES_SCHEMA))
        yield from part_results(DROPPED, writer.close())

    def datasets(self, results: Sequence[Json]) -> dict[str, Dataset]:
        """The datasets that the tasks have written, by their results."""
        parts = parts_of(results, SCHEMAS)
        return {
            name: self.out.dataset("" if name == Stage.COMMITTED_ADDRESSES else name, parts[name], schema)
            for name, schema in SCHEMAS.items()
        }


def by_range_and_mark(rows: pa.RecordBatch) -> np.ndarray:
    """The keys of RANGES rows: of each range and the mark that read it."""
    return range_and_mark_keys(rows["range_id"], rows["read_in"])


def range_and_mark_keys(range_ids: pa.Array, marks: pa.Array) -> np.ndarray:
    """A key for each range and the mark that read it."""
    return hash_strings(pc.binary_join_element_wise(range_ids, marks, "@"))


def _metarange_rows(metarange_ids: Sequence[str], ranges: pa.Table, counts: Sequence[int]) -> pa.Table:
    ends = np.cumsum([0, *counts])
    hashes = hash_strings(ranges["range_id"]).view(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes)])[ends]
    own = {
        "metarange_id": metarange_ids,
        "range_id": [""] * len(metarange_ids),
        "min_key": [b""] * len(metarange_ids),
        "max_key": [b""] * len(metarange_ids),
        "count": counts,
        "checksum": np.diff(sums).view(np.int64),
    }
    owner = pa.array(np.repeat(np.arange(len(metarange_ids)), counts))
    of_ranges = {
        **{name: ranges[name] for name in ("range_id", "min_key", "max_key", "count")},
        "metarange_id": pa.array(metarange_ids, pa.string()).take(owner),
        "checksum": pa.repeat(pa.scalar(0, pa.int64()), len(ranges)),
    }
    rows = pa.table({name: of_ranges[name] for name in METARANGES_SCHEMA.names}).cast(METARANGES_SCHEMA)
    return pa.concat_tables([pa.table(own, schema=METARANGES_SCHEMA), rows])


def _indexed(rows: pa.RecordBatch) -> pa.RecordBatch:
    hashes = pa.array(hash_strings(rows["address"]))
    return pa.RecordBatch.from_arrays([rows["range_id"], hashes, rows["size"]], schema=INDEX_SCHEMA)


def check_metaranges(checksums: Dataset, expected: int) -> None:
    """IncompleteError unless each retained metarange has its row."""
    if checksums.rows != expected:
        raise IncompleteError(f"{expected:,} metaranges are retained, {checksums.rows:,} were read. Run this again.")


def summary(checksums: Dataset, read: Mapping[str, Dataset]) -> ReadFacts:
    """Facts of a reading, for guards and people: the totals that metaranges state, and those of the ranges. `read`: the
    ranges that were read, their addresses, and the index of these. IncompleteError unless each address is in the index.
    """
    ranges, addresses, indexed = read[RANGES], read[Stage.COMMITTED_ADDRESSES].rows, read[INDEX].rows
    if addresses != indexed:
        raise IncompleteError(f"{addresses:,} addresses were read, and {indexed:,} indexed. Run this again.")
    return ReadFacts(
        metaranges=checksums.rows,
        ranges=ranges.rows,
        entries=ranges.sum("entries"),
        references=checksums.sum("stated_ranges"),
        references_read=ranges.sum("references"),
        checksum=checksums.sum("checksum") % MODULUS,
        checksum_read=ranges.sum("checksum") % MODULUS,
        addresses=addresses,
        ranges_ignored=ranges.sum("unread"),
    )


def check_references(facts: ReadFacts) -> None:
    """IncompleteError unless the ranges are all that the metaranges refer to, by number and by checksum."""
    if facts.references_read != facts.references:
        raise IncompleteError(
            f"The retained metaranges refer {facts.references:,} times to ranges, but the ranges that were read "
            f"account for {facts.references_read:,}. Run the mark again."
        )
    if facts.checksum_read != facts.checksum:
        raise IncompleteError(
            "The ranges that were read are not those that the retained metaranges refer to: their checksums differ. "
            "Run the mark again, as a clean one (--clean)."
        )


def holding_metaranges(metaranges: int) -> int:
    """`holding` (see `gather`) of rows that name this many metaranges to be read: this process reads a few. A
    metarange has only some megabytes, even with a billion objects."""
    return 0 if metaranges <= _FEW_METARANGES else BY_TASKS


def holding_ranges(metaranges: Sequence[Dataset]) -> int:
    """`holding` (see `gather`) of rows that name ranges to be read, at most all of these metaranges
    (METARANGES_SCHEMA): this process reads a few that are small."""
    ranges, entries = (sum(each.sum(name) for each in metaranges) for name in ("ranges", "entries"))
    return entries if ranges <= _FEW_RANGES else BY_TASKS


def partitions_of(context: MarkContext, feeds: Sequence[Feed], tasks: int) -> int:
    """The number of partitions: as many as are wanted, but enough to hold the rows."""
    return max(context.settings.scale.range_num_partitions or tasks, partitions_for(rows_in(feeds)))


def range_reader(context: MarkContext) -> RangeReader:
    """The reader of the files of this mark's namespace."""
    return RangeReader(context.metadata, context.namespace)


def range_writer(context: MarkContext, out: DatasetFolder, ignored: Ignored = NOTHING_IGNORED) -> RangeWriter:
    """The writer that reads ranges for this mark and writes their addresses into datasets of `out`."""
    return RangeWriter(range_reader(context), out, context.header.mark_id, ignored)
