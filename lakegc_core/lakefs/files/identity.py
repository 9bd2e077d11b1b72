"""The names that lakeFS gives to its files: a file's id is the SHA-256 of the records and properties in it.

To recompute it is the complete check of a file's integrity. Here is only the arithmetic; who asks for it decides what
a mismatch means (`graveler.verify_identity`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lakegc_core.lakefs.files.keys import whole_keys
from lakegc_core.lakefs.files.sstable import Group, Tables
from lakegc_core.lakefs.files.vectors import Bytes, Ints, copy_slices, windows

# Properties that are added only after the id was computed. All others that are not RocksDB's own take part.
_NOT_HASHED = frozenset((b"min_key", b"max_key", b"count", b"estimated_size_bytes"))
_ROCKSDB_PREFIX = b"rocksdb."
_BAR = ord("|")
_HEAD_BYTES = 8  # up to seven digits; longer ones take twice as many


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


def identities(tables: Tables) -> list[str]:
    """The ids of ranges or metaranges, 64 lower-case hex digits each."""
    digests = [hashlib.sha256() for _ in tables.properties]
    for group in tables.groups:
        _hash_records(digests, group)
    for digest, properties in zip(digests, tables.properties, strict=True):
        own = {
            name: value
            for name, value in properties.items()
            if name not in _NOT_HASHED and not name.startswith(_ROCKSDB_PREFIX)
        }
        digest.update(encode_map(own))
    return [digest.hexdigest() for digest in digests]


def _hash_records(digests: Sequence[hashlib._Hash], group: Group) -> None:
    """Feed the records: of each key, then value, the decimal length, the bytes, and a bar."""
    records = group.records
    for part in whole_keys(records):
        values = (records.buffer, records.value_at[part.rows], records.value_length[part.rows])
        stream, ends = _stream((part.buffer, part.at, part.length), values)
        view = memoryview(stream)  # type: ignore[arg-type]
        for share in group.shares:
            first, last = max(share.rows.start, part.rows.start), min(share.rows.stop, part.rows.stop)
            if first < last:
                begin = ends[first - part.rows.start - 1] if first > part.rows.start else 0
                digests[share.table].update(view[begin : ends[last - part.rows.start - 1]])


def _stream(*columns: tuple[Bytes, Ints, Ints]) -> tuple[Bytes, Ints]:
    """Row by row, for each column (slices: their buffer, places and lengths): ASCII length, the slice, a bar.

    Also where each row ends. Each bar is written in one go with the length after it, in so many bytes as the longest
    takes. What these hold too much lies where the slice, or the next bar, is written after them.
    """
    lengths = np.stack([length for _, _, length in columns], axis=1)
    heads, digits = _heads(lengths)
    ends = np.cumsum(1 + digits + lengths).reshape(lengths.shape)
    to = ends - lengths
    total, width = int(ends[-1, -1]), heads.itemsize
    stream = np.empty(total + width, np.uint8)
    windows(stream, width)[(to - digits - 1).reshape(-1)] = heads.reshape(-1)
    for column, (source, at, length) in enumerate(columns):
        copy_slices(stream, to[:, column], source, at, length)
    stream[total] = _BAR
    return stream[1 : total + 1], ends[:, -1]  # the first bar ends nothing


def _heads(lengths: Ints) -> tuple[npt.NDArray[np.void], Ints]:
    """A bar and the decimal digits of each length, all filled to one width; and the number of digits."""
    longest = int(lengths.max())
    width, which = _HEAD_BYTES, lengths
    if longest < 10 ** (width - 1):
        rows, known = longest + 1, np.flatnonzero(np.bincount(lengths.reshape(-1)))
        at = known
    else:  # rare: users write so long a message or metadata. A table by length would be too large
        known, which = np.unique(lengths, return_inverse=True)
        width, which = 2 * width, which.reshape(lengths.shape)
        rows, at = len(known), np.arange(len(known))
    table = np.zeros(rows, f"V{width}")
    digits = np.zeros(rows, np.int64)
    for row, length in zip(at.tolist(), known.tolist(), strict=True):
        head = b"|%d" % length
        table[row], digits[row] = np.void(head.ljust(width)), len(head) - 1
    return table[which], digits[which]
