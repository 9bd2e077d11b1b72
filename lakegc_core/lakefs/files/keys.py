"""Keys of a table's records: the internal trailer, and whole keys from their shared prefixes. See also `order`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.blocks import Records
from lakegc_core.lakefs.files.vectors import PADDING, Bytes, Ints, rows_at, windows, words_at

INTERNAL_TRAILER = (1).to_bytes(8, "little")  # sequence number 0, kind 1 (set): what lakeFS writes on every record
_TRAILER_BYTES = len(INTERNAL_TRAILER)
_PART_INTERVALS = 1024
_MATRIX_BYTES = 1 << 26


def user_key_lengths(records: Records) -> Ints:
    """Length of every key without the trailer, in bytes."""
    return records.shared + records.key_length - _TRAILER_BYTES


def check_trailers(records: Records) -> None:
    """Every key must end in the trailer of a plain set; any other kind could be a deletion.

    Between keys in order the trailer is never shared with the key before, so it lies in the key's own bytes.
    """
    if not len(records):
        return
    if records.key_length.min() < _TRAILER_BYTES:
        raise CorruptFileError(
            "a key has no internal trailer of its own: it is not lakeFS's, or repeats the key before"
        )
    trailer = words_at(records.buffer, "<u8", records.value_at - _TRAILER_BYTES)
    if (trailer != 1).any():
        raise CorruptFileError("a record is not a plain set of sequence number 0 (a deletion, or another writer)")


def key_of(records: Records, index: int) -> bytes:
    """The user key of one record."""
    wanted = int(records.shared[index] + records.key_length[index])
    key = b""
    while wanted:
        shared = int(records.shared[index])
        if shared < wanted:
            at = int(records.key_at[index])
            key = records.buffer[at : at + wanted - shared].tobytes() + key
            wanted = shared
        index -= 1
    return key[:-_TRAILER_BYTES]


@dataclass(frozen=True)
class WholeKeys:
    """The user keys of the records `rows` of a group: key i is `buffer[at[i] : at[i] + length[i]]`."""

    rows: slice
    buffer: Bytes  # padded
    at: Ints
    length: Ints


def whole_keys(records: Records) -> Iterator[WholeKeys]:
    """All user keys of a group, in order, in parts that fit the cache."""
    length = user_key_lengths(records)
    for first in range(0, len(records.intervals), _PART_INTERVALS):
        intervals = records.intervals[first : first + _PART_INTERVALS + 1]
        start = int(intervals[0])
        stop = int(intervals[-1]) if len(intervals) > _PART_INTERVALS else len(records)
        rows = slice(start, stop)
        width = int(length[rows].max())
        if 0 < width <= PADDING and width * (stop - start) <= _MATRIX_BYTES:
            bounds = np.append(intervals[:_PART_INTERVALS], stop) - start
            matrix = _key_matrix(records, rows, bounds, width)
            yield WholeKeys(rows, matrix.reshape(-1), np.arange(stop - start) * width, length[rows])
        else:
            yield WholeKeys(rows, _joined_keys(records, rows), np.cumsum(length[rows]) - length[rows], length[rows])


def _key_matrix(records: Records, rows: slice, bounds: Ints, width: int) -> Bytes:
    """One row a key, cut or filled with anything to `width` bytes; `bounds` of the intervals count from `rows` on.

    In the shared columns a row has what the row above has, in the others the record's own bytes. The window that
    starts `shared` bytes before the own bytes has these in the right columns already.
    """
    count = rows.stop - rows.start
    matrix = np.empty((count + -(-PADDING // width), width), np.uint8)
    matrix[count:] = 0
    own_at = records.key_at[rows] - records.shared[rows]
    shared = np.minimum(records.shared[rows], width)  # a part of a trailer may be shared too
    own_columns = np.triu(np.full((width + 1, width), 0xFF, np.uint8)).reshape(-1)  # row i: all columns from i on
    keys, flat = windows(matrix.reshape(-1), width)[::width], matrix.reshape(-1)
    sizes = np.diff(bounds)
    current, step = bounds[:-1], 0
    while len(current):
        row = rows_at(records.buffer, own_at[current], width)
        if step:
            above = rows_at(flat, (current - 1) * width, width)
            row ^= above
            row &= rows_at(own_columns, shared[current] * width, width)
            row ^= above
        keys[current] = row.view(keys.dtype).reshape(-1)
        step += 1
        current = bounds[:-1][sizes > step] + step
    return matrix


def _joined_keys(records: Records, rows: slice) -> Bytes:
    """The user keys one after the other, put together one by one: for keys so long that a matrix would not fit."""
    buffer = records.buffer
    key = b""
    keys: list[bytes] = []
    columns = (records.shared, records.key_at, records.key_length)
    for shared, at, own in zip(*(column[rows].tolist() for column in columns), strict=True):
        key = key[:shared] + buffer[at : at + own].tobytes()
        keys.append(key[:-_TRAILER_BYTES])
    return np.frombuffer(b"".join(keys) + bytes(PADDING), np.uint8)
