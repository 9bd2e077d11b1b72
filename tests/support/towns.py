"""A town: one repository in which many histories happen side by side, a collector at work, and a judge over both.

The clock moves; users act between the collector's requests; the collector breaks off at any of its requests or writes.
What a town goes through is told in `property/test_stateful_histories`; what is garbage or live, by `oracle`.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import RefusedError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import Http
from lakegc_core.marks import lease
from lakegc_core.marks.artifacts import AUTO, HOME
from lakegc_core.marks.context import MarkContext, RepositoryContext, begin_mark, open_repository
from lakegc_core.stages import swept_report
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.sweep.result import SweepResult
from lakegc_sandbox import Layout, PageLimits, Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from lakegc_sandbox.model.refs import GoneError
from tests.support import histories, oracle
from tests.support.histories import NOW, PATHS, RANGE_MODULUS, Player, Step
from tests.support.replays import environment

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

HOUR, DAY = 3600.0, 86_400.0
MIN_AGE = 25 * HOUR
GAP = {"full": DAY, "standard": 0.0}  # what the levels promise, whatever `safety` says
MEMORY = 7 * DAY
MARGIN = HOUR  # a retention period is never taken shorter than it is
ACCEPTED = dict.fromkeys(("blast-radius", "shrink", "live-in-listing"), "a small town")
SAFE = ("upload", "upload_again", "save", "commit", "delete")  # bring nothing old back to life


class Clock:
    """The time of the sandbox, of the store and, with a skew, of the collector."""

    def __init__(self) -> None:
        self.now = NOW.timestamp()
        self.move(0.0)

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float, skew: float = 0.0) -> None:
        self.now += seconds
        os.environ["LAKEGC_NOW"] = repr(self.now + skew)


class Crash(BaseException):
    """The collector is gone, as after kill -9; nothing in it catches this."""


@dataclass
class Saboteur:
    """Counts what the collector's driver asks and writes, and ends it at the chosen step."""

    left: int | None = None

    def step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                self.left = None
                raise Crash

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for place, name in ((Http, "send"), (LocalStore, "write")):
                patch.setattr(place, name, self._counted(getattr(place, name)))
            yield

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.step()
            return method(*arguments, **options)

        return counted


@dataclass
class Meddling:
    """What users do once the collector has made so many requests, and how much time passes then."""

    after: int
    steps: list[Step]
    seconds: float = 0.0


