"""Keys of a table's records: the internal trailer, the order, and the whole keys from their shared prefixes.

A key is stored as what differs from the key before it. Order can therefore be checked almost without the keys: where
two neighbours part, one byte of each decides.
"""

from __future__ import annotations

import numpy as np

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.blocks import Records
from lakegc_core.lakefs.vectors import PADDING, Bytes, Ints, windows

INTERNAL_TRAILER = (1).to_bytes(8, "little")  # sequence number 0, kind 1 (set): what lakeFS writes on every record
_TRAILER_BYTES = len(INTERNAL_TRAILER)
_HEAD_BYTES = 256  # how far the first keys of neighbouring intervals are compared in one go; must be <= PADDING
_FAR = np.iinfo(np.int64).max
_STRIDE = 64  # bytes compared in one go where one byte did not decide
_MATRIX_BYTES = 1 << 26
_UNORDERED = "the keys of a table do not strictly increase"

assert _HEAD_BYTES <= PADDING


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
        raise CorruptFileError("a key has no internal trailer of its own: it is not lakeFS's, or repeats the key before")
    words: np.ndarray[tuple[int], np.dtype[np.uint64]] = np.ndarray(
        (len(records.buffer) - 7,), "<u8", records.buffer, strides=(1,)
    )
    if (words[records.key_at + (records.key_length - _TRAILER_BYTES)] != 1).any():
        raise CorruptFileError("a record is not a plain set of sequence number 0 (a deletion, or another writer)")


def check_order(records: Records) -> None:
    """User keys must strictly increase by unsigned bytes. Trailers have been checked.

    For each neighbouring pair we know a number of bytes on which both agree, and look at the byte after them.
    """
    if len(records) < 2:
        return
    buffer, shared, key_at = records.buffer, records.shared, records.key_at
    length = user_key_lengths(records)
    agreed = np.minimum(shared[1:], length[:-1])
    _agreed_at_restarts(records, length, agreed)

    left_at = key_at[:-1] + (agreed - shared[:-1])
    elsewhere = np.flatnonzero(shared[:-1] > agreed)  # that byte of the left key is in the bytes of an earlier entry
    piece, _ = _piece_that_holds(records, elsewhere, agreed[elsewhere], length)
    left_at[elsewhere] = key_at[piece] + (agreed[elsewhere] - shared[piece])
    left = buffer[left_at]
    right = buffer[key_at[1:] + (agreed - shared[1:])]
    decided = left < right
    decided &= agreed < length[:-1]
    decided &= agreed < length[1:]
    pairs = np.flatnonzero(~decided)
    if len(pairs):
        _check_slowly(records, length, pairs, agreed[pairs])


def _check_slowly(records: Records, length: Ints, pairs: Ints, agreed: Ints) -> None:
    """The order of entries `pairs` and `pairs + 1`, which one byte did not decide.

    One key is a prefix of the other, or both agree further than we knew, or they are out of order.
    """
    shared, key_at = records.shared, records.key_at
    window = windows(records.buffer, _STRIDE)
    while len(pairs):
        piece, piece_end = _piece_that_holds(records, pairs, agreed, length)
        left = window[key_at[piece] + agreed - shared[piece]]
        right = window[key_at[pairs + 1] + agreed - shared[pairs + 1]]
        comparable = np.minimum(np.minimum(piece_end, length[pairs + 1]) - agreed, _STRIDE)
        same = _first_difference(left, right)
        parted = same < comparable
        where = np.flatnonzero(parted)
        if (left[where, same[where]] > right[where, same[where]]).any():
            raise CorruptFileError(_UNORDERED)
        agreed = agreed + np.minimum(same, comparable)
        if (~parted & (agreed >= length[pairs + 1])).any():  # the second key is the first one or a prefix of it
            raise CorruptFileError(_UNORDERED)
        go_on = ~parted & (agreed < length[pairs])
        pairs, agreed = pairs[go_on], agreed[go_on]


