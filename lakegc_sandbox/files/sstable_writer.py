"""Writes RocksDB v2 tables the way lakeFS's storage library does: blocks, index, properties, footer.

What the records and the user properties mean belongs in `graveler_writer`; reading tables back belongs in
`lakegc_core.lakefs`. Nothing here knows about lakeFS beyond the fixed options it opens its writer with.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import cramjam
import google_crc32c

BLOCK_SIZE = 4096  # target bytes of a data block and of an index block, uncompressed
BLOCK_SIZE_THRESHOLD = (BLOCK_SIZE * 90 + 99) // 100  # below it a block is never flushed ahead of its target
RESTART_INTERVAL = 16
TRAILER_SIZE = 5  # compression type and checksum behind every block
HANDLE_ESTIMATE = 20  # what the index reckons with for one block handle
MAGIC = bytes.fromhex("f7cff485b741e288")

RECORD_TRAILER = struct.pack("<Q", 1)  # sequence 0, kind SET
SEPARATOR_TRAILER = struct.pack("<Q", (((1 << 56) - 1) << 8) | 17)
INVALID_KEY = struct.pack("<Q", 255)  # the index key of a table without records

FIXED_PROPERTIES = {
    b"rocksdb.block.based.table.prefix.filtering": b"0",
    b"rocksdb.block.based.table.whole.key.filtering": b"0",
    b"rocksdb.column.family.id": bytes.fromhex("ffffffff07"),
    b"rocksdb.comparator": b"leveldb.BytewiseComparator",
    b"rocksdb.compression": b"Snappy",
    b"rocksdb.compression_options": (
        b"window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; zstd_max_train_bytes=0; enabled=0; "
    ),
    b"rocksdb.creation.time": b"\0",
    b"rocksdb.deleted.keys": b"\0",
    b"rocksdb.external_sst_file.global_seqno": bytes(8),
    b"rocksdb.external_sst_file.version": struct.pack("<I", 2),
    b"rocksdb.filter.size": b"\0",
    b"rocksdb.fixed.key.length": b"\0",
    b"rocksdb.format.version": b"\0",
    b"rocksdb.index.key.is.user.key": b"\0",
    b"rocksdb.index.value.is.delta.encoded": b"\0",
    b"rocksdb.merge.operands": b"\0",
    b"rocksdb.merge.operator": b"pebble.concatenate",
    b"rocksdb.num.range-deletions": b"\0",
    b"rocksdb.oldest.key.time": b"\0",
    b"rocksdb.prefix.extractor.name": b"nullptr",
    b"rocksdb.property.collectors": b"[static]",
}


def uvarint(number: int) -> bytes:
    """Unsigned variable-length integer, low bits first."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _shared_prefix(left: bytes, right: bytes) -> int:
    limit = min(len(left), len(right))
    if left[:limit] == right[:limit]:
        return limit
    low, high = 0, limit  # left[:low] is shared, left[:high] is not
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


class _Block:
    """One block under construction."""

    def __init__(self, restart_interval: int) -> None:
        self._interval = restart_interval
        self._body = bytearray()
        self._restarts: list[int] = []
        self.entries = 0
        self.last_key = b""

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self.entries % self._interval == 0:
            self._restarts.append(len(self._body))
        else:
            shared = _shared_prefix(self.last_key, key)
        self._body += uvarint(shared) + uvarint(len(key) - shared) + uvarint(len(value))
        self._body += key[shared:]
        self._body += value
        self.last_key = key
        self.entries += 1

    def estimated_size(self) -> int:
        return len(self._body) + 4 * len(self._restarts) + 4

    def is_full_before(self, key_size: int, value_size: int) -> bool:
        """True if this block is flushed before an entry of these sizes is added to it."""
        if self.entries == 0:
            return False
        size = self.estimated_size()
        if size >= BLOCK_SIZE:
            return True
        if size <= BLOCK_SIZE_THRESHOLD:
            return False
        size += key_size + value_size + (4 if self.entries % self._interval == 0 else 0)
        size += 4 + len(uvarint(key_size)) + len(uvarint(value_size))
        return size > BLOCK_SIZE

    def finish(self) -> bytes:
        restarts = self._restarts or [0]
        return bytes(self._body) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def _separator(left: bytes, right: bytes) -> bytes:
    """The short user key at or behind `left` and before `right` that an index stores."""
    shared = _shared_prefix(left, right)
    if shared >= min(len(left), len(right)) or left[shared] >= right[shared]:
        return left
    if shared < len(right) - 1 or left[shared] + 1 < right[shared]:
        return left[:shared] + bytes((left[shared] + 1,))
    return _bump(left, shared + 1)


def _bump(key: bytes, start: int) -> bytes:
    for place in range(start, len(key)):
        if key[place] != 0xFF:
            return key[:place] + bytes((key[place] + 1,))
    return key