class Town:
    """One repository with its users, its collector and its judge."""

    def __init__(self, spark: SparkSession, server: SandboxServer, clock: Clock, name: str, level: str) -> None:
        self.spark, self.server, self.clock, self.name, self.level = spark, server, clock, name, level
        sandbox = server.sandbox
        self.folder = sandbox.root / name
        place = {"namespace": f"s3://{name}", "folder": self.folder} if sandbox.blockstore == "s3" else {}
        self.repository = sandbox.create_repository(name, age=timedelta(days=400), **place)
        self.player = Player(self.repository)
        self.counts: Counter[str] = Counter()
        self.saboteur = Saboteur()
        self.unreferenced: dict[str, float] = {}  # name -> the first mark since which it is not known to have lived
        self.sightings: list[tuple[float, tuple[int, Mapping[str, int]] | None]] = []
        self.looked_at: set[str] = set()  # marks that a sweep has looked at
        self.numbers = itertools.count(1)
        self._begun = time.time() - 60

    @property
    def home(self) -> Path:
        """Where lakegc keeps its artifacts."""
        return self.folder / HOME

    def date_artifacts(self) -> None:
        """What was written just now is dated by the clock of the town, as the store would."""
        for file in self.home.rglob("*"):
            if file.is_file() and file.stat().st_mtime > self._begun:
                os.utime(file, (self.clock(), self.clock()))

    def close(self) -> None:
        for flight in list(self.player.flights):
            self.player.land(flight)
        self.server.sandbox.delete_repository(self.name)
        shutil.rmtree(self.folder)

    # --- time and users ---

    def pass_time(self, seconds: float, skew: float = 0.0) -> None:
        """Let time pass. Commits in flight land in time: hooks take less than a day."""
        for flight in list(self.player.flights):
            if self.clock() + seconds - flight.begun > 22 * HOUR:
                self.player.land(flight)
        self.clock.move(seconds, skew)

    def heal(self) -> None:
        """What branches show and nobody can read is written anew, as an operator would before a sweep."""
        for branch in list(self.repository.refs.branches):
            for path, entry in list(self.repository.objects(branch)):
                if "elsewhere" not in entry.address and not self._reads(branch, path):
                    self.repository.upload(branch, path, b"healed")
                    self.counts["healed paths"] += 1

    def _reads(self, ref: str, path: str) -> bool:
        try:
            self.repository.read(ref, path)
        except GoneError:
            return False
        return True

    # --- the collector ---

    def mark(
        self, mark_id: str = "", *, crash: int | None = None, meddling: Meddling | None = None, mode: str = AUTO
    ) -> str:
        """Make a mark, or resume one; return its id. Raises Crash."""
        mark_id = mark_id or f"m{next(self.numbers)}"
        self.counts["marks begun"] += 1
        began = self.clock()
        resumed = (self.folder / f"_lakefs/retention/gc/lakegc/marks/{mark_id}").exists()
        with self._work(crash, meddling):
            pipeline.mark(self.spark, self.context(mark_id, mode=mode))
        self.counts["marks"] += 1
        self.counts["marks resumed"] += resumed
        self.sightings.append((self.clock(), self.repository.rules))
        if resumed or meddling:  # nobody can say what it saw of what changed meanwhile
            self.unreferenced = {name: self.unreferenced.get(name, began) for name in self.stored()}
        else:
            dead = self.stored().keys() - self.seen(self.world())  # if what is in flight lands and goes, nobody saw it
            self.unreferenced = {name: self.unreferenced.get(name, began) for name in dead}
        return mark_id

    def sweep(self, mark_id: str, *, crash: int | None = None, meddling: Meddling | None = None) -> SweepResult | None:
        """Sweep a mark and judge what was deleted; None where a guard refused. Raises Crash, after judging."""
        before, world = self.stored(), self.world()
        context = self.context(mark_id)
        candidates = set(pipeline.expired_of(context))
        self.hold_back(mark_id, candidates)
        result = None
        try:
            with self._work(crash, meddling):
                result = swept_report(self.spark, context, accepted=ACCEPTED)
        except RefusedError as error:
            self.counts["sweeps refused"] += 1
            assert any(reason in str(error) for reason in ("mark-age:", "too short a time ago", "order:")), str(error)
        finally:
            self.judge(before)
        if result is None:
            return None
        self.counts["sweeps"] += 1
        self.sightings.append((self.clock(), self.repository.rules))
        assert not result.failed and not result.unreadable, result
        if not meddling:
            # Before this went on with a sweep that had broken off, users may have revived what that one had deleted.
            assert self._lost(mark_id, result.sweep) <= oracle.live(world, tags=True) - before.keys(), result
            if mark_id not in self.looked_at:
                for name in candidates & self.seen(world) & self.seen(self.world()):
                    self.unreferenced.pop(name, None)
        self.looked_at.add(mark_id)
        return result

    def _lost(self, mark_id: str, sweep: int) -> set[str]:
        """What a sweep calls lost."""
        folder = self.folder / f"_lakefs/retention/gc/lakegc/marks/{mark_id}/sweeps/{sweep}/outcomes"
        rows = [row for part in folder.glob("*.parquet") for row in pq.read_table(part).to_pylist()]
        return {row["address"] for row in rows if row["outcome"] == "lost"}

    def hold_back(self, mark_id: str, candidates: set[str]) -> None:
        """Land what would be hidden from the look after the mark has missed it: no level stops two in a row; and at
        level standard whatever is in flight."""
        read = self.context(mark_id).mark.require("retention_commits").started_at
        for flight in list(self.player.flights):
            late = flight.begun >= read - 15 * 60 and not candidates.isdisjoint(flight.objects())
            if self.level == "standard" or late:
                self.player.land(flight)

    def settings(self) -> Settings:
        server = ServerSettings(self.server.url, ACCESS_KEY, SECRET_KEY)
        return Settings(server=server, stores=(StoreMapping("local://", root=str(self.server.sandbox.root)),))

    def opened(self) -> RepositoryContext:
        settings = self.settings()
        opened = open_repository(settings, self.name, client=LakeFSClient(settings.server, sleep=lambda seconds: None))
        if not opened.namespace.is_local:  # lakeFS believes in S3; its bytes are in a folder all the same
            folder = LocalConfig(str(self.folder))
            opened = replace(opened, data=folder, outputs=folder, workspace=folder)
        return opened

    def context(self, mark_id: str, *, mode: str = AUTO) -> MarkContext:
        opened = self.opened()
        standing = opened.artifacts(mark_id).header()
        return begin_mark(
            opened,
            mark_id,
            min_age=timedelta(seconds=MIN_AGE),
            safety_level=self.level,
            rules="keep-all-commits",  # only counts while there are no rules
            mode=standing.mode if standing else mode,
        )

    @contextmanager
    def _work(self, crash: int | None, meddling: Meddling | None) -> Iterator[None]:
        """The collector works: users meddle after some requests, and it may crash at some step."""
        requests, failed = itertools.count(1), []

        def meddle(*request: object) -> None:
            if meddling and next(requests) == meddling.after:
                try:
                    self.player.play(meddling.steps)
                    self.pass_time(meddling.seconds)
                    for held, _ in list(lease._held.values()):
                        held.renew()  # as its thread does every two minutes, which have passed many times
                    self.counts["times users meddled"] += 1
                except Exception as error:  # in the server's thread
                    failed.append(error)

        self.server.fault, self.saboteur.left = meddle, crash
        try:
            with self.saboteur.at_work():
                yield
        except Crash:
            self.counts["crashes"] += 1
            raise
        finally:
            self.server.fault, self.saboteur.left = None, None
            self.date_artifacts()
            assert not failed, failed

    def forget_last_outcomes(self, mark_id: str) -> None:
        """What was deleted is not in the journal: the collector was killed between the two."""
        sweeps = sorted((self.folder / f"_lakefs/retention/gc/lakegc/marks/{mark_id}/sweeps").glob("*"))
        if sweeps and not (sweeps[-1] / "report.json").exists():
            for part in (sweeps[-1] / "outcomes").glob("*.parquet"):
                if "deleted" in pq.read_table(part, columns=["outcome"])["outcome"].to_pylist():
                    part.unlink()
                    self.counts["journals cut off"] += 1

    # --- the judge ---

    def world(self) -> oracle.World:
        return oracle.world_of(self.repository, int(MIN_AGE * 10**6))

    def stored(self) -> dict[str, int]:
        return oracle.stored(self.repository)

    def live(self, world: oracle.World, rules: Iterable[Any] = ()) -> set[str]:
        """What must stay by the rules in force, and by these as well."""
        found = oracle.live(world, tags=True).union(*(flight.objects() for flight in self.player.flights))
        return found.union(*(oracle.live(replace(world, rules=each), tags=True) for each in rules))

    def seen(self, world: oracle.World) -> set[str]:
        """What a mark or a look can see live: not what only a commit in flight holds."""
        return oracle.live(world, tags=True)

    def judge(self, before: Mapping[str, int]) -> None:
        """Nothing that was deleted is live, every deleted object had waited, and everything shown reads."""
        world = self.world()
        deleted = before.keys() - world.store.keys()
        remembered = [rules for at, rules in self.sightings if at >= self.clock() - MEMORY + 15 * 60]
        live = self.live(world, remembered)
        lost = sorted(deleted & live)
        for ref in (*world.heads, *world.tags):
            for path, entry in self.repository.objects(ref):
                if before.keys() & set(oracle.names_of(self.repository, entry)) and not self._reads(ref, path):
                    lost.append(f"{path} of {ref}")
        waited = {name: self.clock() - self.unreferenced.get(name, self.clock()) for name in deleted}
        early = sorted(name for name, seconds in waited.items() if seconds < GAP[self.level])
        self.counts["deleted objects"] += len(deleted)
        self.counts["live objects lost"] += len(lost)
        assert not lost, f"lost: {lost}"
        assert not early, f"deleted before they were unreferenced for the whole gap: {early}"

    def left_over(self, at: float) -> list[str]:
        """What was garbage at a time and is still there."""
        world = replace(self.world(), now=int((at - MARGIN) * 10**6))
        return sorted(oracle.garbage(world, tags=True))


