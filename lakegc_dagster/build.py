"""Puts the definitions together, afresh on every call, so that a team can mount them in a project of its own; and
the jobs over assets. What those are run for is the partition's business.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import dagster as dg

from lakegc_core.names import STAGES
from lakegc_dagster.assets.backup import backup_assets
from lakegc_dagster.assets.mark import marking_assets
from lakegc_dagster.assets.sweep import sweep_assets
from lakegc_dagster.checks import guard_checks
from lakegc_dagster.config import BACKUP, RESOURCE, SWEEP, LakegcConfig
from lakegc_dagster.pipes.launching import Elsewhere, Launch
from lakegc_dagster.repository import repository_checks, repository_specs
from lakegc_dagster.resources import LakegcResource
from lakegc_dagster.sensors import sensors
from lakegc_dagster.upkeep import schedules, upkeep_jobs
from lakegc_dagster.workplace import Here


def build_lakegc_definitions(
    config: LakegcConfig | None = None,
    *,
    resource_overrides: Mapping[str, Any] | None = None,
    executor: dg.ExecutorDefinition | None = None,
    launch: Launch | None = None,
) -> dg.Definitions:
    """lakegc's assets, checks, jobs, sensors, schedules and resources.

    Asks nobody anything: lakeFS is reached when a step or a sensor runs. `resource_overrides` replaces or adds
    resources; lakegc's own is named `lakegc` here, and gets the key `config.resource_key`.

    `executor`: of what is no job of lakegc's, such as backfills and runs from the asset graph. None leaves that to the
    project that mounts the definitions.

    `launch`: runs a Pipes client, so that marks, backups and sweeps run in an external process (docs/pipes.md). None:
    they run in the process of the step.
    """
    options = config or LakegcConfig()
    workplace = Here() if launch is None else Elsewhere(launch, options)
    every = jobs(options) | upkeep_jobs(options)
    given = {RESOURCE: LakegcResource(), **(resource_overrides or {})}
    return dg.Definitions(
        assets=_with_references(
            [
                *marking_assets(options, workplace),
                *backup_assets(options, workplace),
                *sweep_assets(options, workplace),
                *repository_specs(options),
            ]
        ),
        asset_checks=[*guard_checks(options), *repository_checks(options)],
        jobs=list(every.values()),
        sensors=sensors(options, every),
        schedules=schedules(options, every),
        resources={options.resource_key if name == RESOURCE else name: each for name, each in given.items()},
        executor=executor,
    )


def _with_references(assets: list[Any]) -> Any:
    """The assets with the lines that define them. Dagster calls that new, and warns of it at every loading."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.with_source_code_references(assets)


def jobs(options: LakegcConfig) -> dict[str, Any]:
    """By their plain names: `gc_mark` (five stages and the checks), `gc_sweep` (one cell, marked before; with its
    backup where that is an asset), `gc_backup` (that alone), `gc` (all of it)."""
    marking = dg.AssetSelection.assets(*(options.key(stage) for stage in STAGES))
    saving = dg.AssetSelection.assets(*([options.key(BACKUP)] if options.backup else []))
    sweeping = saving | dg.AssetSelection.assets(options.key(SWEEP))

    def job(name: str, selection: dg.AssetSelection, description: str) -> Any:
        return dg.define_asset_job(
            **options.of_job(name),
            selection=selection,
            description=description,
            executor_def=dg.in_process_executor,  # one JVM a run; Spark does the work side by side
        )

    found = {
        "gc_mark": job("gc_mark", marking, "Find the garbage of a repository and judge it. Deletes nothing."),
        "gc_sweep": job("gc_sweep", sweeping, "Sweep what a mark found. A dry run unless `dry_run: false` is said."),
        "gc": job("gc", marking | sweeping, "Mark, judge and sweep. A dry run unless `dry_run: false` is said."),
    }
    if options.backup:
        found["gc_backup"] = job("gc_backup", saving, "Copy away what a mark would delete. Deletes nothing.")
    return found
