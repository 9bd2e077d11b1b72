"""Marks of long ago, written by hand with all their manifests, and what their sweeps left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.json_files import encode
from lakegc_core.names import STAGES
from tests.core.marks.test_artifacts import HEADER, manifest
from tests.support.facts import whole_facts

DAY = 86_400.0
START = HEADER.started_at
TODAY = 100.0  # days after START


def write_mark(
    artifacts: MarkArtifacts,
    day: float,
    stages: int = 5,
    *,
    resumed: float | None = None,
    heads_unknown: int = 0,
    expired: int = 7,
    rests_on: tuple[str, ...] = (),
    **header: Any,
) -> None:
    """A mark begun on that day and so many stages long; all but its listing done on day `resumed`, where given."""
    artifacts.begin(replace(HEADER, mark_id=artifacts.mark_id, started_at=START + day * DAY, **header))
    for number, stage in enumerate(STAGES[:stages]):
        seals = [[each, "seal"] for each in rests_on]
        told: dict[str, dict[str, Any]] = {
            STAGES[0]: {"rests_on": seals},
            STAGES[2]: {"former_heads_unknown": heads_unknown},
            STAGES[4]: {"expired": {"objects": expired, "bytes": 10 * expired}},
        }
        facts = whole_facts(stage, told.get(stage))
        at = START + (day if resumed is None or not number else resumed) * DAY
        done = replace(manifest(stage, artifacts.upstream_digest(stage)), mark_id=artifacts.mark_id, facts=facts)
        artifacts.finish(replace(done, started_at=at, finished_at=at + 60))
        artifacts.store.write(f"{artifacts.stage_folder(stage)}/part-1-a.parquet", b"x" * 100)


def write_sweep(artifacts: MarkArtifacts, *, deleted: int, over: bool = True, lost: int = 0, day: float = 0.0) -> None:
    """A first sweep of a mark, which is over on that day, or broke off."""
    folder = f"{artifacts.folder}/sweeps/1"
    artifacts.store.write(f"{folder}/plan.json", b"{}")
    if over:
        report = {
            "outcomes": {"deleted": deleted, "lost": lost},
            "bytes_deleted": 10 * deleted,
            "finished_at": START + day * DAY,
        }
        artifacts.store.write(f"{folder}/report.json", encode(report))
