"""The real collector at levels full and standard, while users go on, clocks jump, rules change and processes crash.

What belongs here: what a town goes through, and the counts. Towns, their collector and their judge are in `towns`.

LAKEGC_SEED (default 0) is the number of the first town.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core.marks.artifacts import CLEAN
from tests.support import towns
from tests.support.counted import numbers, show_something
from tests.support.histories import BRANCHES, Step
from tests.support.towns import DAY, HOUR, SAFE, Clock, Crash, Meddling, Town

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakegc_sandbox import SandboxServer

TOGETHER = 24  # histories in one town: a mark costs little more for them
TOWNS, SLOW_TOWNS = 1, 8
JUMPS = (20 * 60.0, 6 * HOUR, 23 * HOUR, 25 * HOUR, 26 * HOUR, 3 * DAY, 9 * DAY)
SKEWS = (0.0, 0.0, 240.0, -240.0)
DAYS = (1, 2, 7, 14, 30, 0, -1)
MOST_STEPS = {"mark": 75, "sweep": 130}  # requests and writes of a collector; a crash beyond them does not happen


class Tale:
    """What happens to one town, by chance."""

    def __init__(self, town: Town, chance: random.Random, users: list[list[Step]], rounds: int) -> None:
        self.town, self.chance, self.users, self.rounds = town, chance, users, rounds
        self.marks: list[str] = []
        self.broken: str | None = None

    def tell(self) -> None:
        for _ in range(self.rounds):
            self.rules()
            self.live_on()
            self.jump()
            self.mark()
            self.live_on()
            self.jump()
            if self.chance.random() < 0.9:
                self.sweep()
        self.live_on()
        self.quiet()

    def live_on(self, of: float = 1.0) -> None:
        """Users go on with a part of their histories."""
        if self.users:
            self.town.player.play(self.users.pop(0))
        for flight in list(self.town.player.flights):
            if self.chance.random() < 0.3:
                self.town.player.land(flight)

    def rules(self) -> None:
        names = [f"{number}-{name}" for number in range(1, TOGETHER) for name in BRANCHES]
        some = {name: self.chance.choice(DAYS) for name in self.chance.sample(names, 10)}
        rules = Step("set_rules", {"default": self.chance.choice(DAYS), "branches": some})
        if self.chance.random() < 0.1:
            rules = Step("delete_rules", {})
        if self.town.repository.rules is None or self.chance.random() < 0.6:
            self.town.player.play([rules])

    def jump(self) -> None:
        self.town.pass_time(self.chance.choice(JUMPS), self.chance.choice(SKEWS))

    # --- the collector ---

    def mark(self) -> None:
        """A mark that may crash, and then be resumed or abandoned for another one."""
        resumed = self.broken if self.broken and self.chance.random() < 0.3 else ""
        mark_id = resumed or f"m{next(self.town.numbers)}"
        crash = self.crash("mark")
        while True:
            try:
                self.marks.append(self.town.mark(mark_id, crash=crash, meddling=self.meddling("mark", crash)))
                return
            except Crash:
                crash = None
                self.town.pass_time(self.chance.choice((11 * 60.0, HOUR, 25 * HOUR)))
                if self.chance.random() < 0.4:
                    self.broken, mark_id = mark_id, f"m{next(self.town.numbers)}"

    def sweep(self) -> None:
        """Sweep a mark, seldom an old one; after a crash again, now or never."""
        mark_id = self.marks[-1] if self.chance.random() < 0.8 else self.chance.choice(self.marks)
        self.town.heal()
        crash = self.crash("sweep")
        try:
            self.town.sweep(mark_id, crash=crash, meddling=self.meddling("sweep", crash))
        except Crash:
            if self.chance.random() < 0.5:
                self.town.forget_last_outcomes(mark_id)
            self.town.pass_time(self.chance.choice((11 * 60.0, HOUR, 25 * HOUR)))
            if self.chance.random() < 0.7:
                self.live_on()
                self.town.heal()
                self.town.sweep(mark_id)

    def crash(self, verb: str) -> int | None:
        return self.chance.randrange(1, MOST_STEPS[verb]) if self.chance.random() < 0.35 else None

    def meddling(self, verb: str, crash: int | None) -> Meddling | None:
        """Users between two requests. In a sweep either with nothing that brings old content back to life, or more than
        an hour before anything is deleted: what happens in the last seconds no client can stop."""
        if crash or not self.users or self.chance.random() < 0.6:
            return None
        steps, after = self.users.pop(0), self.chance.randrange(1, MOST_STEPS[verb] // 3)
        if verb == "mark":
            return Meddling(after, steps)
        if self.chance.random() < 0.5:
            return Meddling(after, steps, 61 * 60.0)
        return Meddling(after, [step for step in steps if step.verb in SAFE])

    # --- the end ---

    def quiet(self) -> None:
        """Nothing happens any more: of what was garbage at the first of two quiet clean marks, nothing is left."""
        town = self.town
        for flight in list(town.player.flights):
            town.player.land(flight)
        town.heal()
        town.mark(mode=CLEAN)  # sees the rules, which are remembered for a week
        town.pass_time(8 * DAY)
        town.mark(mode=CLEAN)
        at = town.clock()
        town.pass_time(25 * HOUR)
        last = town.mark(mode=CLEAN)
        town.pass_time(20 * 60.0)
        assert town.sweep(last) is not None, "the last sweep was refused"
        left = town.left_over(at)
        town.counts["garbage left"] += len(left)
        assert not left, f"garbage is left after two quiet marks and a sweep: {left}"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Clock, list[SandboxServer]]]:
    with towns.both_blockstores(tmp_path) as served:
        yield served


@pytest.mark.slow
@pytest.mark.parametrize(
    ("some", "rounds"),
    [pytest.param(numbers(TOWNS), 1, marks=pytest.mark.safety), (numbers(SLOW_TOWNS, slow=True), 3)],
)
def test_nothing_live_is_lost_and_no_garbage_stays_while_users_go_on_and_collectors_crash(
    quick: SparkSession,
    servers: tuple[Clock, list[SandboxServer]],
    tally: Callable[[str, Mapping[str, int]], None],
    some: range,
    rounds: int,
) -> None:
    clock, sandboxes = servers
    counts = Counter({"live objects lost": 0, "garbage left": 0})
    for number in some:
        chance, server = random.Random(number), sandboxes[number % 2]
        level = chance.choice(("full", "full", "standard"))
        town = Town(quick, server, clock, f"town-{number}", level)
        try:
            parts = 3 * rounds + 1  # into which the histories are cut
            Tale(town, chance, towns.users(number, TOGETHER, parts), rounds).tell()
        except Exception as error:
            error.add_note(f"In {town.name}, level {level}, blockstore {server.sandbox.blockstore}.")
            raise
        finally:
            town.close()
            counts.update(town.counts + town.player.counts)
        counts.update({"towns": 1, "histories": TOGETHER})
    tally("stateful histories", counts)
    show_something(counts["deleted objects"], counts["sweeps"])
