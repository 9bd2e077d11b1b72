"""Telling people: one sensor over failed runs, whatever failed (a stage, a check, a sweep that was refused, a round).

Where the words go is the team's: they bring a function that takes a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import sleep

import dagster as dg

from lakegc_core.backoff import Backoff
from lakegc_dagster import records
from lakegc_dagster.config import LakegcConfig

_LONGEST = 1_500  # characters of one step's sentence
_TRIES, _BACKOFF = 3, Backoff(first=1.0, longest=2.0)  # a tick has a minute, for several runs


def failure_alert(options: LakegcConfig, send: Callable[[str], object]) -> dg.SensorDefinition:
    """A sensor that calls `send` with `describe` of each failed run of these definitions. Off until turned on.

    Dagster tells a sensor of each run once. So `send` is called again if it raises, three times in all; then the tick
    fails, and shows the error.
    """

    @dg.run_failure_sensor(
        name=options.job_name("failures"),
        tags=dict(options.tags),
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Tells people of every failed run of lakegc, a refused sweep among them.",
    )
    def failures(context: dg.RunFailureSensorContext) -> None:
        if records.is_ours(context.dagster_run, options):
            _send(send, describe(context))

    return failures


def _send(send: Callable[[str], object], text: str) -> None:
    for attempt in range(1, _TRIES):
        try:
            send(text)
            return
        except Exception:
            sleep(_BACKOFF.wait(attempt))
    send(text)


def describe(context: dg.RunFailureSensorContext) -> str:
    """The failures and their causes, in the words of the steps and checks that failed; the run's id last."""
    run = context.dagster_run
    cell = " · ".join(run.tags[tag] for tag in (records.REPOSITORY_TAG, records.MARK_TAG) if tag in run.tags)
    told = []
    for event in context.get_step_failure_events():
        data = event.step_failure_data
        own = data.user_failure_data.description if data.user_failure_data else None
        text = own or (data.error.message.strip() if data.error else "failed")
        told.append(f"{event.step_key}: {text[:_LONGEST]}")
    told += [f"{each.check_name}: {(each.description or '')[:_LONGEST]}" for each in _stopping(context)]
    return "\n".join(
        [f"lakegc · {cell or run.job_name}", *(told or [context.failure_event.message or "failed"]), run.run_id]
    )


def _stopping(context: dg.RunFailureSensorContext) -> Iterator[dg.AssetCheckEvaluation]:
    """The checks that stopped the run. Dagster's own sentence says only their names."""
    told = context.instance.all_logs(context.dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    for entry in told:
        found = entry.get_dagster_event().asset_check_evaluation_data
        if not found.passed and found.severity is dg.AssetCheckSeverity.ERROR:
            yield found
