"""A lake for the answers, and Spark that is quick on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.lake import Lake, lake, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def small(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as session:
        yield session


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as found:
        yield found
