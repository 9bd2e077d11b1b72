"""The jobs: mark, sweep, or both. What they are run for is the partition's business."""

from __future__ import annotations

from typing import Any

import dagster as dg

from lakegc_core.mark import STAGES
from lakegc_dagster.config import LakegcConfig


def jobs(options: LakegcConfig) -> list[Any]:
    """`gc_mark` (five stages and the checks), `gc_sweep` (one cell, marked before), `gc` (all six and the checks)."""
    marking = dg.AssetSelection.assets(*(options.key(stage) for stage in STAGES))
    sweeping = dg.AssetSelection.assets(options.key("swept_report"))

    def job(name: str, selection: dg.AssetSelection, description: str) -> Any:
        return dg.define_asset_job(
            options.job_name(name), selection=selection, description=description, tags=dict(options.tags)
        )

    return [
        job("gc_mark", marking, "Find the garbage of a repository and judge it. Deletes nothing."),
        job("gc_sweep", sweeping, "Sweep what a mark found. A dry run unless `dry_run: false` is said."),
        job("gc", marking | sweeping, "Mark, judge and sweep. A dry run unless `dry_run: false` is said."),
    ]
