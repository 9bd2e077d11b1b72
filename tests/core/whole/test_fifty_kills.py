"""kill -9 of `lakegc sweep` fifty times, at random moments before and while it deletes, until 20,000 objects are gone.

Slow: every start is a process of its own, with its Java. `test_kills` kills at every step, on a small lake; here the
lake is large, its store is behind a proxy that has seen every request, and the moments are random, by a fixed seed.
LAKEGC_KILLS and LAKEGC_KILLS_OBJECTS make it shorter or longer.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import crash_lake
from tests.support.servers import seaweedfs
from tests.support.stormy_lake import MARK, NAME, StormyLake, is_delete, stormy_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEED = 20_261_121
KILLS = int(os.environ.get("LAKEGC_KILLS", "50"))
OBJECTS = int(os.environ.get("LAKEGC_KILLS_OBJECTS", "20000"))
RATE = OBJECTS // 20  # objects a second: so slow that many kills fit in
_LONGEST = 180.0  # seconds until a victim that does not delete is given up


def started(lake: StormyLake, folder: Path) -> subprocess.Popen[str]:
    """`lakegc sweep`, whose store is behind the proxy."""
    variables = {"AWS_ENDPOINT_URL_S3": lake.proxy.endpoint, "CRASH_BATCH": "100", "VICTIM": str(folder)}
    return crash_lake.command(
        *("sweep", NAME, MARK, "--yes"),
        folder=folder,
        server=lake.server,
        variables=variables,
        settings={"scale": {"delete_rate": RATE}},
    )


def wait_for_deletes(lake: StormyLake, first: int, number: int, victim: subprocess.Popen[str]) -> None:
    """Until the victim has asked so often for deletes, or has ended."""
    until = time.monotonic() + _LONGEST
    while victim.poll() is None and sum(map(is_delete, lake.proxy.requests[first:])) < number:
        assert time.monotonic() < until, "the victim deletes nothing"
        time.sleep(0.02)


def test_a_sweep_that_is_killed_fifty_times_loses_nothing_and_asks_for_nothing_twice_that_is_on_record(
    spark: SparkSession, tmp_path: Path, tally: Callable[[str, Mapping[str, int]], None]
) -> None:
    dice, tried = random.Random(SEED), Counter[str]()
    print(f"seed {SEED}")
    home = tmp_path / "home"
    home.mkdir()
    with seaweedfs(tmp_path) as store, stormy_lake(spark, tmp_path, store, garbage=OBJECTS) as lake:
        begun = time.monotonic()
        done: set[str] = set()
        while tried["kills"] < KILLS:
            first = len(lake.proxy.requests)
            victim = started(lake, home)
            try:
                if dice.random() < 0.3:
                    time.sleep(dice.uniform(0, 6))
                else:
                    wait_for_deletes(lake, first, dice.randint(1, 8), victim)
                    time.sleep(dice.uniform(0, 0.4))
            finally:
                victim.kill()
                said = victim.communicate(timeout=120)
                left = crash_lake.outlive(home)
            assert not left, f"left behind: {left}"
            asked = lake.asked_since(first)
            assert asked <= lake.dead and asked.isdisjoint(done), "asked for what was on record, or is live"
            before, done = done, lake.done()
            assert before <= done, "what was on record is not any more"
            tried["starts that deleted"] += bool(asked)
            if victim.returncode == -signal.SIGKILL:
                tried["kills"] += 1
            else:
                assert victim.returncode == 0 and done == lake.dead, said
                tried["sweeps that came to their end"] += 1
                lake.reset()
                done = set()
        tried["on record at the last kill"] = len(done)
        lake.patience = 60.0  # this one is to come to its end, and a busy store takes its time for 1,000 objects
        result = lake.sweep(batch=1000)
        lake.check(result)
        assert result.trouble == "" and lake.stored().isdisjoint(lake.dead)
        tried["seconds"] = round(time.monotonic() - begun)
    tally(f"kill -9 of a sweep, seed {SEED}", tried)
