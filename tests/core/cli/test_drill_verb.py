"""What `lakegc drill` refuses before Spark is started, and how it ends."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from lakegc_core.cli import main, opening
from lakegc_core.copies import drill as drilling
from lakegc_core.copies.drill_objects import Wanted
from lakegc_core.errors import RefusedError
from lakegc_core.marks import drills
from lakegc_core.names import Json
from lakegc_core.policy.guards import Verdict
from tests.core.cli.conftest import Desk

GONE: Json = {"address": "data/b", "size": 10, "sha256": "ab", "outcome": "missing", "problem": "failed: AccessDenied"}
REPORT: Json = {
    "repository": "lake",
    "mark_id": "m1",
    "drill": "d1",
    "passed": False,
    "why": "1 of 2 objects did not come back as they were",
    "way": "backup",
    "place": "s3://spare/lake",
    "outcomes": {"back": 1, "stayed": 0, "missing": 1, "different": 0},
    "seconds": 9.0,
    "seconds_of_restore": 2.0,
    "sweep": 1,
    "objects": [{"address": "data/a", "size": 10, "outcome": "back", "problem": None}, GONE],
}


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "spark_of", lambda *_, **__: None)


def test_nothing_begins_where_nothing_brings_it_back_or_nobody_confirms(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = desk.mark("m1", garbage=["data/a"])
    assert main(["drill", "lake", "--yes"]) == 2
    assert "Set `quarantine: 7d` in lakegc.yaml" in capsys.readouterr().err
    (tmp_path / "lakegc.yaml").write_text("repositories: [{match: lake, quarantine: 7d, backup: required}]")
    monkeypatch.setenv("LAKEGC_CONFIG", f"{tmp_path}/lakegc.yaml")
    assert main(["drill", "lake", "--yes"]) == 3
    assert "this mark has none. Make it: lakegc backup lake m1 DEST" in capsys.readouterr().err
    (tmp_path / "lakegc.yaml").write_text("repositories: [{match: lake, quarantine: 7d}]")
    monkeypatch.setattr(drilling, "check_guards", lambda *_: None)  # this mark was written by hand
    assert main(["drill", "lake"]) == 2
    assert "without a terminal it needs --yes" in capsys.readouterr().err
    assert not list(mark.mark.store.list(f"{mark.home}/{drills.FOLDER}/"))


def test_where_a_mark_found_no_garbage_a_drill_says_just_that(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.mark("m1")
    assert main(["drill", "lake", "--yes"]) == 3
    said = capsys.readouterr().err
    assert (
        said.startswith("lakegc: Mark m1 found no garbage: there is nothing to drill with") and "quarantine" not in said
    )


def test_a_drill_that_is_not_over_is_ended_first_and_one_that_failed_says_what_to_run(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = desk.mark("m1", garbage=["data/a"])
    drills.begin(mark, "d1", {"mark_id": "m1", "begun_at": 1.0, "way": "backup"})
    ended: list[str] = []

    def finish(_: object, __: object, made: drills.Drill) -> Json:
        ended.append(made.name)
        return REPORT

    monkeypatch.setattr(drilling, "finish", finish)
    assert main(["drill", "lake", "--yes"]) == 1 and ended == ["d1"]
    shown = capsys.readouterr()
    assert "lake · mark m1 · drill d1 failed, 9 s" in shown.out
    assert "data/b   missing: failed: AccessDenied" in shown.out
    assert "bring back what is gone: lakegc restore lake m1 s3://spare/lake --path 'data/b'." in shown.err
    assert main(["drill", "lake", "--yes", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == REPORT


@pytest.mark.parametrize(("guard", "stops"), [("neighbours", False), ("clocks", True)])
def test_what_a_mark_knew_of_neighbours_stops_no_drill_because_its_sweep_asks_anew(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, guard: str, stops: bool
) -> None:
    context = desk.mark("m1", garbage=["data/a"])
    monkeypatch.setattr(drilling, "judge", lambda *_, **__: [Verdict(guard, False, "ERROR", "as it was")])
    with pytest.raises(RefusedError, match=guard) if stops else nullcontext():
        drilling.check_guards(context, None, Wanted(2, 100))
