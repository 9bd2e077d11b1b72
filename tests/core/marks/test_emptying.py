"""Copies go once their time is over and a mark says that nothing is live again; whatever is not sure keeps them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.cli import history, main
from lakegc_core.errors import LeaseHeldError, MarkError, StoreError
from lakegc_core.marks import lease, quarantine
from lakegc_core.marks.artifacts import RESTORES, STAMP
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.emptying import Emptying, delete_below, empty, overdue
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.marks.lease import Lease
from lakegc_core.marks.ledger import write_report
from lakegc_core.marks.quarantine import place_of, quarantined, record_of
from lakegc_core.marks.retire import list_retired, retire
from lakegc_core.marks.retired_records import record_of as retired_record
from lakegc_core.marks.sweeps import STOPPED
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalStore
from tests.support.lake import lake
from tests.support.old_marks import DAY, START, write_mark, write_sweep
from tests.support.replays import environment

WEEK = 7 * DAY


@pytest.fixture
def context(tmp_path: Path) -> Iterator[RepositoryContext]:
    """A repository; three bytes of mark m1 lie in quarantine for a week from START on."""
    with lake(tmp_path) as found, environment({"LAKEGC_NOW": str(START)}):
        found.create("lake", "s3://b/ns")
        context = found.open("lake")
        quarantine.begin(context, "m1", 1, WEEK)
        connect(place_of(context, "m1")).write("data/a", b"abc")
        told = quarantine.end(context, "m1", 1, 1, 3)
        assert told is not None and told.until == START + WEEK
        write_mark(context.artifacts("after"), 7.05)
        yield context


def at(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    monkeypatch.setenv("LAKEGC_NOW", str(START + days * DAY))


def copies(context: RepositoryContext) -> int:
    prefix = f"{context.home}/quarantine/m1/objects/"
    return sum(batch.num_rows for batch in connect(context.workspace).list(prefix))


def test_copies_stay_until_their_time_is_over_and_then_go_with_their_record(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 6.9)
    assert re.fullmatch(r"in quarantine until \d{4}-\d\d-\d\d \d\d:\d\d UTC", empty(context, None).kept["m1"])
    at(monkeypatch, 7.1)
    assert empty(context, None).emptied == {"m1": {"objects": 1, "bytes": 3}}
    assert quarantined(context) == [] and record_of(context, "m1") is None
    assert empty(context, None) == Emptying()


def test_copies_whose_time_was_over_days_ago_are_told_unless_they_go(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No mark is made any more, or nobody retires."""
    (Path(context.workspace.root.removeprefix("local://")) / context.home / "marks" / "after" / "mark.json").unlink()
    for days, told in ((6.9, False), (8.9, False), (9.1, True)):
        at(monkeypatch, days)
        assert overdue(context) == ({"m1": START + WEEK} if told else {})
        found = empty(context, None)
        assert list(found.kept) == ["m1"] and not found.stuck
        assert list(found.overdue) == (["m1"] if told else [])
    write_mark(context.artifacts("m9"), 9)
    assert empty(context, None).emptied and not empty(context, None).overdue
    assert overdue(context) == {}


