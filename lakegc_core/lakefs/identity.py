"""The names that lakeFS gives to its files: a file's id is the SHA-256 of the records and properties in it.

To recompute it is the complete check of a file's integrity. Here is only the arithmetic; who asks for it decides what
a mismatch means (`graveler.verify_identity`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from lakegc_core.lakefs.blocks import Records
from lakegc_core.lakefs.keys import whole_keys
from lakegc_core.lakefs.sstable import Table
from lakegc_core.lakefs.vectors import Bytes, Ints, copy_slices

# Properties that are added only after the id was computed. All others that are not RocksDB's own take part.
_NOT_HASHED = frozenset((b"min_key", b"max_key", b"count", b"estimated_size_bytes"))
_ROCKSDB_PREFIX = b"rocksdb."
_BAR = ord("|")


def encode_int(value: int) -> bytes:
    """lakeFS's identity encoding of an int64."""
    return b"\x02\x08" + value.to_bytes(8, "big", signed=True)


def encode_string(value: bytes) -> bytes:
    """lakeFS's identity encoding of a string, given as UTF-8."""
    return b"\x01" + encode_int(len(value)) + value


def encode_map(values: Mapping[bytes, bytes]) -> bytes:
    """lakeFS's identity encoding of a map of strings, in the order of the keys' bytes."""
    parts = [encode_string(key) + encode_string(values[key]) for key in sorted(values)]
    return b"\x04" + encode_int(len(values)) + b"".join(parts)


def table_identity(table: Table) -> str:
    """The id of a range or metarange, 64 lower-case hex digits."""
    digest = hashlib.sha256()
    for group in table.groups:
        _hash_records(digest, group)
    own = {
        name: value
        for name, value in table.properties.items()
        if name not in _NOT_HASHED and not name.startswith(_ROCKSDB_PREFIX)
    }
    digest.update(encode_map(own))
    return digest.hexdigest()


def _hash_records(digest: hashlib._Hash, records: Records) -> None:
    """Feed the records: of each key, then value, the decimal length, the bytes, and a bar."""
    for part in whole_keys(records):
        values = (records.buffer, records.value_at[part.rows], records.value_length[part.rows])
        digest.update(memoryview(_stream([(part.buffer, part.at, part.length), values])))  # type: ignore[arg-type]


def _stream(columns: list[tuple[Bytes, Ints, Ints]]) -> Bytes:
    """Row by row, for each column: ASCII length, the slice, a bar."""
    digits = [_digits(length) for _, _, length in columns]
    sizes = sum((count + length + 1 for count, (_, _, length) in zip(digits, columns, strict=True)), np.int64(0))
    ends = np.cumsum(sizes)
    stream = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    to = ends - sizes
    for count, (source, at, length) in zip(digits, columns, strict=True):
        _write_decimal(stream, to, count, length)
        to = to + count
        copy_slices(stream, to, source, at, length)
        to = to + length
        stream[to] = _BAR
        to = to + 1
    return stream


def _digits(numbers: Ints) -> Ints:
    """How many decimal digits each number has."""
    count = np.ones(len(numbers), np.int64)
    bound, longest = 10, int(numbers.max(initial=0))
    while bound <= longest:
        count += numbers >= bound
        bound *= 10
    return count


def _write_decimal(stream: Bytes, to: Ints, count: Ints, numbers: Ints) -> None:
    rest = numbers
    for place in range(int(count.max(initial=0))):
        rows = np.flatnonzero(count > place)
        stream[to[rows] + count[rows] - 1 - place] = ord("0") + rest[rows] % 10
        rest = rest // 10
