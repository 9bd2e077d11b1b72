"""The knowledge of Dagster's instance of lakegc's runs and marks, in the terms of `rounds`. Reads; decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from itertools import takewhile
from math import inf
from time import time
from typing import Any

import dagster as dg

# Private, for want of a public way to ask for the check of one partition: `get_latest_asset_check_evaluation_record`
# answers with the latest of any. A change in Dagster shows as an ImportError or in tests/dagster/test_authorization.py.
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from lakegc_core import clock
from lakegc_core.names import STAGES
from lakegc_dagster.checks import guard_keys
from lakegc_dagster.config import JOBS, SWEEP, LakegcConfig
from lakegc_dagster.metadata.entries import EXPIRED, READY, STARTED, STOPPED_BY
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.rounds import Marked, newest

REPOSITORY_TAG = "dagster/partition/repository"
MARK_TAG = "dagster/partition/mark_id"
ROUND, REPOSITORY, STORE = "lakegc/round", "lakegc/repository", "lakegc/store"
"""On runs of the sensors, so that the run queue can limit them: `STORE` names the bucket, container or folder."""
REQUESTED = "lakegc/sweep_requested"
"""On runs of the sweep sensor: the mark that the run was requested for."""

AGAIN = "lakegc/again"
"""On runs of a round that go on with a mark which an earlier run of it left unfinished."""

_RETRY, _PARENT = "dagster/retry_number", "dagster/parent_run_id"
"""Dagster's tags: on a run that it started again by itself, and on each that executes an earlier run again."""

_BACKFILL = "dagster/backfill"
"""Dagster's tag on every run of a backfill."""

_DONE = (AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED)
_OVER = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
_UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _OVER]
_FIRST, _NEXT = 4, 500  # marks asked about together: at first, and after that
_PAGE = 500  # records; a mark has one or a few


def is_ours(run: dg.DagsterRun, options: LakegcConfig) -> bool:
    """True if a run is of these definitions: of one of their jobs, or of some of their assets or checks."""
    checked = (check.asset_key for check in run.asset_check_selection or ())
    chosen = {*(run.asset_selection or ()), *checked}
    if not chosen:
        return run.job_name in {options.job_name(job) for job in JOBS}
    assets, repositories = map(options.key, options.assets), map(options.repository_key, options.repositories)
    return not chosen.isdisjoint([*assets, *repositories])


def unfinished(
    instance: dg.DagsterInstance,
    options: LakegcConfig,
    *,
    since: datetime | None = None,
    before: datetime | None = None,
) -> list[dg.DagsterRun]:
    """Runs of these definitions that are queued, starting, running or being ended. `since`: those created later;
    `before`: those created earlier."""
    runs = instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED, created_after=since, created_before=before))
    return [run for run in runs if is_ours(run, options)]


def busy_repositories(runs: list[dg.DagsterRun]) -> dict[str, str]:
    """The run that is for a repository, by repository; of several, the one that was created first."""
    return {run.tags[REPOSITORY_TAG]: run.run_id for run in runs if REPOSITORY_TAG in run.tags}


def at_work(runs: list[dg.DagsterRun]) -> list[dg.DagsterRun]:
    """Those of unfinished runs that do not wait in the queue."""
    return [run for run in runs if run.status != dg.DagsterRunStatus.QUEUED]


def newest_by_repository(runs: list[dg.DagsterRun]) -> list[dg.DagsterRun]:
    """Of runs, newest first, the newest that is for each repository."""
    return list({run.tags[REPOSITORY_TAG]: run for run in reversed(runs) if REPOSITORY_TAG in run.tags}.values())


def cells_of(runs: list[dg.DagsterRun]) -> set[GcCell]:
    """The cells that runs are for."""
    tags = (run.tags for run in runs if {REPOSITORY_TAG, MARK_TAG} <= run.tags.keys())
    return {GcCell(each[REPOSITORY_TAG], each[MARK_TAG]) for each in tags}


def at_work_for(instance: dg.DagsterInstance, run_id: str) -> timedelta:
    """The time since a run began, with all that its steps waited; none if no start is on record. A run that Dagster
    started again by itself, because an earlier one had died, began with that one."""
    began = None
    for record in _tries(instance, run_id):
        began = record.start_time or began
        if _RETRY not in record.dagster_run.tags:
            break
    return timedelta(seconds=max(0.0, time() - began)) if began else timedelta()


def of_backfill(instance: dg.DagsterInstance, run_id: str) -> bool:
    """True for a run of a backfill, and for one that executes such a run again. Dagster takes the tag off these once
    the backfill is over, and leaves them its config."""
    return any(_BACKFILL in record.dagster_run.tags for record in _tries(instance, run_id))


def _tries(instance: dg.DagsterInstance, run_id: str | None) -> Iterator[dg.RunRecord]:
    """A run, and the earlier ones that it executes again, the last first."""
    while record := instance.get_run_record_by_id(run_id) if run_id else None:
        yield record
        run_id = record.dagster_run.tags.get(_PARENT)


