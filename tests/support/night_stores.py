"""Where a collector's night breaks: places in a sweep at which it dies, a store whose answers are lost, a slow look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.errors import StoreError
from lakegc_core.marks import lease
from lakegc_core.names import NO_ANSWER
from lakegc_core.store.base import NO_ETAGS, ObjectInfo, RefusedObjectError
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.store.pace import Gate
from lakegc_core.sweep import planning, waves
from lakegc_core.sweep.deletion import Deletion, Piece, Wave
from lakegc_core.sweep.record import SweepRecord
from tests.support.towns import Clock, Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNSEALED, UNWAVED = "before its plan is sealed", "before its first delete"
MIDWAY, UNREPORTED = "in the middle of its deletes", "before its report"


@contextmanager
def dying(place: str) -> Iterator[None]:
    """The collector dies at this place of its sweep; it goes on where it does not come to it. `""`: nowhere."""
    with pytest.MonkeyPatch.context() as patch:
        if place == UNSEALED:
            patch.setattr(SweepRecord, "begin", _die)
        elif place == UNWAVED:
            patch.setattr(waves, "run_wave", _die)
        elif place == UNREPORTED:
            patch.setattr(SweepRecord, "close", _die)
        elif place == MIDWAY:
            patch.setattr(waves, "run_wave", _half_a_wave(waves.run_wave))
        yield


def _die(*arguments: object) -> None:
    raise Crash


def _half_a_wave(run_wave: Callable[..., Wave]) -> Callable[..., Wave]:
    def half(spark: SparkSession, pieces: Sequence[Piece], work: Deletion, tasks: int | None = None) -> Wave:
        run_wave(spark, [Piece(piece.source, ((0, (piece.rows + 1) // 2),)) for piece in pieces], work, tasks)
        raise Crash

    return half


@contextmanager
def slow_look(clock: Clock, seconds: float) -> Iterator[None]:
    """The first look of a sweep takes so long; the collector renews its lease meanwhile, as its thread does."""
    take_look, taken = planning.take_look, []

    def look(*arguments: Any) -> Any:
        found = take_look(*arguments)
        if not taken:
            clock.move(seconds)
            for held, _ in list(lease._held.values()):
                held.renew()
        taken.append(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "take_look", look)
        yield


@contextmanager
def telling_time(clock: Clock) -> Iterator[None]:
    """The store tells the time of the town, whatever the collector's own clock shows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStore, "now", lambda store: datetime.fromtimestamp(clock(), UTC))
        yield


@dataclass(frozen=True)
class SilentConfig(LocalConfig):
    """A folder as a store that deletes, and of every other object does not say so."""

    def connect(self) -> SilentStore:
        return SilentStore(self)


class SilentStore(LocalStore):
    def delete_many(
        self, keys: Sequence[str], gate: Gate | None = None, etags: Mapping[str, str] = NO_ETAGS
    ) -> list[str]:
        told = super().delete_many(keys, gate, etags)
        return [NO_ANSWER if number % 2 == 0 and each == "deleted" else each for number, each in enumerate(told)]


@dataclass(frozen=True)
class SealedConfig(LocalConfig):
    """A folder as a store that refuses HEADs of objects with `sealed` in their key, as S3 does under SSE-C. HEADs of
    `broken` ones fail."""

    def connect(self) -> SealedStore:
        return SealedStore(self)


class SealedStore(LocalStore):
    def head(self, key: str) -> ObjectInfo:
        if "sealed" in key:
            raise RefusedObjectError("400", super().head(key))
        if "broken" in key:
            raise StoreError("503")
        return super().head(key)
