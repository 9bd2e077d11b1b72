"""The benches: each recording laid out once for a file of tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.fault_bench import Bench, FaultyServer
from tests.support.proxy import proxy
from tests.support.replays import environment, replayed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def benches(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Bench]]:
    """The recordings in use, each laid out once."""
    with ExitStack() as stack:
        known: dict[str, Bench] = {}

        def bench(name: str) -> Bench:
            if name not in known:
                folder = tmp_path_factory.mktemp("faults")
                replay = stack.enter_context(replayed(name, folder, server=FaultyServer))
                between = stack.enter_context(proxy(replay.s3.endpoint)) if replay.s3 else None
                known[name] = Bench(replay, spark, between)
            return known[name]

        yield bench


@pytest.fixture
def bench(benches: Callable[[str], Bench]) -> Iterator[Callable[[str], Bench]]:
    """A bench by the name of its recording. All faults end with the test."""
    with ExitStack() as stack:

        def take(name: str) -> Bench:
            found = benches(name)
            stack.enter_context(environment(found.replay.variables()))
            stack.callback(found.mend)
            assert found.unspoilt
            return found

        yield take