def queued_marks(instance: dg.DagsterInstance, options: LakegcConfig, *, but_of: str) -> dict[str, str]:
    """The round whose run still waits in the queue, by repository. Runs of the round `but_of` do not count."""
    runs = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED]))
    ours = (run.tags for run in runs if {ROUND, REPOSITORY} <= run.tags.keys() and is_ours(run, options))
    return {tags[REPOSITORY]: tags[ROUND] for tags in ours if tags[ROUND] != but_of}


def request_of(instance: dg.DagsterInstance, options: LakegcConfig, cell: GcCell) -> str | None:
    """The run by which a cell was asked to be swept before, if there is one."""
    tags = {REQUESTED: cell.mark_id, REPOSITORY_TAG: cell.repository}
    runs = instance.get_runs(dg.RunsFilter(tags=tags))
    return next((run.run_id for run in runs if is_ours(run, options)), None)


def latest_materialization(
    instance: dg.DagsterInstance, options: LakegcConfig, asset: str, cell: GcCell
) -> dg.EventLogRecord | None:
    """The record of the last time that an asset was materialised for a cell."""
    which = dg.AssetRecordsFilter(asset_key=options.key(asset), asset_partitions=[str(cell.key)])
    records = instance.fetch_materializations(which, limit=1).records
    return records[0] if records else None


def evaluations(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey], cell: GcCell
) -> dict[dg.AssetCheckKey, dg.AssetCheckEvaluation]:
    """The findings of checks for a cell, by key; without those whose last record is of one that was not asked to its
    end."""
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(
        list(keys), partition_filter=PartitionKeyFilter(key=str(cell.key))
    )
    return {key: each.evaluation for key, each in found.items() if each.evaluation and each.status in _DONE}


def broken_off(
    instance: dg.DagsterInstance, options: LakegcConfig, mark_id: str, before: datetime
) -> list[dg.DagsterRun]:
    """The runs of a round that failed before a time and left a mark that was begun and not judged, where no other run
    of the round has gone on with it, or is to."""
    which = dg.RunsFilter(tags={ROUND: mark_id}, statuses=[dg.DagsterRunStatus.FAILURE])
    if not instance.get_runs(which, limit=1):
        return []
    of: dict[str, list[dg.RunRecord]] = {}
    for record in instance.get_run_records(dg.RunsFilter(tags={ROUND: mark_id})):
        if REPOSITORY in record.dagster_run.tags and is_ours(record.dagster_run, options):
            of.setdefault(record.dagster_run.tags[REPOSITORY], []).append(record)
    failed = (
        runs[0].dagster_run
        for runs in of.values()
        if all(each.dagster_run.status == dg.DagsterRunStatus.FAILURE for each in runs)
        and not any(AGAIN in each.dagster_run.tags for each in runs)
        and max(each.end_time or 0.0 for each in runs) < before.timestamp()
    )
    return [run for run in failed if _is_unfinished(instance, options, GcCell(run.tags[REPOSITORY], mark_id))]


def _is_unfinished(instance: dg.DagsterInstance, options: LakegcConfig, cell: GcCell) -> bool:
    """True for a mark that was begun, unless it is complete and its guards have judged it: these would refuse again."""
    if latest_materialization(instance, options, STAGES[0], cell) is None:
        return False
    last = latest_materialization(instance, options, STAGES[-1], cell)
    keys = [key for key in guard_keys(options) if key.asset_key == options.key(STAGES[-1])]
    found = evaluations(instance, keys, cell)
    targets = (found[key].target_materialization_data if key in found else None for key in keys)
    return last is None or not all(target and target.storage_id == last.storage_id for target in targets)


def asked_to_sweep(instance: dg.DagsterInstance, options: LakegcConfig, since: datetime) -> set[str]:
    """The repositories that the sweep sensor asked for since then."""
    runs = instance.get_runs(dg.RunsFilter(job_name=options.job_name("gc_sweep"), created_after=since))
    return {run.tags.get(REPOSITORY_TAG, "") for run in runs if REQUESTED in run.tags and is_ours(run, options)}


def store_of(instance: dg.DagsterInstance, options: LakegcConfig, cell: GcCell) -> str | None:
    """The store of a repository, as the round that asked for its mark said; None for a mark that no round asked for."""
    runs = instance.get_runs(dg.RunsFilter(tags={ROUND: cell.mark_id, REPOSITORY: cell.repository}))
    return next((run.tags[STORE] for run in runs if is_ours(run, options) and STORE in run.tags), None)