def server(root: Path, blockstore: str, clock: Clock) -> SandboxServer:
    """A sandbox of towns, in whose outside bucket all that is imported lies."""
    sandbox = Sandbox(root, blockstore=blockstore, clock=clock, seed=1, layout=Layout(range_modulus=RANGE_MODULUS))
    sandbox.uncommitted_page = PageLimits(branches=1, rows=2)
    for path in PATHS:
        for name in (path[:9], path[:9].replace("%2F", "/")):
            file = root / "elsewhere" / name
            if not file.is_dir():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b"outside")
    return SandboxServer(sandbox)


@contextmanager
def both_blockstores(folder: Path) -> Iterator[tuple[Clock, list[SandboxServer]]]:
    """Sandboxes on both kinds of blockstore, with a clock that moves."""
    with ExitStack() as stack:
        stack.enter_context(environment({"LAKEGC_UNSAFE": "yes", "LAKEGC_NOW": "0"}))
        clock = Clock()
        yield clock, [stack.enter_context(server(folder / kind, kind, clock)) for kind in ("local", "s3")]


def users(seed: int, several: int, parts: int) -> list[list[Step]]:
    """Several histories side by side, cut into parts. Sizes are many, or every object would look like a re-upload."""
    source = random.Random(seed)
    drawn = [histories.drawn(seed * 1000 + number, histories.user_histories) for number in range(several)]
    steps = [
        replace(step, arguments={**step.arguments, "content": bytes(source.randrange(20_000))})
        if "content" in step.arguments
        else step
        for step in histories.together(drawn)
    ]
    bounds = [several - 1 + (len(steps) - several + 1) * number // parts for number in range(parts + 1)]
    return [steps[: bounds[0]] + steps[bounds[0] : bounds[1]]] + [
        steps[one:other] for one, other in itertools.pairwise(bounds[1:])
    ]
