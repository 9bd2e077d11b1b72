"""The whole collector over random histories: mark, and for some sweep, go on, and mark again; judged by the oracle.

What belongs here: how many histories are run, how they are marked, and what must hold of the result. What happens in a
history belongs in `histories`, what is garbage in `oracle`.

LAKEGC_SEED (default 0) is the number of the first repository.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import LakegcError, RefusedError, SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import MarkContext, begin_mark, open_repository
from lakegc_core.stages import swept_report
from lakegc_sandbox import SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from lakegc_sandbox.model.refs import GoneError
from tests.support import histories, oracle
from tests.support.counted import numbers, show_something
from tests.support.crowded import crowded
from tests.support.histories import NOW, History, Player
from tests.support.lake import quick_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_AGE = timedelta(days=1)
TOGETHER = 24  # histories that share a repository, on branches of their own: a mark costs little more for them
REPOSITORIES, SLOW_REPOSITORIES = 2, 30
SWEPT_OF = 5  # of so many repositories one is swept


@dataclass
class Court:
    """A sandbox that is served, and a session to mark its repositories with."""

    spark: SparkSession
    server: SandboxServer
    counts: Counter[str] = field(default_factory=Counter)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def judge(self, history: History, *, tags: bool, sweep: bool, joined: bool = False) -> list[str]:
        """Play a history and compare what lakegc does with what is right; sentences on what is not.

        `joined`: as if there were more addresses than a worker can hold.
        """
        with crowded(joined):
            return self._judge(history, tags=tags, sweep=sweep)

    def _judge(self, history: History, *, tags: bool, sweep: bool) -> list[str]:
        sandbox, name = self.server.sandbox, f"repo-{next(self.numbers)}"
        half = len(history) * 2 // 3 if sweep else len(history)
        player = histories.played(sandbox, name, history[:half])
        try:
            wrong = self._mark(player, "first", tags)
            if sweep and not wrong:
                wrong = self._sweep(player, tags)
                player.play(history[half:])  # which may call what was swept back to life, in vain
                wrong += self._mark(player, "later", tags)
        except LakegcError as error:
            wrong = [f"{type(error).__name__}: {error}"]
        finally:
            sandbox.delete_repository(name)
            shutil.rmtree(sandbox.root / name)
        self.counts["repositories"] += 1
        self.counts += player.counts
        return wrong

    def _mark(self, player: Player, mark_id: str, tags: bool) -> list[str]:
        mark = self.mark(player, mark_id, tags)
        world = oracle.world_of(player.repository, MIN_AGE // timedelta(microseconds=1))
        right, live = oracle.garbage(world, tags=tags), oracle.live(world, tags=tags)
        found = list(pipeline.expired_of(mark))
        facts = mark.mark.require("expired_addresses").facts
        self.counts["marks"] += 1
        self.counts["commits"] += len(world.commits)
        self.counts["objects"] += len(world.store)
        self.counts["garbage objects"] += len(right)
        self.counts["live objects lost"] += len(live.intersection(found))
        wrong = [f"{name} is live and expired" for name in sorted(live.intersection(found))]
        wrong += [f"{name} is expired and should not" for name in sorted(set(found) - right - live)]
        wrong += [f"{name} is garbage and was not found" for name in sorted(right - set(found))]
        if len(found) != len(set(found)):
            wrong.append("an address is expired twice")
        if facts["listed"]["objects"] != len(world.store):
            wrong.append(f"{facts['listed']['objects']} objects were listed of {len(world.store)}")
        if mark.mark.require("retention_commits").facts["server_beyond_ours"]:
            wrong.append("lakeFS keeps commits that lakegc would not")
        return [f"mark {mark_id!r}: {each}" for each in wrong]

    def mark(self, player: Player, mark_id: str, tags: bool) -> MarkContext:
        repository = player.repository
        context = begin_mark(
            self._open(repository.name),
            mark_id,
            min_age=MIN_AGE,
            safety_level="none",
            rules="keep-all-commits" if repository.rules is None else None,
            protect_tags=tags,
        )
        pipeline.mark(self.spark, context)
        return context

    def _open(self, name: str) -> Any:
        server = ServerSettings(self.server.url, ACCESS_KEY, SECRET_KEY)
        client = LakeFSClient(server, sleep=lambda seconds: None)
        try:
            return open_repository(Settings(server=server), name, client=client)
        except SettingsError:  # nothing in the repository tells where it lies: no rules, nothing staged, no upload
            self.counts["told where they lie"] += 1
            told = StoreMapping("local://", root=str(self.server.sandbox.root))
            return open_repository(Settings(server=server, stores=(told,)), name, client=client)

    def _sweep(self, player: Player, tags: bool) -> list[str]:
        repository = player.repository
        world = oracle.world_of(repository, MIN_AGE // timedelta(microseconds=1))
        right = oracle.garbage(world, tags=tags)
        readable = _readable(player, world, tags)
        mark = self.mark(player, "first", tags)  # which stands
        nested = histories.NESTED in world.store
        try:
            result = swept_report(self.spark, mark)
        except RefusedError as error:
            self.counts["sweeps refused"] += 1
            return [] if nested else [str(error)]
        if nested:
            return ["sweep: another repository's metadata lies below data/, which must stop it"]
        self.counts["sweeps"] += 1
        self.counts["swept objects"] += result.outcomes["deleted"]
        wrong = []
        if result.failed or result.outcomes["deleted"] != len(right):
            wrong.append(f"the sweep says {dict(result.outcomes)} where {len(right)} objects are garbage")
        left = set(oracle.stored(repository))
        wrong += [f"{name} was not swept" for name in sorted(left & right)]
        lost = sorted(set(world.store) - right - left)
        wrong += [f"{name} was swept and is not garbage" for name in lost]
        unreadable = sorted(readable - _readable(player, world, tags))
        wrong += [f"{path!r} of {ref} cannot be read any more" for ref, path in unreadable]
        self.counts["live objects lost"] += len(lost) + len(unreadable)
        again = self.mark(player, "again", tags)
        wrong += [f"{name} is garbage after the sweep" for name in pipeline.expired_of(again)]
        return [f"sweep: {each}" for each in wrong]


def _readable(player: Player, world: oracle.World, tags: bool) -> set[tuple[str, str]]:
    """What can be read on branches, protected tags and commits that count."""
    found = set()
    repository = player.repository
    for ref in {*world.heads, *(world.tags if tags else ()), *oracle.counting(world, tags=tags)}:
        for path, entry in repository.objects(ref):
            if "elsewhere" in entry.address:  # imported: its bytes never were here
                continue
            try:
                repository.read(ref, path)
            except GoneError:
                continue
            found.add((ref, path))
    return found


@pytest.fixture
def court(quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Court]:
    """A sandbox at NOW."""
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp()))
    with SandboxServer(histories.sandbox(tmp_path)) as server:
        yield Court(quick, server)


@pytest.mark.parametrize(
    "some", [numbers(REPOSITORIES), pytest.param(numbers(SLOW_REPOSITORIES, slow=True), marks=pytest.mark.slow)]
)
def test_every_history_is_marked_and_swept_as_the_oracle_says(
    court: Court, tally: Callable[[str, Mapping[str, int]], None], some: range
) -> None:
    for number in some:
        tags, sweep = number % 2 == 0, number % SWEPT_OF == 0
        history = histories.together([histories.drawn(number * TOGETHER + each) for each in range(TOGETHER)])
        if sweep and number % 20 != 10:
            history = [step for step in history if step.arguments.get("name") != histories.NESTED]
        court.counts["histories"] += TOGETHER
        how = {"tags": tags, "sweep": sweep, "joined": number % 3 == 1}
        wrong = court.judge(history, **how)
        if wrong:
            pytest.fail(f"Repository {number}: " + explained(court, history, wrong, how))
    court.counts["live objects lost"] += 0
    tally("pipeline histories", court.counts)
    show_something(court.counts["garbage objects"], court.counts["sweeps"])


def explained(court: Court, history: History, wrong: list[str], how: Mapping[str, bool]) -> str:
    """What was wrong, and a script of a smaller history with which something is."""
    small = histories.smallest(history, lambda shorter: bool(court.judge(shorter, **how)))
    return "\n".join([*wrong, "", script(small, how)])


def script(history: History, how: Mapping[str, bool]) -> str:
    """Python that plays a history again and says what is wrong with it; to be run where `tests` lies."""
    steps = "\n".join(f"    Step({step.verb!r}, {step.arguments!r})," for step in history)
    return (
        f"from tests.support.histories import Step\nfrom {__name__} import replay\n\n"
        f"history = [\n{steps}\n]\nprint(*replay(history, **{dict(how)}), sep='\\n')\n"
    )


def replay(history: History, **how: bool) -> list[str]:
    """What is wrong with a history, apart from any test: for the scripts that a failure prints."""
    os.environ |= {"LAKEGC_UNSAFE": "yes", "LAKEGC_NOW": str(NOW.timestamp())}
    with (
        tempfile.TemporaryDirectory() as folder,
        SandboxServer(histories.sandbox(Path(folder))) as server,
        quick_session() as spark,
    ):
        return Court(spark, server).judge(history, **how)
