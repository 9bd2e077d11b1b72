"""Tables for the tests: a writer of tables lakeFS would write (or never would), and a slow reader in plain Python.

Both are written from the description of the format, and share nothing with the code under test.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cramjam
import google_crc32c

GOLDEN = Path(__file__).parents[1] / "golden"
MAGIC = bytes.fromhex("f7cff485b741e288")
SET = (1).to_bytes(8, "little")
Record = tuple[bytes, bytes]


def golden_files() -> list[Path]:
    """Every range, metarange and dump table of the recordings."""
    return sorted(
        path
        for path in GOLDEN.glob("*/namespace/_lakefs/*")
        if re.fullmatch("[0-9a-f]{64}", path.name) and path.is_file()
    )


# --- reading -------------------------------------------------------------------------------------------------------


def uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def svarint(data: bytes, at: int) -> tuple[int, int]:
    value, at = uvarint(data, at)
    return (value >> 1) ^ -(value & 1), at


def masked(data: bytes) -> int:
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % (1 << 32)


def read_block(data: bytes, offset: int, size: int) -> list[Record]:
    stored = data[offset : offset + size + 1]
    assert masked(stored) == int.from_bytes(data[offset + size + 1 : offset + size + 5], "little")
    block = bytes(cramjam.snappy.decompress_raw(stored[:-1])) if stored[-1] else stored[:-1]
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (restarts + 1)
    at, key = 0, b""
    entries = []
    while at < end:
        shared, at = uvarint(block, at)
        unshared, at = uvarint(block, at)
        length, at = uvarint(block, at)
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        entries.append((key, block[at : at + length]))
        at += length
    return entries


def handle(value: bytes) -> tuple[int, int]:
    offset, at = uvarint(value, 0)
    size, _ = uvarint(value, at)
    return offset, size


def read_plainly(data: bytes) -> tuple[dict[bytes, bytes], list[Record]]:
    """Properties and records of a sound table."""
    footer = data[-53:]
    at = 1
    numbers = []
    for _ in range(4):
        number, at = uvarint(footer, at)
        numbers.append(number)
    meta = dict(read_block(data, numbers[0], numbers[1]))
    properties = dict(read_block(data, *handle(meta[b"rocksdb.properties"])))
    handles = [handle(value) for _, value in read_block(data, numbers[2], numbers[3])]
    if properties[b"rocksdb.block.based.table.index.type"][0] == 2:
        handles = [handle(value) for lower in handles for _, value in read_block(data, *lower)]
    records = [(key[:-8], value) for where in handles for key, value in read_block(data, *where)]
    return properties, records


def unframe(value: bytes) -> tuple[bytes, bytes]:
    length, at = svarint(value, 0)
    name = value[at : at + length]
    length, at = svarint(value, at + length)
    return name, value[at : at + length]


def message(data: bytes) -> dict[int, list[int | bytes]]:
    """Fields of a protobuf message that has only varints and bytes."""
    found: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        tag, at = uvarint(data, at)
        value, at = uvarint(data, at)
        if tag & 7 == 2:
            found.setdefault(tag >> 3, []).append(data[at : at + value])
            at += value
        else:
            assert tag & 7 == 0
            found.setdefault(tag >> 3, []).append(value - (1 << 64) if value >> 63 else value)
    return found


def entry_plainly(value: bytes) -> tuple[str, int, int, str]:
    """Address, address type, size and e_tag of an entry's value."""
    fields = message(unframe(value)[1])
    address, e_tag = fields[1][-1], fields.get(4, [b""])[-1]
    assert isinstance(address, bytes) and isinstance(e_tag, bytes)
    kind, size = fields.get(6, [0])[-1], fields.get(3, [0])[-1]
    assert isinstance(kind, int) and isinstance(size, int)
    return address.decode(), kind, size, e_tag.decode()


def identity_plainly(properties: dict[bytes, bytes], records: Iterable[Record]) -> str:
    digest = hashlib.sha256()
    for record in records:
        for part in record:
            digest.update(str(len(part)).encode() + part + b"|")
    own = {
        name: value
        for name, value in properties.items()
        if name in (b"type", b"entity", b"schema_name", b"schema_definition")
    }

    def number(value: int) -> bytes:
        return b"\2\x08" + struct.pack(">q", value)

    digest.update(b"\4" + number(len(own)))
    for name in sorted(own):
        for text in (name, own[name]):
            digest.update(b"\1" + number(len(text)) + text)
    return digest.hexdigest()


# --- writing -------------------------------------------------------------------------------------------------------


def to_uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def to_svarint(number: int) -> bytes:
    return to_uvarint(number << 1 if number >= 0 else (-number << 1) - 1)


def frame(name: bytes, content: bytes) -> bytes:
    return to_svarint(len(name)) + name + to_svarint(len(content)) + content


def bytes_field(number: int, content: bytes) -> bytes:
    return to_uvarint(number << 3 | 2) + to_uvarint(len(content)) + content


def int_field(number: int, value: int) -> bytes:
    return to_uvarint(number << 3) + to_uvarint(value % (1 << 64))


