"""What deletes stops when its time is up, before the next call to the store, and says how far it came."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakegc_core.namespace import Namespace
from lakegc_core.stages import deletion
from lakegc_core.stages.deletion import PLAN_SCHEMA, Deletion, Piece
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.store.parquet import Part, PartWriter, list_parts, read_part

OLD = datetime.now(UTC) - timedelta(days=9)


@dataclass(frozen=True)
class SleepyConfig:
    """A folder whose machine sleeps for an hour within the second call to delete."""

    path: str

    @property
    def root(self) -> str:
        return f"local://{self.path}"

    def connect(self) -> SleepyStore:
        return SleepyStore(self)


class SleepyStore(LocalStore):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.calls = 0

    def delete_many(self, keys: Any) -> Any:
        self.calls += 1
        if self.calls == 2:
            os.environ["LAKEGC_NOW"] = str(float(os.environ["LAKEGC_NOW"]) + 3600)
        return super().delete_many(keys)


def plan(config: LocalConfig, addresses: list[str]) -> Part:
    rows = [{"address": each, "size": 1, "last_modified": OLD, "etag": None, "since": OLD} for each in addresses]
    writer = PartWriter(config, "plan", PLAN_SCHEMA)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=PLAN_SCHEMA))
    return writer.close()[0]


def test_a_task_whose_machine_slept_sends_no_further_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(time.time()))
    monkeypatch.setattr(deletion, "BATCH", 2)
    monkeypatch.setattr(deletion, "_IN_FLIGHT", 1)
    artifacts, data = LocalConfig(str(tmp_path / "artifacts")), tmp_path / "data"
    addresses = [f"data/{number:02d}" for number in range(10)]
    data.mkdir()
    for address in addresses:
        (tmp_path / address).write_bytes(b"x")
    part = plan(artifacts, addresses)

    def run(start: int, seconds: float) -> dict[str, Any]:
        now = float(os.environ["LAKEGC_NOW"])
        work = Deletion(
            data=SleepyConfig(str(tmp_path)),
            artifacts=artifacts,
            plan_folder="plan",
            journal="outcomes",
            attempt=1,
            namespace=Namespace("local://lake"),
            cutoff=now,
            until=now + seconds,
        )
        (told,) = work.run(Piece(part, start))
        return told

    assert run(0, 60) == {"part": part.name, "row": 4, "done": False}
    assert sorted(path.name for path in data.iterdir()) == [f"{number:02d}" for number in range(4, 10)]
    assert run(4, 60) == {"part": part.name, "row": 10, "done": True}
    journal = [
        row
        for each in list_parts(artifacts, "outcomes")
        for batch in read_part(artifacts, "outcomes", each)
        for row in batch.to_pylist()
    ]
    assert sorted((row["address"], row["outcome"]) for row in journal) == [(each, "deleted") for each in addresses]
