"""What becomes of each object of a sweep is told as it is, whoever else deleted, restored or closed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq
import pytest

from lakegc_core import clock, pipeline
from lakegc_core.copies.backup import backup, restore
from lakegc_core.copies.undo import deleted_objects
from lakegc_core.errors import RefusedError, StoreError
from lakegc_core.marks.artifacts import CLEAN
from lakegc_core.marks.context import MarkContext, open_mark
from lakegc_core.policy import safety
from lakegc_core.stages import swept_report
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.sweep import call
from lakegc_core.sweep.deletion import Deletion, Piece, Wave, run_wave
from lakegc_core.sweep.result import keeps
from lakegc_core.sweep.sweep import close_sweep
from lakegc_core.views.history import history_of
from lakegc_core.views.report import sweep_report
from lakegc_core.views.screen import sweep_screen
from tests.support.lake import NOW, Lake, lake, leave, quick
from tests.support.night_stores import MIDWAY, UNWAVED, SilentConfig, dying
from tests.support.swept import ACCEPTED, GARBAGE, ForgetfulConfig, Swept
from tests.support.towns import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_sweep_deletes_its_plan_and_the_next_one_finds_nothing_left(swept: Swept) -> None:
    found = swept.sweep()
    assert found.outcomes["deleted"] == found.planned == 3 and swept.left() == []
    again = swept.sweep()
    assert (again.sweep, again.planned, sum(again.outcomes.values()), again.report) == (1, 0, 0, None)
    said = sweep_screen(sweep_report(again))
    assert said.startswith("lake · mark m1 · nothing is left of this mark to sweep, ")
    assert "sweep 1" not in said and " 0 objects" not in said


def test_a_collector_that_slept_after_its_deletes_changes_nothing_of_a_sweep_that_another_one_closed(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, read_again, told = swept.lake.files("lake") / swept.context.mark.folder / "sweeps", call.read_again, {}

    def sleeping(*given: Any) -> Any:
        monkeypatch.setattr(call, "read_again", read_again)
        close_sweep(swept.spark, open_mark(swept.lake.open("lake"), "m1"))
        told.update({path: path.read_bytes() for path in folder.rglob("*") if path.is_file()})
        monkeypatch.setenv("LAKEGC_NOW", str(clock.now().timestamp() + 3600))
        return read_again(*given)

    monkeypatch.setattr(call, "read_again", sleeping)
    with pytest.raises(RefusedError, match="The lease of this repository was lost"):
        swept.sweep()
    assert told and {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == told


def test_what_was_lost_before_is_said_again_when_nothing_is_left_to_delete(swept: Swept) -> None:
    swept.sweep()
    (report,) = (swept.lake.files("lake") / swept.context.mark.folder).glob("sweeps/1/report.json")
    report.write_text(report.read_text().replace('"deleted": 3', '"deleted": 1, "lost": 2'))
    assert swept.sweep().lost == 2


def test_a_store_that_does_not_say_what_it_keeps_does_not_fail_a_sweep_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = connect(LocalConfig(str(tmp_path)))
    assert keeps(store, 0.0) == {"versioned": False, "recoverable_until": None}
    probe = LocalStore.probe
    for undeletes in (True, None, False):
        told = partial(replace, soft_delete=timedelta(days=1), undeletes=undeletes)
        monkeypatch.setattr(LocalStore, "probe", lambda own, told=told: told(probe(own)))
        found = {"versioned": False, "recoverable_until": 86_400.0, "undeletes": undeletes is not False}
        assert keeps(store, 0.0) == found

    def fails(own: LocalStore) -> None:
        raise StoreError("403")

    monkeypatch.setattr(LocalStore, "probe", fails)
    assert keeps(store, 0.0) == {}


def test_for_how_long_the_store_can_bring_all_back_counts_from_before_the_first_delete(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = LocalStore.probe
    monkeypatch.setattr(LocalStore, "probe", lambda own: replace(probe(own), soft_delete=timedelta(days=7)))

    def wave(spark: SparkSession, pieces: Sequence[Piece], work: Deletion, tasks: int | None) -> Wave:
        run_wave(spark, pieces, work, tasks)
        raise StoreError("killed after its deletes")

    with monkeypatch.context():
        swept.each_wave(wave)
        with pytest.raises(StoreError):
            swept.sweep()
    until = (clock.now() + timedelta(days=7)).timestamp()
    monkeypatch.setenv("LAKEGC_NOW", str((clock.now() + timedelta(days=3)).timestamp()))
    closed = close_sweep(swept.spark, open_mark(swept.lake.open("lake"), "m1"))
    assert closed.outcomes["deleted"] == 3 and closed.recoverable_until == pytest.approx(until, abs=60)


def test_what_two_marks_name_is_freed_once_even_where_the_store_calls_every_delete_done(swept: Swept) -> None:
    """As S3 does, which does not tell what was there."""
    other = swept.lake.begin("lake", "m2")
    pipeline.mark(swept.spark, other)

    def wave(spark: SparkSession, pieces: Sequence[Piece], work: Deletion, tasks: int | None) -> Wave:
        forgetful = ForgetfulConfig(cast(LocalConfig, work.data).path)
        return run_wave(spark, pieces, replace(work, data=forgetful), tasks)

    swept.each_wave(wave)
    first, second = swept.sweep(), swept_report(swept.spark, other, accepted=ACCEPTED)
    assert (first.outcomes["deleted"], first.bytes_deleted) == (3, 33)
    assert (second.outcomes["deleted"], second.outcomes["already_gone"], second.bytes_deleted) == (0, 3, 0)
    assert second.planned == 0 and swept.left() == []


@pytest.mark.parametrize("days", [30, 20])
def test_what_came_back_since_another_marks_sweep_is_not_called_gone(swept: Swept, days: float) -> None:
    """The same object is a candidate like any other. Another one is left to the next mark."""
    other = swept.lake.begin("lake", "m2")
    pipeline.mark(swept.spark, other)
    assert swept.sweep().outcomes["deleted"] == 3
    leave(swept.lake.sandbox.repository("lake"), GARBAGE[0], days)
    found = swept_report(swept.spark, other, accepted=ACCEPTED)
    outcome = "deleted" if days == 30 else "unconfirmed"
    assert found.outcomes | {"already_gone": 2, outcome: 1} == found.outcomes
    assert (found.gone_by_sweeps, found.gone_by_others) == (2, 0)
    assert swept.left() == ([] if days == 30 else GARBAGE[:1])
    totals = history_of(swept.lake.open("lake"))["totals"]
    assert (totals["deleted"], totals["bytes_deleted"]) == (3 - len(swept.left()), 11 * (3 - len(swept.left())))


@pytest.mark.parametrize("closed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_the_sweep_of_another_mark_deleted_after_one_broke_off_counts_for_the_other_one(
    swept: Swept, closed: bool
) -> None:
    """A night after the one that was killed; then the first sweep is gone on with, or closed."""
    with pytest.raises(Crash), dying(MIDWAY):
        swept.sweep()
    assert len(swept.left()) == 1
    other = swept.lake.begin("lake", "m2")
    pipeline.mark(swept.spark, other)
    assert swept_report(swept.spark, other, accepted=ACCEPTED).outcomes["deleted"] == 1
    first = close_sweep(swept.spark, swept.context) if closed else swept.sweep()
    assert (first.outcomes["deleted"], first.outcomes["already_gone"], first.bytes_deleted) == (2, 1, 22)


def test_what_went_without_a_record_after_it_had_come_back_from_another_marks_sweep_counts_as_deleted(
    swept: Swept,
) -> None:
    """A restore of this mark brings it back. That of the other one looks for what went before."""
    other = swept.lake.begin("lake", "m2")
    pipeline.mark(swept.spark, other)
    assert swept_report(swept.spark, other, accepted=ACCEPTED).outcomes["deleted"] == 3
    for key in GARBAGE:
        leave(swept.lake.sandbox.repository("lake"), key, 30)
    swept.patch.setenv("LAKEGC_NOW", str(clock.now().timestamp() + 60))
    with pytest.raises(Crash), dying(MIDWAY):
        swept.sweep()
    for part in (swept.lake.files("lake") / swept.context.mark.folder / "sweeps/1/outcomes").iterdir():
        if "deleted" in pq.read_table(part)["outcome"].to_pylist():
            part.unlink()
    assert len(swept.left()) == 1
    found = swept.sweep()
    assert (found.outcomes["deleted"], found.outcomes["already_gone"], found.gone_by_sweeps) == (3, 0, 0)
    back = {row["address"] for row in deleted_objects(swept.spark, swept.context).collect()}
    assert back == set(GARBAGE) and swept.left() == []


@pytest.mark.parametrize("closed", [False, True])
def test_what_a_restore_brought_back_after_a_sweep_broke_off_stays(swept: Swept, tmp_path: Path, closed: bool) -> None:
    """Be its delete on record or not. The account of what was deleted says that it was brought back."""
    swept.context = replace(swept.context, level=replace(safety.NONE, samples=safety.FULL.samples))
    place = str(tmp_path / "backup")
    backup(swept.spark, swept.context, place)
    with pytest.raises(Crash), dying(MIDWAY):
        swept.sweep()
    assert len(swept.left()) == 1
    back = restore(swept.spark, swept.context, place).outcomes
    assert (back["copied"], back["already_there"]) == (2, 1)
    found = close_sweep(swept.spark, swept.context) if closed else swept.sweep()
    assert (found.outcomes["deleted"], found.outcomes.get("left" if closed else "rescued"), found.failed) == (2, 1, 0)
    assert swept.sweep().planned == 0 and swept.left() == GARBAGE
    assert history_of(swept.lake.open("lake"))["totals"]["deleted"] == 0


def test_a_restored_copy_of_what_went_without_a_record_is_not_deleted_by_the_sweep_of_another_mark(
    swept: Swept, tmp_path: Path
) -> None:
    """The other mark listed before, and knows the old date alone."""
    other, place = swept.lake.begin("lake", "m2"), str(tmp_path / "backup")
    pipeline.mark(swept.spark, other)
    backup(swept.spark, swept.context, place)
    connect(swept.context.data).delete_many(GARBAGE)
    assert restore(swept.spark, swept.context, place).outcomes["copied"] == 3
    found = swept_report(swept.spark, other, accepted=ACCEPTED)
    assert (found.outcomes["deleted"], found.outcomes["unconfirmed"], swept.left()) == (0, 3, GARBAGE)


@pytest.mark.safety
@pytest.mark.slow
def test_what_the_sweep_of_another_mark_found_gone_after_a_delete_without_an_answer_counts_there_alone(
    swept: Swept,
) -> None:
    """Two sweeps are planned before either deletes; the one that deletes dies before it says so."""
    other = swept.lake.begin("lake", "m2")
    pipeline.mark(swept.spark, other)
    with pytest.raises(Crash), dying(UNWAVED):
        swept.sweep()
    with pytest.raises(Crash), dying(MIDWAY):
        swept_report(swept.spark, other, accepted=ACCEPTED)
    for part in (swept.lake.files("lake") / other.mark.folder / "sweeps/1/outcomes").iterdir():
        part.unlink()
    second = swept_report(swept.spark, other, accepted=ACCEPTED)
    first = swept.sweep()
    assert (second.outcomes["deleted"], first.outcomes["deleted"], swept.left()) == (3, 0, [])
    assert (second.bytes_deleted, first.bytes_deleted) == (33, 0)


@pytest.mark.safety
@pytest.mark.slow
def test_a_delete_without_an_answer_counts_once_where_the_store_calls_every_delete_done(swept: Swept) -> None:
    other = swept.lake.begin("lake", "m2")
    pipeline.mark(swept.spark, other)
    silent = replace(swept.context, data=SilentConfig(str(swept.lake.files("lake"))))
    assert swept_report(swept.spark, silent, accepted=ACCEPTED).outcomes["failed:no_answer"] == 2
    forgetful = replace(other, data=ForgetfulConfig(str(swept.lake.files("lake"))))
    second = swept_report(swept.spark, forgetful, accepted=ACCEPTED)
    first = swept.sweep()
    assert second.outcomes["deleted"] + first.outcomes["deleted"] + 1 == 3 and swept.left() == []


@pytest.mark.parametrize("told", ["nobody", pytest.param("no answer", marks=pytest.mark.slow)])
def test_what_went_before_the_next_mark_and_nobody_was_told_counts_as_deleted_when_the_sweep_goes_on_after_it(
    spark: SparkSession, tmp_path: Path, told: str
) -> None:
    """At level full: the next mark does not name it any more, so that it is not confirmed either."""
    with lake(tmp_path) as found, quick(spark):
        repository = found.create("lake")
        repository.set_rules(7)
        for number in range(3):
            leave(repository, f"data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii54909{number}0", 30)
        contexts = [nightly_mark(spark, found, night) for night in (0, 1)]
        if told == "nobody":
            with pytest.raises(Crash), dying(MIDWAY):
                swept_report(spark, contexts[1], accepted=ACCEPTED)
            for part in (found.files("lake") / contexts[1].mark.folder / "sweeps/1/outcomes").iterdir():
                part.unlink()
        else:
            silent = replace(contexts[1], data=SilentConfig(str(found.files("lake"))))
            assert swept_report(spark, silent, accepted=ACCEPTED).outcomes["failed:no_answer"] == 2
        nightly_mark(spark, found, 2)
        result = swept_report(spark, contexts[1], accepted=ACCEPTED)
        assert (result.outcomes["deleted"], result.outcomes["unconfirmed"]) == ({"nobody": 3, "no answer": 2}[told], 0)


def nightly_mark(spark: SparkSession, found: Lake, night: int) -> MarkContext:
    """A mark at level full; an hour and a half later it can be swept."""
    os.environ["LAKEGC_NOW"] = str(NOW.timestamp() + 86_400 * (night + 1))  # until the lake ends
    context = found.begin("lake", f"night-{night}", safety_level="full", min_age=timedelta(hours=25), mode=CLEAN)
    pipeline.mark(spark, context)
    os.environ["LAKEGC_NOW"] = str(NOW.timestamp() + 86_400 * (night + 1) + 5_400)
    return context
