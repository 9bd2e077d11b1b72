"""How hard a store is asked to delete: requests in flight, objects a second, and patience when it throttles.

The one home of repeated deletes. A store says what each answer was (`Told`); whether to slow down, to wait and to ask
again is decided here, for all stores alike. Nothing here knows a protocol, nor who may delete what.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from lakegc_core.store.base import ALREADY_GONE, BACKOFF, DELETED, FAILED, NO_ANSWER, NOT_ASKED, StoreConfig

FIRST = 4
"""Requests in flight before anything is known of the store."""

PATIENCE = 45.0
"""Seconds for which a store may go on throttling one request of a sweep, before that counts as its answer. Less than
the time between two glances at the refs: what one of those cuts off has all its patience afterwards."""


class Told(NamedTuple):
    """What one request said of one key. `again`: another may say something else; `throttled`: if it comes later."""

    outcome: str
    again: bool = False
    throttled: bool = False

    @classmethod
    def lost(cls) -> Told:
        """No answer, or none that can be read."""
        return cls(NO_ANSWER, again=True)

    @classmethod
    def failed(cls, code: str, *, again: bool = False, throttled: bool = False) -> Told:
        """The store's own code."""
        return cls(FAILED + code, again or throttled, throttled)


Ask = Callable[[Sequence[str]], Mapping[str, Told] | None]
"""Makes one request for some keys. None: the store does not take them together, only one by one."""


class Window:
    """How many requests may be in flight: half as many when throttled, and one more after a round that went well.

    Until the store throttles for the first time, one more after each request that went well: a sweep may be over
    before it has had many rounds. Requests that were sent before the last cut say nothing new: a burst that is
    throttled is one sign, not many.
    """

    def __init__(self, most: int, first: int = FIRST) -> None:
        self.most = max(1, most)
        self.limit = float(min(self.most, first))
        self.cuts = 0

    def went_well(self, cuts: int) -> None:
        """A request was answered that was sent when there had been so many cuts."""
        if cuts == self.cuts:
            self.limit = min(float(self.most), self.limit + (1 / self.limit if self.cuts else 1))

    def throttled(self, cuts: int) -> None:
        """The same for one that was throttled."""
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
def shared(config: StoreConfig, most: int, rate: float) -> Pace:
    """This process's pace towards a store: what one task has learnt of it counts for the next."""
    return Pace(most, rate, PATIENCE)


def always() -> bool:
    """Nobody forbids it."""
    return True


@dataclass(frozen=True)
class Gate:
    """What every single request passes: a pace, and then, just before it is sent, the question whether it still may."""

    pace: Pace = field(default_factory=lambda: Pace(64))
    may: Callable[[], bool] = always


def delete_all(
    keys: Sequence[str], ask: Ask, *, attempts: int, gate: Gate, single: Ask | None = None
) -> dict[str, str]:
    """Ask for the deletion of different keys until each has an outcome, `attempts` times at most; outcomes by key.

    A throttled request has the pace's patience as well. A key found gone after an answer was lost is `deleted`: that
    request may have done it. What the gate does not let through any more is `not_asked`.
    """
    outcomes = dict.fromkeys(keys, NOT_ASKED)
    doubtful: set[str] = set()
    pending, began, attempt = list(keys), gate.pace.now(), 0
    while pending:
        attempt += 1
        with gate.pace.turn(len(pending)) as turn:
            if not gate.may():
                return outcomes
            told = ask(pending)
            turn.throttled = any(each.throttled for each in told.values()) if told else False
        if told is None:
            if single is None:
                raise AssertionError("a request for one key cannot be divided")
            for key in pending:
                outcomes |= delete_all([key], single, attempts=attempts, gate=gate)
            return outcomes
        for key in pending:
            gone = told[key].outcome == ALREADY_GONE and key in doubtful
            outcomes[key] = DELETED if gone else told[key].outcome
        doubtful.update(key for key in pending if told[key].outcome == NO_ANSWER)
        patient = gate.pace.now() - began < gate.pace.patience
        tried = attempt >= attempts
        pending = [key for key in pending if told[key].again and (not tried or (told[key].throttled and patient))]
        if pending:
            gate.pace.sleep(BACKOFF.wait(attempt))
            for key in pending:
                if told[key].throttled:
                    outcomes[key] = NOT_ASKED  # until it is asked once more: a throttled request was not carried out
    return outcomes
