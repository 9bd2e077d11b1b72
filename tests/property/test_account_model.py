"""Two hundred random histories of objects that go and come back, through the real collector, judged at every night.

A history is the fate of the objects of a folder: deletes by sweeps, restores (of all, by path, from a wrong place),
other collectors, uploads by hand. The store lies, is silent, or does a part of what it was asked for; the collector is
killed, and its sweep gone on with or closed. Many histories share a town, because a mark costs little more for them.

Slow: `test_account` has the cases that were found so far, one by one.

What lakegc says is compared with a listing that it did not make: the history's sum is what is gone from the store, and
whose last delete was lakegc's own; what a mark says is listed lies there; what a sweep says it deleted does not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core.errors import LakegcError
from lakegc_core.marks.context import MarkContext
from lakegc_core.policy.facts import ExpiredFacts
from tests.support.accounts import DELETES, LIES, SILENT, Town, behaving, key
from tests.support.counted import show_something
from tests.support.lake import lake, quick
from tests.support.night_stores import MIDWAY, UNREPORTED, UNSEALED, UNWAVED, dying
from tests.support.towns import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES, OBJECTS, NIGHTS = 50, 3, 5
TOWNS = range(4)
DEATHS = (UNSEALED, UNWAVED, MIDWAY, UNREPORTED)


class Story:
    """A town, its chance, and the books of what lakegc has deleted: object by object, who removed it last."""

    def __init__(self, town: Town, seed: int) -> None:
        self.town, self.chance, self.counts = town, random.Random(seed), Counter[str]()
        self.numbers = range(HISTORIES * OBJECTS)
        self.by_lakegc: set[str] = set()
        self.undetected: set[str] = set()  # recorded as deleted by a store that lied; the next mark finds it
        self.saved: MarkContext | None = None
        for number in self.numbers:
            town.litter(number, 10 + number)

    def night(self, number: int) -> None:
        mark = self.town.mark(f"m{number}")
        self.check_mark(mark)
        if self.chance.random() < 0.7:
            self.town.backup(mark)
            self.saved = mark
        self.sweep(mark)
        self.check("a sweep")
        if not self.undetected:
            self.restore()
            self.check("a restore")
        self.others()

    def sweep(self, mark: MarkContext) -> None:
        """Sweep until the collector comes to the end of it. The store behaves in the end."""
        before = self.town.lying()
        moods = {key(each): self.chance.choice((DELETES, DELETES, DELETES, LIES, SILENT)) for each in self.numbers}
        place = self.chance.choice((*DEATHS, "", "", ""))
        self.counts[f"death: {place}"] += 1
        try:
            with behaving(moods.__getitem__), dying(place):
                self.counts["lies found"] += self.town.sweep(mark).outcomes.get("failed:still_there", 0)
        except Crash:
            if place in (MIDWAY, UNWAVED) and self.chance.random() < 0.5:
                self.town.close(mark)
                self.counts["closed"] += 1
        while (done := self.town.sweep(mark)).failed:
            self.counts["lies found"] += done.outcomes.get("failed:still_there", 0)
        lying = self.town.lying()
        gone = before - lying
        # Of what was not deleted a sample is asked for: all of it is found then, or none of it before the next mark.
        told = self.town.told()[0] - len(self.by_lakegc) - len(gone)
        self.undetected = {each for each, mood in moods.items() if mood == LIES} & before & lying if told else set()
        self.by_lakegc |= gone
        self.counts["deleted"] += len(gone)

    def restore(self) -> None:
        """Of nothing, of all, of some folders' objects, or from a place that holds nothing."""
        how = self.chance.choice(("", "all", "some", "wrong"))
        if not how or self.saved is None:
            return
        before, place = self.town.lying(), self.town.place.with_name("nothing") if how == "wrong" else None
        if place is not None:
            place.mkdir(exist_ok=True)
        some = [key(each) for each in self.numbers if self.chance.random() < 0.2] if how == "some" else []
        try:
            self.town.restore(self.saved, *some, place=place)
        except LakegcError:  # none of these is in the backup, or no backup lies there
            assert some or place is not None
        back = self.town.lying() - before
        assert not (back and place), "out of nothing"
        self.by_lakegc -= back
        self.counts[f"restored: {how}"] += 1
        for address in back:  # as old as it was, for the next mark
            self.town.litter(int(address[-4:-1], 16), self.town.sizes[address])

    def others(self) -> None:
        """Other collectors delete, and people bring objects back. Both are seen by the next mark alone. What lakegc
        takes for deleted by itself is left alone: nobody could tell afterwards whose delete it was."""
        lying = self.town.lying() - self.undetected
        for number in self.numbers:
            fate = self.chance.random()
            if key(number) in lying and fate < 0.1:
                self.town.remove(key(number))
                self.counts["removed by others"] += 1
            elif key(number) not in lying | self.undetected and fate < 0.2:
                self.town.litter(number, self.town.sizes[key(number)])
                self.by_lakegc.discard(key(number))
                self.counts["brought back by hand"] += 1

    def check_mark(self, mark: MarkContext) -> None:
        facts, lying = mark.mark.facts(ExpiredFacts), self.town.lying()
        assert (facts.listed.objects, facts.listed.bytes) == self.sums(lying)
        assert (facts.expired.objects, facts.expired.bytes) == self.sums(lying)
        assert facts.came_back.objects >= len(self.undetected)
        self.undetected = set()
        self.counts["came back"] += facts.came_back.objects
        self.check("a mark")

    def check(self, after: str) -> None:
        assert not self.by_lakegc & self.town.lying()
        assert self.town.told() == self.sums(self.by_lakegc | self.undetected), f"after {after}"

    def sums(self, addresses: set[str]) -> tuple[int, int]:
        return len(addresses), sum(self.town.sizes[each] for each in addresses)


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[int], Story]]:
    with lake(tmp_path / "lake") as served, quick(spark):
        yield lambda seed: Story(Town(spark, served, tmp_path / "backup"), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", TOWNS)
def test_what_history_and_report_say_is_what_an_independent_listing_says_at_every_night(
    story: Callable[[int], Story], tally: Callable[[str, Mapping[str, int]], None], seed: int
) -> None:
    found = story(seed)
    for number in range(NIGHTS):
        found.night(number)
    found.check_mark(found.town.mark("last"))
    tally("account", found.counts)
    show_something(found.counts["deleted"], found.counts["came back"])
