"""The time that a tick of a sensor may take. Dagster gives it a minute; of one that takes longer, nothing is kept.

So a tick ends by itself, and its cursor says where the next one goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from time import monotonic

TICK_SECONDS = 20.0
"""After that a tick begins nothing new: a third of Dagster's minute, as what was begun still has to end."""
MOST_REQUESTS = 1_000
"""Runs that one tick asks for at most: Dagster resolves each of them in the same minute, in some 3 ms."""


@dataclass(frozen=True)
class Budget:
    """Time from now on, in seconds of this process's clock."""

    end: float

    @classmethod
    def of_a_tick(cls) -> Budget:
        """The budget of a tick that begins now."""
        return cls(monotonic() + TICK_SECONDS)

    def left(self) -> float:
        """The seconds until the time is over; 0 after that."""
        return max(0.0, self.end - monotonic())

    def turns(self, names: Iterable[str], after: str | None) -> Iterator[str]:
        """Names in their order, each once, from the first one behind `after` on and round, until the time is over.

        At least one, so that a slow instance gets round too. `after` may be a name that is gone.
        """
        ordered = sorted(names)
        behind = [name for name in ordered if after is None or name > after]
        turn = behind + ordered[: len(ordered) - len(behind)]
        yield from turn[:1]
        yield from takewhile(lambda _: monotonic() < self.end, turn[1:])
