"""Marks, sweeps, crashes and clock jumps among everything users do, step by step, many thousand times, in memory.

What belongs here: the protocol of a mark and a sweep (`small_collector`, which uses lakegc's own pure functions)
against what is true of a `small_lake`. Histories that would need two rare defects of lakeFS one after the other, on the
same object, are left out where they are made: no level promises anything there. Whether lakegc's stages follow that
protocol is for `test_stateful_histories`.

EXAMPLES times HISTORIES histories are played; `make test-slow` plays MORE in place of HISTORIES.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakegc_core.policy.retention import Rules
from lakegc_core.policy.safety import FULL, STANDARD, Level
from tests.support import oracle
from tests.support.choices import Choices
from tests.support.small_collector import COMMITS, COMMITTED, EXPIRED, STAGED, Collector, Mark, Refused, Step
from tests.support.small_lake import Lake, number_of

EXAMPLES = 650
HISTORIES, MORE = 4, 16  # an example of hypothesis, which is slow to begin one
BYTES = 180  # of randomness, for one history
MINUTE, HOUR, DAY = 60, 3600, 86_400
START = 1_750_000_000
MIN_AGE = 25 * HOUR
GAP = {"full": DAY, "standard": 0}  # what the levels promise, whatever `safety` says
MEMORY = 7 * DAY
SKEWS = (0, 0, 300, -300)  # seconds; the limit is ten minutes
JUMPS = (HOUR, 10 * MINUTE, 6 * HOUR, 23 * HOUR, 25 * HOUR, 25 * HOUR, 26 * HOUR, 3 * DAY, 8 * DAY)
BRANCHES = ("main", "dev", "feature")
PATHS = ("a", "b", "c")
RULES = (Rules(1), Rules(3), Rules(7), Rules(0), Rules(-1), Rules(30, {"dev": 1}), Rules(1, {"dev": 7}), None)
COUNTS: Counter[str] = Counter()
TELLING: list[str] = []  # not empty while a history is told that broke a promise


class Judged(Collector):
    """A collector whose every delete is judged before it is done."""

    def __init__(self, lake: Lake, level: Level) -> None:
        super().__init__(lake, level)
        self.unreferenced: dict[int, float] = {}  # object -> since when every mark and look found it so

    def observe(self, mark: Mark, stage: str) -> None:
        """A stage has ended: what it found referenced, when that was read, is counted anew."""
        read = {STAGED: (STAGED, mark.staged), COMMITTED: (COMMITS, mark.committed), EXPIRED: (EXPIRED, mark.shown)}
        if stage in read:
            source, live = read[stage]
            at = mark.manifests[source].started_at
            for each in live:
                if self.unreferenced.get(each, at) < at:
                    del self.unreferenced[each]
        if stage == EXPIRED:
            for each in mark.expired:
                self.unreferenced.setdefault(each, mark.manifests[COMMITS].started_at)

    def delete(self, batch: list[int]) -> None:
        remembered = self.now - MEMORY + 2 * max(SKEWS)
        rules = [self.lake.rules]
        for at, seen in self.sightings:
            if at >= remembered and seen not in rules:
                rules.append(seen)
        there = self.lake.store.keys() & set(batch)  # others are gone already
        live = self.lake.live(rules) & there
        COUNTS["live objects lost"] += len(live)
        assert not live, "something live was deleted"
        for each in there:
            waited = self.now - self.unreferenced.get(each, self.now)
            assert waited >= GAP[self.level.name], "deleted before it was unreferenced for the whole gap"
        COUNTS["deleted objects"] += len(there)
        super().delete(batch)


class Story:
    """One history: what users do, what the collector does, and what happens to it."""

    def __init__(self, pick: Choices) -> None:
        self.pick = pick
        self.level = pick.of((FULL, FULL, STANDARD))
        self.lake = Lake(START)
        self.lake.rules = pick.of(RULES)
        self.collector = Judged(self.lake, self.level)
        self.sweeping: Mark | None = None
        self.odd = False  # something happened since that a single reading of lakeFS cannot see
        self.told: list[str] = []

    def say(self, what: str) -> None:
        if TELLING:
            self.told.append(f"{(self.lake.now - START) / HOUR:8.2f} h  {what}")

    def tell(self) -> None:
        """Play until the randomness is used up, then let it be quiet and see what is left."""
        while not self.pick.spent:
            kind = self.pick.below(16)
            if kind < 6:
                self.user()
            elif kind < 9:
                self.jump()
            elif kind < 13:
                self.mark()
            else:
                self.sweep()
        self.quiet()
        COUNTS["marks"] += sum(mark.complete for mark in self.collector.marks)

    # --- users ---

    def user(self, kind: int | None = None) -> None:
        """One thing that a user does, of any kind or of this one."""
        pick, lake = self.pick, self.lake
        branch, path = pick.of(BRANCHES), pick.of(PATHS)
        branch = branch if branch in lake.branches else "main"
        kind = pick.below(28) if kind is None else kind
        COUNTS["steps"] += 1
        self.say(f"user {kind} on {branch} {path}")
        self.odd |= kind >= 12 and kind != 17 and kind != 18
        if kind < 5:
            lake.upload(branch, path, pick.below(4))
        elif kind < 8:
            lake.commit(branch)
        elif kind < 10:
            lake.stage(branch, path, None)
        elif kind == 10:
            lake.upload_again(branch, path)
        elif kind == 11:
            lake.promise(branch, path, pick.below(4), pick.of((HOUR, 20 * HOUR, 24 * HOUR)))
        elif kind in (12, 24):  # a multipart upload that was begun long ago and appears with an old date
            within = pick.of((23 * HOUR, HOUR)) if self.level is FULL else 4 * MINUTE
            lake.promise(branch, path, pick.below(4), within, age=3 * DAY)
        elif kind in (13, 25, 26, 27):
            staged = lake.branches[branch].staged()
            path, hidden = pick.of([*sorted(staged), path]), set(staged.values())
            if self.sweeping is None or not hidden & self.sweeping.expired.keys():
                lake.begin_commit(branch, pick.of((23 * HOUR, HOUR, 10 * MINUTE)))
                lake.stage(branch, path, pick.of((None, lake.put(pick.below(4)))))
        elif kind == 14 and self.sweeping is None:  # or a look might miss what a mark has missed
            lake.move(branch, path, pick.of(PATHS))
        elif kind == 15:
            lake.create_branch(pick.of(BRANCHES[1:]), self._commit())
        elif kind == 16:
            lake.delete_branch(pick.of(BRANCHES[1:]))
        elif kind == 17:
            lake.tag(pick.of(("v1", "v2")), self._commit())
        elif kind == 18:
            lake.tags.pop(pick.of(("v1", "v2")), None)
        elif kind in (19, 20) and self.sweeping and lake.twins(branch) & self.sweeping.expired.keys():
            pass  # the head that hides a re-upload from the dump must not move on while a look runs
        elif kind == 19:
            lake.hard_reset(branch, self._commit())
        elif kind == 20:  # merge, revert, cherry-pick
            other = self._commit()
            lake.bring(branch, lake.commits[other].tree, pick.of((None, other)))
        elif kind == 21 and lake.contents:
            dead = sorted({each for mark in self.collector.marks for each in mark.expired} & lake.store.keys())
            lake.stage(branch, path, pick.of(dead or range(len(lake.contents))))
        elif kind == 22:
            lake.reset(branch)
        elif kind == 23:
            lake.rules = pick.of(RULES)

    def _commit(self) -> int:
        """Any commit at all, or a head."""
        if self.pick.below(2):
            return self.lake.branches["main"].head
        return len(self.lake.commits) - 1 - self.pick.below(len(self.lake.commits))

    def jump(self) -> None:
        self.lake.pass_time(self.pick.of(JUMPS))
        self.collector.skew = self.pick.of(SKEWS)

    # --- the collector ---

    def mark(self) -> None:
        """A new mark, or the rest of one that broke off."""
        broken = [mark for mark in self.collector.marks if not mark.complete]
        if broken and self.pick.below(3):
            mark = self.pick.of(broken)
            COUNTS["marks resumed"] += 1
        else:
            mark = self.collector.begin(MIN_AGE)
        self.run(self.collector.mark(mark), mark)

    def sweep(self) -> None:
        complete = [mark for mark in self.collector.marks if mark.complete]
        if not complete:
            return
        mark = complete[-1 - self.pick.below(min(len(complete), self.pick.of((1, 1, 2))))]
        for owed in list(self.lake.owed):
            # Standard does not wait for commits in flight. And what a mark called expired, so that only a client that
            # links very late or stages old addresses brought it back, must not be hidden from the next mark and its
            # look by one and the same commit: no level stops two rare things in a row.
            if owed.in_flight and (self.level is STANDARD or owed.objects & self.called_expired(owed.begun)):
                self.lake.settle(owed)
        self.sweeping = mark
        try:
            self.run(self.collector.sweep(mark), mark)
            COUNTS["sweeps"] += 1
        except Refused as refused:
            COUNTS["sweeps refused"] += 1
            self.say(f"refused: {refused}")
        self.sweeping = None

    def called_expired(self, until: int) -> set[int]:
        """What marks called expired that had read before a time, give or take the clocks."""
        complete = [mark for mark in self.collector.marks if mark.complete]
        early = [mark for mark in complete if mark.manifests[COMMITS].started_at <= until + 2 * max(SKEWS)]
        return {number for mark in early for number in mark.expired}

    def run(self, steps: Step, mark: Mark, *, quiet: bool = False) -> None:
        """Do the steps, with something in between at times; a crash leaves the rest undone."""
        ended = set(mark.manifests)
        self.say(
            f"mark {mark.number}: {'sweep' if self.sweeping else 'mark'} goes on, clock {self.collector.skew:+d} s"
        )
        self.odd = bool(self.lake.owed) or bool(ended)
        live = self.lake.live([self.lake.rules]) if not self.odd else set()
        for step in steps:
            self.say(f"  {step}")
            if len(ended) < len(mark.manifests):
                self.observe(mark, ended)
            chance = 1 if quiet else self.pick.below(40)
            if chance == 39:
                COUNTS["crashes"] += 1
                return
            if chance >= 32 or (chance >= 20 and self.sweeping):
                if self.sweeping:
                    self.meddle(mark, step)
                else:
                    self.user()
                    live = set() if self.odd else live & self.lake.live([self.lake.rules])
                    self.lake.pass_time(self.pick.of((0, 0, MINUTE, 20 * MINUTE)))
        self.observe(mark, ended)
        if not self.sweeping and not self.odd:
            assert not live & mark.expired.keys(), "a mark calls expired what was live all the time"

    def observe(self, mark: Mark, ended: set[str]) -> None:
        for stage in mark.manifests.keys() - ended:
            self.collector.observe(mark, stage)
            ended.add(stage)

    def meddle(self, mark: Mark, step: str) -> None:
        """A user during a sweep. What no client can stop is left out: old content that comes back to life in the last
        seconds; lakegc has a minute to see new heads, tags and rules, an hour for everything else."""
        waiting = mark.expired.keys() & self.lake.store.keys() - mark.final
        before, places = self.lake.live([self.lake.rules]), self.places()
        heads = {branch.head for branch in self.lake.branches.values()} | set(self.lake.tags.values())
        rules = self.lake.rules
        self.user(self.pick.of((None, None, None, 7, 15, 17, 20, 21)))
        moved = {number for number, *_ in self.places() - places}
        revived = waiting & (self.lake.live([self.lake.rules]) - before | moved)
        if not revived:
            return
        COUNTS["revivals during a sweep"] += 1
        new = {branch.head for branch in self.lake.branches.values()} | set(self.lake.tags.values())
        seen = self.lake.rules != rules or revived <= self.collector._trees(new - heads)
        self.lake.pass_time(MINUTE if seen and step.startswith("delete") else HOUR)

    def places(self) -> set[tuple[int, str, str]]:
        """Where objects are shown."""
        return {(number, name, path) for name in self.lake.branches for path, number in self.lake.shown(name).items()}

    # --- the end ---

    def quiet(self) -> None:
        """Nothing happens any more: all that was garbage at the first of two quiet marks is gone after a sweep."""
        for owed in list(self.lake.owed):
            self.lake.settle(owed)
        self.collector.skew = 0
        self._quiet_mark()  # which sees the rules; they are remembered for a week
        self.lake.pass_time(8 * DAY)
        self._quiet_mark()
        at = self.lake.now
        self.lake.pass_time(25 * HOUR)
        last = self._quiet_mark()
        self.lake.pass_time(HOUR)
        self.run(self.collector.sweep(last), last, quiet=True)
        world = self.lake.world(
            self.lake.rules, now=at - int(self.level.retention_margin.total_seconds()), min_age=MIN_AGE
        )
        left = {number_of(name) for name in oracle.garbage(world, tags=True)}
        COUNTS["garbage left"] += len(left)
        assert not left, "garbage is left after two quiet marks and a sweep"

    def _quiet_mark(self) -> Mark:
        mark = self.collector.begin(MIN_AGE)
        self.run(self.collector.mark(mark), mark, quiet=True)
        return mark


@pytest.fixture(autouse=True)
def counted(tally: Callable[[str, Mapping[str, int]], None]) -> Iterator[None]:
    """Says at the end what was judged."""
    yield
    COUNTS.update({"live objects lost": 0, "garbage left": 0})
    tally("collector model", COUNTS)


@pytest.mark.parametrize("histories", [HISTORIES, pytest.param(MORE, marks=pytest.mark.slow)])
@settings(
    max_examples=EXAMPLES,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32 - 1))
def test_nothing_live_is_deleted_and_no_garbage_stays_whatever_happens_around_the_collector(
    histories: int, seed: int
) -> None:
    source = random.Random(seed)  # even bytes: those of hypothesis repeat themselves, and so would the histories
    for _ in range(histories):
        data = source.randbytes(BYTES)
        wrong = what_is_wrong(data)
        if wrong:
            data = smallest(data)
            pytest.fail("\n".join(["A history that shows it:", *told(data), what_is_wrong(data)]))
        COUNTS["histories"] += 1


def what_is_wrong(data: bytes) -> str:
    """The promise that a history breaks; empty if it breaks none."""
    try:
        Story(Choices(data)).tell()
    except AssertionError as error:
        return str(error).partition("\n")[0]
    return ""


def told(data: bytes) -> list[str]:
    """A history step by step."""
    story = Story(Choices(data))
    TELLING.append("yes")
    with suppress(AssertionError):
        story.tell()
    TELLING.clear()
    return story.told


def smallest(data: bytes) -> bytes:
    """Fewer bytes, and smaller ones, that still break a promise."""
    piece = len(data) // 2
    while piece:
        for start in range(len(data) - piece, -1, -piece):
            for shorter in (data[:start] + data[start + piece :], data[:start] + bytes(piece) + data[start + piece :]):
                if len(shorter) + sum(shorter) < len(data) + sum(data) and what_is_wrong(shorter):
                    data = shorter
                    break
        piece //= 2
    return data
