"""The job that asks the doctor: can repositories be marked and swept, and is this Dagster set up for it?

What the doctor of lakegc_core finds is shown as it says it. Here: what only Dagster's instance can tell.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from lakegc_core.doctor.examine import examine, examine_all
from lakegc_core.doctor.finding import Finding, Level, alarm, note, warning, worst_first
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.failures import READING_RETRIES, told_as_failures
from lakegc_dagster.metadata.shown import Metadata, table
from lakegc_dagster.records import REPOSITORY_TAG
from lakegc_dagster.resources import resource_of

_SETTINGS = "deploy/dagster.yaml shows the settings of an instance for a team."
_WORKING = ("open_round", "watch_rounds", "retire_marks")
_SWEEPING = "sweep_confirmed"  # without it nothing carries out `sweep: true`
_NEEDED = {"SENSOR", "SCHEDULER", "QUEUED_RUN_COORDINATOR"}
"""Dagster's daemons without which no round is opened and no run of one begins."""


class DoctorConfig(dg.Config):
    """What the doctor looks at."""

    repository: str | None = Field(
        default=None,
        description="This repository, with its stores. Without it: the server, lakegc.yaml and the rules of all.",
    )


def doctor(options: LakegcConfig) -> Any:
    """The op of the job `gc_doctor`. It fails if anything is an alarm."""

    @dg.op(
        name=options.job_name("doctor"),
        description="Ask the doctor, and look at the settings of this Dagster.",
        required_resource_keys={options.resource_key},
        retry_policy=READING_RETRIES,
    )
    def ask_doctor(context: dg.OpExecutionContext, config: DoctorConfig) -> None:
        settings = resource_of(options, context).settings()
        with told_as_failures():
            if config.repository:
                found = examine(settings, config.repository, say=context.log.info)
            else:
                found = examine_all(settings, say=context.log.info)
        sweeps = any(policy.sweep and policy.mark for policy in settings.repositories)
        told = [("Dagster", each) for each in instance_findings(context.instance, options, sweeps=sweeps)]
        for part in (found, *found.parts):
            told += [(part.repository or "lakeFS", each) for each in part.findings]
        metadata = _metadata(told)
        context.add_output_metadata(metadata)
        alarms = [f"- {about}: {each.what} {each.do}" for about, each in told if each.level is Level.ALARM]
        if alarms:
            raise dg.Failure("The doctor is alarmed:\n" + "\n".join(alarms), metadata=metadata, allow_retries=False)

    return ask_doctor


def instance_findings(
    instance: dg.DagsterInstance, options: LakegcConfig, *, sweeps: bool = False
) -> tuple[Finding, ...]:
    """Findings on the instance where it is not as lakegc needs it, worst first. `sweeps`: lakegc.yaml says
    `sweep: true` of some repositories."""
    return worst_first([*_records(instance), *_runs(instance), *_at_work(instance, options, sweeps)])


def _records(instance: dg.DagsterInstance) -> Iterator[Finding]:
    if instance.is_ephemeral:
        yield warning(
            "instance-forgets",
            "This Dagster keeps its records in memory or in a temporary folder.",
            "When it ends, checks, partitions and what was swept by whom are forgotten, and no sweep is authorised.",
            "Set DAGSTER_HOME to a folder that stays.",
        )


def _runs(instance: dg.DagsterInstance) -> Iterator[Finding]:
    if not instance.run_monitoring_enabled:
        yield warning(
            "no-run-monitoring",
            "Run monitoring is off.",
            "A run whose process died stays started for ever. Its repository counts as busy, and no round marks it.",
            f"Set `run_monitoring: {{enabled: true}}` in dagster.yaml. {_SETTINGS}",
        )
    if instance.run_retries_enabled and instance.run_retries_retry_on_asset_or_op_failure:
        yield warning(
            "retries-of-refusals",
            "Runs are retried after any failure.",
            "What a guard refused is run again, and refused again, and fails twice.",
            f"Set `retry_on_asset_or_op_failure: false` below `run_retries` in dagster.yaml. {_SETTINGS}",
        )
    queue = instance.get_concurrency_config().run_queue_config
    if queue is None:
        yield warning(
            "no-run-queue",
            "Runs begin as soon as they are asked for.",
            "A round asks for one run a repository, and each is a Spark driver: all begin at once.",
            f"Use the run queue, which is Dagster's default, and set `max_concurrent_runs`. {_SETTINGS}",
        )
    elif not any(_keeps_apart(limit) for limit in queue.tag_concurrency_limits):
        yield note(
            "runs-not-kept-apart",
            "Two runs of one repository may begin side by side.",
            "The second one waits for nothing and fails: a repository has one collector at a time.",
            f"Limit runs by the tag {REPOSITORY_TAG} to 1 for each value. {_SETTINGS}",
        )


def _keeps_apart(limit: Any) -> bool:
    """True if a limit of the queue lets one run of a repository begin at a time."""
    value = limit.get("value")
    each = isinstance(value, dict) and value.get("applyLimitPerUniqueValue")
    return bool(limit["key"] == REPOSITORY_TAG and each and limit["limit"] == 1)


def _at_work(instance: dg.DagsterInstance, options: LakegcConfig, sweeps: bool) -> Iterator[Finding]:
    if instance.schedule_storage is None:  # in memory: it has no sensors
        return
    on = {state.instigator_name for state in instance.all_instigator_state() if state.is_running}
    names = [options.job_name(name) for name in (*_WORKING, *([_SWEEPING] if sweeps else []))]
    off = [name for name in names if name not in on]
    if off:
        yield note(
            "switched-off",
            f"Off: {', '.join(off)}.",
            "Nothing marks every night, notices a repository that was left out, or retires old marks."
            + (" Nothing is swept, although lakegc.yaml says `sweep: true`." if names[-1] in off and sweeps else ""),
            "Turn them on in the UI under Automation, unless something else does their work.",
        )
    asleep = sorted(
        kind
        for kind, status in instance.get_daemon_statuses().items()
        if kind in _NEEDED and status.required and not status.healthy
    )
    if asleep and len(off) < len(names):
        yield alarm(
            "daemon-asleep",
            f"Sensors and schedules are on, and these daemons of Dagster do not run: {', '.join(asleep)}.",
            "No round is opened, nothing is swept, and nobody is told.",
            "Start dagster-daemon, and keep it running.",
        )


def _metadata(told: list[tuple[str, Finding]]) -> Metadata:
    counts = {level: sum(each.level is level for _, each in told) for level in Level}
    said = ", ".join(f"{count:,} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if count)
    order = list(Level)
    rows = [
        (each.level.value, about, each.what, each.why, each.do)
        for about, each in sorted(told, key=lambda row: order.index(row[1].level))
    ]
    # The findings are sentences: Dagster's own tables are for short cells, and would scroll sideways.
    return {
        "in_short": dg.MetadataValue.text(f"{said or 'Nothing'} found."),
        **{f"{level}s": count for level, count in counts.items()},
        **({"findings": table(("level", "about", "what", "why", "do"), rows, "lllll")} if rows else {}),
    }
