"""A desk at which commands are given: a served lake on local files, the environment that names it, marks by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakegc_core.config.settings import Settings
from lakegc_core.marks.context import MarkContext, RepositoryContext, begin_mark, open_repository
from lakegc_core.names import STAGES
from lakegc_core.stages.expired_addresses.since import SCHEMA, STAGE
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.lake import MIN_AGE, NOW, Lake, lake
from tests.support.marks import finish
from tests.support.replays import environment


@dataclass(frozen=True)
class Desk:
    """A lake with a repository `lake`, which the environment names."""

    lake: Lake

    def repository(self) -> RepositoryContext:
        """As commands open it."""
        return open_repository(Settings.load(None, os.environ), "lake")

    def mark(self, mark_id: str = "m1", garbage: Sequence[str] = ()) -> MarkContext:
        """A complete mark that found these addresses expired, of 10 bytes each, for long enough."""
        context = begin_mark(self.repository(), mark_id, min_age=MIN_AGE, safety_level="none")
        rows = [
            {"address": each, "size": 10, "last_modified": NOW, "reason": "unreferenced", "since": NOW}
            for each in garbage
        ]
        found = {"objects": len(rows), "bytes": 10 * len(rows)}
        for stage in STAGES:
            if stage == STAGE:
                finish(context, stage, {STAGE: (SCHEMA, rows)}, expired=found, confirmed=found, listed=found)
            else:
                finish(context, stage)
        return context


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with lake(tmp_path / "lake", blockstore="local") as found:
        found.create("lake", "local://lake").set_rules(7)
        server = {
            "HOME": str(tmp_path),
            "LAKECTL_SERVER_ENDPOINT_URL": found.server.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ACCESS_KEY,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        with environment(server):
            yield Desk(found)
