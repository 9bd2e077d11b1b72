"""The algebra of optimized marks, in small: sets instead of files, against clean marks on the same state.

What is done here with sets is done by `layers`, `carried`, `range_counts` and `optimized` with parts; that those do
it is shown by `test_optimized_marks`. LAKEGC_SEED (default 0) is the number of the first history.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from tests.support.counted import numbers

HISTORIES, MORE = 1_000, 10_000  # no code of lakegc is in it: it shows tomorrow what it showed today
WINDOW = 7.0  # days
UNITS = 5
Range = frozenset[int]
Metarange = frozenset[Range]


@dataclass
class World:
    """A repository. Objects are numbers; unit 0 is no slice, the others are slices that began one day after another."""

    chance: random.Random
    now: float = 10.0
    store: set[int] = field(default_factory=set)
    unit: dict[int, int] = field(default_factory=dict)
    staged: set[int] = field(default_factory=set)
    metaranges: list[Metarange] = field(default_factory=list)
    retained: set[Metarange] = field(default_factory=set)

    def live(self) -> set[int]:
        return self.committed() | self.staged

    def committed(self) -> set[int]:
        return {each for metarange in self.retained for one in metarange for each in one}

    def step(self) -> None:
        """One thing that users, servers or time do."""
        kind = self.chance.randrange(8)
        known = sorted(self.unit)
        if kind <= 2:  # an upload, now or long after its name was given out
            each = len(self.unit)
            self.unit[each] = self.chance.randrange(UNITS)
            if self.chance.random() < 0.9:
                self.store.add(each)
            if self.chance.random() < 0.7:
                self.staged.add(each)
        elif kind == 3 and known:  # staged by address, whatever became of it
            self.staged.add(self.chance.choice(known))
        elif kind == 4 and self.staged:  # dropped
            self.staged.discard(self.chance.choice(sorted(self.staged)))
        elif kind == 5:
            self.commit()
        elif kind == 6 and self.metaranges:  # rules change, branches come and go: any set of commits may count
            self.retained = {each for each in self.metaranges if self.chance.random() < 0.6}
        else:
            self.now += self.chance.choice((0.1, 1.0, 4.0, 9.0))

    def commit(self) -> None:
        """What is staged is cut into ranges, beside some that earlier commits have."""
        staged = sorted(self.staged)
        self.chance.shuffle(staged)
        cut = self.chance.randrange(len(staged) + 1)
        old = [one for metarange in self.metaranges[-2:] for one in metarange]
        ranges = {frozenset(piece) for piece in (staged[:cut], staged[cut:]) if piece}
        found = frozenset(ranges | {one for one in old if self.chance.random() < 0.6})
        self.metaranges.append(found)
        self.retained.add(found)
        if self.chance.random() < 0.8:
            self.staged.clear()


@dataclass
class Mark:
    """What a mark leaves for the next one."""

    inventory: set[int]
    listed_at: dict[int, float]
    unreferenced: set[int]
    missing: set[int]
    metaranges: set[Metarange]
    counts: Counter[Range]


def clean(world: World) -> Mark:
    return Mark(
        inventory=set(world.store),
        listed_at=dict.fromkeys(range(UNITS), world.now),
        unreferenced=world.store - world.committed(),
        missing=world.live() - world.store,
        metaranges=set(world.retained),
        counts=Counter(one for metarange in world.retained for one in metarange),
    )


def optimized(world: World, before: Mark, gone: set[int]) -> Mark:
    """The mark after `before`, since which sweeps deleted `gone`."""
    carried = {unit for unit in range(1, UNITS) if before.listed_at[unit] >= unit + WINDOW}
    old = {each for each in before.inventory if world.unit[each] in carried} - gone
    anew = {each for each in world.store if world.unit[each] not in carried}
    counts = before.counts.copy()
    counts.update(one for metarange in world.retained - before.metaranges for one in metarange)
    counts.subtract(one for metarange in before.metaranges - world.retained for one in metarange)
    assert all(count >= 0 for count in counts.values())
    now, was = +counts, +before.counts
    added, dropped = addresses(now.keys() - was.keys()), addresses(was.keys() - now.keys())
    asked = added | world.staged | before.missing
    unknown = asked - anew - (asked & old)
    learnt = unknown & world.store  # by a request for each
    candidates = (before.unreferenced & old) | anew | (dropped & old) | learnt
    held = {each for each in candidates | (unknown - learnt) if each in addresses(now)}  # the scan
    return Mark(
        inventory=old | anew | learnt,
        listed_at={unit: before.listed_at[unit] if unit in carried else world.now for unit in range(UNITS)},
        unreferenced=candidates - held,
        missing=(unknown - learnt) & (held | world.staged),
        metaranges=set(world.retained),
        counts=now,
    )


def addresses(ranges: set[Range]) -> set[int]:
    return {each for one in ranges for each in one}


@pytest.mark.parametrize("some", [numbers(HISTORIES), pytest.param(numbers(MORE, slow=True), marks=pytest.mark.slow)])
def test_optimized_marks_differ_from_clean_ones_by_garbage_that_appeared_late_and_by_nothing_else(
    tally: Callable[[str, Mapping[str, int]], None], some: range
) -> None:
    counts = Counter({"histories": len(some)})
    for seed in some:
        chance = random.Random(seed)
        world = World(chance)
        marks: list[Mark] = []
        gone: set[int] = set()
        for _ in range(chance.randrange(3, 9)):
            for _ in range(chance.randrange(1, 14)):
                world.step()
            right = clean(world)
            if not marks or chance.random() < 0.1:
                marks.append(right)
            else:
                found = optimized(world, marks[-1], gone)
                hidden = right.inventory - found.inventory
                assert found.inventory <= right.inventory, seed
                assert not hidden & world.live(), (seed, "live, and not known of")
                assert found.unreferenced == right.unreferenced - hidden, seed
                assert found.missing == right.missing, seed
                assert found.counts == right.counts, seed
                counts["optimized marks"] += 1
                counts["garbage hidden until the next clean mark"] += len(hidden)
                counts["garbage found"] += len(found.unreferenced)
                marks.append(found)
            gone = set()
            if chance.random() < 0.6:  # a sweep of any mark, of all it found or of some; what is live now is rescued
                mark = chance.choice(marks)
                gone = {each for each in mark.unreferenced - world.live() if chance.random() < 0.7} & world.store
                world.store -= gone
    counts["live objects lost"] += 0
    tally("algebra of optimized marks", counts)
    assert counts["garbage found"]
