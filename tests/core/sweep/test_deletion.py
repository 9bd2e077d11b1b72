"""What deletes stops before the next call to the store when its time is up or its lease lost; what it did is told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakegc_core import clock
from lakegc_core.errors import MarkError, RefusedError
from lakegc_core.marks.lease import Lease, Proof
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.base import NO_ETAGS
from lakegc_core.store.clock import shared_clock
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.store.pace import Pace
from lakegc_core.sweep import deletion
from lakegc_core.sweep.deletion import PLAN_SCHEMA, Deletion, Piece
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import PartWriter, list_parts, read_part
from tests.support.lake import NO_SPARK
from tests.support.policies import role

OLD = datetime.now(UTC) - timedelta(days=9)


@dataclass(frozen=True)
class EventfulConfig:
    """A folder as a store; something happens within its second call to delete."""

    path: str
    event: Callable[[], None]

    @property
    def root(self) -> str:
        return f"local://{self.path}"

    def connect(self) -> EventfulStore:
        return EventfulStore(self)


class EventfulStore(LocalStore):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.calls, self.event = 0, config.event

    def clock(self) -> datetime:
        """The store's time goes on while the machine sleeps."""
        return clock.now()

    def delete_many(self, keys: Any, gate: Any = None, etags: Any = NO_ETAGS) -> Any:
        found = super().delete_many(keys, gate, etags)
        self.calls += 1
        if self.calls == 2:
            self.event()
        return found


ADDRESSES = [f"data/{number:021}" for number in range(10)]


@dataclass
class Bench:
    """Ten objects that are planned to go, two a call."""

    folder: Path
    artifacts: LocalConfig
    source: Source

    def work(self, event: Callable[[], None], lease: Proof | None = None) -> Deletion:
        now = clock.now().timestamp()
        return Deletion(
            data=EventfulConfig(str(self.folder), event),
            journal=DatasetFolder(self.artifacts, "outcomes"),
            attempt=1,
            namespace=Namespace("local://lake"),
            cutoff=now,
            until=now + 60,
            lease=lease,
        )

    def left(self) -> list[str]:
        return sorted(f"data/{path.name}" for path in (self.folder / "data").iterdir())

    def journal(self) -> list[tuple[str, str]]:
        parts = list_parts(self.artifacts, "outcomes")
        batches = [batch for part in parts for batch in read_part(self.artifacts, "outcomes", part)]
        return sorted((row["address"], row["outcome"]) for batch in batches for row in batch.to_pylist())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(time.time()))  # which stands still, as does the other clock
    monkeypatch.setattr(clock, "uptime", lambda: 50.0)
    monkeypatch.setattr(deletion, "BATCH", 2)
    artifacts = LocalConfig(str(tmp_path / "artifacts"))
    (tmp_path / "data").mkdir()
    for address in ADDRESSES:
        (tmp_path / address).write_bytes(b"x")
    rows = [{"address": each, "size": 1, "last_modified": OLD, "etag": None, "since": OLD} for each in ADDRESSES]
    writer = PartWriter(artifacts, "plan", PLAN_SCHEMA)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=PLAN_SCHEMA))
    return Bench(tmp_path, artifacts, Source(artifacts, "plan", writer.close()[0], ""))


def test_a_task_whose_machine_slept_sends_no_further_batch_until_there_was_another_glance(bench: Bench) -> None:
    def sleep() -> None:
        os.environ["LAKEGC_NOW"] = str(clock.now().timestamp() + 3600)

    (told,) = bench.work(sleep).run(Piece(bench.source))
    assert told == {"part": bench.source.part.name, "left": [(4, 10)], "requests": 2, "asked": False, "stay": 0}
    assert bench.left() == ADDRESSES[4:]
    (told,) = bench.work(sleep).run(Piece(bench.source, ((4, 10),)))
    assert told["left"] == [] and bench.left() == []
    assert bench.journal() == [(address, "deleted") for address in ADDRESSES]


def test_a_task_that_outlives_its_collector_stops_when_another_one_takes_over(bench: Bench) -> None:
    """A collector that is killed leaves its tasks behind for a moment; the next one may start at once."""
    one, other = (Lease(bench.artifacts, "lease.json", verb) for verb in ("sweep here", "sweep there"))
    one.take()

    def taken_over() -> None:
        (bench.folder / "artifacts/lease.json").unlink()
        other.take()

    with pytest.raises(RefusedError, match="somebody else took it"):
        list(bench.work(taken_over, one.proof).run(Piece(bench.source)))
    assert bench.left() == ADDRESSES[4:]
    assert bench.journal() == [(address, "deleted") for address in ADDRESSES[:4]], "what was done is on record"
    other.give_back()
    assert not other.proof.stands() and not one.proof.stands()
    one.give_back()


