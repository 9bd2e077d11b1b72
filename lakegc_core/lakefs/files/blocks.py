"""Blocks of a RocksDB v2 table: checksums, decompression, and the key/value entries in them.

Here a block is a piece of file with a trailer; which block holds what is said in `sstable`.

A block may hold a dozen entries only, so nothing here loops over entries in Python: all blocks are decompressed into
one buffer, every restart interval of every block gets a cursor, and all cursors step from entry to entry together.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import cramjam
import google_crc32c
import numpy as np
import numpy.typing as npt

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.vectors import PADDING, Bytes, Ints, varint, varints_at, words_at

TRAILER = 5  # bytes after each block: compression type, masked CRC32C
_UNCOMPRESSED, _SNAPPY = 0, 1
_UNKNOWN_TYPE = "a block is of compression type {}; lakeFS writes only 0 (none) and 1 (snappy)"
_TOO_MUCH = "a block announces more bytes than snappy can pack into it"
_NO_RESTARTS = "a block is too short to hold a restart array"
_BAD_RESTART_COUNT = "the restart count of a block does not fit the block"
_SNAPPY_RATIO = 22  # a snappy copy element makes at most 64 bytes of 3


@dataclass(frozen=True)
class Blocks:
    """Decompressed blocks in one padded buffer; block i is `buffer[starts[i] : ends[i]]`."""

    buffer: Bytes
    starts: Ints
    ends: Ints


@dataclass(frozen=True)
class Records:
    """Entries in file order, as places in `buffer`. All arrays but `intervals` have one element an entry.

    The key of an entry is the first `shared` bytes of the key before it, then its own `key_length` bytes.
    """

    buffer: Bytes
    intervals: Ints  # index of the first entry of each restart interval; `shared` is 0 there
    shared: Ints
    key_at: Ints
    key_length: Ints
    value_at: Ints
    value_length: Ints

    def __len__(self) -> int:
        return len(self.shared)


def _masked(crcs: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Checksums as they are stored: rotated, and offset, so that a CRC over CRCs does not degenerate."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(0xA282EAD8)


def load(data: bytes, offsets: Ints, sizes: Ints) -> Blocks:
    """Read the blocks whose bodies are `data[offset : offset + size]`; the caller has checked that they lie inside.

    Every checksum is verified, every block decompresses to exactly the length it announces.
    """
    view = np.frombuffer(data, np.uint8)
    types_at = offsets + sizes
    types = view[types_at]
    summed = [data[a : b + 1] for a, b in zip(offsets.tolist(), types_at.tolist(), strict=True)]  # the type byte, too
    crcs = np.fromiter(map(google_crc32c.value, summed), np.uint32, len(summed))
    wrong = np.flatnonzero(_masked(crcs) != words_at(view, "<u4", types_at + 1))
    if len(wrong):
        raise CorruptFileError(f"the block at byte {offsets[wrong[0]]} does not match its checksum")
    if len(types) and types.max() > _SNAPPY:
        raise CorruptFileError(_UNKNOWN_TYPE.format(types.max()))

    lengths = sizes.copy()
    packed = np.flatnonzero(types == _SNAPPY)
    if len(packed):
        if not sizes[packed].all():
            raise CorruptFileError("a compressed block has no bytes")
        if len(packed) == len(sizes):
            lengths, _ = varints_at(view, offsets)
        else:
            lengths[packed], _ = varints_at(view, offsets[packed])
        if (lengths > sizes * _SNAPPY_RATIO).any():
            raise CorruptFileError(_TOO_MUCH)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    total = int(ends[-1]) if len(ends) else 0
    buffer = np.empty(total + PADDING, np.uint8)
    buffer[total:] = 0
    _fill(buffer, [memoryview(each)[:-1] for each in summed], starts, ends, packed)
    return Blocks(buffer, starts, ends)


def _fill(buffer: Bytes, bodies: Sequence[memoryview], starts: Ints, ends: Ints, packed: Ints) -> None:
    """Put every block where it belongs: those of the indices `packed` decompressed, the others as they are."""
    view = memoryview(buffer)  # type: ignore[arg-type]
    if len(packed) < len(bodies):
        compressed = set(packed.tolist())
        for index, (body, start) in enumerate(zip(bodies, starts.tolist(), strict=True)):
            if index not in compressed:
                view[start : start + len(body)] = body
        bodies, starts, ends = [bodies[i] for i in packed], starts[packed], ends[packed]
    targets = (view[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True))
    try:
        written = list(map(cramjam.snappy.decompress_raw_into, bodies, targets))
    except cramjam.DecompressionError as error:
        raise CorruptFileError(f"a block does not decompress: {error}") from error
    if (np.array(written, np.int64) != ends - starts).any():
        raise CorruptFileError("a block decompresses to another length than it announces")


def _uint32_at(buffer: Bytes, at: Ints) -> Ints:
    return words_at(buffer, "<u4", at).astype(np.int64)


def _intervals(blocks: Blocks) -> tuple[Ints, Ints]:
    """Start and end of each restart interval that holds entries, from the restart arrays at the end of the blocks."""
    starts, lengths = blocks.starts, blocks.ends - blocks.starts
    if (lengths < 8).any():
        raise CorruptFileError(_NO_RESTARTS)
    counts = _uint32_at(blocks.buffer, blocks.ends - 4)
    if (counts < 1).any() or (4 * (counts + 1) > lengths).any():
        raise CorruptFileError(_BAD_RESTART_COUNT)
    entries_end = blocks.ends - 4 * (counts + 1)
    first = np.cumsum(counts) - counts
    total = int(counts.sum())
    block = np.repeat(np.arange(len(counts)), counts)
    begin = _uint32_at(blocks.buffer, entries_end[block] + 4 * (np.arange(total) - first[block])) + starts[block]
    end = np.empty(total, np.int64)
    end[:-1] = begin[1:]
    end[first + counts - 1] = entries_end
    if (begin[first] != starts).any():
        raise CorruptFileError("the first restart of a block is not at its start")
    empty = begin >= end
    if empty.any():
        # The one block that may be empty is `00000000 01000000`: a single restart and no entry.
        blank = (counts == 1) & (entries_end == starts)
        if (begin > end).any() or np.count_nonzero(empty) != np.count_nonzero(blank):
            raise CorruptFileError("the restarts of a block do not increase")
        begin, end = begin[~empty], end[~empty]
    return begin, end


def walk(blocks: Blocks) -> Records:
    """Every entry of every block. Each interval must begin with a whole key and end exactly where the next begins."""
    buffer = blocks.buffer
    cursor, limit = _intervals(blocks)
    ids = np.arange(len(cursor))
    counts = np.zeros(len(cursor), np.int64)  # entries of each interval
    steps: list[tuple[Ints, tuple[Ints, Ints, Ints, Ints]]] = []
    while len(cursor):
        shared, at = varints_at(buffer, cursor)
        key_length, at = varints_at(buffer, at)
        value_length, key_at = varints_at(buffer, at)
        cursor = key_at + key_length
        cursor += value_length
        steps.append((ids, (shared, key_at, key_length, value_length)))
        more = cursor < limit
        if not more.all():
            if (cursor > limit).any():
                raise CorruptFileError("an entry runs over the end of its restart interval")
            counts[ids[~more]] = len(steps)
            cursor, limit, ids = cursor[more], limit[more], ids[more]
    records = _in_file_order(buffer, counts, steps)
    _check_shared(records)
    return records


def _check_shared(records: Records) -> None:
    """Check that no key shares more than the key before it has; at a restart nothing is shared."""
    lengths = records.shared + records.key_length
    if records.shared[records.intervals].any() or (records.shared[1:] > lengths[:-1]).any():
        raise CorruptFileError("a key shares more bytes than the key before it has")


def _in_file_order(buffer: Bytes, counts: Ints, steps: list[tuple[Ints, tuple[Ints, Ints, Ints, Ints]]]) -> Records:
    """Put the entries as in the file: the walk yields the first entries of all intervals, then all second ones, ..."""
    first = np.cumsum(counts) - counts
    if len(steps) > 1:
        rows = np.concatenate([first[ids] + step for step, (ids, _) in enumerate(steps)])
        order = np.empty(len(rows), np.int64)
        order[rows] = np.arange(len(rows))
        shared, key_at, key_length, value_length = (
            np.concatenate(column).take(order) for column in zip(*(found for _, found in steps), strict=True)
        )
    else:
        shared, key_at, key_length, value_length = steps[0][1] if steps else np.empty((4, 0), np.int64)
    return Records(buffer, first, shared, key_at, key_length, key_at + key_length, value_length)


def _load_one(data: bytes, offset: int, size: int) -> bytes:
    """Load one block, as `load` does."""
    type_at = offset + size
    crc = np.array([google_crc32c.value(data[offset : type_at + 1])], np.uint32)
    if int(_masked(crc)[0]) != int.from_bytes(data[type_at + 1 : type_at + TRAILER], "little"):
        raise CorruptFileError(f"the block at byte {offset} does not match its checksum")
    body = data[offset:type_at]
    if data[type_at] == _UNCOMPRESSED:
        return body
    if data[type_at] != _SNAPPY:
        raise CorruptFileError(_UNKNOWN_TYPE.format(data[type_at]))
    length, _ = varint(body, 0)
    if length > size * _SNAPPY_RATIO:
        raise CorruptFileError(_TOO_MUCH)
    try:
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as error:
        raise CorruptFileError(f"a block does not decompress: {error}") from error


def read_plain(data: bytes, offset: int, size: int) -> list[tuple[bytes, bytes]]:
    """The entries of one small block, in Python: faster than numpy for the few blocks that describe a table."""
    body = _load_one(data, offset, size)
    if len(body) < 8:
        raise CorruptFileError(_NO_RESTARTS)
    count = int.from_bytes(body[-4:], "little")
    entries_end = len(body) - 4 * (count + 1)
    if count < 1 or entries_end < 0:
        raise CorruptFileError(_BAD_RESTART_COUNT)
    restarts = struct.unpack_from(f"<{count}I", body, entries_end)
    entries: list[tuple[bytes, bytes]] = []
    begun: list[int] = []
    key, at = b"", 0
    while at < entries_end:
        start = at
        shared, at = varint(body, at)
        key_length, at = varint(body, at)
        value_length, at = varint(body, at)
        if shared > len(key) or at + key_length + value_length > entries_end:
            raise CorruptFileError("an entry does not fit its block")
        if len(begun) < count and restarts[len(begun)] == start:
            if shared:
                raise CorruptFileError("a restart shares bytes with the key before it")
            begun.append(start)
        key = key[:shared] + body[at : at + key_length]
        at += key_length
        entries.append((key, body[at : at + value_length]))
        at += value_length
    if len(begun) != count and not (count == 1 and restarts[0] == 0 and not entries):
        raise CorruptFileError("the restarts of a block are not places where entries start")
    return entries


def handle(value: bytes) -> tuple[int, int]:
    """Offset and size of a block from a value that holds nothing else."""
    offset, at = varint(value, 0)
    size, at = varint(value, at)
    if at != len(value):
        raise CorruptFileError("a block handle is followed by other bytes: not a v2 table as lakeFS writes it")
    return offset, size
