"""The jobs over assets: mark, back up, sweep, or all. What they are run for is the partition's business."""

from __future__ import annotations

from typing import Any

import dagster as dg

from lakegc_core.names import STAGES
from lakegc_dagster.config import BACKUP, SWEEP, LakegcConfig


def jobs(options: LakegcConfig) -> dict[str, Any]:
    """By their plain names: `gc_mark` (five stages and the checks), `gc_sweep` (one cell, marked before; with its
    backup where that is an asset), `gc_backup` (that alone), `gc` (all of it)."""
    marking = dg.AssetSelection.assets(*(options.key(stage) for stage in STAGES))
    saving = dg.AssetSelection.assets(options.key(BACKUP)) if options.backup else None
    sweeping: dg.AssetSelection = dg.AssetSelection.assets(options.key(SWEEP))
    if saving is not None:
        sweeping = saving | sweeping

    def job(name: str, selection: dg.AssetSelection, description: str) -> Any:
        return dg.define_asset_job(
            options.job_name(name), selection=selection, description=description, tags=dict(options.tags)
        )

    found = {
        "gc_mark": job("gc_mark", marking, "Find the garbage of a repository and judge it. Deletes nothing."),
        "gc_sweep": job("gc_sweep", sweeping, "Sweep what a mark found. A dry run unless `dry_run: false` is said."),
        "gc": job("gc", marking | sweeping, "Mark, judge and sweep. A dry run unless `dry_run: false` is said."),
    }
    if saving is not None:
        found["gc_backup"] = job("gc_backup", saving, "Copy away what a mark would delete. Deletes nothing.")
    return found