def test_only_the_rows_that_are_left_of_a_piece_are_asked_for(bench: Bench) -> None:
    (told,) = bench.work(lambda: None).run(Piece(bench.source, ((1, 2), (4, 9))))
    assert told["left"] == []
    assert bench.left() == [ADDRESSES[n] for n in (0, 2, 3, 9)]
    assert [address for address, _ in bench.journal()] == [ADDRESSES[n] for n in (1, 4, 5, 6, 7, 8)]


def test_a_task_whose_time_is_up_before_it_begins_leaves_all_and_reads_nothing(bench: Bench) -> None:
    nowhere = replace(bench.source, folder="nowhere")
    (told,) = replace(bench.work(lambda: None), until=0.0).run(Piece(nowhere, ((3, 7),)))
    assert told["left"] == [(3, 7)] and bench.left() == ADDRESSES


def test_outcomes_do_not_wait_long_for_their_place_on_record(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "JOURNAL_EVERY", 1e9)
    list(bench.work(lambda: None).run(Piece(bench.source, ((0, 4),))))
    assert len(list_parts(bench.artifacts, "outcomes")) == 1, "two calls, one part"
    monkeypatch.setattr(deletion, "JOURNAL_EVERY", -1.0)
    list(bench.work(lambda: None).run(Piece(bench.source, ((4, 10),))))
    assert len(list_parts(bench.artifacts, "outcomes")) == 1 + 3, "each call at once"


def test_a_ceiling_of_objects_a_second_makes_calls_wait_for_each_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(
        deletion, "shared", lambda config, most, rate: Pace(most, rate, now=lambda: 0.0, sleep=slept.append)
    )
    (told,) = replace(bench.work(lambda: None), rate=1.5 * 50).run(Piece(bench.source))
    assert told["left"] == [] and bench.left() == []
    assert sorted(slept) == pytest.approx([2 / 75, 4 / 75, 6 / 75, 8 / 75]), "each call waits for those before it"


def test_what_was_deleted_before_an_error_is_on_record(bench: Bench) -> None:
    def fail() -> None:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(bench.work(fail).run(Piece(bench.source)))
    done = {address for address, _ in bench.journal()}
    assert set(ADDRESSES[:2]) <= done <= set(ADDRESSES) - set(bench.left())


@pytest.mark.parametrize("repeated", ["by a call that goes on", "by Spark"])
def test_what_an_earlier_run_may_have_deleted_without_telling_is_put_down_as_asked_for_by_this_sweep(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, repeated: str
) -> None:
    (bench.folder / ADDRESSES[0]).unlink()
    work = bench.work(lambda: None)
    if repeated == "by Spark":
        monkeypatch.setattr("pyspark.TaskContext.get", lambda: SimpleNamespace(attemptNumber=lambda: 1))
    else:
        work = replace(work, asked_before=True)
    list(work.run(Piece(bench.source, ((0, 2),))))
    told = [(ADDRESSES[0], "already_gone"), (ADDRESSES[0], "failed:no_answer"), (ADDRESSES[1], "deleted")]
    assert bench.journal() == told


def test_what_somebody_else_deleted_before_the_first_try_is_only_already_gone(bench: Bench) -> None:
    (bench.folder / ADDRESSES[0]).unlink()
    list(bench.work(lambda: None).run(Piece(bench.source, ((0, 2),))))
    assert bench.journal() == [(ADDRESSES[0], "already_gone"), (ADDRESSES[1], "deleted")]


def test_what_a_delete_left_there_is_counted_and_what_is_gone_is_not(bench: Bench) -> None:
    with role("s3-mark.json"):  # it may delete nothing
        (told,) = bench.work(lambda: None).run(Piece(bench.source, ((0, 4),)))
    assert (told["stay"], told["left"], bench.left()) == (4, [], ADDRESSES)
    (bench.folder / ADDRESSES[0]).unlink()
    (told,) = bench.work(lambda: None).run(Piece(bench.source, ((0, 4),)))
    assert (told["stay"], told["left"], bench.left()) == (0, [], ADDRESSES[4:])


