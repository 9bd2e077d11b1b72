"""Long nights: one town for a year, with a mark, a sweep and a retirement every night, and a person who reads in the
morning what lakegc said.

Here: what a night is made of. What goes wrong in some of them is in `night_faults`, the accounts are in `night_books`.
"""

from __future__ import annotations

import itertools
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lakegc_core import pipeline
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import open_mark
from lakegc_core.marks.ids import new_mark_id
from lakegc_core.marks.retire import Retirement, retire
from lakegc_core.sweep.result import SweepResult
from tests.support import towns
from tests.support.histories import BRANCHES, Step
from tests.support.long_town import LongTown
from tests.support.night_books import Books
from tests.support.towns import DAY, HOUR, SAFE, Crash, Meddling

LOG = logging.getLogger(__name__)
SEVERAL = 6  # histories of users side by side, new ones every week
PATIENCE = 2  # nights after which a person accepts what a guard refuses
MAY_BE_ACCEPTED = ("blast-radius", "shrink")
ALWAYS = {"live-in-listing": "rules were lengthened, and old commits came back without their data"}
EVENING, MARK, SWEEP, RETIRE = 20 * HOUR, 26 * HOUR, 27.5 * HOUR, 28 * HOUR  # of a day
ARCHIVE = 600  # objects that are always live, so that a night's garbage is a small part
DAYS = (1, 2, 7, 14, 30, 0, -1)


