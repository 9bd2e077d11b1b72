"""The order of a table's keys, checked almost without the keys.

A key is stored as what differs from the key before it. Where two neighbours part, one byte of each decides; most of
these bytes lie in the entries themselves, and the others are looked up in an entry a little before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.blocks import Records
from lakegc_core.lakefs.files.keys import user_key_lengths
from lakegc_core.lakefs.files.vectors import PADDING, Bytes, Ints, rows_at

_HEAD_BYTES = 256  # how far the first keys of neighbouring intervals are compared in one go
_STRIDE = 16  # how far two keys are compared in one go where one byte did not decide
_FAR = np.iinfo(np.int64).max
_UNORDERED = "the keys of a table do not strictly increase"

assert max(_HEAD_BYTES, _STRIDE) <= PADDING


@dataclass(frozen=True)
class _Keys:
    """The part of the records that the check needs; `length` is that of the user keys."""

    buffer: Bytes
    shared: Ints
    key_at: Ints
    length: Ints
    lowest: list[tuple[int, Ints]]  # for 8, 4, 2 and 1 entries: the lowest `shared` of that many up to each

    def places(self, entries: Ints, position: Ints) -> Ints:
        """The place in the buffer where the byte `position` of a key would be, were it among the entry's own bytes."""
        return self.key_at[entries] + (position - self.shared[entries])

    def pieces(self, entries: Ints, position: Ints) -> tuple[Ints, Ints]:
        """The latest entry up to each one whose own bytes hold the byte `position` of that entry's key.

        Also the position up to which that one's bytes are those of the entry's key. A search ends at a restart at the
        latest, which shares nothing.
        """
        piece, end = entries.copy(), self.length[entries]
        rows = np.flatnonzero(self.shared[piece] > position)
        while len(rows):  # once, if intervals have at most 16 entries
            back, until, wanted = piece[rows], end[rows], position[rows]
            for steps, low in self.lowest:
                passed = low[back]
                too_far = passed > wanted  # true of all the `steps` entries up to this one: skip them
                until = np.where(too_far, np.minimum(until, passed), until)
                back -= too_far * steps
            piece[rows], end[rows] = back, until
            rows = rows[self.shared[back] > wanted]
        return piece, end


def check_order(records: Records, others: Sequence[int] = ()) -> None:
    """User keys must strictly increase by unsigned bytes, else CorruptFileError. Trailers have been checked.

    `others`: rows from which on the records are another table's, whose keys begin anew.
    Of each two neighbours we know a number of bytes that agree, and look at the byte after them.
    """
    if len(records) < 2:
        return
    shared, length = records.shared, user_key_lengths(records)
    keys = _Keys(records.buffer, shared, records.key_at, length, _lowest(shared))
    agreed = np.minimum(shared[1:], length[:-1])
    _raise_at_restarts(records, length, agreed)

    left_at = records.key_at[:-1] + (agreed - shared[:-1])
    elsewhere = np.flatnonzero(shared[:-1] > agreed)  # the byte is not among the left entry's own
    piece, _ = keys.pieces(elsewhere, agreed[elsewhere])
    left_at[elsewhere] = keys.places(piece, agreed[elsewhere])
    right_at = records.key_at[1:] + (agreed - shared[1:])
    left, right = records.buffer[left_at], records.buffer[right_at]
    decided = left < right
    comparable = agreed < length[:-1]
    comparable &= agreed < length[1:]
    decided &= comparable
    decided[np.array(others, np.int64) - 1] = True
    pairs = np.flatnonzero(~decided)  # where the bytes are the same, one more is known to agree
    _check_further(keys, pairs, agreed[pairs] + (comparable & (left == right))[pairs])


def _check_further(keys: _Keys, pairs: Ints, agreed: Ints) -> None:
    """The order of entries `pairs` and `pairs + 1`, which agree on `agreed` bytes at least.

    One key may be a prefix of the other, they may agree further than we knew, or be out of order.
    """
    while len(pairs):
        length, next_length = keys.length[pairs], keys.length[pairs + 1]
        piece, piece_end = keys.pieces(pairs, agreed)
        left = rows_at(keys.buffer, keys.places(piece, agreed), _STRIDE)
        right = rows_at(keys.buffer, keys.places(pairs + 1, agreed), _STRIDE)
        comparable = np.minimum(np.minimum(piece_end, next_length) - agreed, _STRIDE)
        same = np.minimum(_first_difference(left, right), comparable)
        agreed = agreed + same
        parted = same < comparable
        rows = np.flatnonzero(parted)
        wrong = left[rows, same[rows]] > right[rows, same[rows]]
        if wrong.any() or (~parted & (agreed >= next_length)).any():  # the second: a prefix, or the same key again
            raise CorruptFileError(_UNORDERED)
        go_on = ~parted & (agreed < length)
        pairs, agreed = pairs[go_on], agreed[go_on]


def _raise_at_restarts(records: Records, length: Ints, agreed: Ints) -> None:
    """Raise `agreed` (of entries i and i + 1) where i + 1 starts an interval, and so says nothing of it itself.

    The keys that start intervals lie whole in the buffer. If two of them have `same` bytes in common, and the keys
    between keep `kept` bytes of the first, the last of these has the lower of both in common with the second.
    """
    starts = records.intervals
    if len(starts) < 2:
        return
    width = min(int(length[starts].max()) or 1, _HEAD_BYTES)
    heads = rows_at(records.buffer, records.key_at[starts], width)
    same = _first_difference(heads[1:], heads[:-1])
    inside = records.shared.copy()
    inside[starts] = _FAR
    kept = np.minimum.reduceat(inside, starts)[:-1]
    known = np.minimum(same, kept)
    for bound in (length[starts[:-1]], length[starts[1:]], length[starts[1:] - 1]):
        np.minimum(known, bound, out=known)
    agreed[starts[1:] - 1] = known


def _first_difference(left: Bytes, right: Bytes) -> Ints:
    """Column of the first difference of two matrices, row by row; their width where there is none."""
    differs = left != right
    column: Ints = differs.argmax(axis=1)
    nowhere = np.flatnonzero(column == 0)  # if there is no difference, or in the first column
    column[nowhere[~differs[nowhere, 0]]] = left.shape[1]
    return column


def _lowest(shared: Ints) -> list[tuple[int, Ints]]:
    """See `_Keys.lowest`. Near the first entry, which shares nothing, it is the lowest of all up to there: 0."""
    lowest = [(1, shared)]
    for steps in (1, 2, 4):
        near = lowest[0][1]
        low = np.empty_like(near)
        low[:steps] = near[:steps]
        np.minimum(near[steps:], near[:-steps], out=low[steps:])
        lowest.insert(0, (2 * steps, low))
    return lowest
