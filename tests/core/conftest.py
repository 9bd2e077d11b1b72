"""What tests of several rooms start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.lake import Lake, lake
from tests.support.path_world import World, path_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    """A served lake with a repository `lake`."""
    with lake(tmp_path) as found:
        found.create("lake")
        yield found


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The repository of few paths, and a mark of it: one a file."""
    with path_world(spark, tmp_path_factory.mktemp("paths")) as found:
        yield found
