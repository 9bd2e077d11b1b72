"""The waves of a sweep: when one is sent, and executors whose clocks are hours wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import clock
from lakegc_core.errors import RefusedError
from lakegc_core.marks import rescues
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.store.base import connect
from lakegc_core.sweep import deletion, look, waves
from lakegc_core.sweep.canaries import Canaries
from lakegc_core.sweep.deletion import PLAN_SCHEMA, Deletion, Piece, Wave
from lakegc_core.sweep.planning import Plan, Planner
from lakegc_core.sweep.spinning import Spinning
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import Part
from tests.support.lake import NOW, lake
from tests.support.marks import dataset
from tests.support.swept import GARBAGE, Swept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3600.0


@pytest.mark.parametrize("ahead", [-2 * HOUR, 2 * HOUR])
def test_a_sweep_on_executors_whose_clocks_are_two_hours_wrong_takes_one_wave(swept: Swept, ahead: float) -> None:
    there = str(NOW.timestamp() + ahead)

    def elsewhere(spark: SparkSession, items: Any, task: Any, **options: Any) -> list[Any]:
        def on_the_executor(item: Any) -> Iterator[Any]:
            os.environ["LAKEGC_NOW"] = there  # the next task takes over the driver's again
            yield from task(item)

        return run_tasks(spark, items, on_the_executor, **options)

    swept.patch.setattr(deletion, "run_tasks", elsewhere)
    swept.each_wave(deletion.run_wave)
    assert swept.sweep().outcomes["deleted"] == 3
    assert (swept.left(), swept.waves, swept.looks) == ([], 1, 2)


def test_what_a_task_that_died_deleted_counts_as_deleted_when_the_sweep_plans_anew(swept: Swept) -> None:
    came_back = iter([False, True])
    swept.patch.setattr(waves.Waves, "_look_is_due", lambda *_: next(came_back, False))

    def wave(spark: SparkSession, pieces: list[Piece], work: Deletion, tasks: int | None) -> Wave:
        if swept.waves > 1:
            return deletion.run_wave(spark, pieces, work, tasks)
        connect(swept.context.data).delete_many(GARBAGE[:1])  # by the task that died; its repetition came too late
        return Wave([replace(piece, left=piece.ranges, asked_before=True) for piece in pieces], 1)

    swept.each_wave(wave)
    found = swept.sweep()
    assert (found.outcomes["deleted"], found.outcomes["already_gone"], swept.looks) == (3, 0, 3)


@pytest.mark.parametrize(("twice", "gone"), [(True, 0), (False, 1)])
def test_what_another_attempt_of_the_same_task_may_have_deleted_counts_as_deleted(
    swept: Swept, twice: bool, gone: int
) -> None:
    """A session that somebody else started with speculation runs two attempts at once, and tells of one."""
    swept.patch.setattr(waves, "may_run_twice", lambda spark: twice)

    def wave(spark: SparkSession, pieces: list[Piece], work: Deletion, tasks: int | None) -> Wave:
        connect(swept.context.data).delete_many(GARBAGE[:1])  # by the other attempt
        return deletion.run_wave(spark, pieces, work, tasks)

    swept.each_wave(wave)
    found = swept.sweep()
    assert (found.outcomes["deleted"], found.outcomes["already_gone"]) == (3 - gone, gone)


def test_a_clock_that_is_set_back_while_a_sweep_deletes_lengthens_no_look(swept: Swept) -> None:
    """An hour has passed, and it was set back by an hour."""

    def wave(spark: SparkSession, pieces: list[Piece], work: Deletion, tasks: int | None) -> Wave:
        if swept.waves > 1:
            return deletion.run_wave(spark, pieces, work, tasks)
        later = SimpleNamespace(now=clock.now, uptime=lambda: clock.uptime() + HOUR)
        swept.patch.setattr(look, "clock", later)
        return Wave([replace(piece, left=piece.ranges) for piece in pieces], 1)

    swept.each_wave(wave)
    assert swept.sweep().outcomes["deleted"] == 3
    assert (swept.waves, swept.looks) == (2, 3)


# --- when a wave is sent ---


def test_what_a_glance_finds_live_is_on_record_although_the_next_look_fails(swept: Swept) -> None:
    """If its branch is gone when the sweep is taken up, only the record knows that its gap begins anew."""
    repository, plan, planned = swept.lake.sandbox.repository("lake"), Planner.plan, list[Plan]()

    def once(*arguments: Any) -> Plan:
        if planned:
            raise RefusedError("no answer")
        planned.append(plan(*arguments))
        address = repository.place.qualify(GARBAGE[0])
        repository.stage("main", "again", address, size=len(b"left behind"), checksum="0" * 32)
        repository.commit("main", "after the look")
        return planned[0]

    swept.patch.setattr(Planner, "plan", once)
    with pytest.raises(RefusedError, match="no answer"):
        swept.sweep()
    journal = rescues.journal(swept.spark, swept.context).rows
    assert [each for batch in journal.batches("address") for each in batch["address"].to_pylist()] == [GARBAGE[0]]
    assert swept.left() == GARBAGE


class Glances:
    """What glances see, in order; then nothing new."""

    def __init__(self, *seen: str) -> None:
        self.seen, self.now = list(seen), ""

    def __call__(self, *_: object) -> Glances:
        return self

    def rules_changed(self) -> bool:
        self.now = self.seen.pop(0) if self.seen else ""
        return self.now == "rules"

    def has_many_commits(self) -> bool:
        return self.now == "many commits"

    def changed_refs(self) -> None:
        return None


@dataclass
class Lease:
    """A lease that is lost after so many checks."""

    checks: int = 100
    proof: None = None

    def check(self) -> None:
        self.checks -= 1
        if self.checks < 0:
            raise RefusedError("somebody else took the lease")


@dataclass
class Bench:
    """A plan of two parts of three rows, and what is sent of it."""

    patch: pytest.MonkeyPatch
    context: Any
    sent: list[int] = field(default_factory=list)

    def delete(self, glances: Glances, *, lease: Lease | None = None, began_at: float = NOW.timestamp()) -> bool:
        def run_wave(spark: object, pieces: list[Piece], work: Deletion, tasks: object) -> Wave:
            self.sent.append(sum(piece.rows for piece in pieces))
            assert work.until <= NOW.timestamp() + self.context.level.watch_interval.total_seconds()
            return Wave(pieces[1:], 1)

        self.patch.setattr(waves, "Glance", glances)
        self.patch.setattr(waves, "run_wave", run_wave)
        seen: Any = SimpleNamespace(age=NOW.timestamp() - began_at)
        plan = Plan(self.objects(3), seen, None, Canaries(self.context))
        every = self.waves(lease)
        return every.delete(plan, 1)

    def objects(self, rows: int) -> Dataset:
        """Two parts of a plan, of so many rows each."""
        folder = DatasetFolder(self.context.workspace, "plan")
        return folder.dataset("", [Part(name, rows, 1, "0") for name in "ab"], PLAN_SCHEMA)

    def waves(self, lease: Lease | None = None) -> waves.Waves:
        record: Any = SimpleNamespace(journal=DatasetFolder(self.context.workspace, "outcomes"), number=1)
        two_at_once: Any = SimpleNamespace(conf={"spark.sql.shuffle.partitions": "4"})
        return waves.Waves(two_at_once, self.context, record, lease, Spinning(self.context), resumed=False)  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with lake(tmp_path) as found:
        found.create("lake")
        yield Bench(monkeypatch, found.begin("lake", "m1"))


@pytest.mark.parametrize(
    ("fails", "shares", "sent", "passed"),
    [
        (lambda rows: 0, [0.001], [10, 2_990], 2),
        (lambda rows: rows // 2, [0.001], [10, 5, 2, 1, 2_982], 2),
        (lambda rows: rows, [0.001], [10] * 10 + [2_900], 1),
        (lambda rows: rows, [0.001, 0.01], [10] * 10 + [20] * 10 + [2_700], 2),
    ],
    ids=["none", "half", "all", "all of two rings"],
)
def test_deletes_that_fail_count_towards_no_ring_until_ten_shares_have_not_filled_it(
    bench: Bench, fails: Callable[[int], int], shares: list[float], sent: list[int], passed: int
) -> None:
    found: list[int] = []

    def run_wave(spark: object, pieces: list[Piece], work: Deletion, tasks: object) -> Wave:
        found.append(sum(piece.rows for piece in pieces))
        return Wave([], 1, stay=fails(found[-1]))

    with bench.patch.context() as patch:
        patch.setattr(waves, "Glance", Glances())
        patch.setattr(waves, "run_wave", run_wave)
        patch.setattr(waves, "shares_of", lambda context: shares)
        patch.setattr(waves.Waves, "_near", lambda *_: [])
        plan = Plan(bench.objects(1_500), SimpleNamespace(age=0.0), None, Canaries(bench.context))
        every = bench.waves()
        assert every.delete(plan, 1)
    told = every.rings_told()
    assert (found, told["passed"], told["count"]) == (sent, passed, len(shares) + 1)
    assert not every.is_over and told["stopped_at"] is None, "what cannot be deleted keeps nothing else"


def test_what_other_sweeps_had_deleted_before_the_plan_fills_no_ring_of_a_sweep_that_is_taken_up(
    spark: SparkSession, bench: Bench
) -> None:
    planned, before = [f"data/planned/{number}" for number in range(1_200)], [f"data/gone/{each}" for each in range(50)]
    row = {"size": 1, "last_modified": NOW, "etag": None, "since": NOW}
    plan = dataset(bench.context, "plan", PLAN_SCHEMA, [row | {"address": each} for each in planned])
    told = [(each, "deleted") for each in planned[:5]] + [(each, "already_gone") for each in before]
    outcomes = spark.createDataFrame(told, "address string, outcome string")
    record: Any = SimpleNamespace(planned=lambda: plan, outcomes=lambda: outcomes, folder="sweeps/1")
    taken_up = waves.Waves(spark, bench.context, record, None, Spinning(bench.context), resumed=True)
    bench.patch.setattr(waves, "shares_of", lambda context: [0.001])
    rings = taken_up._begin_rings(Plan(plan, SimpleNamespace(), None, Canaries(bench.context)))
    assert (rings.bounds, taken_up._went, rings.number(taken_up._went)) == ((10,), 5, 1)


def test_a_plan_is_deleted_wave_by_wave_with_a_glance_before_each(bench: Bench) -> None:
    glances = Glances("nothing", "nothing", "rules")
    assert bench.delete(glances, lease=Lease())
    assert bench.sent == [6, 3]
    assert glances.seen == ["rules"], "one glance a wave, and none after the last"


@pytest.mark.parametrize(("seen", "sent"), [(["rules"], []), (["nothing", "rules"], [6]), (["many commits"], [])])
def test_no_wave_is_sent_once_rules_or_refs_have_changed(bench: Bench, seen: list[str], sent: list[int]) -> None:
    assert not bench.delete(Glances(*seen))
    assert bench.sent == sent


def test_no_wave_is_sent_on_a_look_that_is_too_old(bench: Bench) -> None:
    validity = bench.context.level.look_validity.total_seconds()
    assert not bench.delete(Glances(), began_at=NOW.timestamp() - validity)
    assert bench.sent == []
    assert bench.delete(Glances(), began_at=NOW.timestamp() - validity + 1)


def test_no_wave_is_sent_without_the_lease(bench: Bench) -> None:
    with pytest.raises(RefusedError, match="somebody else"):
        bench.delete(Glances(), lease=Lease(checks=1))
    assert bench.sent == [6]
