"""The checks that a run planned, when a step of it fails before anybody asks them.

Dagster writes a check down as planned when a run begins. If the run fails before the check is asked, Dagster shows
"execution failed" in red on the check's page, which all repositories share. In its place comes a warning that names the
partition and the reason. It authorises nothing: it is about no materialisation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import dagster as dg

from lakegc_dagster.failures import is_final, said_by
from lakegc_dagster.metadata.entries import STOPS

Done = TypeVar("Done")


def with_checks_told(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext,
    keys: Iterable[dg.AssetCheckKey],
    work: Iterable[Done],
) -> Iterator[Done | dg.AssetCheckEvaluation]:
    """The results of a step's work, for the step to yield. If the work fails for good, a warning for each of the checks
    `keys` that the run planned and has not asked; then the error is raised as it is."""
    try:
        done = list(work)
    except Exception as error:
        run = context.op_execution_context
        if is_final(error, run.retry_number):
            yield from _unasked(run, keys, error)
        raise
    yield from done


def _unasked(
    run: dg.OpExecutionContext, keys: Iterable[dg.AssetCheckKey], error: Exception
) -> Iterator[dg.AssetCheckEvaluation]:
    partition = str(run.partition_key) if run.has_partition_key else None
    planned = _keys(run, dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED)
    asked = _keys(run, dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    for key in keys:
        if key in planned - asked:
            yield dg.AssetCheckEvaluation(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=False,
                severity=dg.AssetCheckSeverity.WARN,
                partition=partition,
                description=f"Not asked: a step for {partition or 'no partition'} failed before. {said_by(error)}",
                metadata={STOPS: True},
            )


def _keys(run: dg.OpExecutionContext, kind: dg.DagsterEventType) -> set[dg.AssetCheckKey]:
    """The checks that the events of this kind of the run are about."""
    events = [entry.get_dagster_event() for entry in run.instance.all_logs(run.run_id, of_type=kind)]
    planned = kind is dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED
    data = [event.asset_check_planned_data if planned else event.asset_check_evaluation_data for event in events]
    return {each.asset_check_key for each in data}
