"""A mark with a few objects to delete, and its sweep, of which looks and waves are counted and can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.marks.context import open_mark
from lakegc_core.stages import swept_report
from lakegc_core.store.base import NO_ETAGS
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.store.pace import Gate
from lakegc_core.sweep import call, planning, waves
from lakegc_core.sweep.deletion import Wave
from lakegc_core.sweep.result import SweepResult
from tests.support.lake import Lake, leave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACCEPTED = {"blast-radius": "half of a test's repository is garbage"}


GARBAGE = [f"data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii54909{number}0" for number in range(3)]


def mark_garbage(spark: SparkSession, found: Lake) -> None:
    """A repository `lake` with three objects to delete, and its mark `m1`."""
    repository = found.create("lake")
    repository.set_rules(7)
    for key in GARBAGE:
        leave(repository, key, 30)
    pipeline.mark(spark, found.begin("lake", "m1"))


class Swept:
    """A mark with three objects to delete; `waves` and `looks` count what its sweep takes."""

    def __init__(self, spark: SparkSession, found: Lake, patch: pytest.MonkeyPatch) -> None:
        self.spark, self.lake, self.patch = spark, found, patch
        self.context = open_mark(found.open("lake"), "m1")
        self.waves = self.looks = 0
        take_look = call.take_look

        def look(*arguments: Any) -> Any:
            self.looks += 1
            return take_look(*arguments)

        for module in (planning, call):
            patch.setattr(module, "take_look", look)

    def sweep(self) -> SweepResult:
        return swept_report(self.spark, self.context, accepted=ACCEPTED)

    def left(self) -> list[str]:
        return [key for key in GARBAGE if (self.lake.files("lake") / key).exists()]

    def each_wave(self, wave: Callable[..., Wave]) -> None:
        """Replace what sends a wave."""

        def counted(*arguments: Any) -> Wave:
            self.waves += 1
            return wave(*arguments)

        self.patch.setattr(waves, "run_wave", counted)


@dataclass(frozen=True)
class ForgetfulConfig(LocalConfig):
    """A folder as a store that calls whatever is not there deleted."""

    def connect(self) -> ForgetfulStore:
        return ForgetfulStore(self)


class ForgetfulStore(LocalStore):
    def delete_many(
        self, keys: Sequence[str], gate: Gate | None = None, etags: Mapping[str, str] = NO_ETAGS
    ) -> list[str]:
        return [outcome.replace("already_gone", "deleted") for outcome in super().delete_many(keys, gate, etags)]
