"""The rings of a sweep: a plan is deleted in shares that grow. After each ring, `near` reads paths that must be
readable.

So a plan that names what is live costs the first ring at most, whatever made it wrong. A ring is a part of the plan's
rows, spread over all of it: `planning` orders each part by the hash of its addresses, `divide` takes the first rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lakegc_core.marks.context import MarkContext
from lakegc_core.sweep.deletion import Piece, Range
from lakegc_core.sweep.what_counts import effective_level

LEAST = 10
"""Objects of the first ring, unless its share is more."""
SMALL = 1_000
"""A plan of fewer objects goes in one ring."""
_LEAST_PIECES = 10
"""Pieces over which a ring is spread at least, if there are so many."""
_ROWS_A_PIECE = 500
"""Rows that a ring takes of a piece, if there are enough: a request for few keys takes nearly as long as for many."""


@dataclass(frozen=True)
class Rings:
    """The rings of one sweep. `bounds`: the objects of its first plan that are gone after each ring; the last one takes
    all that is left."""

    bounds: tuple[int, ...] = ()

    @classmethod
    def of(cls, rows: int, shares: Sequence[float]) -> Rings:
        """The rings of a plan of so many objects."""
        bounds = (max(LEAST, int(rows * share)) for share in (shares if rows >= SMALL else ()))
        return cls(tuple(sorted({bound for bound in bounds if bound < rows})))

    def number(self, gone: int) -> int:
        """The number of the ring, from 1, that comes when so many objects are gone."""
        return 1 + sum(bound <= gone for bound in self.bounds)

    def room(self, gone: int) -> int | None:
        """The number of objects that the next ring may delete; None: all that are left."""
        return next((bound - gone for bound in self.bounds if bound > gone), None)

    @property
    def count(self) -> int:
        return len(self.bounds) + 1


def shares_of(context: MarkContext) -> Sequence[float]:
    """The shares of a sweep's rings: as lakegc.yaml says, or as the level does."""
    told = context.policy.rings.shares
    return effective_level(context).rings if told is None else told


def rows_left(pieces: Iterable[Piece]) -> int:
    """The number of rows that are left of pieces."""
    return sum(piece.rows for piece in pieces)


def divide(pieces: Sequence[Piece], room: int | None) -> tuple[list[Piece], list[Piece]]:
    """Divide what is left of a plan into a ring of `room` objects (None: all), spread over the pieces, and the rest."""
    if room is None or room >= rows_left(pieces):
        return list(pieces), []
    step = max(1, len(pieces) // max(_LEAST_PIECES, room // _ROWS_A_PIECE))
    chosen = pieces[::step] if rows_left(pieces[::step]) >= room else pieces
    total, seen, given = rows_left(chosen), 0, 0
    shares: dict[str, int] = {}
    for piece in chosen:
        seen += piece.rows
        shares[piece.source.part.name] = room * seen // total - given
        given = room * seen // total
    ring, rest = [], []
    for piece in pieces:
        first, others = _cut(piece.ranges, shares.get(piece.source.part.name, 0))
        ring += [replace(piece, left=first)] if first else []
        rest += [replace(piece, left=others)] if others else []
    return ring, rest


def _cut(ranges: Sequence[Range], rows: int) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """The first rows of some ranges, and the others."""
    first: list[Range] = []
    others: list[Range] = []
    for start, stop in ranges:
        middle = min(stop, start + rows)
        rows -= middle - start
        first += [(start, middle)] if middle > start else []
        others += [(middle, stop)] if stop > middle else []
    return tuple(first), tuple(others)