def _first_difference(left: Bytes, right: Bytes) -> Ints:
    """Column of the first difference between two matrices, row by row; their width where there is none."""
    differs = left != right
    column = differs.argmax(axis=1)
    column[~differs[np.arange(len(column)), column]] = left.shape[1]
    return column


def _piece_that_holds(records: Records, entries: Ints, position: Ints, length: Ints) -> tuple[Ints, Ints]:
    """For each entry, the latest one up to it whose own bytes hold byte `position` of the entry's key.

    Also the position up to which that one's bytes are those of the entry's key. A search ends at a restart at the
    latest, which shares nothing.
    """
    shared = records.shared
    piece, end = entries.copy(), length[entries]
    rows = np.flatnonzero(shared[entries] > position)
    candidate, sought, passed = entries[rows], position[rows], end[rows]
    while len(rows):
        np.minimum(passed, shared[candidate], out=passed)
        candidate -= 1
        too_far = shared[candidate] > sought
        if too_far.all():
            continue
        found = rows[~too_far]
        piece[found], end[found] = candidate[~too_far], passed[~too_far]
        rows, candidate = rows[too_far], candidate[too_far]
        sought, passed = sought[too_far], passed[too_far]
    return piece, end


def _agreed_at_restarts(records: Records, length: Ints, agreed: Ints) -> None:
    """Raise `agreed` (of entry i and i + 1) where i + 1 starts an interval and so tells nothing by itself.

    The keys that start intervals lie whole in the buffer. With `same` bytes common to two of them, and `kept` bytes
    kept by every key between, the key before the second one has the smaller number in common with it.
    """
    starts = records.intervals
    if len(starts) < 2:
        return
    width = min(int(length[starts].max()) or 1, _HEAD_BYTES)
    heads = windows(records.buffer, width)[records.key_at[starts]]
    same = _first_difference(heads[1:], heads[:-1])
    inside = records.shared.copy()
    inside[starts] = _FAR
    kept = np.minimum.reduceat(inside, starts)[:-1]
    known = np.minimum(same, kept)
    for other in (length[starts[:-1]], length[starts[1:]], length[starts[1:] - 1]):
        np.minimum(known, other, out=known)
    agreed[starts[1:] - 1] = known


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


def all_keys(records: Records) -> tuple[Ints, Bytes, Ints]:
    """All user keys: places in a new (padded) buffer, that buffer, and lengths in bytes."""
    length = user_key_lengths(records)
    width = int(length.max(initial=0))
    if width * len(records) > _MATRIX_BYTES or not width:
        return _all_keys_plainly(records, length)
    # One row a key: what the row above has in the shared columns, the record's own bytes in the others. The window
    # that starts `shared` bytes before the own bytes has them in the right columns already.
    rows = np.zeros((len(records), width), np.uint8)
    columns = np.arange(width)
    padded = np.concatenate([np.zeros(width, np.uint8), records.buffer, np.zeros(width, np.uint8)])
    own = windows(padded, width)
    source = width + records.key_at - records.shared
    counts = np.diff(np.append(records.intervals, len(records)))
    current, step = records.intervals, 0
    while len(current):
        if step == 0:
            rows[current] = own[source[current]]
        else:
            is_shared = columns < records.shared[current][:, None]
            rows[current] = np.where(is_shared, rows[current - 1], own[source[current]])
        step += 1
        current = records.intervals[counts > step] + step
    padded_rows = np.concatenate([rows.reshape(-1), np.zeros(PADDING, np.uint8)])
    return np.arange(len(records)) * width, padded_rows, length


def _all_keys_plainly(records: Records, length: Ints) -> tuple[Ints, Bytes, Ints]:
    """The same, key by key: for tables with huge keys, whose matrix would not fit."""
    buffer = records.buffer
    key = b""
    keys: list[bytes] = []
    for shared, at, own in zip(
        records.shared.tolist(), records.key_at.tolist(), records.key_length.tolist(), strict=True
    ):
        key = key[:shared] + buffer[at : at + own].tobytes()
        keys.append(key[:-_TRAILER_BYTES])
    flat = np.frombuffer(b"".join(keys) + bytes(PADDING), np.uint8)
    return np.cumsum(length) - length, flat, length