def test_copies_wait_for_the_next_mark_where_marks_are_rare(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing could have emptied them before."""
    (Path(context.workspace.root.removeprefix("local://")) / context.home / "marks" / "after" / "mark.json").unlink()
    write_mark(context.artifacts("m2"), 0.5)
    write_mark(context.artifacts("m3"), 6.5)
    write_mark(context.artifacts("by a clock that was wrong".replace(" ", "-")), 5_000)
    for days, told in ((9.1, False), (14.9, False), (15.1, True)):
        at(monkeypatch, days)
        assert bool(overdue(context)) is bool(empty(context, None).overdue) is told


def test_one_mark_that_was_late_makes_no_copies_of_a_daily_repository_wait(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, day in enumerate((-3.0, -2.0, -1.0, 0.0, 6.0)):
        write_mark(context.artifacts(f"m2{number}"), day)
    (Path(context.workspace.root.removeprefix("local://")) / context.home / "marks" / "after" / "mark.json").unlink()
    for days, told in ((9.9, False), (10.1, True)):
        at(monkeypatch, days)
        assert bool(overdue(context)) is told


def test_copies_of_what_is_live_again_stay_until_it_lies_at_its_place(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch was made of an old commit after the sweep: no record of the sweep can tell."""
    write_mark(context.artifacts("m8"), 8, missing=(*(f"data/other {number}" for number in range(1_500)), "data/a"))
    write_mark(context.artifacts("m4"), 4)
    at(monkeypatch, 9)
    for _ in range(2):
        found = empty(context, None)
        assert "data/a" in found.stuck["m1"] and "lakegc restore lake m1" in found.stuck["m1"]
        assert found.kept == found.stuck and copies(context) == 1
    connect(context.data).write("data/a", b"abc")
    assert empty(context, None).emptied == {"m1": {"objects": 1, "bytes": 3}}


def test_it_is_said_before_their_time_is_over(context: RepositoryContext, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mark(context.artifacts("m3"), 3, missing=("data/a",))
    at(monkeypatch, 3.5)
    assert "data/a" in empty(context, None).stuck["m1"], "by the newest mark that is not to come"


def test_the_command_says_how_many_copies_stay_and_why_and_that_they_wait_for_a_person(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(history, "opened", lambda *_: context)
    assert main(["retire", "lake"]) == 0
    told = capsys.readouterr()
    assert "quarantine kept: 1 object, 3 B: in quarantine until 2" in told.out and told.err == ""
    write_mark(context.artifacts("m3"), 3, missing=("data/a",))
    at(monkeypatch, 3.5)
    assert main(["retire", "lake"]) == 0
    told = capsys.readouterr()
    assert "quarantine kept: 1 object, 3 B: objects are gone that lie here, such as data/a" in told.out
    assert told.err == "lakegc: the copies of 1 mark stay in quarantine until somebody acts: their lines say why.\n"


@pytest.mark.parametrize("what", ["held", "near"])
@pytest.mark.parametrize("others", [0, 1_500])
def test_copies_of_what_a_hold_keeps_or_a_neighbour_refers_to_stay_until_it_lies_at_its_place(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch, what: str, others: int
) -> None:
    """A mark looks whether its own entries are there; nobody else asks for what only these keep."""
    connect(place_of(context, "m1")).write("data/b", b"abc")
    kept: Any = {what: (*(f"data/other {number}" for number in range(others)), "data/a")}
    write_mark(context.artifacts("m8"), 8, **kept)
    at(monkeypatch, 9)
    assert "such as data/a" in empty(context, None).stuck["m1"] and copies(context) == 2
    connect(context.data).write("data/a", b"abc")
    assert empty(context, None).emptied == {"m1": {"objects": 2, "bytes": 6}}


def test_copies_stay_until_a_mark_knows_the_holds_of_lakegc_yaml(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 8)
    held = replace(context, policy=replace(context.policy, holds=("tag:v*", "path:models/**")))
    assert "knows all holds" in empty(held, None).kept["m1"] and copies(context) == 1
    write_mark(context.artifacts("m8"), 7.5, holds=held.policy.holds)
    assert empty(held, None).emptied


def test_copies_stay_until_a_mark_that_began_after_their_time_says_what_is_live(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 2)
    quarantine.keep_on(context, "m1")
    at(monkeypatch, 30)
    found = empty(context, None)
    assert "no complete mark began after" in found.kept["m1"] and not found.stuck and copies(context) == 1
    write_mark(context.artifacts("m9"), 9.1)
    assert empty(context, None).emptied


@pytest.mark.parametrize("what", ["sweep", "restore", "altered", "no record"])
def test_what_is_not_sure_keeps_copies(context: RepositoryContext, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    at(monkeypatch, 8)
    store, folder = connect(context.workspace), f"{context.home}/quarantine/m1"
    if what == "sweep":
        store.write(f"{context.home}/marks/m1/sweeps/1/plan.json", b"{}")
    elif what == "restore":
        at(monkeypatch, 2)
        quarantine.keep_on(context, "m1")
        at(monkeypatch, 8)
    elif what == "altered":
        key = f"{folder}/quarantine.json"
        store.write(key, store.read(key).replace(b'"age": 604800', b'"age": 1'))
        with pytest.raises(MarkError, match="was changed"):
            quarantine.begin(context, "m1", 2, DAY)
    else:
        store.delete_many([f"{folder}/quarantine.json"])
    said = {"sweep": "broke off", "restore": "in quarantine until", "altered": "was changed"}
    found = empty(context, None)
    assert said.get(what, "without a record") in found.kept["m1"] and copies(context) == 1
    assert bool(found.stuck) is (what in ("altered", "no record")), "no time ends that"
    write_mark(context.artifacts("m9"), 9.1)
    at(monkeypatch, 10)
    assert bool(empty(context, None).kept) is (what != "restore")


@pytest.mark.parametrize("retired", [False, True])
def test_copies_of_a_mark_of_another_namespace_stay_and_so_does_the_mark(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch, retired: bool
) -> None:
    """Two servers have one workspace, and a repository of one name each: no mark here tells what is live there."""
    mark = context.artifacts("m1")
    write_mark(mark, 0, storage_namespace="s3://b/other")
    if retired:
        mark.store.write(mark.retired_key, encode(retired_record("lake", mark)))
        mark.store.delete_many([f"{mark.folder}/mark.json"])
    at(monkeypatch, 100)
    done = retire(context, 2)
    assert "the mark is one of s3://b/other, not of s3://b/ns" in done.quarantine.stuck["m1"]
    assert copies(context) == 1 and "m1" not in done.retired


@pytest.mark.parametrize("what", ["sweep 1 lost", "a ring", "cannot be read"])
def test_copies_of_live_data_and_their_mark_stay_until_a_restore_brought_all_of_it_back(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    mark = context.artifacts("m1")
    for day, mark_id in enumerate(("m1", "m2", "m3", "m4")):
        write_mark(context.artifacts(mark_id), day)
    write_sweep(mark, deleted=1, lost=what == "sweep 1 lost")
    if what == "a ring":
        found = {"gone": {"main/a": "data/a"}, "at": START}
        mark.store.write(f"{mark.folder}/sweeps/1/{STOPPED}", encode(sealed(found)))
    elif what == "cannot be read":
        mark.store.write(f"{mark.folder}/sweeps/1/report.json", b"{")
    at(monkeypatch, 100)
    done = retire(context, 2)
    assert what in done.quarantine.stuck["m1"] and done.quarantine.emptied == {}
    assert copies(context) == 1 and "m2" in done.retired and "m1" in done.kept
    for day, whole, outcome in ((1, False, "copied"), (2, True, "failed"), (3, True, "copied")):
        assert "m1" in empty(context, None).stuck, "after no restore, one of some paths, and one that failed"
        report = {"outcomes": {outcome: 1}, "taken_back": [], "finished_at": START + day * DAY, "whole": whole}
        folder = f"{mark.folder}/{RESTORES}/{datetime.fromtimestamp(START + day * DAY, UTC).strftime(STAMP)}"
        write_report(mark.store, folder, report)
    assert bool(empty(context, None).emptied) is (what != "cannot be read")


def test_one_quarantine_or_mark_that_cannot_be_deleted_keeps_no_other(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day, mark_id in enumerate(("m0", "m1", "m3", "m4")):
        write_mark(context.artifacts(mark_id), day)
    for mark_id in ("m1", "m2"):
        quarantine.begin(context, mark_id, 1, WEEK)
        connect(place_of(context, mark_id)).write("data/a", b"abc")
    delete, refused = LocalStore.delete_many, f"{context.home}/quarantine/m1/"

    def refuse(self: LocalStore, keys: Sequence[str], *more: Any) -> list[str]:
        told = delete(self, [each for each in keys if not each.startswith(refused)], *more)
        return told + ["failed:EACCES"] * (len(keys) - len(told))

    at(monkeypatch, 100)
    monkeypatch.setattr(LocalStore, "delete_many", refuse)
    with pytest.raises(StoreError, match="quarantine of mark m1"):
        retire(context, 2)
    assert quarantined(context) == ["m1"] and [each["mark_id"] for each in list_retired(context)] == ["m3", "m0"]
    refused = f"{context.home}/marks/"
    with pytest.raises(StoreError, match="mark m1 still stands"):
        retire(context, 2)
    assert quarantined(context) == [], "copies go although a mark does not"


def test_the_clock_that_is_behind_decides_when_copies_go(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 8)
    now = LocalStore.now
    monkeypatch.setattr(LocalStore, "now", lambda store: now(store) - timedelta(days=2))
    assert "m1" in empty(context, None).kept


def test_nothing_is_emptied_while_another_collector_works_or_once_the_lease_is_lost(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 8)
    other = Lease(context.workspace, f"{context.home}/{lease.NAME}", "restore lake m1")
    other.take()
    with pytest.raises(LeaseHeldError):
        retire(context)
    assert copies(context) == 1
    other.give_back()
    assert retire(context).quarantine.emptied["m1"]["objects"] == 1, "also where no mark stands"


def test_copies_that_cannot_be_deleted_are_said_and_keep_their_record(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 8)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", lambda self, keys, *more: ["failed:EACCES"] * len(keys))
        assert delete_below(connect(context.workspace), f"{context.home}/quarantine/", None)[2] == 2
        assert "1 of 1 copies" in empty(context, None).failed["m1"]
        with pytest.raises(StoreError, match="1 of 1 copies"):
            retire(context)
    assert record_of(context, "m1") is not None and copies(context) == 1
