"""What tests of any package share: one Spark session, and the switches that only tests may turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.golden_replay import Recording
from tests.replays import AWS, Replay, environment, replayed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Dagster last: a session that it starts has no credentials of the S3 test servers, and a process has one session.
_LONGEST_FIRST = (
    "property",
    "golden",
    "interleavings",
    "test_faults",
    "test_cli",
    "test_secrets",
    "store",
    "lakefs",
    "sandbox",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, so that with two of them side by side neither is left alone at the end."""

    def rank(item: pytest.Item) -> int:
        path = str(item.path)
        if "/tests/dagster/" in path:
            return len(_LONGEST_FIRST) + 1
        return next((n for n, name in enumerate(_LONGEST_FIRST) if name in path), len(_LONGEST_FIRST))

    items.sort(key=rank)


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The session of the whole run. Its Python workers inherit the test servers' credentials."""
    from lakegc_core.spark import session

    with environment(AWS):
        return session("local[2]", {"spark.sql.shuffle.partitions": "2"})  # the tests' tables are small


@pytest.fixture
def unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only tests may do is allowed: level `none`, short minimum ages, another clock."""
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")


@pytest.fixture
def at(unsafe: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the present of the collector and of the store, in unix seconds."""
    return lambda seconds: monkeypatch.setenv("LAKEGC_NOW", str(seconds))


@pytest.fixture
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Recording | str], Replay]]:
    """Lays out and serves recordings, by name or as loaded, until the test ends."""
    with ExitStack() as stack:
        yield lambda recording: stack.enter_context(replayed(recording, tmp_path_factory.mktemp("replay")))
