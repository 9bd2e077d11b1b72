"""How a team wants lakegc to appear among its own assets. What is collected, and how, is lakegc.yaml's business."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from lakegc_dagster.partitions import GC_PARTITIONS


@dataclass(frozen=True)
class LakegcConfig:
    """Names and labels of the definitions. Values only: the same config always builds the same definitions."""

    key_prefix: tuple[str, ...] = ()  # before every asset key; its parts, joined by "_", before every job's name
    mark_group: str = "mark"
    sweep_group: str = "sweep"
    tags: Mapping[str, str] = field(default_factory=dict)  # on every asset and every job
    owners: tuple[str, ...] = ()  # such as team:data-platform

    def key(self, asset: str) -> dg.AssetKey:
        """The key of one of lakegc's assets."""
        return dg.AssetKey([*self.key_prefix, asset])

    def job_name(self, job: str) -> str:
        """The name of one of lakegc's jobs."""
        return "_".join([*self.key_prefix, job])

    def asset(
        self, name: str, *, group: str, deps: Sequence[str] = (), **more: Any
    ) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
        """`dg.asset` with what all of lakegc's assets have in common."""
        found: Callable[[Callable[..., Any]], dg.AssetsDefinition] = dg.asset(
            key=self.key(name),
            deps=[self.key(dep) for dep in deps],
            partitions_def=GC_PARTITIONS,
            group_name=group,
            tags=dict(self.tags),
            owners=list(self.owners),
            **more,
        )
        return found
