"""Each file here tells one story: its class is found in the file, and its rows are judged by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lakegc_core.policy import safety
from tests.interleavings.rig import Story, lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def story(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """The story of the file, on a lake of its own."""
    (kind,) = (each for each in Story.__subclasses__() if each.__module__ == request.module.__name__)
    with lake(spark, tmp_path_factory.mktemp("story"), kind.blockstore) as found, pytest.MonkeyPatch.context() as patch:
        if level := kind.large_at:
            patch.setitem(safety.LEVELS, level, replace(safety.LEVELS[level], whole_pages=0))
        yield kind(found)


@pytest.fixture(scope="module")
def lost(story: Story) -> Callable[[str, bool], bool]:
    """Says of a row whether its object is lost, its mechanism being on or off."""
    return story.lost
