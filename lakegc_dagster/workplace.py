"""The place where the work on a mark is done: in the process of the step, or in an external one.

Opening a mark, authorising a sweep and what Dagster shows belong to the assets. None of that needs Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import dagster as dg

from lakegc_core import pipeline
from lakegc_core.copies import backup as copies
from lakegc_core.copies.copied import CopyResult
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.stage_run import StageResult
from lakegc_core.stages import MARKING
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.result import SweepResult
from lakegc_dagster.resources import LakegcResource


@dataclass(frozen=True)
class Step:
    """A step of Dagster that works on a mark."""

    context: dg.AssetExecutionContext
    lakegc: LakegcResource
    mark: MarkContext


class Workplace(Protocol):
    """The work that needs Spark. All methods raise errors of lakegc, or `dg.Failure`."""

    def stage(self, step: Step, stage: str) -> StageResult:
        """Run a marking stage, by its name."""
        ...

    def backup(self, step: Step, place: str) -> CopyResult:
        """Copy what the mark would delete to `place`, a URI or an absolute folder."""
        ...

    def sweep(self, step: Step, *, dry_run: bool, accepted: Mapping[str, str], budget: Budget) -> SweepResult:
        """Sweep the mark. `accepted`: reasons by guard."""
        ...


class Here:
    """In the process of the step, on the resource's Spark session."""

    def stage(self, step: Step, stage: str) -> StageResult:
        """Run a marking stage, by its name."""
        return MARKING[stage](step.lakegc.spark, step.mark)

    def backup(self, step: Step, place: str) -> CopyResult:
        """Copy what the mark would delete to `place`."""
        return copies.backup(step.lakegc.spark, step.mark, place)

    def sweep(self, step: Step, *, dry_run: bool, accepted: Mapping[str, str], budget: Budget) -> SweepResult:
        """Sweep the mark."""
        return pipeline.sweep(step.lakegc.spark, step.mark, dry_run=dry_run, accepted=accepted, budget=budget)
