"""Many small reads of one byte buffer at once, in numpy: varints at many places, copies of many slices.

Here are only the tools. What the bytes mean is said in `blocks` (tables) and `graveler` (values).

A buffer is a one-dimensional uint8 array that ends in `PADDING` zero bytes, so that reading a little past the last
record stays inside it. Places and lengths are int64 arrays: narrower ones would be widened at each use, and sums of
them could wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lakegc_core.errors import CorruptFileError

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

PADDING = 4096  # bytes of zeros after the data of a buffer
LENGTH_BYTES = 5  # a length of more bytes than this exceeds 32 GiB: no block holds it, and sums cannot overflow
INT64_BYTES = 10


def varints_at(buffer: Bytes, at: Ints, max_bytes: int = LENGTH_BYTES) -> tuple[Ints, Ints]:
    """The unsigned varints that start at `at`: their values, and the places just after them.

    Ten-byte varints come out as the int64 of the same 64 bits (protobuf's negative numbers). CorruptFileError if
    one is longer than `max_bytes`, or has bits beyond the 64th.
    """
    byte = buffer.take(at)
    values = byte.astype(np.int64)
    after = at + 1
    if not len(at) or byte.max() < 128:
        return values, after
    values &= 127
    rows = np.arange(len(at)) if byte.min() > 127 else np.flatnonzero(byte > 127)
    for shift in range(7, 7 * max_bytes, 7):
        if len(rows) == len(at):  # the usual case for lengths above 127: no subset to pick
            byte = buffer.take(after)
            values |= (byte & 127).astype(np.int64) << shift
            after += 1
        else:
            byte = buffer[after[rows]]
            values[rows] |= (byte & 127).astype(np.int64) << shift
            after[rows] += 1
        highest = byte.max()
        if shift == 63 and highest > 1:
            break
        if highest < 128:
            return values, after
        rows = rows[byte > 127]
    raise CorruptFileError(f"a varint is longer than {max_bytes} bytes or 64 bits")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """One unsigned varint, 0 to 2^64 - 1, and the place after it. CorruptFileError if cut off or too long."""
    if at < len(data) and (first := data[at]) < 128:  # nearly all of them
        return first, at + 1
    value = 0
    for index in range(INT64_BYTES):
        if at + index >= len(data):
            raise CorruptFileError("a varint is cut off by the end of its field")
        byte = data[at + index]
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            if value >= 1 << 64:
                break
            return value, at + index + 1
    raise CorruptFileError("a varint is longer than 64 bits")


def words_at(buffer: Bytes, kind: str, at: Ints) -> npt.NDArray[Any]:
    """The numbers that start at `at`, aligned or not; `kind` is "<u4" or "<u8"."""
    words: npt.NDArray[Any] = np.ndarray((len(buffer) - int(kind[-1]) + 1,), kind, buffer, strides=(1,))
    return words[at]


def windows(buffer: Bytes, width: int) -> npt.NDArray[np.void]:
    """A view of all slices of `width` bytes: element i is the one from i on. No copy, writeable if the buffer is.

    The elements are opaque to numpy, which copies them whole: twice as fast as rows of a matrix.
    """
    return np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, strides=(1,))


def rows_at(buffer: Bytes, at: Ints, width: int) -> Bytes:
    """The slices of `width` bytes that start at `at`, copied into the rows of a matrix."""
    return windows(buffer, width)[at].view(np.uint8).reshape(len(at), width)


def copy_slices(target: Bytes, to: Ints, source: Bytes, at: Ints, lengths: Ints) -> None:
    """Copy `source[at : at + length]` to `target[to : to + length]`, for every row.

    Rows are copied in groups of one width. With few distinct lengths a group is a length. With many, it is a power
    of two, and every row is copied as two pieces of that width, one from its start and one up to its end, which
    overlap: ten groups then do for any lengths up to 1023.
    """
    longest = int(lengths.max(initial=0))
    if longest == 0:
        return
    if longest < 4096 and np.count_nonzero(np.bincount(lengths)) <= 12:
        widths = lengths
    else:
        widths = np.int64(1) << (np.frexp(lengths)[1].astype(np.int64) - 1)
        widths[lengths == 0] = 0
    for width in np.unique(widths).tolist() if len(np.unique(widths)) > 1 else [int(widths[0])]:
        if width == 0:
            continue
        rows: Ints | slice = np.flatnonzero(widths == width)
        if len(rows) == len(widths):  # type: ignore[arg-type]
            rows = slice(None)
        into, of = windows(target, width), windows(source, width)
        into[to[rows]] = of[at[rows]]
        if widths is not lengths:
            last = lengths[rows] - width
            into[to[rows] + last] = of[at[rows] + last]


def gather(source: Bytes, at: Ints, lengths: Ints) -> tuple[npt.NDArray[np.int32], Bytes]:
    """The slices one after the other, as Arrow keeps strings: int32 offsets (one more than slices), and the bytes.

    CorruptFileError if they come to more than an Arrow string column holds (2 GiB).
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    if total > np.iinfo(np.int32).max:
        raise CorruptFileError(f"one column of a file comes to {total} bytes: more than can be held")
    offsets = np.zeros(len(lengths) + 1, np.int32)
    offsets[1:] = ends
    if len(lengths) and total and (lengths == lengths[0]).all():
        return offsets, rows_at(source, at, int(lengths[0])).reshape(-1)
    data = np.empty(total, np.uint8)
    copy_slices(data, ends - lengths, source, at, lengths)
    return offsets, data
