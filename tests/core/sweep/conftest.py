"""A mark with a few objects to delete, made once a file: each test finds it as if nobody had swept it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.lake import Lake, lake, quick, saved
from tests.support.swept import Swept, mark_garbage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def marked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, Callable[[], None]]]:
    """A lake with a mark, and what makes it again what it was."""
    with lake(tmp_path_factory.mktemp("swept")) as found, quick(spark):
        mark_garbage(spark, found)
        yield found, saved(found, "lake")


@pytest.fixture
def swept(spark: SparkSession, marked: tuple[Lake, Callable[[], None]], monkeypatch: pytest.MonkeyPatch) -> Swept:
    """The mark, which nobody has swept yet."""
    found, rewind = marked
    rewind()
    return Swept(spark, found, monkeypatch)
