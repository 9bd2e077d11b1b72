"""A 64-bit hash of strings, whole columns at a time: a mark looks through millions of addresses by 8 bytes each.

Where addresses are compared by a hash, it is this one; Spark's own hashes only deal rows out to tasks. Hashes say only
that something is referred to: a collision may keep garbage, and never deletes live data. The hash is part of the
artifacts' form, so changing it changes `FORMAT`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93], np.uint64)
_MIXING = np.int64(0x4F1BBCDCBFA53E0B)
_SHIFTS = np.array([29, 32, 31], np.uint64)
MODULUS = 2**64
"""Sums of hashes are compared modulo this."""


def hash_strings(strings: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The hash of each string's bytes, int64; nulls are an error of the caller. Equal strings have equal hashes. A
    dictionary of few strings is hashed once each."""
    if isinstance(strings, pa.ChunkedArray):
        strings = strings.combine_chunks()
    if pa.types.is_dictionary(strings.type) and not strings.null_count:
        hashes: np.ndarray = hash_strings(strings.dictionary)[strings.indices.to_numpy()]
        return hashes
    if strings.null_count:
        raise ValueError("a null has no hash")
    strings = strings.cast(pa.binary())
    lengths = pc.binary_length(strings).to_numpy(zero_copy_only=False)
    found = np.empty(len(strings), np.uint64)
    sizes = np.unique(lengths)
    for size in sizes.tolist():
        if len(sizes) == 1:
            return _hash(_bytes(strings, size), size).view(np.int64)
        rows = lengths == size
        found[rows] = _hash(_bytes(strings.filter(pa.array(rows)), size), size)
    return found.view(np.int64)


def mixed(hashes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Hashes of strings, each together with a number."""
    with np.errstate(over="ignore"):
        found: np.ndarray = hashes ^ numbers * _MIXING
    return found


def sum_of(hashes: np.ndarray, times: np.ndarray | None = None) -> int:
    """The sum of hashes, each taken so many times, modulo 2^64."""
    values = hashes.view(np.uint64)
    with np.errstate(over="ignore"):
        return int((values if times is None else values * times.astype(np.uint64)).sum(dtype=np.uint64))


def _bytes(strings: pa.Array, size: int) -> np.ndarray:
    """Strings of one length as rows of 64-bit words, filled up with zeros."""
    count = len(strings)
    _, offsets, data = strings.buffers()
    start = int(np.frombuffer(offsets, np.int32, count=1, offset=4 * strings.offset)[0]) if count else 0
    words = np.zeros((count, -(-size // 8) * 8), np.uint8)
    if size and count:
        words[:, :size] = np.frombuffer(data, np.uint8, count=count * size, offset=start).reshape(count, size)
    return words.view("<u8")


def _hash(words: np.ndarray, size: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        state = np.full(len(words), _ODD[0] ^ np.uint64(size), np.uint64)
        for column in range(words.shape[1]):
            state ^= words[:, column]
            state *= _ODD[1]
            state ^= state >> _SHIFTS[0]
            state += _ODD[0]
        # Finish as hashes like MurmurHash do: shift and multiply, and shift once more.
        for odd, shift in zip(_ODD[1:], _SHIFTS[1:], strict=True):
            state ^= state >> shift
            state *= odd
        mixed: np.ndarray = state ^ (state >> _SHIFTS[1])
        return mixed
