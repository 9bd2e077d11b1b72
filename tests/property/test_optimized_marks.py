"""Optimized marks against clean ones, on the same state, object by object; between them anything happens.

What an optimized mark may not know is named and checked: objects that appeared in a slice after it had become old, or
that somebody deleted or rewrote who is not lakegc. They are only ever garbage that is left for the next clean mark.

LAKEGC_SEED (default 0) is the number of the first town.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.inventory import carried as inventory
from lakegc_core.marks.artifacts import CLEAN
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import KEPT, MISSING
from lakegc_core.marks.layers import all_layers
from lakegc_core.names import STAGES
from lakegc_core.tables import joins
from lakegc_core.tables.parts import read_part
from tests.support import oracle, towns
from tests.support.counted import numbers, show_something
from tests.support.crowded import crowded, large_index
from tests.support.histories import BRANCHES, Step
from tests.support.towns import DAY, HOUR, Clock, Crash, Town

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakegc_sandbox import SandboxServer

TOGETHER = 12
TOWNS, SLOW_TOWNS = 1, 6
JUMPS = (20 * 60.0, 6 * HOUR, 25 * HOUR, 3 * DAY, 9 * DAY)
WAYS = (nullcontext, crowded, large_index)
DAYS = (1, 2, 7, 30, 0)
SHARDS = (0, 40)


def findings_of(context: MarkContext) -> dict[str, str]:
    """What a mark found of every object that no commit refers to, and of live ones that are missing."""
    found: dict[str, str] = {}
    manifest = context.mark.require(STAGES[-1])
    for name in (STAGES[-1], KEPT, MISSING):
        for part in manifest.datasets[name]:
            for batch in read_part(context.workspace, context.mark.stage_folder(STAGES[-1], name), part):
                for row in batch.to_pylist():
                    assert row["address"] not in found, f"{row['address']} is told of twice"
                    found[row["address"]] = row["reason"]
    return found


def listed(spark: SparkSession, context: MarkContext) -> set[str]:
    """What a mark knows of in the namespace."""
    return {row[0] for row in inventory.find(spark, all_layers(context)).as_frame().select("address").collect()}


class Comparison:
    """One town, whose marks are made as they come; beside each a clean one, which is taken away again."""

    def __init__(self, number: int, town: Town, chance: random.Random, users: list[list[Step]]) -> None:
        self.number, self.town, self.chance = number, town, chance
        self.users = users  # what they do between two marks
        self.marks: list[str] = []

    def run(self) -> None:
        for number, steps in enumerate(self.users):
            if number == 0 or self.chance.random() < 0.4:
                some = {name: self.chance.choice(DAYS) for name in BRANCHES}
                self.town.player.play([Step("set_rules", {"default": self.chance.choice(DAYS), "branches": some})])
            self.town.player.play(steps)
            for flight in list(self.town.player.flights):
                self.town.player.land(flight)
            self.town.pass_time(self.chance.choice(JUMPS))
            way = WAYS[(self.number + number) % len(WAYS)]
            with way():  # the clean twin is always made the other way
                self.marks.append(self.town.mark())
            self.compare(self.marks[-1], twin_crowded=way is not crowded)
            if self.chance.random() < 0.6:
                self.sweep()

    def compare(self, mark_id: str, *, twin_crowded: bool) -> None:
        town = self.town
        ours = town.context(mark_id)
        below = ours.mark.require(STAGES[0]).facts["rests_on"]
        town.counts["optimized marks"] += bool(below)
        town.counts["clean marks"] += not below
        if not below:
            return
        twin = town.context("twin", mode=CLEAN)
        with crowded(twin_crowded):
            pipeline.mark(town.spark, twin)
        right, found = findings_of(twin), findings_of(ours)
        there, known = listed(town.spark, twin), listed(town.spark, ours)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joins, "MOST", -1)
            assert listed(town.spark, ours) == known, "what was swept is subtracted by a join as by a filter"
        shutil.rmtree(town.folder / "_lakefs/retention/gc/lakegc/marks/twin")
        hidden = there - known
        live = town.live(oracle.named_by_server(town.world(), town.repository))
        town.counts["live, not known of and not named by the server"] += len(hidden & town.live(town.world()) - live)
        assert not hidden & live, f"live, and not known of: {sorted(hidden & live)}"
        assert known <= there, f"known of, and not there: {sorted(known - there)}"
        wrong = {name for name in right.keys() | found.keys() if right.get(name) != found.get(name)} - hidden
        assert not wrong, {name: (right.get(name), found.get(name)) for name in sorted(wrong)}
        facts = ours.mark.require(STAGES[-1]).facts["listed"]["objects"]
        assert facts == len(known), f"{facts} objects are said to be listed, {len(known)} are known of"
        town.counts["objects compared"] += len(known)
        town.counts["findings compared"] += len(right)
        town.counts["garbage hidden until the next clean mark"] += len(hidden)

    def sweep(self) -> None:
        """A sweep, which may break off for good, or be taken up again."""
        town = self.town
        town.heal()
        if town.level == "standard":
            town.pass_time(20 * 60.0)
        crash = self.chance.randrange(20, 90) if self.chance.random() < 0.3 else None
        mark_id = self.chance.choice(self.marks[-2:])
        try:
            town.sweep(mark_id, crash=crash)
        except Crash:
            town.pass_time(HOUR)
            if self.chance.random() < 0.5:
                town.sweep(mark_id)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Clock, list[SandboxServer]]]:
    with towns.both_blockstores(tmp_path) as served:
        yield served


@pytest.mark.parametrize(
    ("some", "rounds"), [(numbers(TOWNS), 2), pytest.param(numbers(SLOW_TOWNS, slow=True), 6, marks=pytest.mark.slow)]
)
def test_an_optimized_mark_finds_what_a_clean_one_finds_but_for_garbage_that_appeared_late(
    quick: SparkSession,
    servers: tuple[Clock, list[SandboxServer]],
    tally: Callable[[str, Mapping[str, int]], None],
    some: range,
    rounds: int,
) -> None:
    clock, sandboxes = servers
    counts = Counter({"live objects lost": 0})
    for number in some:
        server = sandboxes[number % 2]
        server.sandbox.names.shards = SHARDS[number // 2 % 2]
        town = Town(quick, server, clock, f"town-{number}", "standard")
        try:
            Comparison(number, town, random.Random(number), towns.users(number, TOGETHER, rounds)).run()
        except Exception as error:
            place = f"{server.sandbox.blockstore}, {server.sandbox.names.shards} shards"
            error.add_note(f"In {town.name}, blockstore {place}.")
            raise
        finally:
            town.close()
            counts.update(town.counts)
        counts.update({"towns": 1, "histories": TOGETHER})
    tally("optimized marks", counts)
    show_something(counts["optimized marks"], counts["findings compared"])
