"""Random histories that go on between mark and sweep: no canary stops a sound mark or sweep, and nothing live goes."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.errors import RefusedError, SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import begin_mark, open_repository
from lakegc_core.policy import safety
from lakegc_core.stages import swept_report
from lakegc_sandbox import SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support import histories, oracle
from tests.support.counted import SEED, show_something
from tests.support.histories import NESTED, NOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_AGE = timedelta(days=1)
SWEEPS, SHARES = 200, 4


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxServer]:
    """A sandbox at NOW, whose repositories are marked and swept with as many samples as level `full` takes."""
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp()))
    level = replace(safety.LEVELS["none"], samples=safety.FULL.samples)
    monkeypatch.setitem(safety.LEVELS, "none", level)
    with SandboxServer(histories.sandbox(tmp_path)) as found:
        yield found


def swept(spark: SparkSession, server: SandboxServer, number: int, counts: Counter[str]) -> bool:
    """Mark a repository, let its history go on, and sweep it. True if it was swept."""
    name, tags = f"repo-{number}", number % 2 == 0
    history = [step for step in histories.drawn(number) if step.arguments.get("name") != NESTED]
    half = len(history) * 2 // 3
    player = histories.played(server.sandbox, name, history[:half])
    repository = player.repository
    credentials = ServerSettings(server.url, ACCESS_KEY, SECRET_KEY)
    settings = Settings(credentials, repositories=(RepositoryPolicy(match="*", holds=("path:c/**",)),))
    try:
        opened = open_repository(settings, name, client=LakeFSClient(credentials, sleep=lambda seconds: None))
        rules = "keep-all-commits" if repository.rules is None else None
        context = begin_mark(opened, "m1", min_age=MIN_AGE, safety_level="none", rules=rules, protect_tags=tags)
        pipeline.mark(spark, context)
        player.play(history[half:])
        live = oracle.live(oracle.world_of(repository, MIN_AGE // timedelta(microseconds=1)), tags=tags)
        before = set(oracle.stored(repository))
        found = swept_report(spark, context)
    except RefusedError as error:
        assert "blind" not in str(error), f"history {number}"
        counts["refused otherwise"] += 1
        return False
    except SettingsError:  # nothing tells where the repository lies
        counts["without a place"] += 1
        return False
    finally:
        server.sandbox.delete_repository(name)
    assert not (live & before) - set(oracle.stored(repository)), f"history {number}"
    counts["sweeps"] += 1
    counts["deleted"] += found.outcomes.get("deleted", 0)
    of_mark = context.mark.require("expired_addresses").facts["canaries"]
    for tried, of in ((of_mark, "of marks"), (found.canaries, "of sweeps")):
        counts.update({f"canaries {of}: {kind}": count for kind, count in tried.items()})
    shutil.rmtree(server.sandbox.root / name)
    return bool(found.canaries)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_no_canary_stops_a_sound_sweep(
    quick: SparkSession, server: SandboxServer, tally: Callable[[str, Mapping[str, int]], None], share: int
) -> None:
    counts: Counter[str] = Counter()
    number = SEED + 100_000 * (share + 1)
    while counts["tried"] < SWEEPS // SHARES:
        counts["tried"] += swept(quick, server, number, counts)
        number += 1
    tally("sound sweeps", counts)
    show_something(counts["deleted"], counts["canaries of sweeps: staged"])
