"""The bound on attempts that lead to nothing: a sweep that gets nowhere fails, and does not go on without end."""

from __future__ import annotations

from lakegc_core.errors import IncompleteError
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Symptom, see

MOST = 5
"""A sweep ends after this many waves in a row that delete nothing, or looks in a row after which nothing is done."""


MOST_LATE = 2
"""A sweep ends after this many plans in a row that come too late for their look: each costs a whole dump."""


class Spinning:
    """Counts the waves and the looks of one sweep that led to nothing. Numbers given are of objects."""

    def __init__(self, context: MarkContext) -> None:
        self._context = context
        self._waves = self._looks = self._late = 0

    def wave(self, before: int, left: int) -> None:
        """A wave ended. IncompleteError if it was one too many that deleted nothing."""
        self._waves = self._waves + 1 if left == before else 0
        self._late = self._late if left == before else 0
        if self._waves == MOST:
            seconds = self._context.level.watch_interval.total_seconds()
            raise self._error(
                f"{MOST} waves of deletes in a row deleted nothing: their tasks began more than {seconds:.0f} s after "
                "they were sent, or the store took none of their requests",
                left,
                f"See that Spark has free executors and that {self._context.data.root} answers",
            )

    def late(self, seconds: float, left: int) -> None:
        """A plan came so long after its look that nothing may be deleted by it. IncompleteError the second time: a
        second look reads only what is new, so if that is late, a third one would be late, too."""
        self._late += 1
        if self._late == MOST_LATE:
            valid = self._context.level.look_validity.total_seconds()
            raise self._error(
                f"{MOST_LATE} times a look and the plan after it took longer than the {valid / 60:.0f} minutes for "
                f"which a look counts, the last time {seconds / 60:.0f}",
                left,
                f"Sweep with more executors, or make a new mark (lakegc mark {self._context.header.repository}): what "
                "was committed since this one is what a look has to read",
            )

    def look(self, before: int, left: int) -> None:
        """A look is to be followed by another one. IncompleteError if too many in a row led to nothing."""
        self._looks = self._looks + 1 if left == before else 0
        if self._looks == MOST:
            raise self._error(
                f"{MOST} looks in a row led to nothing: lakeFS's refs or rules changed right after each, or the look "
                "was too old before the first delete",
                left,
                "Sweep when fewer branches and tags are made, or with more executors",
            )

    def _error(self, found: str, left: int, then: str) -> IncompleteError:
        header = self._context.header
        return IncompleteError(
            f"{found}. {left:,} objects are left. lakegc stops, because it would go on like this without end. {then}; "
            f"then run `lakegc sweep {header.repository} {header.mark_id}`, which goes on where this sweep stopped. "
            f"{see(Symptom.SWEEP_GETS_NOWHERE)}"
        )