class TableWriter:
    """Takes records in strictly increasing key order and hands back the bytes of one table."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._data = _Block(RESTART_INTERVAL)
        self._index = _Block(1)
        self._partitions: list[_Block] = []
        self._data_blocks = 0
        self._raw_key_size = 0
        self._raw_value_size = 0
        self._first_key = b""
        self.last_key = b""
        self.count = 0

    def add(self, key: bytes, value: bytes) -> None:
        """Add one record. ValueError if its key is not behind the last one."""
        if self.count and key <= self.last_key:
            raise ValueError(f"Record key {key!r} does not follow {self.last_key!r}.")
        if self._data.is_full_before(len(key) + 8, len(value)):
            self._flush_data(self._separator_of(_separator(self.last_key, key)))
        if not self.count:
            self._first_key = key
        self._data.add(key + RECORD_TRAILER, value)
        self.last_key = key
        self.count += 1
        self._raw_key_size += len(key) + 8
        self._raw_value_size += len(value)

    def estimated_size(self) -> int:
        """Bytes of the table so far, as the splitting into ranges judges them."""
        return len(self._out) + self._data.estimated_size() + self._index.estimated_size()

    def finish(self, properties: Mapping[str, str]) -> tuple[bytes, int]:
        """Close the table with these user properties; return its bytes and the size estimate stored in it."""
        estimate = self.estimated_size()
        if self._data.entries or not self._data_blocks:
            last = self._separator_of(_bump(self.last_key, 0)) if self.count else INVALID_KEY
            self._flush_data(last)
        data_size = len(self._out)
        stored = {name.encode(): text.encode("utf-8", "surrogateescape") for name, text in properties.items()}
        stored[b"min_key"] = self._first_key
        stored[b"max_key"] = self.last_key
        stored[b"count"] = str(self.count).encode()
        stored[b"estimated_size_bytes"] = str(estimate).encode()
        stored |= FIXED_PROPERTIES
        index_handle = self._write_index(stored)
        stored[b"rocksdb.data.size"] = uvarint(data_size)
        stored[b"rocksdb.num.data.blocks"] = uvarint(self._data_blocks)
        stored[b"rocksdb.num.entries"] = uvarint(self.count)
        stored[b"rocksdb.raw.key.size"] = uvarint(self._raw_key_size)
        stored[b"rocksdb.raw.value.size"] = uvarint(self._raw_value_size)
        block = _Block(1 << 30)
        for name in sorted(stored):
            block.add(name, stored[name])
        meta = _Block(1)
        meta.add(b"rocksdb.properties", self._write_block(block.finish(), compress=False))
        meta_handle = self._write_block(meta.finish(), compress=False)
        footer = (b"\x01" + meta_handle + index_handle).ljust(41, b"\0") + struct.pack("<I", 2) + MAGIC
        self._out += footer
        return bytes(self._out), estimate

    def _separator_of(self, candidate: bytes) -> bytes:
        if len(candidate) <= len(self.last_key) and candidate > self.last_key:
            return candidate + SEPARATOR_TRAILER
        return self.last_key + RECORD_TRAILER

    def _flush_data(self, index_key: bytes) -> None:
        full_index = self._index.is_full_before(len(index_key), HANDLE_ESTIMATE)
        handle = self._write_block(self._data.finish())
        self._data = _Block(RESTART_INTERVAL)
        self._data_blocks += 1
        if full_index:
            self._partitions.append(self._index)
            self._index = _Block(1)
        self._index.add(index_key, handle)

    def _write_index(self, properties: dict[bytes, bytes]) -> bytes:
        kind = b"rocksdb.block.based.table.index.type"
        if not self._partitions:
            properties[kind] = struct.pack("<I", 0)
            properties[b"rocksdb.index.size"] = uvarint(self._index.estimated_size() + TRAILER_SIZE)
            return self._write_block(self._index.finish())
        self._partitions.append(self._index)
        top = _Block(1)
        size = 0
        for partition in self._partitions:
            block = partition.finish()
            size += len(block)
            top.add(partition.last_key, self._write_block(block))
        size += top.estimated_size() + TRAILER_SIZE
        properties[kind] = struct.pack("<I", 2)
        properties[b"rocksdb.index.partitions"] = uvarint(len(self._partitions))
        properties[b"rocksdb.top-level.index.size"] = uvarint(top.estimated_size())
        properties[b"rocksdb.index.size"] = uvarint(size)
        return self._write_block(top.finish())

    def _write_block(self, block: bytes, compress: bool = True) -> bytes:
        kind, stored = b"\0", block
        if compress:
            packed = bytes(cramjam.snappy.compress_raw(block))
            if len(packed) < len(block) - len(block) // 8:
                kind, stored = b"\x01", packed
        checksum = google_crc32c.value(stored + kind)
        masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
        handle = uvarint(len(self._out)) + uvarint(len(stored))
        self._out += stored + kind + struct.pack("<I", masked)
        return handle
