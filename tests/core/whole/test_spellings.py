"""One place has many spellings: what refers to it by another one keeps it, a repository there by another one stops."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import begin_mark, open_mark, open_repository
from lakegc_sandbox import Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.lake import MIN_AGE, NOW, Lake, lake, leave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICE = "data/gqv3epl4fd2o8m3men70"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as found:
        found.create("lake").set_rules(7)
        yield found


def mark_and_sweep(spark: SparkSession, served: Lake, mark_id: str) -> tuple[pipeline.Review, dict[str, int]]:
    review = pipeline.mark(spark, served.begin("lake", mark_id))
    return review, dict(pipeline.sweep(spark, open_mark(served.open("lake"), mark_id)).outcomes)


@pytest.mark.parametrize("beginning", ["s3://x@bucket/lake/", "s3://bucket:/lake/", "S3://bucket/lake/"])
def test_an_entry_that_names_its_own_repository_in_another_spelling_keeps_its_object(
    quick: SparkSession, served: Lake, beginning: str
) -> None:
    mine = served.sandbox.repository("lake")
    mine.upload("main", "own", b"own", age=timedelta(days=50))
    kept, gone = (leave(mine, f"{SLICE}/ce8co454fd2o8m3m{number:02}ag", days=50) for number in (1, 2))
    mine.stage("main", "linked", f"{beginning}{kept}", size=11, checksum="0" * 32, age=timedelta(days=40))
    mine.commit("main", "linked")
    mine.tag("v1", "main")
    review, outcomes = mark_and_sweep(quick, served, "m1")
    assert review.report["objects"]["expired"] == 1 and outcomes["deleted"] == 1
    assert (served.files("lake") / kept).exists() and not (served.files("lake") / gone).exists()


@pytest.mark.parametrize(
    "other", ["local:///V", "local://./V", "local://q/../V", "local://V//", "local://V/data/.", "local://"]
)
def test_a_repository_at_the_same_place_in_another_spelling_stops_mark_and_sweep(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp()))
    with SandboxServer(Sandbox(tmp_path, clock=NOW.timestamp, seed=1)) as server:
        mine = server.sandbox.create_repository("V", "local://V", age=timedelta(days=100))
        mine.set_rules(7)
        mine.upload("main", "own", b"own", age=timedelta(days=50))
        key = leave(mine, f"{SLICE}/ce8co454fd2o8m3menag", days=50)
        settings = Settings(
            server=ServerSettings(server.url, ACCESS_KEY, SECRET_KEY),
            stores=(StoreMapping("local://", root=str(tmp_path)),),
        )

        def review(mark_id: str) -> pipeline.Review:
            begun = begin_mark(open_repository(settings, "V"), mark_id, min_age=MIN_AGE, safety_level="none")
            return pipeline.mark(quick, begun)

        assert review("m1").authorized
        server.sandbox.create_repository("W", other, folder=tmp_path / "W")
        with pytest.raises(RefusedError, match="namespace"):
            pipeline.sweep(quick, open_mark(open_repository(settings, "V"), "m1"))
        refused = [verdict.name for verdict in review("m2").verdicts if not verdict.passed]
        assert "namespace" in refused
        assert (tmp_path / "V" / key).exists()
