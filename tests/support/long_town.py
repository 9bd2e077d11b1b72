"""The town of the long nights: its lakegc.yaml changes, and its sweeps may die."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy, ScaleSettings, Settings
from lakegc_core.marks.artifacts import AUTO
from lakegc_core.marks.context import MarkContext, open_mark
from lakegc_core.sweep.result import SweepResult
from tests.support import oracle, towns
from tests.support.night_stores import SilentConfig, dying
from tests.support.towns import Town

KEEP = 3
"""Complete marks that are never retired."""


class LongTown(Town):
    """A town whose lakegc.yaml changes, and whose sweeps may die."""

    holds: tuple[str, ...] = ()
    requests = 0  # to lakeFS, at most; 0: as the level says

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._versions: dict[str, oracle.Version] = {}

    def settings(self) -> Settings:
        policy = RepositoryPolicy("*", holds=self.holds, keep_marks=KEEP)
        scale = ScaleSettings(lakefs_requests=self.requests)
        return replace(super().settings(), repositories=(policy,), scale=scale)

    def context(self, mark_id: str, *, mode: str = AUTO) -> MarkContext:
        opened = self.opened()
        if opened.artifacts(mark_id).header() is None:
            return super().context(mark_id, mode=mode)
        return open_mark(opened, mark_id)

    def world(self) -> oracle.World:
        """As ever; commits never change, so each is read once."""
        found = oracle.world_of(self.repository, int(towns.MIN_AGE * 10**6), self._versions)
        self._versions = dict(found.commits)
        return found

    def sizes(self) -> dict[str, int]:
        return {name: (self.folder / name).stat().st_size for name in self.stored()}

    def delete(self, mark_id: str, accepted: Mapping[str, str], *, dies: str = "", silent: bool = False) -> SweepResult:
        """Sweep a mark, and judge what was deleted. Raises Crash and what lakegc refuses, after judging."""
        before, world, context = self.stored(), self.world(), self.context(mark_id)
        candidates = set(pipeline.expired_of(context))
        self.hold_back(mark_id, candidates)
        if silent:
            context = replace(context, data=SilentConfig(str(self.folder)))
        try:
            with dying(dies):
                result = pipeline.sweep(self.spark, context, accepted=accepted)
        finally:
            self.judge(before)
        self.sightings.append((self.clock(), self.repository.rules))
        if mark_id not in self.looked_at:
            for name in candidates & self.seen(world) & self.seen(self.world()):
                self.unreferenced.pop(name, None)
        self.looked_at.add(mark_id)
        return result
