"""A RocksDB v2 table (SSTable) as lakeFS's servers write it: footer, properties, index, and all checks of the format.

Here a record is a user key and a value, both just bytes. What lakeFS puts into values is read in `graveler`.

Every byte of a file counts: the blocks must tile it from the first byte to the footer, each with a right checksum,
and the footer, which has no checksum, must hold nothing but handles that make such a tiling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import blocks, keys
from lakegc_core.lakefs.files.blocks import TRAILER, Blocks, Records
from lakegc_core.lakefs.files.order import check_order
from lakegc_core.lakefs.files.vectors import Ints, varint, varints_at

FOOTER_BYTES = 53
_ROCKSDB_MAGIC = bytes.fromhex("f7cff485b741e288")
_OTHER_MAGICS = {
    bytes.fromhex("57fb808b247547db"): "a LevelDB table",
    bytes.fromhex("f09faab3f09faab3"): "a Pebble table",
}
_CRC32C = 1
_VERSION = 2
_SINGLE_LEVEL, _TWO_LEVEL = 0, 2
_PROPERTIES = b"rocksdb.properties"
_INDEX_TYPE = b"rocksdb.block.based.table.index.type"
# Numbers that a table as lakeFS writes it has at 0: each counts records that are not plain sets.
_ZERO_PROPERTIES = (b"rocksdb.deleted.keys", b"rocksdb.num.range-deletions", b"rocksdb.merge.operands")
# Data blocks are read in groups of about this many: enough that numpy's cost a call does not matter, and few enough
# that places stay in the cache.
_GROUP_BLOCKS = 2048


@dataclass(frozen=True)
class Share:
    """The rows of a group that belong to one table: at least one row. `table`: the number of the table."""

    table: int
    rows: slice


@dataclass(frozen=True)
class Group:
    """Records of tables that follow each other: of several small ones, or a part of a large one."""

    records: Records
    shares: list[Share]


@dataclass(frozen=True)
class Tables:
    """Whole tables, checked, that were read together. The records of each are in key order, in one group or several.

    `properties` (raw) and `counts` (of records) have one element a table.
    """

    properties: list[dict[bytes, bytes]]
    counts: list[int]
    groups: list[Group]

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """User key and value of every record, as Python bytes. Slow: for tables of few records."""
        for group in (each.records for each in self.groups):
            values = group.buffer.tobytes()
            for part in keys.whole_keys(group):
                names = part.buffer.tobytes()
                columns = (part.at, part.length, group.value_at[part.rows], group.value_length[part.rows])
                for key_at, key_length, value_at, value_length in zip(
                    *(column.tolist() for column in columns), strict=True
                ):
                    yield names[key_at : key_at + key_length], values[value_at : value_at + value_length]


def read_tables(files: Sequence[bytes]) -> Tables:
    """Read and check some tables together: numpy's cost a call is that of many small tables only once.

    CorruptFileError, with a sentence, if anything at all is not as it must be. It does not say in which of them.
    """
    if not files:
        return Tables([], [], [])
    heads = [_read_head(data) for data in files]
    data = files[0] if len(files) == 1 else b"".join(files)
    moved = [0, *accumulate(map(len, files))]
    offsets = np.concatenate([head.offsets + by for head, by in zip(heads, moved, strict=False)])
    sizes = np.concatenate([head.sizes for head in heads])
    first_blocks = np.cumsum([0, *(len(head.offsets) for head in heads[:-1])])
    groups = []
    for start in range(0, len(offsets), _GROUP_BLOCKS):
        part = slice(start, start + _GROUP_BLOCKS)
        loaded = blocks.load(data, offsets[part], sizes[part])
        records = blocks.walk(loaded)
        keys.check_trailers(records)
        shares = _shares(loaded, records, first_blocks, start)
        check_order(records, [share.rows.stop for share in shares[:-1]])
        if shares:
            groups.append(Group(records, shares))
    tables = Tables([head.properties for head in heads], _counts(groups, len(heads)), groups)
    _check_across_groups(groups)
    _check_properties(tables, [len(head.offsets) for head in heads])
    return tables


@dataclass(frozen=True)
class _Head:
    """A table's description of itself, and the places of its data blocks. With what describes them, they cover the
    file."""

    properties: dict[bytes, bytes]
    offsets: Ints
    sizes: Ints


def _read_head(data: bytes) -> _Head:
    footer_at = len(data) - FOOTER_BYTES
    metaindex, index = _read_footer(data)
    properties, meta_blocks = _read_metaindex(data, metaindex, footer_at)
    offsets, sizes, index_blocks = _read_index(data, index, _index_type(properties), footer_at)
    _check_tiling(offsets, sizes, [metaindex, *meta_blocks, *index_blocks], footer_at)
    return _Head(properties, offsets, sizes)


def _shares(loaded: Blocks, records: Records, first_blocks: Ints, start: int) -> list[Share]:
    """The tables whose records a group has. `start`: number of its first block; each table has a block of its own."""
    first, last = np.searchsorted(first_blocks, [start + 1, start + len(loaded.starts)]) - [1, 0]
    begin = loaded.starts[np.maximum(first_blocks[first:last] - start, 0)]
    bounds = [*np.searchsorted(records.key_at, begin).tolist(), len(records)]
    return [Share(first + number, slice(a, b)) for number, (a, b) in enumerate(pairwise(bounds)) if a < b]


def _counts(groups: Sequence[Group], tables: int) -> list[int]:
    counts = [0] * tables
    for share in [share for group in groups for share in group.shares]:
        counts[share.table] += share.rows.stop - share.rows.start
    return counts


def _read_footer(data: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    """Handles of the metaindex and of the index block."""
    if len(data) < FOOTER_BYTES:
        raise CorruptFileError(f"a table has a footer of {FOOTER_BYTES} bytes; this file has {len(data)} bytes in all")
    footer = data[-FOOTER_BYTES:]
    magic = footer[45:]
    if magic != _ROCKSDB_MAGIC:
        what = _OTHER_MAGICS.get(magic, "no table, or is cut off")
        raise CorruptFileError(f"not a RocksDB table: by its last bytes ({magic.hex()}) it is {what}")
    version = int.from_bytes(footer[41:45], "little")
    if version != _VERSION:
        raise CorruptFileError(f"the table has format version {version}; lakeFS writes {_VERSION}")
    if footer[0] != _CRC32C:
        raise CorruptFileError(f"the table has checksum type {footer[0]}; lakeFS writes {_CRC32C} (CRC32C)")
    handles = footer[1:41]
    at = 0
    numbers = []
    for _ in range(4):
        number, at = varint(handles, at)
        numbers.append(number)
        if number and not handles[at - 1]:
            raise CorruptFileError("a number in the footer is padded: no writer does that")
    if handles[at:].strip(b"\0"):
        raise CorruptFileError("the footer holds bytes after its handles")
    return (numbers[0], numbers[1]), (numbers[2], numbers[3])


def _check_inside(handle: tuple[int, int], footer_at: int) -> None:
    offset, size = handle
    if offset + size + TRAILER > footer_at:
        raise CorruptFileError(f"a handle points at {offset} + {size} bytes, beyond the blocks of the file")


def _read_metaindex(
    data: bytes, metaindex: tuple[int, int], footer_at: int
) -> tuple[dict[bytes, bytes], list[tuple[int, int]]]:
    """The properties, and the handles of all blocks that the metaindex names."""
    _check_inside(metaindex, footer_at)
    handles: dict[bytes, tuple[int, int]] = {}
    for name, value in blocks.read_plain(data, *metaindex):
        handles[name] = blocks.handle(value)
        _check_inside(handles[name], footer_at)
        if name != _PROPERTIES and blocks.read_plain(data, *handles[name]):
            raise CorruptFileError(f"the table has a block {name!r}, which could hide or delete records")
    if _PROPERTIES not in handles:
        raise CorruptFileError("the table has no properties")
    entries = blocks.read_plain(data, *handles[_PROPERTIES])
    properties = dict(entries)
    if len(properties) < len(entries):
        raise CorruptFileError("a property of the table is given twice")
    return properties, list(handles.values())


def _index_type(properties: dict[bytes, bytes]) -> int:
    value = properties.get(_INDEX_TYPE)
    if value is None or len(value) != 4:
        raise CorruptFileError("the table does not say of what type its index is")
    kind = int.from_bytes(value, "little")
    if kind not in (_SINGLE_LEVEL, _TWO_LEVEL):
        raise CorruptFileError(f"the index of the table is of type {kind}; lakeFS writes 0 (one level) and 2 (two)")
    return kind


def _read_index(
    data: bytes, index: tuple[int, int], kind: int, footer_at: int
) -> tuple[Ints, Ints, list[tuple[int, int]]]:
    """Offsets and sizes of all data blocks, and the handles of the blocks of the index itself.

    Index keys are separators, not record keys: they are not looked at.
    """
    _check_inside(index, footer_at)
    top = [blocks.handle(value) for _, value in blocks.read_plain(data, *index)]
    for handle in top:
        _check_inside(handle, footer_at)
    offsets, sizes = (np.array(column, np.int64) for column in (zip(*top, strict=True) if top else ((), ())))
    if kind == _SINGLE_LEVEL:
        return offsets, sizes, [index]
    offsets, sizes = _handles(data, offsets, sizes, footer_at)
    return offsets, sizes, [*top, index]


def _handles(data: bytes, offsets: Ints, sizes: Ints, footer_at: int) -> tuple[Ints, Ints]:
    """The handles in some index blocks. They are inside the file."""
    records = blocks.walk(blocks.load(data, offsets, sizes))
    found_offsets, after = varints_at(records.buffer, records.value_at)
    found_sizes, after = varints_at(records.buffer, after)
    if (after != records.value_at + records.value_length).any():
        raise CorruptFileError("an index entry does not hold exactly one block handle")
    if (found_offsets + found_sizes + TRAILER > footer_at).any():
        raise CorruptFileError("the index names a block beyond the blocks of the file")
    return found_offsets, found_sizes


def _check_tiling(offsets: Ints, sizes: Ints, others: list[tuple[int, int]], footer_at: int) -> None:
    """Check that data blocks lie first, in index order, and with the others cover the file without gap or overlap."""
    ends = offsets + sizes + TRAILER
    if not len(offsets) or offsets[0] != 0 or (offsets[1:] != ends[:-1]).any():
        raise CorruptFileError("the data blocks do not follow each other from the start of the file")
    end = int(ends[-1])
    for offset, size in sorted(others):
        if offset != end:
            raise CorruptFileError(f"the blocks of the file leave a gap or overlap at byte {min(end, offset)}")
        end = offset + size + TRAILER
    if end != footer_at:
        raise CorruptFileError(f"{footer_at - end} bytes before the footer belong to no block")


def _check_across_groups(groups: Sequence[Group]) -> None:
    """Check that the keys of a table that goes on in the next group go on increasing."""
    for before, after in pairwise(groups):
        if before.shares[-1].table != after.shares[0].table:
            continue
        if keys.key_of(before.records, len(before.records) - 1) >= keys.key_of(after.records, 0):
            raise CorruptFileError("the keys of a table do not strictly increase")


def _check_properties(tables: Tables, block_counts: Sequence[int]) -> None:
    """Check that each table's properties say what was read."""
    first: dict[int, bytes] = {}
    last: dict[int, bytes] = {}
    for group in tables.groups:
        for share in group.shares:
            first.setdefault(share.table, keys.key_of(group.records, share.rows.start))
            last[share.table] = keys.key_of(group.records, share.rows.stop - 1)
    for number, (properties, count, block_count) in enumerate(
        zip(tables.properties, tables.counts, block_counts, strict=True)
    ):
        _check_numbers(properties, count, block_count)
        for name, key in ((b"min_key", first.get(number, b"")), (b"max_key", last.get(number, b""))):
            if properties.get(name) != key:
                raise CorruptFileError(
                    f"the property {name.decode()} is {properties.get(name)!r}; the table has {key!r} there"
                )


