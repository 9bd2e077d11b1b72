"""Marks of long ago, written by hand with all their manifests, and what their sweeps left."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from lakegc_core.marks.artifacts import Header, Manifest, MarkArtifacts
from lakegc_core.marks.findings import FINDINGS_SCHEMA, HELD, MISSING, NEIGHBOURS
from lakegc_core.marks.json_files import encode
from lakegc_core.names import STAGES, Reason, Stage
from lakegc_core.policy.facts import NOTHING, Amount
from lakegc_core.policy.safety import FULL
from lakegc_core.references.of_neighbours import KEYS_SCHEMA
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.parts import Part, PartWriter
from tests.support.facts import whole_facts

Made = Callable[..., Any]

HEADER = Header(
    repository="lake",
    mark_id="m1",
    storage_namespace="s3://b/ns",
    repository_created=1_700_000_000,
    started_at=1_790_000_000.25,
    cutoff=1_789_910_000.25,
    min_age=90_000.0,
    grace_period=86_400.0,
    safety="full",
    protect_tags=True,
    holds=("tag:v*",),
    ignore_commits=("odd",),
    rules="required",
    server_version="dev",
    blockstore_type="s3",
    block_prefix="_lakefs",
    allow_list=1,
)

DAY = 86_400.0
START = HEADER.started_at
TODAY = 100.0  # days after START


def manifest(stage: str, upstream: str) -> Manifest:
    return Manifest(
        stage=stage,
        repository="lake",
        mark_id="m1",
        upstream=upstream,
        started_at=1.0,
        finished_at=2.0,
        seconds=1.0,
        datasets={stage: (Part("part-1-a.parquet", 3, 100, "0" * 64, {"bytes": 7}),)},
        facts={"pages": 1},
        rows=3,
        bytes=100,
    )


def file_of(artifacts: MarkArtifacts, tmp_path: Path, stage: str | None = None) -> Path:
    return tmp_path / artifacts.folder / (f"{stage}/manifest.json" if stage else "mark.json")


def alter(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def write_mark(
    artifacts: MarkArtifacts,
    day: float,
    stages: int = 5,
    *,
    resumed: float | None = None,
    heads_unknown: int = 0,
    expired: int = 7,
    rests_on: tuple[str, ...] = (),
    missing: tuple[str, ...] = (),
    held: tuple[str, ...] = (),
    near: tuple[str, ...] = (),
    **header: Any,
) -> None:
    """A mark begun on that day and so many stages long; all but its listing done on day `resumed`, where given.
    `missing`: live addresses that the store lacks because a sweep had deleted them; `held`: those that holds by path
    keep; `near`: those to which neighbours refer."""
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
        if stage == Stage.EXPIRED_ADDRESSES:
            more = {MISSING: _gone(artifacts, missing), NEIGHBOURS: _named(artifacts, stage, NEIGHBOURS, near)}
            done = replace(done, datasets={**done.datasets, **more})
        if stage == Stage.COMMITTED_ADDRESSES:
            done = replace(done, datasets={**done.datasets, HELD: _named(artifacts, stage, HELD, held)})
        artifacts.finish(replace(done, started_at=at, finished_at=at))
        artifacts.store.write(f"{artifacts.stage_folder(stage)}/part-1-a.parquet", b"x" * 100)


def _gone(artifacts: MarkArtifacts, addresses: tuple[str, ...]) -> tuple[Part, ...]:
    """The parts of a mark's dataset `missing`."""
    at = datetime.fromtimestamp(0, UTC)
    row = {"size": 0, "last_modified": at, "etag": None, "reason": Reason.SWEPT_BEFORE.value, "since": at}
    rows = [{"address": each, **row} for each in addresses]
    return _written(artifacts, Stage.EXPIRED_ADDRESSES, MISSING, FINDINGS_SCHEMA, rows)


def _named(artifacts: MarkArtifacts, stage: str, name: str, addresses: tuple[str, ...]) -> tuple[Part, ...]:
    """The parts of a mark's dataset `held` or `neighbours`."""
    schema = {HELD: ENTRIES_SCHEMA, NEIGHBOURS: KEYS_SCHEMA}[name]
    row = {"range_id": "", "exact": False, "size": 1, "e_tag": ""}
    return _written(artifacts, stage, name, schema, [{"address": each, **row} for each in addresses])


def _written(
    artifacts: MarkArtifacts, stage: str, name: str, schema: pa.Schema, rows: list[dict[str, Any]]
) -> tuple[Part, ...]:
    writer = PartWriter(artifacts.config, artifacts.stage_folder(stage, name), schema)
    if rows:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    return tuple(writer.close())


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


def maker(folder: Path) -> Made:
    """Makes a mark, so many days after the first one and so many stages long; returns its context. `resumed`: days
    after the first one, if it broke off after `whole` stages and was resumed then. `skew`: of the clocks, when it asked
    for its commits; seconds."""

    def make(
        mark_id: str,
        days: float,
        stages: int = 5,
        *,
        resumed: float | None = None,
        whole: int = 1,
        heads_unknown: int = 0,
        skew: float = 0.0,
        live: int = 100,
        previous: Any = None,
        accepted: Amount = NOTHING,
        unconfirmed: Any = None,
        first_since: float | None = None,
        **header: Any,
    ) -> Any:
        config = LocalConfig(str(folder))
        own = replace(HEADER, mark_id=mark_id, started_at=HEADER.started_at + days * DAY, **header)
        artifacts = MarkArtifacts(config, mark_id)
        artifacts.begin(own)
        for number, stage in enumerate(STAGES[:stages]):
            facts: dict[str, Any] = {}
            if stage == "retention_commits":
                facts = {"former_heads_unknown": heads_unknown, "clock_skew": skew}
            if stage == "expired_addresses":
                groups = {group: {"objects": live, "bytes": live} for group in ("listed", "uncommitted", "expired")}
                groups["committed"] = {"objects": live, "bytes": live}
                facts = {**groups, "previous": asdict(previous) if previous else None, "accepted": asdict(accepted)}
                facts |= {"unconfirmed": unconfirmed, "first_since": first_since}
            at = HEADER.started_at + (days if resumed is None or number < whole else resumed) * DAY + 60 * number
            done = replace(
                manifest(stage, artifacts.upstream_digest(stage)), mark_id=mark_id, facts=whole_facts(stage, facts)
            )
            done = replace(done, facts=whole_facts(stage, facts), started_at=at, finished_at=at + 60)
            artifacts.finish(done)
        return SimpleNamespace(
            header=own,
            repository=SimpleNamespace(id=own.repository),
            namespace=SimpleNamespace(uri=own.storage_namespace),
            level=FULL,
            say=lambda line: None,
            workspace=config,
            home=artifacts.home,
            mark=artifacts,
            artifacts=lambda name: MarkArtifacts(config, name),
        )

    return make
