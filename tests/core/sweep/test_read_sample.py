"""A random sample of paths on branch heads, read before a sweep and after it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.sweep import read_sample as sample
from lakegc_sandbox import Repository
from tests.support.path_world import PATHS, World, path_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_sample_of_no_size_asks_nothing(world: World) -> None:
    before = len(world.lake.server.requests)
    assert sample.take_sample(None, world.context, 0).asked == 0  # type: ignore[arg-type]
    assert len(world.lake.server.requests) == before


def test_a_sample_reads_paths_of_heads_and_tells_those_whose_data_is_gone(spark: SparkSession, world: World) -> None:
    assert 1 <= sample.take_sample(spark, world.context, 2).asked <= 2
    whole = sample.take_sample(spark, world.context, 1000)
    assert set(whole.paths) == {("main", path) for path in PATHS}
    assert whole.unreadable == {}
    world.repo.files.delete(world.addresses["tables/1"])
    world.repo.delete("main", "tables/3")  # no such path any more: nothing is wrong with that
    assert sample.read_again(world.context, whole) == {"main/tables/1": 410}
    known = replace(whole, unreadable={"main/tables/1": 410})
    assert sample.read_again(world.context, known) == {}, "what could not be read before is no news"


def test_a_sample_tells_an_object_without_bytes_that_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    def marker(repo: Repository) -> None:
        repo.upload("main", "_SUCCESS", b"")

    with path_world(spark, tmp_path, first=marker) as world:
        whole = sample.take_sample(spark, world.context, 1000)
        assert ("main", "_SUCCESS") in whole.paths and whole.unreadable == {}
        world.repo.files.delete(world.repo.entry("main", "_SUCCESS").address)
        assert sample.read_again(world.context, whole) == {"main/_SUCCESS": 410}


@pytest.mark.parametrize("status", [400, 401, 403, 500])
def test_an_odd_status_of_a_path_is_told_and_ends_nothing(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    def answered(client: LakeFSClient, repository: str, ref: str, path: str) -> int:
        if path == "tables/2":
            raise LakeFSError("odd", status)
        return 206

    monkeypatch.setattr(LakeFSClient, "read_byte", answered)
    found = sample.take_sample(spark, world.context, 1000)
    assert found.unreadable == {"main/tables/2": status} and found.asked == len(PATHS)
    assert sample.read_again(world.context, found) == {}


def test_what_was_imported_from_elsewhere_is_not_sampled(spark: SparkSession, tmp_path: Path) -> None:
    """Its owner may delete it at any time, and no sweep of this repository is to blame."""

    def imports(repo: Repository) -> None:
        repo.import_objects("main", {f"far/{number}": (f"s3://elsewhere/{number}", 5) for number in range(2)})

    with path_world(spark, tmp_path, first=imports) as world:
        assert {path for _, path in sample.take_sample(spark, world.context, 1000).paths} == set(PATHS)
