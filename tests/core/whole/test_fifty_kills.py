"""kill -9 of `lakegc sweep` fifty times, at random moments before and while it deletes, until 20,000 objects are gone.

Slow: every start is a process of its own, with its Java. `test_kills` kills at every step, on a small lake; here the
lake is large, its store is behind a proxy that sees every request, and the moments are requests, which a fixed seed
chooses. LAKEGC_KILLS and LAKEGC_KILLS_OBJECTS make it shorter or longer.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import pytest

from tests.support import crash_lake
from tests.support.proxy import Answer, Forward, Request, pass_on
from tests.support.servers import seaweedfs
from tests.support.stormy_lake import MARK, NAME, StormyLake, is_delete, stormy_lake
from tests.support.waiting import STARTS, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEED = 20_261_121
KILLS = int(os.environ.get("LAKEGC_KILLS", "50"))
OBJECTS = int(os.environ.get("LAKEGC_KILLS_OBJECTS", "20000"))
RATE = OBJECTS // 20  # objects a second: so slow that many kills fit in
EARLY = 40  # requests to the store in which a sweep has not deleted anything yet


@dataclass
class Kill:
    """The moment: so many requests after so many of those that delete; whether the store still gets the last one."""

    deletes: int
    more: int
    arrives: bool
    victim: subprocess.Popen[str] | None = None
    lock: Lock = field(default_factory=Lock)

    @classmethod
    def at_random(cls, dice: random.Random) -> Kill:
        early = dice.random() < 0.3
        deletes, more = (0, dice.randint(1, EARLY)) if early else (dice.randint(1, 8), dice.randint(0, 6))
        return cls(deletes, more, arrives=dice.random() < 0.5)

    def hook(self, request: Request, forward: Forward) -> Answer | None:
        """Kills the victim at its moment."""
        if not self._is_now(request):
            return forward(request)
        if self.arrives:
            forward(request)
        assert self.victim is not None
        self.victim.kill()
        return None

    def _is_now(self, request: Request) -> bool:
        with self.lock:
            if self.deletes > 0:
                self.deletes -= is_delete(request)
            else:
                self.more -= 1
                return self.more == 0
            return self.deletes == self.more == 0


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


@pytest.mark.parametrize("kills", [pytest.param(3, marks=pytest.mark.safety), KILLS])
def test_a_sweep_that_is_killed_many_times_loses_nothing_and_asks_for_nothing_twice_that_is_on_record(
    spark: SparkSession, tmp_path: Path, tally: Callable[[str, Mapping[str, int]], None], kills: int
) -> None:
    dice, tried = random.Random(SEED), Counter[str]()
    print(f"seed {SEED}")
    home = tmp_path / "home"
    home.mkdir()
    with seaweedfs(tmp_path) as store, stormy_lake(spark, tmp_path, store, garbage=OBJECTS) as lake:
        done: set[str] = set()
        while tried["kills"] < kills:
            first, kill = len(lake.proxy.requests), Kill.at_random(dice)
            victim = kill.victim = started(lake, home)
            lake.proxy.hook = kill.hook
            try:
                said = victim.communicate(timeout=3 * STARTS)
            finally:
                victim.kill()
                left = crash_lake.outlive(home)
                until(lambda: not lake.proxy.under_way, "the store has done what dead processes had asked for")
                lake.proxy.hook = pass_on
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
        result = lake.sweep(batch=1000)
        lake.check(result)
        assert result.trouble == "" and lake.stored().isdisjoint(lake.dead)
    tally(f"kill -9 of a sweep, seed {SEED}", tried)
