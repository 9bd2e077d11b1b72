"""A mark that the guard over neighbours stopped, of which the sweep judges by what is known of them then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.dagster.conftest import Site, failure_of, open_site
from tests.support.lake import quick

GARBAGE = "data/left-behind-000000000"


@pytest.fixture
def site(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Site]:
    """Two repositories, of which an unknown one stops the sweeps of the other."""
    with open_site(tmp_path, monkeypatch, instance) as found, quick(spark):
        config = found.config_file
        config.write_text(config.read_text() + "neighbours: {strict: true}\n")
        found.create("alpha", "beta")
        old = (datetime.now(UTC) - timedelta(days=90)).timestamp()
        found.server.sandbox.repository("alpha").files.write(GARBAGE, b"left behind", old)
        yield found


def test_it_is_swept_without_a_persons_word_once_they_are_marked(site: Site) -> None:
    opened = site.tick("open_round")
    asked = dict(zip(opened.repositories, opened.requests, strict=True))
    marked = site.run("gc_mark", asked["alpha"])
    failed = {check.check_name: check for check in marked.get_asset_check_evaluations() if not check.passed}
    assert marked.success and set(failed) == {"neighbours"}
    (sweep,) = site.tick("sweep_confirmed").requests
    early = site.run("gc_sweep", sweep)
    assert "neighbours: 1 of the 1 other repositories" in failure_of(early, "swept_report")
    assert GARBAGE in site.files("alpha")
    assert site.run("gc_mark", asked["beta"]).success
    assert site.run("gc_sweep", sweep).success
    assert GARBAGE not in site.files("alpha")
