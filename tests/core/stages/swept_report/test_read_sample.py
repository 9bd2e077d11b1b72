"""A random sample of paths on branch heads, read before a sweep and after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lakegc_core.stages.swept_report import read_sample as sample
from tests.support.path_world import PATHS, World, path_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with path_world(spark, tmp_path_factory.mktemp("paths")) as found:
        yield found


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
    assert sample.read_again(world.context, known) == {}, "what did not read before is no news"
