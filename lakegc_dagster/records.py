"""What Dagster's instance knows of lakegc's runs and marks, in the terms of `rounds`. Reads; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import dagster as dg

from lakegc_core.names import STAGES
from lakegc_dagster.config import JOBS, LakegcConfig
from lakegc_dagster.metadata.entries import EXPIRED, READY, STARTED, STOPPED_BY
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.rounds import Marked

REPOSITORY_TAG = "dagster/partition/repository"
MARK_TAG = "dagster/partition/mark_id"
ROUND, REPOSITORY, STORE = "lakegc/round", "lakegc/repository", "lakegc/store"
"""On runs of the sensors, so that the run queue can limit them: `STORE` names the bucket, container or folder."""
REQUESTED = "lakegc/sweep_requested"
"""On runs of the sweep sensor: the mark that the run was requested for."""

_OVER = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
_UNFINISHED = [status for status in dg.DagsterRunStatus if status not in _OVER]
_MOST_RECORDS = 500  # of one repository's live marks; each is materialised once or a few times


def is_ours(run: dg.DagsterRun, options: LakegcConfig) -> bool:
    """Whether a run is of these definitions: of one of their jobs, or of some of their assets or checks."""
    checked = (check.asset_key for check in run.asset_check_selection or ())
    chosen = {*(run.asset_selection or ()), *checked}
    if not chosen:
        return run.job_name in {options.job_name(job) for job in JOBS}
    assets, repositories = map(options.key, options.assets), map(options.repository_key, options.repositories)
    return not chosen.isdisjoint([*assets, *repositories])


def unfinished(
    instance: dg.DagsterInstance, options: LakegcConfig, *, since: datetime | None = None
) -> list[dg.DagsterRun]:
    """Runs of these definitions that are queued, starting, running or being ended. `since`: those created later."""
    runs = instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED, created_after=since))
    return [run for run in runs if is_ours(run, options)]


def busy_repositories(runs: list[dg.DagsterRun]) -> dict[str, str]:
    """The run that is at work on a repository, by repository."""
    return {run.tags[REPOSITORY_TAG]: run.run_id for run in runs if REPOSITORY_TAG in run.tags}


def request_of(instance: dg.DagsterInstance, options: LakegcConfig, cell: GcCell) -> str | None:
    """The run by which a cell was asked to be swept before, if there is one."""
    tags = {REQUESTED: cell.mark_id, REPOSITORY_TAG: cell.repository}
    runs = instance.get_runs(dg.RunsFilter(tags=tags))
    return next((run.run_id for run in runs if is_ours(run, options)), None)


def store_of(instance: dg.DagsterInstance, options: LakegcConfig, cell: GcCell) -> str | None:
    """The store of a repository, as the round that asked for its mark said; None for a mark that no round asked for."""
    runs = instance.get_runs(dg.RunsFilter(tags={ROUND: cell.mark_id, REPOSITORY: cell.repository}))
    return next((run.tags[STORE] for run in runs if is_ours(run, options) and STORE in run.tags), None)


def marked(instance: dg.DagsterInstance, options: LakegcConfig, repository: str) -> list[Marked]:
    """The complete marks of a repository, as far as their partitions still stand. The newest record of each counts."""
    cells = {str(GcCell(repository, mark_id).key): mark_id for mark_id in options.grid.marks_of(instance)}
    if not cells:
        return []
    which = dg.AssetRecordsFilter(asset_key=options.key(STAGES[-1]), asset_partitions=list(cells))
    found: dict[str, Marked] = {}
    for record in instance.fetch_materializations(which, limit=_MOST_RECORDS).records:
        mark_id = cells.get(record.partition_key or "")
        materialization = record.asset_materialization
        if mark_id is None or mark_id in found or materialization is None:
            continue
        values = _values(materialization.metadata)
        if values is not None:
            stopped = materialization.metadata.get(STOPPED_BY)
            found[mark_id] = Marked(repository, mark_id, *values, stopped_by=str(stopped.value) if stopped else "")
    return list(found.values())


def _values(metadata: Mapping[str, dg.MetadataValue[Any]]) -> tuple[float, float, int] | None:
    """What decides about a sweep; None for a materialisation that was reported by hand."""
    values = [metadata[name].value for name in (STARTED, READY, EXPIRED) if name in metadata]
    return (float(values[0]), float(values[1]), int(values[2])) if len(values) == 3 else None
