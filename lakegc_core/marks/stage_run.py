"""Runs a marking stage: once, after the one before it. The stage counts only once its manifest stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from lakegc_core import clock
from lakegc_core.marks.artifacts import Manifest, read_once
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import BEGINS, STAGES, counted
from lakegc_core.policy.facts import F
from lakegc_core.tables.parts import Part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class StageOutput(Generic[F]):
    """The output of a stage: parts by dataset, and small facts for the guards and for people."""

    datasets: Mapping[str, Sequence[Part]]
    facts: F


@dataclass(frozen=True)
class StageResult:
    """A finished stage. `resumed` is True when its manifest stood already and nothing was done."""

    manifest: Manifest
    resumed: bool


StageBody = Callable[["SparkSession", MarkContext], StageOutput[F]]


def standing(stage: str, context: MarkContext) -> StageResult | None:
    """A stage that is finished already; None if it is not. MarkError if the stage before it is not the one it knew."""
    manifest = context.mark.manifest(stage)
    if manifest is None:
        return None
    context.mark.check_upstream(manifest, context.mark.upstream_digest(stage))
    return StageResult(manifest, resumed=True)


def run_stage(stage: str, spark: SparkSession, context: MarkContext, body: StageBody[F]) -> StageResult:
    """Run one marking stage, unless its manifest stands. MarkError if the stage before it is not finished."""
    name = str(stage)  # Dagster stores no enums that it does not know
    with context.lease(name), read_once():
        return _run_stage(name, spark, context, body)


def _run_stage(stage: str, spark: SparkSession, context: MarkContext, body: StageBody[F]) -> StageResult:
    upstream = context.mark.upstream_digest(stage)
    found = standing(stage, context)
    if found is not None:
        return found
    context.say(f"{stage}: {BEGINS} ({STAGES.index(stage) + 1} of {len(STAGES)})")
    started, stopwatch = clock.now().timestamp(), time.monotonic()
    output = body(spark, context)
    own = output.datasets.get(stage, ())
    manifest = context.mark.finish(
        Manifest(
            stage=stage,
            repository=context.header.repository,
            mark_id=context.header.mark_id,
            upstream=upstream,
            started_at=started,
            finished_at=clock.now().timestamp(),
            seconds=round(time.monotonic() - stopwatch, 3),
            datasets={str(name): parts for name, parts in output.datasets.items()},
            facts=output.facts.as_json(),
            rows=sum(part.rows for part in own),
            bytes=sum(part.bytes for part in own),
        )
    )
    context.say(f"{stage}: {counted(manifest.rows, 'row')} in {manifest.seconds:.1f} s")
    return StageResult(manifest, resumed=False)