def entry(
    address: bytes = b"data/s/x",
    *,
    size: int = 1,
    e_tag: bytes = b"tag",
    kind: int = 1,
    metadata: Sequence[tuple[bytes, bytes]] = (),
    content_type: bytes = b"text/plain",
) -> bytes:
    """An Entry as a server writes it: fields in order, defaults left out."""
    out = bytes_field(1, address) + bytes_field(2, int_field(1, 1_700_000_000))
    out += int_field(3, size) if size else b""
    out += bytes_field(4, e_tag) if e_tag else b""
    for key, value in metadata:
        out += bytes_field(5, bytes_field(1, key) + bytes_field(2, value))
    out += int_field(6, kind) if kind else b""
    return out + (bytes_field(7, content_type) if content_type else b"")


def entry_value(**parts: object) -> bytes:
    content = entry(**parts)  # type: ignore[arg-type]
    return frame(hashlib.sha256(content).digest(), content)


def write_block(entries: Sequence[Record], restart_every: int, share: Callable[[int], int] = lambda n: n) -> bytes:
    """An uncompressed block. `share` maps the common length of two keys to the length that is said to be shared."""
    out, restarts, last = bytearray(), [], b""
    for index, (key, value) in enumerate(entries):
        shared = 0
        if index % restart_every == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
            shared = share(shared)
        own = key[shared:]
        out += to_uvarint(shared) + to_uvarint(len(own)) + to_uvarint(len(value)) + own + value
        last = key
    restarts = restarts or [0]
    return bytes(out) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


@dataclass
class TableWriter:
    """Writes a table; every knob has the value lakeFS's servers use. `properties` replace or (None) remove."""

    kind: bytes = b"ranges"
    block_bytes: int = 4096
    restart_every: int = 16
    compress: Callable[[int], bool] = lambda _index: True  # by number of the data block
    two_level: bool = False
    trailer: Callable[[bytes], bytes] = lambda _key: SET
    share: Callable[[int], int] = lambda common: common
    handle_suffix: bytes = b""
    between: bytes = b""  # bytes after the data blocks that belong to none
    reverse_index: bool = False
    meta_blocks: dict[bytes, bytes] = field(default_factory=dict)
    properties: dict[bytes, bytes | None] = field(default_factory=dict)
    footer: Callable[[bytes], bytes] = lambda footer: footer

    def write(self, records: Sequence[Record]) -> bytes:
        self._out = bytearray()
        handles: list[Record] = []
        for index, group in enumerate(self._groups(records)):
            block = write_block(
                [(key + self.trailer(key), value) for key, value in group], self.restart_every, self.share
            )
            where = self._add(block, self.compress(index))
            handles.append((group[-1][0] + SET if group else b"", where + self.handle_suffix))
        if self.reverse_index:
            handles.reverse()
        blocks = len(handles)
        self._out += self.between
        if self.two_level:
            parts = [handles[at : at + 20] for at in range(0, blocks, 20)]
            handles = [(part[-1][0], self._add(write_block(part, 1), True)) for part in parts]
        index_handle = self._add(write_block(handles, 1), True)
        meta = {name: self._add(block, False) for name, block in self.meta_blocks.items()}
        meta[b"rocksdb.properties"] = self._add(self._properties(records, blocks), False)
        meta_handle = self._add(write_block(sorted(meta.items()), 1), False)
        footer = (b"\1" + meta_handle + index_handle).ljust(41, b"\0") + struct.pack("<I", 2) + MAGIC
        return bytes(self._out) + self.footer(footer)

    def _groups(self, records: Sequence[Record]) -> list[list[Record]]:
        groups: list[list[Record]] = [[]]
        used = 0
        for record in records:
            if used >= self.block_bytes:
                groups.append([])
                used = 0
            groups[-1].append(record)
            used += len(record[0]) + len(record[1])
        return groups

    def _add(self, block: bytes, compress: bool) -> bytes:
        packed = bytes(cramjam.snappy.compress_raw(block))
        stored = packed + b"\1" if compress and len(packed) < len(block) - len(block) // 8 else block + b"\0"
        where = to_uvarint(len(self._out)) + to_uvarint(len(stored) - 1)
        self._out += stored + struct.pack("<I", masked(stored))
        return where

    def _properties(self, records: Sequence[Record], blocks: int) -> bytes:
        found: dict[bytes, bytes | None] = {
            b"count": str(len(records)).encode(),
            b"estimated_size_bytes": b"1",
            b"max_key": records[-1][0] if records else b"",
            b"min_key": records[0][0] if records else b"",
            b"rocksdb.block.based.table.index.type": struct.pack("<I", 2 if self.two_level else 0),
            b"rocksdb.comparator": b"leveldb.BytewiseComparator",
            b"rocksdb.deleted.keys": b"\0",
            b"rocksdb.num.data.blocks": to_uvarint(blocks),
            b"rocksdb.num.entries": to_uvarint(len(records)),
            b"type": self.kind,
        }
        found |= self.properties
        return write_block(sorted((name, value) for name, value in found.items() if value is not None), 1 << 30)
