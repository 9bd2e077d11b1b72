"""Nights on which the store knows the true time, and the collector's own clock may be wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.marks.context import MarkContext, open_mark
from lakegc_core.store.local import LocalStore
from lakegc_core.sweep.result import SweepResult
from tests.support.lake import NOW, Lake, lake, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400.0
HOME = "_lakefs/retention/gc/lakegc"
ACCEPTED = dict.fromkeys(("blast-radius", "shrink", "live-in-listing"), "a test's repository is small")


class Nights:
    """A repository `lake` with live objects, marked and swept at level full. Days count from NOW, by the true time."""

    def __init__(self, spark: SparkSession, served: Lake, now: list[float]) -> None:
        self.spark, self.lake, self._now = spark, served, now
        self.repository = served.create("lake")
        self.repository.set_rules(7)
        self.files = served.files("lake")
        self._number = 0
        for number in range(6):
            self.repository.upload("main", f"live/{number}", b"L" * (100 + number), age=timedelta(days=40))
        self.repository.commit("main", "live", date=NOW - timedelta(days=40))

    def at(self, day: float, *, wrong: float = 0.0) -> None:
        """The true time, and by how many days the collector's clock is ahead of it."""
        self._now[0] = NOW.timestamp() + day * DAY
        os.environ["LAKEGC_NOW"] = str(self._now[0] + wrong * DAY)  # until the lake ends

    @property
    def present(self) -> float:
        """The true time, unix seconds."""
        return self._now[0]

    def litter(self, count: int) -> list[Path]:
        """So many objects that nothing refers to any more. Returns their files."""
        before = set(self._stored())
        for _ in range(count):
            self._number += 1
            self.repository.upload("main", f"tmp/{self._number}", b"x" * (10 + self._number), age=timedelta(days=2))
            self.repository.delete("main", f"tmp/{self._number}")
        return sorted(set(self._stored()) - before)

    def _stored(self) -> list[Path]:
        return [path for path in (self.files / "data").rglob("*") if path.is_file()]

    def context(self, mark_id: str, mode: str = "auto") -> MarkContext:
        opened = self.lake.open("lake")
        if opened.artifacts(mark_id).header() is not None:
            return open_mark(opened, mark_id)
        return self.lake.begin("lake", mark_id, min_age=timedelta(hours=25), safety_level="full", mode=mode)

    def mark(self, mark_id: str, mode: str = "auto") -> str:
        """Make a mark. Returns why it is a clean one; "" where it is not."""
        try:
            review = pipeline.mark(self.spark, self.context(mark_id, mode))
        finally:
            self._date_artifacts()
        return review.report["run"]["why_clean"] or ""

    def sweep(self, mark_id: str, accepted: Mapping[str, str] = ACCEPTED) -> SweepResult:
        try:
            return pipeline.sweep(self.spark, self.context(mark_id), accepted=accepted)
        finally:
            self._date_artifacts()

    def close(self, mark_id: str) -> SweepResult:
        return pipeline.close(self.spark, self.context(mark_id))

    def one(self, pattern: str) -> Path:
        """One file of lakegc's below its home."""
        return sorted((self.files / HOME).glob(pattern))[0]

    def _date_artifacts(self) -> None:
        """What was written just now bears the true time, as a store would date it."""
        for path in (self.files / HOME).rglob("*"):
            if path.is_file() and path.stat().st_mtime > time.time() - DAY:
                os.utime(path, (self._now[0], self._now[0]))


@contextmanager
def nights(spark: SparkSession, folder: Path) -> Iterator[Nights]:
    """Such nights, which begin on day 0."""
    now = [NOW.timestamp()]
    with lake(folder, clock=lambda: now[0]) as served, quick(spark), pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStore, "now", lambda store: datetime.fromtimestamp(now[0], UTC))
        yield Nights(spark, served, now)


def flip(file: Path) -> None:
    """One byte of a file is another one; its date stays."""
    before, data = file.stat(), bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    os.utime(file, (before.st_mtime, before.st_mtime))
