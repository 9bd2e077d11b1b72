"""A mark with a few objects to delete, and its sweep, of which looks and waves are counted and can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.marks.context import MarkContext
from lakegc_core.stages.swept_report import planning, waves
from lakegc_core.stages.swept_report import stage as swept_report
from lakegc_core.stages.swept_report.deletion import Piece
from lakegc_core.stages.swept_report.result import SweepResult
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.store.pace import Gate
from tests.support.lake import Lake, leave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACCEPTED = {"blast-radius": "half of a test's repository is garbage"}


class Swept:
    """A mark with three objects to delete; `waves` and `looks` count what its sweep takes."""

    def __init__(self, spark: SparkSession, found: Lake, patch: pytest.MonkeyPatch) -> None:
        self.spark, self.lake, self.patch = spark, found, patch
        repository = found.create("lake")
        repository.set_rules(7)
        self.garbage = [leave(repository, f"data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii54909{n}0", 30) for n in range(3)]
        self.context: MarkContext = found.begin("lake", "m1")
        pipeline.mark(spark, self.context)
        self.waves = self.looks = 0
        take_look = swept_report.take_look

        def look(*arguments: Any) -> Any:
            self.looks += 1
            return take_look(*arguments)

        for module in (planning, swept_report):
            patch.setattr(module, "take_look", look)

    def sweep(self) -> SweepResult:
        return swept_report.swept_report(self.spark, self.context, accepted=ACCEPTED)

    def left(self) -> list[str]:
        return [key for key in self.garbage if (self.lake.files("lake") / key).exists()]

    def each_wave(self, wave: Callable[..., list[Piece]]) -> None:
        """Replace what sends a wave."""

        def counted(*arguments: Any) -> list[Piece]:
            self.waves += 1
            return wave(*arguments)

        self.patch.setattr(waves, "run_wave", counted)


@dataclass(frozen=True)
class ForgetfulConfig(LocalConfig):
    """A folder as a store that calls whatever is not there deleted."""

    def connect(self) -> ForgetfulStore:
        return ForgetfulStore(self)


class ForgetfulStore(LocalStore):
    def delete_many(self, keys: Sequence[str], gate: Gate | None = None) -> list[str]:
        return [outcome.replace("already_gone", "deleted") for outcome in super().delete_many(keys, gate)]