def newest_mark(
    instance: dg.DagsterInstance,
    options: LakegcConfig,
    repository: str,
    known: Sequence[str],
    *,
    completed_by: float = inf,
) -> Marked | None:
    """The complete mark of a repository that was begun last, as far as it was made known among the last few.

    `known`: all marks of the instance, as `marks_of` has them. They are looked through a few at a time, from those made
    known last, until some are complete: what this takes does not grow with the marks on record. `completed_by`: unix
    seconds; later ones do not count.
    """
    begin, size = len(known), _FIRST
    while begin > 0:
        end, begin = begin, max(0, begin - size)
        complete = _complete(instance, options, repository, known[begin:end])
        found = [each for each in complete if each.completed_at <= completed_by]
        # The clock of a mark that is to come was wrong: it must not hide the marks after it until its time comes.
        if seen := newest(each for each in found if not clock.is_to_come(each.started_at, clock.now().timestamp())):
            return seen
        size = _NEXT
    return None


def marked(instance: dg.DagsterInstance, options: LakegcConfig, repository: str) -> list[Marked]:
    """The complete marks of a repository, as far as their partitions still stand."""
    return _complete(instance, options, repository, options.grid.marks_of(instance))


def stopped_marks(
    instance: dg.DagsterInstance,
    options: LakegcConfig,
    newest: Marked,
    known: Sequence[str],
    busy: Set[GcCell],
    before: datetime,
) -> list[Marked]:
    """The marks of a repository up to the newest, of the last few hundred, that guards stopped, or whose sweep was
    asked for in vain, since one was swept or found nothing to sweep; newest first. Others are passed over, and so are
    those that unfinished runs are for (`busy`). Empty if all of them were begun after `before`: then no run is asked
    about."""
    unswept = _unswept(instance, options, newest, known)
    marks = [mark for mark in unswept if GcCell(mark.repository, mark.mark_id) not in busy]
    if not marks or marks[-1].started_at > before.timestamp():
        return []
    asked = _asked_marks(instance, options, newest.repository)
    return [mark for mark in marks if mark.stopped_by or mark.mark_id in asked]


def _unswept(instance: dg.DagsterInstance, options: LakegcConfig, newest: Marked, known: Sequence[str]) -> list[Marked]:
    """The marks of a repository up to the newest, of the last few hundred, since one was swept or found nothing to
    sweep; newest first."""
    found = _complete(instance, options, newest.repository, known[-_NEXT:])
    marks = sorted((each for each in found if each.started_at <= newest.started_at), key=lambda each: -each.started_at)
    cells = {mark.mark_id: str(GcCell(mark.repository, mark.mark_id).key) for mark in marks}
    which = dg.AssetRecordsFilter(asset_key=options.key(SWEEP), asset_partitions=list(cells.values()))
    swept = {record.partition_key for record in _records(instance, which)}

    def is_left(mark: Marked) -> bool:
        return cells[mark.mark_id] not in swept and bool(mark.stopped_by or mark.expired)

    return list(takewhile(is_left, marks))


def _asked_marks(instance: dg.DagsterInstance, options: LakegcConfig, repository: str) -> set[str]:
    """The marks of a repository whose sweeps the sensor asked for, of the last few hundred."""
    runs = instance.get_runs(
        dg.RunsFilter(job_name=options.job_name("gc_sweep"), tags={REPOSITORY_TAG: repository}), limit=_NEXT
    )
    return {run.tags[REQUESTED] for run in runs if REQUESTED in run.tags and is_ours(run, options)}


def _complete(
    instance: dg.DagsterInstance, options: LakegcConfig, repository: str, mark_ids: Sequence[str]
) -> list[Marked]:
    """Those of these marks that a repository has completed. The newest record of each counts."""
    found: dict[str, Marked] = {}
    for some in (mark_ids[at : at + _NEXT] for at in range(0, len(mark_ids), _NEXT)):
        cells = {str(GcCell(repository, mark_id).key): mark_id for mark_id in some}
        which = dg.AssetRecordsFilter(asset_key=options.key(STAGES[-1]), asset_partitions=list(cells))
        for record in _records(instance, which):
            mark_id = cells.get(record.partition_key or "")
            materialization = record.asset_materialization
            if mark_id is None or mark_id in found or materialization is None:
                continue
            values = _values(materialization.metadata)
            if values is not None:
                stopped = materialization.metadata.get(STOPPED_BY)
                stopped_by = str(stopped.value) if stopped else ""
                found[mark_id] = Marked(repository, mark_id, *values, stopped_by, completed_at=record.timestamp)
    return list(found.values())


def _records(instance: dg.DagsterInstance, which: dg.AssetRecordsFilter) -> Iterator[dg.EventLogRecord]:
    """All records of some materialisations, newest first. Of no partitions there are none: Dagster would take them for
    all."""
    cursor, more = None, which.asset_partitions != []
    while more:
        page = instance.fetch_materializations(which, limit=_PAGE, cursor=cursor)
        yield from page.records
        cursor, more = page.cursor, page.has_more


def _values(metadata: Mapping[str, dg.MetadataValue[Any]]) -> tuple[float, float, int] | None:
    """The facts that decide about a sweep; None for a materialisation that was reported by hand."""
    try:
        started, ready, expired = (metadata[name].value for name in (STARTED, READY, EXPIRED))
        return float(started), float(ready), int(expired)
    except (KeyError, TypeError, ValueError):
        return None
