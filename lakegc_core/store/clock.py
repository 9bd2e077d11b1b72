"""The one clock that a driver and its executors share: the store's.

Executors run on other machines, whose clocks may be hours wrong. A process asks the store for its time, and adds
differences of its own clocks alone, for a few seconds at most. Others decide what follows from the time.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass

from lakegc_core import clock
from lakegc_core.store.base import StoreConfig, connect

FRESH = 10.0
"""Seconds for which a process builds on an answer of the store: a machine may be stopped and not know it."""

_TICK = 1.0
"""Stores date their answers in whole seconds, cut off."""


@dataclass(frozen=True)
class _Answer:
    """The store's answer (unix seconds), and this process's own clocks just before it asked."""

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
        """Unix seconds that the store's clock has not passed yet. Asks the store if it was not asked of late; without
        `ask` only if it never was.

        The time counts from before the request was sent, by the clock of this process that went further. So nothing
        that is too late by the store's clock passes for being in time, however slow the answer was.
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


def ahead(config: StoreConfig) -> float:
    """Seconds by which the store's clock is ahead of the collector's, by a request made now: marks, sweeps and restores
    are judged by it. Up to a second less where stores cut their times off, which no guard notices."""
    return (connect(config).now() - clock.now()).total_seconds()


def earliest(config: StoreConfig) -> float:
    """Unix seconds that the store's clock has reached, by a request made now."""
    return connect(config).clock().timestamp()


@functools.lru_cache(maxsize=16)
def shared_clock(config: StoreConfig) -> StoreClock:
    """This process's one clock of a store."""
    return StoreClock(config)