# --- executors' clocks ---


@dataclass(frozen=True)
class SharedConfig(LocalConfig):
    """A folder as a store whose time is its own: it is `TIME` there, whoever asks."""

    def connect(self) -> SharedStore:
        return SharedStore(self)


class SharedStore(LocalStore):
    def clock(self) -> datetime:
        return datetime.fromtimestamp(int(TIME["store"]), UTC)  # whole seconds, as an answer's date


TIME = {"store": 0.0}
HOUR = 3600.0


@dataclass
class Executor:
    """Runs tasks as a machine would whose clock is wrong, and which begins them late. Seconds."""

    patch: pytest.MonkeyPatch
    ahead: float
    late: float = 0.0

    def run_tasks(self, spark: Any, items: Any, task: Any, **_: Any) -> list[Any]:
        began = float(os.environ["LAKEGC_NOW"])
        shared_clock.cache_clear()  # it is another process
        with self.patch.context() as there:
            TIME["store"] += self.late
            there.setenv("LAKEGC_NOW", str(began + self.late + self.ahead))
            told = [result for item in items for result in task(item)]
        os.environ["LAKEGC_NOW"] = str(began + self.late)
        shared_clock.cache_clear()
        return told


@pytest.fixture
def waves(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Callable[[Executor], list[Piece]]:
    """Sends one wave, of at most a minute, to an executor; what is left of it."""
    monkeypatch.setitem(TIME, "store", float(os.environ["LAKEGC_NOW"]) + 100)  # its clock is not the driver's

    def wave(executor: Executor) -> list[Piece]:
        monkeypatch.setattr(deletion, "run_tasks", executor.run_tasks)
        work = replace(bench.work(lambda: None), data=SharedConfig(str(bench.folder)))
        return deletion.run_wave(NO_SPARK, [Piece(bench.source)], work).left

    return wave


@pytest.mark.parametrize("ahead", [-2 * HOUR, 0.0, 2 * HOUR])
def test_an_executor_whose_clock_is_hours_wrong_deletes_what_it_is_sent(
    waves: Callable[[Executor], list[Piece]], bench: Bench, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    sent = clock.now()
    assert waves(Executor(monkeypatch, ahead)) == []
    assert bench.left() == []
    parts = list_parts(bench.artifacts, "outcomes")
    rows = [
        row for part in parts for batch in read_part(bench.artifacts, "outcomes", part) for row in batch.to_pylist()
    ]
    assert all(abs(row["at"] - sent) <= timedelta(seconds=3) for row in rows), "by the collector's clock"


@pytest.mark.parametrize("ahead", [-2 * HOUR, 0.0, 2 * HOUR])
def test_an_executor_that_begins_after_the_time_is_up_deletes_nothing_whatever_its_clock_says(
    waves: Callable[[Executor], list[Piece]], bench: Bench, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    assert [piece.rows for piece in waves(Executor(monkeypatch, ahead, late=60.5))] == [10]
    assert bench.left() == ADDRESSES
    assert waves(Executor(monkeypatch, ahead, late=50)) == [], "the next wave has its own time"


def test_a_plan_that_names_a_canary_deletes_nothing(bench: Bench) -> None:
    work = replace(bench.work(lambda: None), canaries=("data/elsewhere", ADDRESSES[7]))
    with pytest.raises(MarkError, match="too young or in use"):
        list(work.run(Piece(bench.source)))
    assert bench.left() == ADDRESSES


@pytest.mark.parametrize("odd", ["_lakefs/settings", "young"])
def test_a_plan_that_names_what_is_not_lakefs_or_too_young_deletes_nothing(bench: Bench, odd: str) -> None:
    rows = [{"address": each, "size": 1, "last_modified": OLD, "etag": None, "since": OLD} for each in ADDRESSES]
    rows[-1] |= {"last_modified": datetime.fromtimestamp(time.time() + 60, UTC)} if odd == "young" else {"address": odd}
    writer = PartWriter(bench.artifacts, "plan", PLAN_SCHEMA)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=PLAN_SCHEMA))
    with pytest.raises(MarkError, match="The plan was altered"):
        list(bench.work(lambda: None).run(Piece(replace(bench.source, part=writer.close()[0]))))
    assert bench.left() == ADDRESSES
