"""What a repository's marks found and its sweeps deleted is told as the store has it, whatever became of the marks."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import clock, pipeline
from lakegc_core.cli import main
from lakegc_core.config.settings import Price, Settings
from lakegc_core.errors import StoreError
from lakegc_core.marks.artifacts import CLEAN, RESTORES, STAMP
from lakegc_core.marks.context import MarkContext, RepositoryContext
from lakegc_core.marks.json_files import encode
from lakegc_core.marks.lease import NAME, Lease
from lakegc_core.marks.ledger import write_report
from lakegc_core.marks.retire import retire
from lakegc_core.marks.retired_records import record_of
from lakegc_core.stages import swept_report
from lakegc_core.views.history import _totals, freed_bytes, history_of, left_of
from lakegc_core.views.history_screen import history_screen, marks_lines
from lakegc_core.views.metrics import metrics_text
from lakegc_core.views.words import still_taken
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.lake import NOW, Lake, lake, leave, quick
from tests.support.night_stores import MIDWAY, dying
from tests.support.swept import ACCEPTED
from tests.support.towns import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400
SLICE = "data/gk5b63g7lm5ii54909u0"


class World:
    """A repository with so many days of garbage, marks and sweeps as a test makes."""

    def __init__(self, spark: SparkSession, served: Lake) -> None:
        self.spark, self.lake = spark, served
        self.repository = served.create("lake")
        self.repository.set_rules(7)
        self.left = 0

    def garbage(self, count: int) -> None:
        for _ in range(count):
            leave(self.repository, f"{SLICE}/ca5b63g7lm5ii54909{self.left:x}0", 30)
            self.left += 1

    def mark(self, day: int, **options: Any) -> MarkContext:
        os.environ["LAKEGC_NOW"] = str(NOW.timestamp() + DAY * day)  # until the lake ends
        context = self.lake.begin("lake", f"m{day:02}", mode=CLEAN, **options)
        pipeline.mark(self.spark, context)
        return context

    def sweep(self, context: MarkContext) -> None:
        swept_report(self.spark, context, accepted=ACCEPTED)

    def lying(self) -> int:
        return len(list((self.lake.files("lake") / SLICE).iterdir()))

    def history(self, since: float = 0.0, **more: Any) -> dict[str, Any]:
        return history_of(self.lake.open("lake", **more), since)


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    with lake(tmp_path) as found, quick(spark):
        yield World(spark, found)


@pytest.mark.slow
def test_what_was_deleted_in_all_is_what_the_store_lacks_also_after_marks_were_retired(world: World) -> None:
    stores = {"price": Price(0.02, "EUR")}
    for day in (0, 40, 80):
        world.garbage(day // 40 + 2)
        world.sweep(world.mark(day))
    assert (world.left, world.lying()) == (9, 0)
    world.garbage(1)
    world.mark(81)
    before = world.history(**stores)
    assert [mark["state"] for mark in before["marks"]] == ["complete", "swept", "swept", "swept"]
    assert before["totals"] == {
        "sweeps": 3,
        "deleted": 9,
        "bytes_deleted": 99,
        "kept_as_versions": 0,
        "in_quarantine": 0,
        "recoverable": 0,
        "unknown": 0,
    }
    assert before["garbage"] == {"objects": 1, "bytes": 11}
    assert len(retire(world.lake.open("lake"), 2).retired) == 2
    after = world.history(**stores)
    assert [mark["state"] for mark in after["marks"]] == ["complete", "swept", "retired", "retired"]
    assert (after["totals"], after["garbage"]) == (before["totals"], before["garbage"])
    assert "deleted in all: 9 objects" in history_screen([after])


@pytest.mark.slow
def test_a_history_of_few_retired_marks_begins_with_what_was_read(world: World) -> None:
    for day in (0, 40, 80, 81):
        world.garbage(1)
        world.sweep(world.mark(day))
    retire(world.lake.open("lake"), 2)
    whole, short = world.history(), history_of(world.lake.open("lake"), most_retired=1)
    assert [mark["mark_id"] for mark in whole["marks"]] == ["m81", "m80", "m40", "m00"] and whole["since"] is None
    assert [mark["mark_id"] for mark in short["marks"]] == ["m81", "m80", "m40"]
    assert short["since"] == short["marks"][-1]["started_at"]
    assert (whole["totals"]["deleted"], short["totals"]["deleted"]) == (4, 3)


def test_a_history_of_few_retired_marks_begins_with_those_however_old_a_mark_stands(world: World) -> None:
    world.mark(0)
    for retired in (world.mark(1), world.mark(2)):
        retired.mark.store.write(retired.mark.retired_key, encode(record_of("lake", retired.mark)))
        shutil.rmtree(world.lake.files("lake") / retired.mark.folder)
    short = history_of(world.lake.open("lake"), most_retired=1)
    assert [(mark["mark_id"], mark["state"]) for mark in short["marks"]] == [("m02", "retired")]
    assert short["since"] == short["marks"][0]["started_at"]


def test_a_record_of_a_retired_mark_that_somebody_replaced_hides_no_other(world: World) -> None:
    world.mark(0)
    folder = world.lake.files("lake") / world.lake.open("lake").home / "retired"
    folder.mkdir()
    (folder / "m99.json").write_text("[]")
    found = {mark["mark_id"]: mark for mark in world.history()["marks"]}
    assert found["m00"]["state"] == "complete" and "not a JSON object" in found["m99"]["problem"]
    assert "m99" in history_screen([world.history()])


def test_what_the_sweeps_of_a_mark_deleted_counts_although_the_mark_does_not_read_any_more(world: World) -> None:
    world.garbage(2)
    mark = world.mark(0)
    world.sweep(mark)
    before = world.history()
    (world.lake.files("lake") / mark.mark.folder / "namespace_listing/manifest.json").write_text("[]")
    found = world.history()
    assert found["marks"][0]["problem"] and found["totals"] == before["totals"] and before["totals"]["deleted"] == 2
    assert 'lakegc_readable{repository="lake"} 0' in metrics_text([found], clock.now().timestamp())


def test_what_a_sweep_found_gone_is_no_garbage_that_is_left(world: World) -> None:
    world.garbage(3)
    mark = world.mark(0)
    next((world.lake.files("lake") / SLICE).iterdir()).unlink()
    world.sweep(mark)
    found = world.history()
    assert found["marks"][0]["swept"][0]["outcomes"]["already_gone"] == 1
    assert found["garbage"] == {"objects": 0, "bytes": 0}


def test_of_what_is_gone_or_live_no_sizes_are_on_record_so_that_what_is_left_has_so_many_bytes_at_most() -> None:
    outcomes = {"deleted": 2, "already_gone": 1, "rescued": 1, "held": 1, "changed": 1, "lost": 1}
    swept = {"outcomes": outcomes | {"unconfirmed": 3}, "bytes_deleted": 30}
    assert left_of(10, 100, [swept]) == {"objects": 3, "bytes": 70, "at_most": True}
    later = {"outcomes": {"deleted": 3}, "bytes_deleted": 30}
    assert left_of(10, 100, [swept, later]) == {"objects": 0, "bytes": 0}
    assert left_of(10, 100, [later | {"deleted": 2, "bytes_deleted": 20}]) == {"objects": 8, "bytes": 80}  # one is back
    left = {"repository": "lake", "last_mark": None, "marks": [{"mark_id": "m1", "started_at": None, "state": "begun"}]}
    left |= {"garbage": left_of(10, 100, [swept]), "totals": {"sweeps": 0}, "price": None}
    assert "3 objects at most 70 B of garbage left" in history_screen([left])


def test_a_mark_whose_retirement_failed_after_its_record_was_written_counts_once(world: World) -> None:
    mark = world.mark(0)
    mark.mark.store.write(mark.mark.retired_key, encode(record_of("lake", mark.mark)))
    assert [(each["mark_id"], each["state"]) for each in world.history()["marks"]] == [("m00", "complete")]


def test_only_what_was_swept_since_counts_and_a_mark_swept_since_is_shown_however_old(world: World) -> None:
    world.garbage(1)
    old = world.mark(0)
    world.garbage(2)
    world.sweep(world.mark(1))
    os.environ["LAKEGC_NOW"] = str(NOW.timestamp() + DAY * 2)
    world.sweep(old)
    found = world.history(NOW.timestamp() + DAY * 1.5)
    assert [mark["mark_id"] for mark in found["marks"]] == ["m00"]
    assert (found["totals"]["sweeps"], found["totals"]["deleted"]) == (1, 0)
    whole = world.history()
    assert whole["totals"]["deleted"] == 3 and whole["oldest"] is None
    delay = whole["marks"][0]["swept"][0]["delay"]
    assert delay["objects"] == 3 and delay["p50"] < 60, "two were found by the mark that was swept"
    assert DAY <= delay["p99"] < DAY + 60, "the mark of the day before had found one"
    assert "half up to" in history_screen([whole])


def test_the_list_of_marks_counts_what_came_back_as_the_history_does(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.garbage(2)
    mark = world.mark(0)
    world.sweep(mark)
    back = {"mark_id": "m00", "sweep": 1, "objects": 1, "bytes": 11}
    report = {"finished_at": NOW.timestamp(), "outcomes": {"copied": 1}, "taken_back": [back]}
    write_report(mark.mark.store, f"{mark.mark.folder}/{RESTORES}/{NOW.strftime(STAMP)}", report)
    monkeypatch.setattr("lakegc_core.cli.history.opened", lambda *_: world.lake.open("lake"))
    assert main(["marks", "lake", "--json"]) == 0
    found, history = json.loads(capsys.readouterr().out), world.history()["marks"]
    assert found == history and found[0]["deleted"] == 1
    assert marks_lines(history)[0].endswith("1 came back, and are not counted")
    assert main(["marks", "lake"]) == 0
    assert capsys.readouterr().out.splitlines() == marks_lines(history)


def test_a_sweep_that_broke_off_counts_what_its_journal_says(world: World) -> None:
    world.garbage(4)
    context = world.mark(0)
    with pytest.raises(Crash), dying(MIDWAY):
        world.sweep(context)
    found = world.history()
    gone = 4 - world.lying()
    assert found["totals"]["deleted"] <= gone, "what nobody was told of is told when the sweep is finished"
    assert found["marks"][0]["swept"][0]["broke_off"] and "a sweep broke off" in history_screen([found])
    screen = history_screen([found | {"marks": [found["marks"][0] | {"deleted": 0}]}])
    assert " complete " in screen and " swept " not in screen, "nothing was"
    lease_of = partial(Lease, context.workspace, f"{context.home}/{NAME}")
    for verb, said in (
        ("sweep lake m00", f"a sweep is at work: {gethostname()}"),
        ("mark lake m01", "a sweep broke off"),
    ):
        other = lease_of(verb)
        assert other.take() and said in history_screen([world.history()]), verb
        other.give_back()
    world.sweep(context)
    assert (world.history()["totals"]["deleted"], world.lying()) == (4, 0)


def test_an_older_mark_than_one_that_was_swept_is_not_called_sweepable(world: World) -> None:
    world.garbage(2)
    world.mark(0)
    assert "sweepable now" in history_screen([world.history()])
    world.sweep(world.mark(1))
    (older,) = [line for line in marks_lines(world.history()["marks"]) if " complete " in line]
    assert older.endswith("a newer mark was swept")


def test_what_a_guard_refuses_is_told_with_its_reason_and_what_waits_with_its_time(world: World) -> None:
    world.repository.upload("main", "a", b"live")
    world.repository.commit("main", "one")
    world.garbage(3)
    world.mark(0, safety_level="standard")
    found = world.history()
    (mark,) = found["marks"]
    assert [each["name"] for each in mark["refused"]] == ["blast-radius"]
    assert found["refused"] == mark["refused"]
    assert found["oldest"] == {"since": mark["garbage_since"], "address": None, "why": "guard"}
    unjudged = history_of(world.lake.open("lake"), judged=False)
    assert "refused" not in unjudged["marks"][0] and unjudged["garbage"] == found["garbage"]
    assert "of lakeFS's objects" in history_screen([found]) and "refused" in history_screen([found])
    again = [line for line in marks_lines([mark, mark]) if "blast-radius" in line]
    assert "of lakeFS's objects" in again[0] and again[1:] == ["      ✗ blast-radius: as above"]
    for number in range(40):
        world.repository.upload("main", f"p/{number}", b"live" * 100)
    world.repository.commit("main", "two")
    world.mark(3, safety_level="standard")
    found = world.history()
    assert (found["marks"][0]["refused"], found["marks"][0]["expired"]) == ([], 3)
    assert (found["oldest"]["since"], found["oldest"]["why"]) == (mark["garbage_since"], "gap")
    assert "sweepable from 2025-04-03" in history_screen([found])


def test_what_a_soft_delete_still_holds_is_freed_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    swept = {
        "finished_at": "2025-03-30T12:00:00.000Z",
        "recoverable_until": "2025-04-06T12:00:00.000Z",
        "quarantined_until": None,
        "deleted": 1,
        "bytes_deleted": 50,
        "versioned": False,
    }
    sweeps = [swept, swept | {"versioned": True}, swept | {"versioned": None}, swept | {"recoverable_until": None}]
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    found = {}
    for day in (0, 10):
        monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp() + DAY * day))
        found[day] = _totals(sweeps, 0.0)
    held = {name: [found[day][name] for day in found] for name in ("recoverable", "kept_as_versions", "unknown")}
    assert held == {"recoverable": [100, 0], "kept_as_versions": [50, 50], "unknown": [0, 50]}
    assert [freed_bytes(found[day]) for day in found] == [50, 100]
    assert "100 B of it can still be brought back: the store's soft delete" in still_taken(found[0])


@pytest.mark.parametrize(("size", "said"), [(1_000, "less than 0.01 EUR"), (10**12, "about 20.00 EUR")])
def test_money_that_is_saved_is_said_as_everywhere(size: int, said: str) -> None:
    sums = {"kept_as_versions": 0, "recoverable": 0, "in_quarantine": 0, "unknown": 0}
    found = {
        "repository": "lake",
        "last_mark": None,
        "garbage": None,
        "marks": [{"mark_id": "m1", "started_at": None, "state": "begun"}],
        "totals": {"sweeps": 1, "deleted": 1, "bytes_deleted": size} | sums,
        "price": {"per_gb_month": 0.02, "currency": "EUR"},
    }
    assert history_screen([found]).endswith(f" · {said} a month saved")


def test_interrupted_tries_that_follow_each_other_are_one_line() -> None:
    def mark(name: str, state: str) -> dict[str, Any]:
        started = f"2026-11-{name}T02:00:00.000Z"
        figures = {"expired": 5, "expired_bytes": 50, "deleted": 5, "bytes_deleted": 50, "sweeps": 1, "swept": []}
        return {"mark_id": name, "started_at": started, "state": state} | (figures if state == "swept" else {})

    marks = [mark("05", "begun"), mark("04", "after namespace_listing"), mark("03", "swept"), mark("02", "begun")]
    first, whole, last = marks_lines(marks)
    assert "05" in first and first.endswith("not finished: begun, and 1 more")
    assert "03" in whole and "swept" in whole and last.endswith("not finished: begun")


def test_a_problem_that_names_a_path_cannot_change_the_screen() -> None:
    mark = {"mark_id": "m1", "started_at": None, "state": "complete", "problem": "a/\x1b[31m\nlake · never marked"}
    assert marks_lines([mark])[0].endswith(r"complete: a/\x1b[31m\nlake · never marked")


def test_the_command_shows_all_repositories_and_one_that_does_not_read_hides_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    world.garbage(2)
    world.sweep(world.mark(0))
    world.lake.create("empty")
    for name, value in {
        "HOME": str(tmp_path),
        "LAKECTL_SERVER_ENDPOINT_URL": world.lake.server.url,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ACCESS_KEY,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET_KEY,
    }.items():
        monkeypatch.setenv(name, value)

    def opened(settings: Settings, name: str, **more: Any) -> RepositoryContext:
        """Their stores are folders here; that of `far` does not answer."""
        if name == "far":
            raise StoreError("s3://bucket/far: no answer")
        return world.lake.open(name)

    monkeypatch.setattr("lakegc_core.cli.history.open_repository", opened)
    world.lake.sandbox.create_repository("far", "s3://bucket/far")
    assert main(["history", "lake", "--all"]) == 2
    assert main(["history", "far"]) == 1
    capsys.readouterr()
    assert main(["history", "--all"]) == 1
    shown = capsys.readouterr().out
    assert "empty · never marked" in shown and "far · s3://bucket/far: no answer" in shown
    assert "3 repositories · 0 objects" in shown and "deleted in all: 2 objects" in shown
    assert main(["history"]) == 1 and capsys.readouterr().out == shown
    assert main(["history", "lake", "--since", "30d", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["repositories"]
    assert (found["repository"], found["totals"]["deleted"]) == ("lake", 2)
