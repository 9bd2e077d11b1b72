"""Puts the definitions together, afresh on every call, so that a team can mount them in a project of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from lakegc_dagster.assets.backup import backup_assets
from lakegc_dagster.assets.mark import marking_assets
from lakegc_dagster.assets.sweep import sweep_assets
from lakegc_dagster.checks import guard_checks
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.jobs import jobs
from lakegc_dagster.resources import LakegcResource
from lakegc_dagster.sensors import sensors
from lakegc_dagster.upkeep import schedules, upkeep_jobs


def build_lakegc_definitions(
    config: LakegcConfig | None = None, *, resource_overrides: Mapping[str, Any] | None = None
) -> dg.Definitions:
    """lakegc's assets, checks, jobs, sensors, schedules and resources.

    Asks nobody anything: lakeFS is reached when a step or a sensor runs. `resource_overrides` replaces or adds
    resources; lakegc's own is named `lakegc`. The executor stands here as well as on jobs because backfills and runs
    from the asset graph are not runs of a job.
    """
    options = config or LakegcConfig()
    every = jobs(options) | upkeep_jobs(options)
    return dg.Definitions(
        assets=[*marking_assets(options), *backup_assets(options), *sweep_assets(options)],
        asset_checks=guard_checks(options),
        jobs=list(every.values()),
        sensors=sensors(options, every),
        schedules=schedules(options, every),
        resources={"lakegc": LakegcResource(), **(resource_overrides or {})},
        executor=dg.in_process_executor,  # one JVM a run; Spark does the work side by side
    )
