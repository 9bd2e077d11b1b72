"""The jobs beside the assets: bring objects back, retire old marks, say which repository missed its round, ask the
doctor, and ask what keeps the objects of a repository.

Two of them have schedules, which are off until turned on. What is decided is decided in `rounds` and lakegc_core.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from pydantic import Field

from lakegc_core import clock
from lakegc_core.copies import backup as core_backup
from lakegc_core.copies.undo import check_keeps
from lakegc_core.errors import LakegcError, LeaseHeldError, SettingsError
from lakegc_core.marks.backups import place_on_record
from lakegc_core.marks.context import MarkContext, open_mark
from lakegc_core.marks.retire import Retirement, retire
from lakegc_core.marks.shelf import retired_marks
from lakegc_core.marks.workspaces import left_of_deleted
from lakegc_core.names import Symptom
from lakegc_dagster import records, rounds
from lakegc_dagster.answers import answers
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.doctor import doctor
from lakegc_dagster.failures import READING_RETRIES, SECONDS_A_WAIT, WAITS_FOR_LEASE, failed_by_name, told_as_failures
from lakegc_dagster.metadata.results import copy_metadata, retirement_metadata
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.resources import LakegcResource, resource_of
from lakegc_dagster.sensors import every_repository
from lakegc_dagster.watch import watch


class RestoreConfig(dg.Config):
    """What a restore brings back. Nothing that lies in the namespace is overwritten."""

    place: str | None = Field(
        default=None,
        description="Where the backup lies; else the place by the record of the mark's backup: one that another tool "
        "made has none. Without either, objects come back out of quarantine, else from what the store itself keeps of "
        "them.",
    )
    paths: list[str] = Field(
        default=[], description="Only objects that commits show at such paths, or such addresses; all if empty."
    )


class RetireConfig(dg.Config):
    """What a retirement may do."""

    keep: int | None = Field(
        default=None, description="Newest complete marks to keep; else lakegc.yaml's `keep_marks`."
    )
    dry_run: bool = Field(default=False, description="Say what would be retired.")


def upkeep_jobs(options: LakegcConfig) -> dict[str, dg.JobDefinition]:
    """By plain names: `gc_restore` (of one cell), `gc_retire`, `gc_watch`, `gc_doctor` (of all repositories) and
    `gc_answers` (of one)."""

    def job(name: str, op: dg.OpDefinition, description: str, **more: Any) -> dg.JobDefinition:
        graph = dg.GraphDefinition(name=options.job_name(name), node_defs=[op])
        found = options.of_job(name)
        return graph.to_job(**found, description=description, executor_def=dg.in_process_executor, **more)

    return {
        "gc_restore": job(
            "gc_restore",
            _restore(options),
            "Bring the objects of a mark back, from their backup, out of quarantine, or from what the store keeps. "
            "Overwrites nothing.",
            partitions_def=options.grid.definition,
        ),
        "gc_retire": job(
            "gc_retire",
            _retire(options),
            "Delete the artifacts of old marks that nothing needs; a record of each stays.",
        ),
        "gc_watch": job(
            "gc_watch",
            watch(options),
            "Fails if a repository has not been marked since the last round was due, or is not swept although "
            "lakegc.yaml says so: because nobody asks for it, or because it was stopped, or failed, for days.",
        ),
        "gc_doctor": job(
            "gc_doctor",
            doctor(options),
            "Look whether repositories can be marked and swept, and what endangers them. Deletes nothing.",
        ),
        "gc_answers": job(
            "gc_answers",
            answers(options),
            "Say what each branch, tag and hold of a repository keeps, and what other days of its rules would keep. "
            "Changes nothing.",
        ),
    }


def schedules(options: LakegcConfig, jobs: dict[str, Any]) -> list[dg.ScheduleDefinition]:
    """`retire_marks` and `watch_rounds`, in UTC, off until turned on."""

    def schedule(name: str, job: str, cron: str, description: str) -> dg.ScheduleDefinition:
        return dg.ScheduleDefinition(
            name=options.job_name(name),
            job=jobs[job],
            cron_schedule=cron,
            description=description,
            execution_timezone="UTC",
            tags=dict(options.tags),
            default_status=dg.DefaultScheduleStatus.STOPPED,
        )

    return [
        schedule(
            "retire_marks",
            "gc_retire",
            options.retire_cron,
            "Deletes the artifacts of old marks that nothing needs, and their partitions. No data of a repository.",
        ),
        schedule(
            "watch_rounds",
            "gc_watch",
            options.watch_cron,
            "Fails, by name, if a repository has not been marked since the last round was due, or is not swept "
            "although lakegc.yaml says so. Deletes nothing.",
        ),
    ]


def _restore(options: LakegcConfig) -> Any:
    @dg.op(
        name=options.job_name("restore"),
        description="Bring objects back.",
        required_resource_keys={options.resource_key},
    )
    def restore(context: dg.OpExecutionContext, config: RestoreConfig) -> None:
        lakegc = resource_of(options, context)
        with told_as_failures(context.retry_number):
            cell = GcCell.of(context)
            opened = lakegc.open(cell, context.log.info)
            mark = open_mark(opened, cell.mark_id, retired_too=True, any_version=True)
            place = config.place or place_on_record(mark.mark)
            if place is None:
                _check_keeps(mark)
            else:
                core_backup.readable_place(mark, place)
            result = core_backup.restore(lakegc.spark, mark, place, paths=config.paths)
        context.add_output_metadata(copy_metadata(result))
        if result.failed:
            said = f"{result.trouble} {_NOT_ON_RECORD}" if place is None else result.trouble
            raise dg.Failure(said, metadata=copy_metadata(result), allow_retries=False)

    return restore


_NOT_ON_RECORD = (
    "No backup of this mark is on record. If another tool made the backup, give its place as `place` in the config of "
    "the run."
)


def _check_keeps(mark: MarkContext) -> None:
    """`check_keeps`, in the words of this job."""
    try:
        check_keeps(mark)
    except SettingsError as error:
        raise SettingsError(f"{error} {_NOT_ON_RECORD}") from None


def _retire(options: LakegcConfig) -> Any:
    @dg.op(
        name=options.job_name("retire"),
        description="Retire old marks of all repositories.",
        required_resource_keys={options.resource_key},
        retry_policy=READING_RETRIES,
    )
    def retire_old_marks(context: dg.OpExecutionContext, config: RetireConfig) -> None:
        lakegc = resource_of(options, context)
        with told_as_failures():
            listed = {repository.id for repository in every_repository(lakegc)}
        instance, found = context.instance, _Retired()
        names = options.grid.repositories_of(instance)
        _tell_deleted(lakegc, sorted(set(names) - listed), context, found)
        leased = _retire_in_all(lakegc, [name for name in names if name in listed], config, context, found)
        for _ in range(WAITS_FOR_LEASE):
            if not leased:
                break
            context.log.info(f"A collector is at work on {', '.join(leased)}; waiting.")
            time.sleep(SECONDS_A_WAIT)
            leased = _retire_in_all(lakegc, list(leased), config, context, found)
        found.problems |= leased
        for name in (*leased, *found.unknown):
            found.held |= {mark.mark_id for mark in records.marked(instance, options, name)}
        gone = _without_marks(instance, options, found)
        for mark_id in gone if not config.dry_run else ():
            instance.delete_dynamic_partition(str(options.grid.marks.name), mark_id)
        metadata = retirement_metadata(found.done, gone)
        context.add_output_metadata(metadata)
        if found.problems:
            title = "Marks or copies of these repositories stay"
            raise failed_by_name(title, found.problems, metadata, Symptom.RETIRE_FAILS)

    return retire_old_marks


@dataclass
class _Retired:
    """The progress of a retirement. `held`: marks that stand somewhere; `retired`: those that do not any more.
    `unknown`: repositories of which nobody knows."""

    done: list[Retirement] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    retired: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


def _tell_deleted(
    lakegc: LakegcResource, names: Sequence[str], context: dg.OpExecutionContext, found: _Retired
) -> None:
    """Add to the problems of `found` what deleted repositories left in a workspace, where nobody empties it.

    A name that no repository can have, such as `alpha/marks`, somebody typed in the UI: it leads to folders of others.
    """
    settings = lakegc.settings()
    for name in names:
        try:
            GcCell.checked(name, "any")
        except SettingsError as error:
            context.log.warning(f"{error} Delete this partition in the UI.")
            continue
        context.log.info(f"{name} is no repository of this lakeFS any more: nothing of it is retired.")
        try:
            folder = left_of_deleted(name, settings)
        except LakegcError as error:
            found.problems[name] = str(error)
            continue
        if folder:
            found.problems[name] = (
                f"it is no repository of this lakeFS any more, and {folder} holds its marks, records or copies. Delete "
                "that folder by hand once nobody needs them, if no other lakeFS keeps marks there"
            )


def _retire_in_all(
    lakegc: LakegcResource, names: Sequence[str], config: RetireConfig, context: dg.OpExecutionContext, found: _Retired
) -> dict[str, str]:
    """Retire the old marks of some repositories. Returns those on which a collector is at work, with the error that
    says so; other errors are among the problems of `found`."""
    leased: dict[str, str] = {}
    for name in names:
        try:
            _retire_in(lakegc, name, config, context, found)
        except LeaseHeldError as error:
            leased[name] = str(error)
        except LakegcError as error:
            found.problems[name] = str(error)
            found.unknown.add(name)
    return leased


def _retire_in(
    lakegc: LakegcResource, name: str, config: RetireConfig, context: dg.OpExecutionContext, found: _Retired
) -> None:
    """Retire the old marks of one repository, and add to `found` what that did."""
    repository = lakegc.open(GcCell.checked(name, "any"), context.log.info)
    result = retire(repository, config.keep, dry_run=config.dry_run)
    found.retired |= {*result.retired, *retired_marks(repository.workspace, repository.home)}
    found.held |= set(result.kept)
    found.done.append(result)
    waiting = {
        "no mark that was swept since goes until these sweeps are over": result.unclosed,
        "these copies in quarantine stay until somebody acts": result.quarantine.stuck,
        "the time of these copies in quarantine was over days ago": result.quarantine.overdue,
    }
    told = (
        f"{title}: {'; '.join(f'mark {each}: {why}' for each, why in by.items())}"
        for title, by in waiting.items()
        if by
    )
    if problem := ". ".join(told):
        found.problems[name] = problem
    for mark_id, reason in result.kept.items():
        context.log.debug(f"{name}: {mark_id} stays: {reason}")


def _without_marks(instance: dg.DagsterInstance, options: LakegcConfig, found: _Retired) -> list[str]:
    """The partitions that no mark and no run needs any more."""
    busy = {run.tags.get(records.MARK_TAG, "") for run in records.unfinished(instance, options)}
    known, now = options.grid.marks_of(instance), clock.now().timestamp()
    return rounds.partitions_to_remove(known, held=found.held, retired=found.retired, busy=busy, now=now)
