"""What tests of any package share: one Spark session, and the switches that only tests may turn."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import botocore.session
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.support.golden_replay import Recording
from tests.support.lake import quick as tuned
from tests.support.lake import quick_session
from tests.support.replays import AWS, AZURE, Replay, environment, replayed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Dagster last: a session that it starts has no credentials of the S3 test servers, and a process has one session.
_LONGEST_FIRST = (
    *("kills", "nights", "efficacy", "property", "golden", "faults", "test_cli", "expired_addresses", "crash"),
    *("swept_report", "answers", "traps", "interleavings", "test_secrets", "store", "lakefs", "sandbox"),
)


# Hypothesis's own profile `ci` has the same examples everywhere, and no limit of time.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("ci")
# It also draws constants that it finds in whatever modules this process has imported: other examples in each worker.
assert callable(providers._get_local_constants)
providers._get_local_constants = functools.cache(Constants)

# Each session of boto3 reads its models of services anew, some 200 ms; a process needs them once.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)

# Commands of the tests have homes of their own, and find all the same what `make setup` and earlier tests have cached.
os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))

_LARGE = (
    "azure_rewrites",
    "azure_rich",
    "many_ranges",
    "random_1",
    "random_2",
    "random_3",
    "rich_odd_prefix",
    "seed_example",
)
"""Recordings of which `make test` tries the default alone; `make test-golden` and `make test-slow` try all of each."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, so that with two of them side by side neither is left alone at the end.

    `pytest -m trap` runs every test that stands for a trap; `pytest -m search` those that a seed makes try other cases.
    """

    def rank(item: pytest.Item) -> int:
        path = str(item.path)
        if "/tests/dagster/" in path:
            return len(_LONGEST_FIRST) + 1
        return next((n for n, name in enumerate(_LONGEST_FIRST) if name in path), len(_LONGEST_FIRST))

    items.sort(key=rank)
    for item in items:
        large = "test_golden.py" in str(item.path) and any(f"[{name}]" in item.name for name in _LARGE)
        if large and (not item.name.startswith("test_with_tags_protected") or "[azure_rich]" in item.name):
            item.add_marker(pytest.mark.slow)
        if re.match(r"test_t[0-9]{2}_", item.name):
            item.add_marker(pytest.mark.trap)
        if "/tests/property/" in str(item.path) or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.search)


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Callable[[str, Mapping[str, int]], None]:
    """Says at the end of the whole run how often what was tried: a title, and counts by name."""

    def say(title: str, counts: Mapping[str, int]) -> None:
        record_property("tally", f"{title}: " + ", ".join(f"{counts[name]:,} {name}" for name in sorted(counts)))

    return say


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The tallies, which travel in reports: what a worker of pytest-xdist prints, nobody sees."""
    reports = [each for several in terminalreporter.stats.values() for each in several]
    last = [each for each in reports if getattr(each, "when", "") == "teardown"]
    tallies = [text for report in last for name, text in report.user_properties if name == "tally"]
    if tallies:
        terminalreporter.section("tallies")
        for text in tallies:
            terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of the whole run. Its Python workers inherit the test servers' credentials.

    The tests' tables are small. Commands, Dagster and clusters have sessions of their own, as Spark is by itself.
    """
    # No test runs for long enough to repay what the JVM's second compiler costs at its start.
    java = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    with ExitStack() as stack:
        with environment(AWS | AZURE | java):
            started = stack.enter_context(quick_session(**{"spark.sql.shuffle.partitions": "2"}))
        yield started


@pytest.fixture(scope="module", autouse=True)
def own_environment() -> Iterator[None]:
    """A file's tests leave lakegc's variables as they found them: the next file's tests run in the same process."""
    before = _lakegc_variables()
    yield
    left = _lakegc_variables()
    for name in left:
        del os.environ[name]
    os.environ.update(before)
    assert left == before


def _lakegc_variables() -> dict[str, str]:
    """Those that a person may set: Spark's session, which outlives the file, has one of its own."""
    from lakegc_core.spark.preload import _ADDRESS

    return {name: each for name, each in os.environ.items() if name.startswith("LAKEGC_") and name != _ADDRESS}


@pytest.fixture
def quick(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of the whole run, tuned for a handful of rows while a test lasts."""
    with tuned(spark) as session:
        yield session


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
