"""What a sweep deletes has a copy in quarantine first; what has none stays, and whoever dies loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.copies.backup import restore
from lakegc_core.copies.undo import check_keeps
from lakegc_core.errors import SettingsError
from lakegc_core.marks import quarantine
from lakegc_core.marks.context import MarkContext, begin_mark, open_mark
from lakegc_core.marks.json_files import encode
from lakegc_core.marks.ledger import keep_records
from lakegc_core.marks.retire import _delete_mark, retire
from lakegc_core.marks.retired_records import record_of
from lakegc_core.names import Outcome
from lakegc_core.stages import swept_report
from lakegc_core.store.base import NOT_ASKED, connect
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.sweep.deletion import PLAN_SCHEMA
from lakegc_core.sweep.keeping import COPY_DIFFERS, NOT_COPIED, Keeping
from lakegc_core.sweep.sweep import close_sweep
from lakegc_core.views.history import freed_bytes, history_of
from lakegc_core.views.report import sweep_report
from lakegc_core.views.screen import sweep_screen
from lakegc_core.views.words import freed
from tests.support.lake import NOW, lake, leave, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEEK = RepositoryPolicy(match="*", quarantine=timedelta(days=7))
DEAD = {f"data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii54909{number}0": b"left" * (number + 1) for number in range(3)}


@pytest.fixture(scope="module")
def fast(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark):
        yield spark


@pytest.fixture
def mark(fast: SparkSession, tmp_path: Path) -> Iterator[MarkContext]:
    """A mark that found three dead objects, and the lake around it."""
    with lake(tmp_path, seed=3) as found:
        found = replace(found, policies=(WEEK,))
        repository = found.create("lake")
        repository.set_rules(7)
        repository.upload("main", "a", b"live")
        repository.commit("main", "c")
        for key, data in DEAD.items():
            leave(repository, key, 9, data)
        context = found.begin("lake", "m1")
        pipeline.mark(fast, context)
        assert set(pipeline.expired_of(context)) == DEAD.keys()
        yield context


def lying(context: MarkContext) -> dict[str, bytes]:
    """The dead objects that lie at their place."""
    return _lying(context.data)


def copies(context: MarkContext) -> dict[str, bytes]:
    """Those of which a copy lies in quarantine."""
    return _lying(quarantine.place_of(context, context.header.mark_id))


def _lying(config: Any) -> dict[str, bytes]:
    folder = Path(config.path)
    return {key: (folder / key).read_bytes() for key in DEAD if (folder / key).is_file()}


def back(spark: SparkSession, context: MarkContext, *paths: str) -> dict[str, int]:
    """The outcomes of a restore without a place, as far as they are not 0."""
    opened = open_mark(context, context.header.mark_id, retired_too=True)
    return {outcome: count for outcome, count in restore(spark, opened, paths=paths).outcomes.items() if count}


def test_what_is_swept_lies_in_quarantine_comes_back_whole_and_by_path_and_twice(
    fast: SparkSession, mark: MarkContext
) -> None:
    first = min(DEAD)
    swept = swept_report(fast, mark)
    assert swept.outcomes["deleted"] == 3 and lying(mark) == {} and copies(mark) == DEAD
    until = NOW + timedelta(days=7)
    assert swept.quarantine == {"age": 7 * 86_400.0, "until": pytest.approx(until.timestamp(), abs=60)}
    assert "in quarantine until 2025-04-07" in sweep_screen(sweep_report(swept))
    assert " freed\n" not in sweep_screen(sweep_report(swept))
    totals = history_of(mark)["totals"]
    assert (totals["in_quarantine"], freed_bytes(totals)) == (swept.bytes_deleted, 0)

    assert back(fast, mark, first) == {"copied": 1}
    assert lying(mark) == {first: DEAD[first]}
    assert back(fast, mark) == {"copied": 2, "already_there": 1}
    assert back(fast, mark) == {"already_there": 3}
    assert lying(mark) == DEAD
    again = swept_report(fast, open_mark(mark, "m1"))
    assert again.outcomes["deleted"] == 0 and lying(mark) == DEAD, "what was brought back stays"


def test_no_mark_takes_a_copy_for_an_object_and_copies_go_when_their_time_is_over(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = swept_report(fast, mark)
    repository = mark  # opened once
    assert retire(repository).quarantine.kept.keys() == {"m1"} and copies(mark) == DEAD

    monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=6, hours=23)).timestamp()))
    assert "in quarantine until" in retire(repository).quarantine.kept["m1"] and copies(mark) == DEAD
    monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=7, hours=1)).timestamp()))
    assert "no complete mark began after" in retire(repository).quarantine.kept["m1"] and copies(mark) == DEAD
    after = pipeline.mark(fast, begin_mark(mark, "m2", min_age=timedelta(days=1), safety_level="none"))
    assert after.report["objects"]["listed"] == 1 and after.report["objects"]["foreign"] == 0
    gone = {"m1": {"objects": 3, "bytes": swept.bytes_deleted}}
    assert retire(repository, dry_run=True).quarantine.emptied == gone and copies(mark) == DEAD
    assert retire(repository).quarantine.emptied == gone and copies(mark) == {}
    assert quarantine.quarantined(repository) == []
    totals = history_of(mark)["totals"]
    assert (totals["in_quarantine"], freed_bytes(totals)) == (0, swept.bytes_deleted), "now it is freed"
    with pytest.raises(SettingsError, match="nothing of this mark lies in quarantine"):
        check_keeps(mark)
    assert back(fast, mark) == {"missing": 3}


def test_after_its_mark_was_retired_an_object_comes_back_all_the_same(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept_report(fast, mark)
    keep_records(mark.mark)
    mark.mark.store.write(mark.mark.retired_key, encode(record_of("lake", mark.mark)))
    _delete_mark(mark.mark, None)
    later = NOW + timedelta(days=6)
    monkeypatch.setenv("LAKEGC_NOW", str(later.timestamp()))
    assert back(fast, mark, min(DEAD)) == {"copied": 1}
    record = quarantine.record_of(mark, "m1")
    until = (later + timedelta(days=7)).timestamp()
    assert record is not None and record.until == pytest.approx(until, abs=60), "copies stay for as long again"
    assert back(fast, mark) == {"copied": 2, "already_there": 1} and lying(mark) == DEAD


class DeadError(Exception):
    """The collector dies here."""


@pytest.mark.parametrize("dies", ["before its copies", "between copies", "after its copies", "after its deletes"])
def test_a_sweep_that_dies_loses_nothing_can_be_undone_and_goes_on(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    made, copy, delete = [0], LocalStore.copy, LocalStore.delete_many

    def dying_copy(self: LocalStore, *told: Any) -> Any:
        if dies == "before its copies" or (dies == "between copies" and made[0]):
            raise DeadError
        made[0] += 1
        return copy(self, *told)

    def dying_delete(self: LocalStore, keys: Any, *told: Any) -> Any:
        if not set(keys) & DEAD.keys():
            return delete(self, keys, *told)
        if dies == "after its deletes":
            delete(self, keys, *told)
        raise DeadError

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "copy", dying_copy)
        patch.setattr(LocalStore, "delete_many", dying_delete)
        with pytest.raises(DeadError):
            swept_report(fast, mark)
    assert copies(mark) | lying(mark) == DEAD, "each lies at its place, or a copy of it"
    monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=30)).timestamp()))
    assert "broke off" in retire(mark).quarantine.kept["m1"] and copies(mark) | lying(mark) == DEAD
    monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp()))

    if dies == "after its deletes":
        assert back(fast, mark) == {"copied": 3} and lying(mark) == DEAD, "also while the sweep is dead"
        return
    swept = swept_report(fast, open_mark(mark, "m1"))
    assert (swept.outcomes["deleted"], swept.failed) == (3, 0)
    assert lying(mark) == {} and copies(mark) == DEAD
    assert back(fast, mark) == {"copied": 3} and lying(mark) == DEAD


def test_what_a_dead_sweep_deleted_without_a_record_is_counted_when_it_goes_on(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = LocalStore.delete_many

    def dying(self: LocalStore, keys: Any, *told: Any) -> Any:
        found = delete(self, keys, *told)
        if set(keys) & DEAD.keys():
            raise DeadError
        return found

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", dying)
        with pytest.raises(DeadError):
            swept_report(fast, mark)
    assert lying(mark) == {}
    swept = swept_report(fast, open_mark(mark, "m1"))
    assert swept.outcomes["deleted"] == 3 and copies(mark) == DEAD
    assert back(fast, mark) == {"copied": 3} and lying(mark) == DEAD


def test_a_sweep_whose_record_of_its_copies_does_not_read_can_be_closed_and_says_that_they_are_there(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = LocalStore.delete_many

    def dying(self: LocalStore, keys: Any, *told: Any) -> Any:
        if set(keys) & DEAD.keys():
            raise DeadError
        return delete(self, keys, *told)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", dying)
        with pytest.raises(DeadError):
            swept_report(fast, mark)
    connect(mark.workspace).write(f"{mark.home}/quarantine/m1/quarantine.json", b"{}")
    connect(mark.data).delete_many([min(DEAD)])
    closed = close_sweep(fast, open_mark(mark, "m1"))
    assert closed.quarantine == {"age": 7 * 86_400.0} and closed.bytes_freed == 0
    assert freed(sweep_report(closed)).startswith("4 B, in quarantine nobody knows until when")
    (swept,) = history_of(mark)["marks"][0]["swept"]
    assert swept["quarantined_until"] is not None, "not counted as freed"
    assert copies(mark) == DEAD


@pytest.mark.parametrize("first", [True, False], ids=["taken out", "set"])
def test_what_went_without_a_copy_because_the_quarantine_was_taken_out_or_set_meanwhile_is_said_to_be_gone(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    delete, copy, asked = LocalStore.delete_many, LocalStore.copy, list[str]()

    def dying(self: LocalStore, keys: Any, *told: Any) -> Any:
        die_at_the_last([*DEAD.keys() & keys])
        return delete(self, keys, *told)

    def dying_copy(self: LocalStore, source: Any, key: str, *told: Any) -> Any:
        die_at_the_last([key])
        return copy(self, source, key, *told)

    def die_at_the_last(keys: list[str]) -> None:
        asked.extend(key for key in keys if key not in asked)
        if len(asked) == len(DEAD):
            raise DeadError

    def under(copies_first: bool) -> MarkContext:
        return replace(open_mark(mark, "m1"), policy=WEEK if copies_first else RepositoryPolicy(match="*"))

    with monkeypatch.context() as patch:
        patch.setattr("lakegc_core.sweep.deletion.BATCH", 1)
        patch.setattr("lakegc_core.sweep.deletion.ROWS", 1)
        patch.setattr(LocalStore, "delete_many", dying)
        patch.setattr(LocalStore, "copy", dying_copy)
        with pytest.raises(DeadError):
            swept_report(fast, under(first))
    swept = swept_report(fast, under(not first))
    size = sum(map(len, (DEAD[key] for key in copies(mark))))
    assert swept.outcomes["deleted"] == 3 and lying(mark) == {} and 0 < len(copies(mark)) < 3
    assert (swept.quarantine["objects"], swept.quarantine["bytes"]) == (len(copies(mark)), size)
    assert swept.bytes_freed == swept.bytes_deleted - size
    assert f"{swept.bytes_freed} B freed, without a copy; {size} B, in quarantine" in sweep_screen(sweep_report(swept))
    totals = history_of(mark)["totals"]
    assert (totals["in_quarantine"], freed_bytes(totals)) == (size, swept.bytes_freed)


def test_an_emptying_that_dies_is_taken_up(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept_report(fast, mark)
    monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=8)).timestamp()))
    pipeline.mark(fast, begin_mark(mark, "m2", min_age=timedelta(days=1), safety_level="none"))
    delete = LocalStore.delete_many

    def dying(self: LocalStore, keys: Any, *told: Any) -> Any:
        delete(self, keys[:1], *told)
        raise DeadError

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", dying)
        with pytest.raises(DeadError):
            retire(mark)
    assert len(copies(mark)) == 2
    assert retire(mark).quarantine.emptied["m1"]["objects"] == 2 and quarantine.quarantined(mark) == []


def test_a_dry_run_names_the_quarantine_and_copies_nothing(fast: SparkSession, mark: MarkContext) -> None:
    told = swept_report(fast, mark, dry_run=True)
    assert told.quarantine == {"age": 7 * 86_400.0} and quarantine.quarantined(mark) == []
    assert "in quarantine for 7d" in sweep_screen(sweep_report(told))


def test_a_sweep_says_why_an_object_was_not_copied(fast: SparkSession, mark: MarkContext) -> None:
    first, said = min(DEAD), list[str]()
    (Path(quarantine.place_of(mark, "m1").path) / first).mkdir(parents=True)  # type: ignore[attr-defined]
    swept = swept_report(fast, replace(mark, say=said.append))
    assert swept.outcomes["failed:NotCopied"] == 1 and lying(mark) == {first: DEAD[first]}
    (told,) = [each for each in said if "not be copied" in each]
    assert first in told and "directory" in told


# --- one request ---


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    for key, data in DEAD.items():
        connect(LocalConfig(str(tmp_path / "data"))).write(key, data)
    return Keeping(LocalConfig(str(tmp_path / "data")), LocalConfig(str(tmp_path / "kept")))


def told(keeping: Keeping, now: Callable[[], float] = lambda: 0.0, problems: list[str] | None = None) -> dict[str, str]:
    """The outcomes of a request for all dead objects, by address. `until` is 100."""
    problems = [] if problems is None else problems
    old = datetime.now(UTC)
    rows = [{"address": key, "size": len(DEAD[key]), "last_modified": old, "etag": None, "since": old} for key in DEAD]
    batch = pa.RecordBatch.from_pylist(rows, schema=PLAN_SCHEMA)
    store = connect(keeping.data)

    def delete(part: pa.RecordBatch) -> list[str]:
        return store.delete_many(part["address"].to_pylist()) if now() < 100.0 else [NOT_ASKED] * part.num_rows

    found = keeping.delete(batch, 100.0, now, delete, problems)
    return dict(zip(DEAD, found, strict=True))


def test_what_cannot_be_copied_stays_and_stops_no_other(keeping: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = DEAD
    (Path(keeping.place.path) / first).mkdir(parents=True)  # type: ignore[attr-defined]
    connect(keeping.place).write(second, b"of another length")
    problems: list[str] = []
    outcomes = told(keeping, problems=problems)
    assert outcomes == {first: NOT_COPIED, second: COPY_DIFFERS, third: Outcome.DELETED}
    assert len(problems) == 1 and second in problems[0]
    assert _lying(keeping.data) == {first: DEAD[first], second: DEAD[second]}


def test_a_copy_counts_only_if_it_is_younger_than_its_object(keeping: Keeping) -> None:
    first = min(DEAD)
    connect(keeping.place).write(first, DEAD[first].swapcase())
    connect(keeping.data).write(first, DEAD[first])  # over what had been copied
    assert told(keeping)[first] == COPY_DIFFERS and first in _lying(keeping.data)


def test_an_object_of_another_size_than_the_plan_has_is_another_one_and_stays_without_a_copy(keeping: Keeping) -> None:
    first, second, third = DEAD
    connect(keeping.data).write(first, b"written over since")
    problems: list[str] = []
    outcomes = told(keeping, problems=problems)
    assert outcomes == {first: Outcome.CHANGED, second: Outcome.DELETED, third: Outcome.DELETED}
    assert _lying(keeping.data) == {first: b"written over since"} and problems == []
    assert _lying(keeping.place).keys() == {second, third}


def test_what_is_gone_is_told_and_no_delete_is_sent(keeping: Keeping) -> None:
    first = min(DEAD)
    connect(keeping.data).delete_many([first])
    assert told(keeping)[first] == Outcome.ALREADY_GONE


def test_no_copy_begins_in_the_last_quarter_of_a_wave_and_what_has_a_copy_is_deleted(keeping: Keeping) -> None:
    times = iter([0.0, *[5.0] * len(DEAD), 10.0, 76.0, 76.0, 76.0])
    found = told(keeping, lambda: next(times))
    assert sorted(found.values()) == [Outcome.DELETED, NOT_ASKED, NOT_ASKED]
    assert len(_lying(keeping.place)) == 1 and len(_lying(keeping.data)) == 2


def test_copies_that_outlast_their_wave_are_deleted_by_the_next_one_before_it_copies_more(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, copy, waves = [0.0], LocalStore.copy, []

    def slow(self: LocalStore, *told: Any) -> Any:
        clock[0] = 1_000.0  # beyond the end of any wave
        return copy(self, *told)

    monkeypatch.setattr("lakegc_core.sweep.keeping._SIDE_BY_SIDE", 1)
    monkeypatch.setattr(LocalStore, "copy", slow)
    for _ in range(len(DEAD) + 1):
        clock[0] = 0.0
        waves.append(list(told(keeping, lambda: clock[0]).values()).count(NOT_ASKED))
        assert len(_lying(keeping.data)) == waves[-1]
    assert waves == [3, 2, 1, 0]