@dataclass
class Year:
    """The nights of one town. `due`: what somebody will do on the evening of a later night."""

    town: LongTown
    seed: int
    length: int  # nights
    chance: random.Random
    books: Books
    nights: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    open: set[str] = field(default_factory=set)  # marks with a sweep that broke off
    due: dict[int, list[Callable[[], object]]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)  # what lakegc refused, and why
    refused: Counter[str] = field(default_factory=Counter)  # nights in a row, by guard
    marks: list[str] = field(default_factory=list)
    portions: list[list[Step]] = field(default_factory=list)
    skew: float = 0.0  # seconds by which the collector's clock is ahead

    @classmethod
    def begin(cls, town: LongTown, seed: int, length: int) -> Year:
        _settle(town)
        return cls(town, seed, length, random.Random(seed), Books(town))

    def live(self, faults: Sequence[Callable[[Year], None]]) -> None:
        """So many nights, and each fault once at least: one a week, or more where that would take too long."""
        every = min(7, max(1, self.length // len(faults)))
        self.plain()
        self.plain()
        for number in itertools.count():
            began, fault = self.nights, faults[number % len(faults)]
            try:
                fault(self)
            except BaseException as error:
                error.add_note(f"In night {self.nights}, at: {fault.__name__}.")
                raise
            self.faults[fault.__name__] += 1
            LOG.info("night %d: %s", self.nights, fault.__name__)
            while self.nights - began < every:
                self.plain()
            if self.nights >= self.length and number + 1 >= len(faults):
                break
        while self.due:
            self.plain()
        for _ in range(3):
            self.plain()
        over = [name for name, told in self.books.by_sweep().items() if told is None]
        assert not over and not self.open, f"every sweep is over at last, but {over} and {self.open}"

    def figures(self) -> dict[str, Any]:
        """What is worth telling at the end."""
        counts = self.town.counts + self.counts
        return {
            "nights": self.nights,
            **{name: counts[name] for name in sorted(counts)},
            **self.books.figures(),
            "faults": dict(self.faults),
        }

    def weeks(self, number: int) -> int:
        """Nights that so many weeks are; fewer in a short year."""
        return max(2 * number, number * min(7, self.length // 16))

    # --- a night ---

    def plain(self) -> None:
        """A night in which nothing special happens."""
        self.evening()
        meddling = Meddling(self.chance.randrange(1, 25), self.portion()) if self.chance.random() < 0.1 else None
        mark_id = self.mark(meddling=meddling)
        self.sweep(mark_id)
        self.morning()

    def evening(self) -> None:
        """What users did during the day, and what somebody had planned for this evening."""
        self.until(EVENING)
        for act in self.due.pop(self.nights, []):
            act()
        if self.nights % 7 == 0:
            self.change_rules()
        self.town.player.play(self.portion())
        self.litter(3)
        for flight in list(self.town.player.flights):
            if self.chance.random() < 0.3:
                self.town.player.land(flight)

    def mark(self, mark_id: str = "", *, meddling: Meddling | None = None, crash: int | None = None) -> str:
        """Tonight's mark, or one that is resumed. Raises Crash."""
        self.until(MARK)
        self.books.look_around()
        mark_id = mark_id or self.tonight()
        began = time.monotonic()
        try:
            self.town.mark(mark_id, meddling=meddling, crash=crash)
        finally:
            self.town.date_artifacts()
        self.books.took("a mark", time.monotonic() - began)
        self.marks.append(mark_id)
        return mark_id

    def tonight(self) -> str:
        """The id of tonight's mark."""
        day = towns.NOW.replace(hour=0) + timedelta(days=self.nights)
        return new_mark_id(day + timedelta(seconds=MARK))

    def newest(self) -> str:
        """The last mark that was made."""
        return self.marks[-1]

    def sweep(self, mark_id: str, *, dies: str = "", silent: bool = False, expected: str = "") -> SweepResult | None:
        """Sweep a mark. None where lakegc refuses, for a reason that a person may accept or that is `expected`."""
        self.until(SWEEP)
        self.town.heal()
        before, began = self.town.sizes(), time.monotonic()
        accepted = ALWAYS | {name: "looked at" for name in MAY_BE_ACCEPTED if self.refused[name] >= PATIENCE}
        try:
            result = self.town.delete(mark_id, accepted, dies=dies, silent=silent)
        except RefusedError as error:
            self.was_refused(str(error), expected)
            return None
        except Crash:
            self.open.add(mark_id)
            self.counts["sweeps killed"] += 1
            raise
        finally:
            self.books.swept(before, self.town.sizes())
            self.town.date_artifacts()
        self.books.took("a sweep", time.monotonic() - began)
        self.counts["sweeps"] += 1
        self.counts["guards accepted"] += len(accepted) - len(ALWAYS)
        self.refused.clear()
        self.open.discard(mark_id)
        assert not result.lost and not result.unreadable, result
        assert silent or not result.failed, result
        self.books.judge_ages()
        return result

    def morning(self, excuse: str = "") -> None:
        """Old marks are retired, and the accounts are made. `excuse`: why nobody swept, where nobody did."""
        self.until(RETIRE)
        retired = self.retire()
        if excuse:
            self.books.judge_ages(excuse)
        self.books.check_totals()
        self.books.count_artifacts(retired.kept)
        self.nights += 1

    def skip(self) -> None:
        """A night without a collector."""
        self.evening()
        self.until(MARK)
        self.books.look_around()
        self.until(RETIRE)
        self.books.judge_ages("no collector")
        self.nights += 1

    def retire(self) -> Retirement:
        try:
            return retire(self.town.opened())
        finally:
            self.town.date_artifacts()

    def was_refused(self, said: str, expected: str) -> None:
        """A person reads why, and knows what to do. No guard stops for longer than it takes to accept it."""
        guards = re.findall(r"^  ([a-z-]+): ", said, re.MULTILINE)
        self.told.append(said)
        self.counts["sweeps refused"] += 1
        assert expected in said if expected else guards, said
        assert expected or set(guards) <= set(MAY_BE_ACCEPTED), said
        for name in guards:
            self.refused[name] += 1
            assert expected or self.refused[name] <= PATIENCE, f"accepted, and refused again: {said}"
        self.books.judge_ages(f"refused: {', '.join(guards) or expected}")

    def finish(self, mark_id: str) -> None:
        """Sweep a mark of which a sweep is open: a person who reads why it is refused accepts it."""
        for _ in range(PATIENCE + 1):
            if self.sweep(mark_id) is not None:
                return
        raise AssertionError(f"the sweep of {mark_id} stays open")

    def later(self, nights: int, act: Callable[[], object]) -> None:
        """Somebody acts on the evening of so many nights from now."""
        self.due.setdefault(self.nights + nights, []).append(act)

    def close(self, mark_id: str) -> SweepResult:
        """Close a sweep that broke off."""
        context = open_mark(self.town.opened(), mark_id, any_version=True)
        result = pipeline.close(self.town.spark, context)
        self.town.date_artifacts()
        self.open.discard(mark_id)
        self.counts["sweeps closed"] += 1
        assert not result.lost, result
        return result

    def until_mark(self) -> None:
        self.until(MARK)

    def until_sweep(self) -> None:
        self.until(SWEEP)

    def until(self, hour: float) -> None:
        """Let time pass until this hour of the day, if that is to come."""
        start = towns.NOW.timestamp() - towns.NOW.hour * HOUR
        self.town.pass_time(max(0.0, start + self.nights * DAY + hour - self.town.clock()), self.skew)

    # --- users ---

    def portion(self) -> list[Step]:
        """What users do in a day. While a sweep is open they bring nothing old back to life: what came back between two
        halves of a sweep would be lost, as SAFETY.md says."""
        if not self.portions:
            week = self.seed * 1000 + self.nights
            self.portions = towns.users(week, SEVERAL, 7)
        steps = self.portions.pop(0)
        return [step for step in steps if step.verb in SAFE] if self.open else steps

    def change_rules(self) -> None:
        if self.open:
            return
        names = [f"{number}-{name}" for number in range(1, SEVERAL) for name in BRANCHES]
        some = {name: self.chance.choice(DAYS) for name in self.chance.sample(names, 5)}
        rules = Step("set_rules", {"default": self.chance.choice(DAYS), "branches": some})
        if self.nights > 30 and self.chance.random() < 0.05:
            rules = Step("delete_rules", {})
        self.town.player.play([rules])

    def litter(self, count: int) -> None:
        """Temporary files that are gone before any commit: garbage at once."""
        for number in range(count):
            path = f"tmp/{number}"
            self.town.repository.upload("main", path, bytes(self.chance.randrange(20_000)), age=timedelta(days=2))
            self.town.repository.delete("main", path)

    def branch_of(self, name: str, objects: int, *, days: float = 45, committed: bool = True) -> None:
        """A branch with so many objects of some days ago."""
        repository = self.town.repository
        repository.create_branch(name, next(iter(repository.refs.commits)))
        for number in range(objects):
            content = bytes(self.chance.randrange(1_000, 12_000))
            repository.upload(name, f"{name}/{number:04}", content, age=timedelta(days=days))
        if committed:
            date = datetime.fromtimestamp(self.town.clock(), UTC) - timedelta(days=days)
            repository.commit(name, "all of it", date=date)


def _settle(town: LongTown) -> None:
    """What is there from the start, and stays."""
    town.repository.create_branch("archive", "main")
    for number in range(ARCHIVE):
        content = bytes(6_000 + 7 * number)
        town.repository.upload("archive", f"archive/{number:04}", content, age=timedelta(days=200))
    town.repository.commit("archive", "for ever", date=towns.NOW - timedelta(days=200))
    town.player.play([Step("set_rules", {"default": 7, "branches": {}})])
