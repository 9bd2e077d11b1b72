"""Which marks there are, whatever state they are in, and which of them a sweep without a mark id takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_core import clock
from lakegc_core.marks.artifacts import HOME
from lakegc_core.marks.catalogue import list_marks, newest_mark, newest_to_sweep
from lakegc_core.marks.shelf import retired_marks
from lakegc_core.names import STAGES
from lakegc_core.policy.safety import FULL
from tests.support.lake import NOW, Lake
from tests.support.marks import finish

FIRST = NOW - timedelta(days=20)


@pytest.fixture
def begin(served: Lake, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Begins a mark on a day from FIRST and finishes so many of its stages; its folder."""

    def begun(mark_id: str, day: float = 0, stages: int = len(STAGES), **options: Any) -> Path:
        with monkeypatch.context() as patch:
            patch.setenv("LAKEGC_NOW", str((FIRST + timedelta(days=day)).timestamp()))
            context = served.begin("lake", mark_id, **options)
        for stage in STAGES[:stages]:
            finish(context, stage, expired={"objects": 3, "bytes": 30}) if stage == STAGES[-1] else finish(
                context, stage
            )
        return served.files("lake") / context.mark.folder

    return begun


def test_every_mark_is_listed_with_how_far_it_came_newest_first(served: Lake, begin: Callable[..., Path]) -> None:
    begin("z-begun", 1, stages=0)
    begin("y-broken-off", 2, stages=2)
    begin("x-complete", 3)
    swept = begin("w-swept", 4)
    (swept / "sweeps/1").mkdir(parents=True)
    (swept / "sweeps/1/plan.json").write_text("{}")
    found = list_marks(served.open("lake"))
    assert [(mark["mark_id"], mark["state"], mark.get("expired"), mark.get("sweeps")) for mark in found] == [
        ("w-swept", "swept", 3, 1),
        ("x-complete", "complete", 3, 0),
        ("y-broken-off", f"after {STAGES[1]}", None, None),
        ("z-begun", "begun", None, None),
    ]


def test_a_damaged_mark_is_listed_with_its_problem_and_hides_no_other(served: Lake, begin: Callable[..., Path]) -> None:
    begin("m1")
    (begin("m2", 1) / STAGES[-1] / "manifest.json").write_text("{}")
    (begin("m3", 2) / "mark.json").write_text("no JSON")
    found = {mark["mark_id"]: mark for mark in list_marks(served.open("lake"))}
    assert {name: mark["state"] for name, mark in found.items()} == {"m1": "complete", "m2": "damaged", "m3": "damaged"}
    assert "not a manifest" in found["m2"]["problem"] and "not a JSON object" in found["m3"]["problem"]


def test_lists_of_other_tools_come_last_and_what_only_looks_like_one_does_not_come(
    served: Lake, begin: Callable[..., Path]
) -> None:
    begin("m1")
    gc = served.files("lake") / "_lakefs/retention/gc"
    for path in (
        "unified/spark/deleted/part.parquet",
        "addresses/mark_id=old/part.parquet",
        "addresses/mark_id=old.meta/part.parquet",  # what lakeFS notes beside a list
        "uncommitted/older/deleted/part.parquet",
        "uncommitted/staged-dump/part-0",  # lakeFS's own list of staged addresses
        "reports/alone/deleted.csv",
        "unified/m1/deleted/part.parquet",  # lakegc's own report of m1
        "unified/m0/deleted/part-empty.parquet",  # lakegc's own report of a mark that lies in a workspace
    ):
        (gc / path).parent.mkdir(parents=True, exist_ok=True)
        (gc / path).write_bytes(b"x")
        os.utime(gc / path, (FIRST.timestamp(), FIRST.timestamp()))
    found = list_marks(served.open("lake"))
    others = ["unified:spark", "addresses:old", "uncommitted:older", "reports:alone"]
    assert [mark["mark_id"] for mark in found] == ["m1", *others]
    assert {mark["written_at"] for mark in found[1:]} == {clock.instant(FIRST.timestamp())}


def test_the_newest_whole_mark_is_swept_while_it_is_young_enough(
    served: Lake, begin: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = served.open("lake")
    assert newest_to_sweep(context) is None
    long = {"safety_level": "full", "min_age": timedelta(hours=25)}
    begin("m1", 0, **long)
    begin("broken-off", 1, stages=4, **long)
    monkeypatch.setenv("LAKEGC_NOW", str((FIRST + timedelta(days=1)).timestamp()))
    assert newest_to_sweep(context) == "m1"
    for late, found in ((-1, "m1"), (1, None)):
        at = FIRST.timestamp() + FULL.mark_validity.total_seconds() + late
        monkeypatch.setenv("LAKEGC_NOW", str(at))
        assert newest_to_sweep(context) == found


def test_a_mark_whose_time_is_to_come_is_not_the_newest_until_then(
    served: Lake, begin: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = served.open("lake")
    begin("m1", 0)
    begin("of-the-future", 2)
    for days, found in ((0, "m1"), (1, "m1"), (2, "of-the-future"), (3, "of-the-future")):
        monkeypatch.setenv("LAKEGC_NOW", str((FIRST + timedelta(days=days)).timestamp()))
        newest = newest_mark(context)
        assert newest is not None and newest.mark_id == found


def test_a_mark_of_another_repository_or_namespace_is_not_swept_for_this_one(
    served: Lake, begin: Callable[..., Path]
) -> None:
    begin("m1")
    context = served.open("lake")
    assert newest_to_sweep(context) == "m1"
    elsewhere = replace(context, namespace=replace(context.namespace, uri="s3://bucket/else"))
    assert newest_to_sweep(elsewhere) is None
    assert (served.files("lake") / HOME).exists()


def test_what_lies_beside_the_sweeps_of_a_mark_and_is_none_does_not_make_it_swept(
    served: Lake, begin: Callable[..., Path]
) -> None:
    (begin("m1") / "sweeps/copy of 1").mkdir(parents=True)
    assert [(mark["state"], mark["sweeps"]) for mark in list_marks(served.open("lake"))] == [("complete", 0)]


def test_files_among_the_records_of_retired_marks_that_are_none_are_passed_over(served: Lake) -> None:
    context = served.open("lake")
    folder = served.files("lake") / context.home / "retired"
    folder.mkdir(parents=True)
    for name in ("copy of m1.json", "m1", ".DS_Store", "m1.json"):
        (folder / name).write_text("{}")
    assert retired_marks(context.workspace, context.home) == ["m1"]
