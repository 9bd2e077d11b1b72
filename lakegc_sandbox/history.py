"""A made-up repository with two months behind it, for the demo: tables, branches, a tag, leftovers.

Dates and ages are relative to the sandbox's clock; the same seed gives the same paths and contents.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakegc_sandbox.lakefs import Sandbox
from lakegc_sandbox.model.repository import Repository

DEMO_NAME = "demo"

_CUSTOMERS = [f"tables/customers/part-{part:05d}.parquet" for part in range(6)]


@dataclass(frozen=True)
class _Past:
    """A repository and a source of contents; everything it does happened some days ago."""

    repository: Repository
    source: random.Random

    def date(self, days: float) -> datetime:
        return datetime.fromtimestamp(int(self.repository.place.clock() - days * 86_400), UTC)

    def write(self, branch: str, paths: Iterable[str], days: float) -> None:
        """Upload a few KB under each path; on a folder the files get that age."""
        for path in paths:
            data = self.source.randbytes(self.source.randrange(1_000, 6_000))
            self.repository.upload(branch, path, data, age=timedelta(days=days))

    def save(self, branch: str, paths: Iterable[str], days: float, message: str) -> None:
        """Upload and commit, a little later than the upload."""
        self.write(branch, paths, days + 0.02)
        self.repository.commit(branch, message, date=self.date(days), metadata={"job": "demo"})

    def events(self, days: int) -> list[str]:
        """The paths of one day of the events table."""
        day = self.date(days).date().isoformat()
        return [f"tables/events/dt={day}/part-{part:05d}.parquet" for part in range(4)]


def build_demo(sandbox: Sandbox, name: str = DEMO_NAME, *, seed: int = 7) -> str:
    """Create the demo repository and return its name. Wants a repository namespace on a local folder."""
    repository = sandbox.create_repository(name, age=timedelta(days=61))
    past = _Past(repository, random.Random(seed))
    repository.set_rules(14, {"main": 30, "dev": 7})
    _foreign_files(past)
    for days in range(60, 0, -1):
        if days % 2 == 0:
            past.save("main", past.events(days), days, f"events of {past.date(days):%d %B}")
        if days % 10 == 5:
            past.save("main", _CUSTOMERS, days - 0.2, "customers rewritten")
        if days == 54:
            _abandoned_branch(past)
        if days == 48:
            repository.tag("v1.0", "main")
        if days in {45, 25}:
            _compact_events(past, days)
        if days == 40:
            repository.create_branch("dev", "main")
        if days in {36, 22, 12, 5, 3}:
            scores = [f"models/churn/scores-{part:02d}.parquet" for part in range(5)]
            past.save("dev", scores, days - 0.4, "scores recomputed")
    _leftovers(past)
    return name


def _abandoned_branch(past: _Past) -> None:
    """A branch that lived for three days and was deleted: nothing but its own commits names its objects."""
    past.repository.create_branch("feature-forecast", "main")
    for days in (53.7, 52.5, 51.5):
        paths = [f"models/forecast/fold-{fold}.parquet" for fold in range(5)]
        past.save("feature-forecast", paths, days, "forecast trained")
    past.repository.delete_branch("feature-forecast")


def _compact_events(past: _Past, days: int) -> None:
    """Replace the parts of older days by one file a day."""
    compacted = []
    for day in range(days + 5, days + 15, 2):
        parts = past.events(day)
        for part in parts:
            past.repository.delete("main", part)
        compacted.append(parts[0].replace("part-00000", "compacted"))
    past.save("main", compacted, days - 0.5, "events compacted")


def _leftovers(past: _Past) -> None:
    """Objects that lie in staging or were never linked."""
    repository = past.repository
    past.write("dev", [f"scratch/keep-{number}.json" for number in range(4)], 6)
    dropped = [f"scratch/dropped-{number}.json" for number in range(8)]
    past.write("dev", dropped, 9)
    for path in dropped:
        repository.delete("dev", path)
    past.write("main", ["tables/refunds/part-00000.parquet"], 4)  # staged, then staged anew
    past.write("main", ["tables/refunds/part-00000.parquet"], 2)
    old = repository.physical_address("main", age=timedelta(days=8))
    repository.put(old, past.source.randbytes(2_000), age=timedelta(days=8))  # never linked
    young = repository.physical_address("main", age=timedelta(minutes=5))
    repository.put(young, past.source.randbytes(2_000), age=timedelta(minutes=5))  # yet to be linked
    past.write("dev", ["scratch/young.json"], 0.01)
    repository.delete("dev", "scratch/young.json")


def _foreign_files(past: _Past) -> None:
    """Files beside lakeFS's own, which no collector may touch."""
    at = past.date(60).timestamp()
    past.repository.files.write("README.md", b"This folder belongs to the demo repository.\n", at)
    past.repository.files.write("exports/x.csv", b"id,amount\n1,10\n", at)