def _check_numbers(properties: dict[bytes, bytes], count: int, block_count: int) -> None:
    for name in _ZERO_PROPERTIES:
        if _number(properties, name, default=0):
            raise CorruptFileError(f"{name.decode()} of the table is not 0: it does not hold plain records only")
    if _number(properties, b"rocksdb.num.data.blocks", default=block_count) != block_count:
        raise CorruptFileError(f"the table announces other than the {block_count} data blocks its index names")
    announced = _number(properties, b"rocksdb.num.entries")
    if announced != count:
        raise CorruptFileError(f"the table announces {announced} records and holds {count}")
    if properties.get(b"count") != str(count).encode():
        raise CorruptFileError(f"the property count is {properties.get(b'count')!r}; the table holds {count} records")
    comparator = properties.get(b"rocksdb.comparator", b"leveldb.BytewiseComparator")
    if comparator != b"leveldb.BytewiseComparator":
        raise CorruptFileError(f"the table is sorted by {comparator!r}")


def _number(properties: dict[bytes, bytes], name: bytes, default: int | None = None) -> int:
    value = properties.get(name)
    if value is None:
        if default is None:
            raise CorruptFileError(f"the table has no property {name.decode()}")
        return default
    number, after = varint(value, 0)
    if after != len(value):
        raise CorruptFileError(f"the property {name.decode()} holds more than a number")
    return number
