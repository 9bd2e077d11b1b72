"""The pace at which a store is asked: requests in flight, objects a second, and patience when it throttles.

Here: the pace of one process towards one store, and the gate that each request passes. Not here: what an answer means
for a key, and whether it is asked again (`repeated_deletes`); any protocol; who may delete what.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

FIRST = 4
"""Requests in flight before anything is known of the store."""

PATIENCE = 45.0
"""Seconds for which a store may go on throttling one request of a sweep, before that counts as its answer. Less than
the time between two glances at the refs: a request that one of those cuts off has all its patience afterwards."""


class Window:
    """The limit of requests in flight: half as many when throttled, and one more after a round that went well.

    Until the store throttles for the first time, one more after each request that went well: a sweep may be over before
    it has had many rounds. Requests that were sent before the last cut say nothing new: a burst that is throttled is
    one sign, not many.
    """

    def __init__(self, most: int, first: int = FIRST) -> None:
        self.most = max(1, most)
        self.limit = float(min(self.most, first))
        self.cuts = 0

    def went_well(self, cuts: int) -> None:
        """Count a request that went well. `cuts`: the number of cuts when it was sent."""
        if cuts == self.cuts:
            self.limit = min(float(self.most), self.limit + (1 / self.limit if self.cuts else 1))

    def throttled(self, cuts: int) -> None:
        """Count a request that was throttled. `cuts`: the number of cuts when it was sent."""
        if cuts == self.cuts:
            self.limit = max(1.0, self.limit / 2)
            self.cuts += 1


class Meter:
    """Spaces out objects so that no more than `rate` a second are sent; 0: no ceiling."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = float("-inf")

    def delay(self, now: float, objects: int) -> float:
        """Seconds to wait at `now` before these objects may be sent. Whoever asks must send them then."""
        if not self._rate:
            return 0.0
        start = max(now, self._free_at)
        self._free_at = start + objects / self._rate
        return start - now


@dataclass
class Turn:
    """One request; `throttled` says, once it is answered, that there were too many. None: it was not sent."""

    throttled: bool | None = None


class Pace:
    """Lets the requests of one process through to one store. Safe to share between threads.

    `patience` in seconds: how long a throttled request is repeated, beyond the attempts that any request has.
    """

    def __init__(
        self,
        most: int,
        rate: float = 0.0,
        patience: float = 0.0,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.window, self._meter = Window(most), Meter(rate)
        self.patience, self.now, self.sleep = patience, now, sleep
        self._in_flight = 0
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, objects: int) -> Iterator[Turn]:
        """Wait until one more request may be in flight, and it is these objects' time."""
        with self._changed:
            self._changed.wait_for(lambda: self._in_flight < int(self.window.limit))
            self._in_flight += 1
            delay = self._meter.delay(self.now(), objects)
        turn = Turn()
        try:
            if delay > 0:
                self.sleep(delay)
            cuts = self.window.cuts
            yield turn
        finally:
            with self._changed:
                self._in_flight -= 1
                if turn.throttled is not None:
                    (self.window.throttled if turn.throttled else self.window.went_well)(cuts)
                self._changed.notify_all()


@functools.lru_cache(maxsize=16)
def shared(config: Hashable, most: int, rate: float) -> Pace:
    """This process's pace towards a store, by its config: what one task has learnt of it counts for the next."""
    return Pace(most, rate, PATIENCE)


May = Callable[[], bool]
"""The question whether a request may still be sent."""


def always() -> bool:
    """Allow every request."""
    return True


@dataclass(frozen=True)
class Gate:
    """The gate that each request passes: a pace, then, just before it is sent, the question whether it still may be.

    `take` counts a request; False if none is left.
    """

    pace: Pace = field(default_factory=lambda: Pace(64))
    may: May = always
    take: May = always

    def opens(self) -> bool:
        """True if one more request may be sent. It is counted."""
        return self.may() and self.take()


@dataclass
class Requests:
    """Counts the requests of one task, up to `most` (None: no limit). Safe to share between threads."""

    most: int | None
    sent: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self) -> bool:
        """Count one more. False, and not counted, if there is none left."""
        with self._lock:
            if self.most is not None and self.sent >= self.most:
                return False
            self.sent += 1
            return True

    def spend(self) -> None:
        """Count all that there are."""
        self.sent = self.most or 0
