"""A desk at which commands are given: a served lake on local files, the environment that names it, marks by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core.cli import opening
from lakegc_core.config.settings import Settings
from lakegc_core.marks.context import MarkContext, RepositoryContext, begin_mark, open_repository
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.names import STAGES, Stage
from lakegc_sandbox import Repository
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.lake import MIN_AGE, NOW, Lake, lake, quick
from tests.support.marks import finish
from tests.support.replays import environment
from tests.support.waiting import asks_again_at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SOUND: dict[str, dict[str, int]] = {Stage.RETENTION_COMMITS: {"known": 1, "retained": 1, "branches": 1}}


@dataclass(frozen=True)
class Desk:
    """A lake with a repository `lake`, which the environment names."""

    lake: Lake

    def repository(self) -> RepositoryContext:
        """As commands open it."""
        return open_repository(Settings.load(None, os.environ), "lake")

    def mark(self, mark_id: str = "m1", garbage: Sequence[str] = (), *, sound: bool = False) -> MarkContext:
        """A complete mark that found these addresses expired, of 10 bytes each, for long enough. `sound`: it saw a
        commit and a branch, so that no guard stops its sweep."""
        context = begin_mark(self.repository(), mark_id, min_age=MIN_AGE, safety_level="none")
        rows = [
            {"address": each, "size": 10, "last_modified": NOW, "reason": "unreferenced", "since": NOW}
            for each in garbage
        ]
        found = {"objects": len(rows), "bytes": 10 * len(rows)}
        for stage in STAGES:
            if stage == Stage.EXPIRED_ADDRESSES:
                finish(
                    context,
                    stage,
                    {Stage.EXPIRED_ADDRESSES: (FINDINGS_SCHEMA, rows)},
                    expired=found,
                    confirmed=found,
                    listed=found,
                )
            else:
                finish(context, stage, **(_SOUND.get(stage, {}) if sound else {}))
        return context

    def with_an_object(self) -> Repository:
        """The repository, once an object is committed that is shown."""
        found = self.lake.sandbox.repository("lake")
        found.upload("main", "a", b"12345")
        found.commit("main", "a")
        return found


@contextmanager
def seated(folder: Path) -> Iterator[Desk]:
    """A desk whose lake lies below `folder`. Commands given at it do not wait for lakeFS."""
    with lake(folder / "lake", blockstore="local") as found, pytest.MonkeyPatch.context() as patch:
        asks_again_at_once(patch)
        found.create("lake", "local://lake").set_rules(7)
        server = {
            "HOME": str(folder),
            "LAKECTL_SERVER_ENDPOINT_URL": found.server.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ACCESS_KEY,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        with environment(server):
            yield Desk(found)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk of the test's own."""
    with seated(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def sparing(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of the whole run, quick on few rows; commands use it, too."""
    with quick(spark), pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "spark_of", lambda *_, **__: spark)
        yield spark
