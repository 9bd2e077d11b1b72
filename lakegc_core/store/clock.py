"""The one clock that a driver and its executors share: the store's.

Executors run on other machines, whose clocks may be hours wrong. A process asks the store for its time, and goes on
from there by differences of its own clocks alone, for a few seconds at most. What is decided by it is not decided here.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass

from lakegc_core import clock
from lakegc_core.store.base import StoreConfig, connect

FRESH = 10.0
"""Seconds for which an answer of the store is gone on from: a machine may be stopped and not know it."""

_TICK = 1.0
"""Stores date their answers in whole seconds, cut off."""


@dataclass(frozen=True)
class _Answer:
    """What the store said (unix seconds), and what this process's own clocks showed before it was asked."""

    date: float
    wall: float
    uptime: float

    @property
    def elapsed(self) -> tuple[float, float]:
        """Seconds since then, by either clock. The first stops with none and may be set; the second is never set."""
        return clock.now().timestamp() - self.wall, clock.uptime() - self.uptime


class StoreClock:
    """The time of one store, as this process knows it. Safe to share between threads."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._answer: _Answer | None = None
        self._lock = threading.Lock()

    def latest(self, *, ask: bool = True) -> float:
        """Unix seconds that the store's clock has not passed yet. The store is asked if it was not of late; without
        `ask` only if it never was.

        Counted from before the request was sent, by the clock of this process that went further: so what is too late
        by the store's clock never passes for being in time, however slow the answer was.
        """
        with self._lock:
            if self._answer is None or (ask and not self._is_fresh(self._answer)):
                self._answer = self._ask()
            return self._answer.date + _TICK + max(0.0, *self._answer.elapsed)

    def _is_fresh(self, answer: _Answer) -> bool:
        wall, uptime = answer.elapsed
        return 0.0 <= wall < FRESH and uptime < FRESH

    def _ask(self) -> _Answer:
        wall, uptime = clock.now().timestamp(), clock.uptime()
        return _Answer(earliest(self._config), wall, uptime)


def earliest(config: StoreConfig) -> float:
    """Unix seconds that the store's clock has reached, by a request made now."""
    return connect(config).clock().timestamp()


@functools.lru_cache(maxsize=16)
def shared_clock(config: StoreConfig) -> StoreClock:
    """This process's one clock of a store."""
    return StoreClock(config)
