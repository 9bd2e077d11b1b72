"""A lake for the answers, which `fill` of a test's file fills, and Spark that is quick on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.marks.context import MarkContext
from lakegc_sandbox import Repository
from tests.support.lake import Lake, lake, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def not_needed() -> SparkSession:
    raise AssertionError("Spark is started for a handful of rows")


def mark(spark: SparkSession, served: Lake, mark_id: str, **options: Any) -> MarkContext:
    """A mark of repository `lake`."""
    context = served.begin("lake", mark_id, **options)
    pipeline.mark(spark, context)
    return context


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of the whole run, quick on few rows."""
    with quick(spark) as session:
        yield session


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    """A served lake of the test's own."""
    with lake(tmp_path) as found:
        yield found


@pytest.fixture
def repository(request: pytest.FixtureRequest, served: Lake) -> Repository:
    """The file's repository, of the test's own."""
    found: Repository = request.module.fill(served)
    return found


@pytest.fixture(scope="module")
def m1(
    request: pytest.FixtureRequest, small: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MarkContext]:
    """A mark of the file's repository, for questions alone."""
    with lake(tmp_path_factory.mktemp("lake")) as served:
        request.module.fill(served)
        yield mark(small, served, "m1")
