"""What sweeps leave for marks to read; what is damaged is an error, and no sweep that never was."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakegc_core.errors import MarkError
from lakegc_core.marks import sweeps
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.store.local import LocalConfig, LocalStore


@pytest.fixture
def context(tmp_path: Path) -> Any:
    return SimpleNamespace(
        workspace=LocalConfig(str(tmp_path)), home="home", mark=SimpleNamespace(folder="home/marks/m1")
    )


def test_sweeps_are_numbered_and_dry_runs_and_strange_folders_are_none(store: LocalStore) -> None:
    for name in ("sweeps/10", "sweeps/9", "sweeps/old", "dry-runs/11", "sweeps-12"):
        store.write(f"m1/{name}/plan.json", b"{}")
    assert sweeps.sweeps_of(store, "m1") == [9, 10]
    assert sweeps.sweeps_of(store, "m2") == []


def test_the_sweep_of_a_drill_is_told_by_its_plan_and_nobody_knows_what_a_plan_says_that_does_not_read(
    store: LocalStore,
) -> None:
    for number, plan in enumerate(({}, {"only": "drill:d1"}, {"only": "unified:x"}), 1):
        store.write(f"m1/sweeps/{number}/plan.json", encode(sealed(plan)))
    store.write("m1/sweeps/4/outcomes/part-1.parquet", b"")
    assert sweeps.without_drills(store, "m1") == [1, 3, 4]
    assert sweeps.sweep_of_drill(store, "m1", "drill:d1") == 2
    assert sweeps.sweep_of_drill(store, "m1", "drill:d2") is None
    for damaged in (b"?", encode(sealed({"only": "unified:y"}) | {"only": "unified:z"})):
        store.write("m1/sweeps/4/plan.json", damaged)
        assert sweeps.without_drills(store, "m1") == [1, 3, 4]
        assert sweeps.sweep_of_drill(store, "m1", "drill:d1") == 2
        with pytest.raises(MarkError, match=r"Nobody knows whether the drill deleted anything: m1/sweeps/4/plan\.json"):
            sweeps.sweep_of_drill(store, "m1", "drill:d2")


def test_what_lies_at_the_top_of_a_sweep_tells_how_far_it_came(store: LocalStore) -> None:
    for name in ("plan.json", "outcomes/part-1.parquet", "attempt-1/plan/part-1.parquet"):
        store.write(f"m1/sweeps/1/{name}", b"")
    assert sweeps.files_of(store, "m1", 1) == {"plan.json", "outcomes", "attempt-1"}
    assert sweeps.files_of(store, "m1", 2) == set()


def test_what_rings_took_is_told_of_all_sweeps_and_a_record_that_does_not_read_counts_as_one(store: LocalStore) -> None:
    store.write("m1/sweeps/1/plan.json", b"{}")
    assert sweeps.gone_in_rings(store, "m1") == {}
    stop(store, "m1/sweeps/2")
    assert sweeps.gone_in_rings(store, "m1") == {"main/a": "data/1"}
    assert sweeps.gone_in_rings(store, "m1", since=10.0) == {}
    for damaged in (b"", b"{}", b'{"gone": {}}', b'{"gone": "all"}'):
        store.write("m1/sweeps/1/stopped.json", damaged)
        assert len(sweeps.gone_in_rings(store, "m1")) == 2
        assert len(sweeps.gone_in_rings(store, "m1", since=10.0)) == 1


def stop(store: LocalStore, folder: str) -> None:
    store.write(f"{folder}/stopped.json", encode(sealed({"gone": {"main/a": "data/1"}, "at": 10.0})))


def test_a_ring_that_stopped_a_sweep_concerns_all_marks_until_a_person_accepts_that(
    store: LocalStore, context: Any
) -> None:
    older, own, newer = (f"2026112{day}T000000Z-0000000{day}" for day in range(3))
    context.artifacts = lambda mark_id: SimpleNamespace(folder=f"home/marks/{mark_id}")
    for mark_id in (older, own, newer):
        store.write(f"home/marks/{mark_id}/mark.json", b"{}")

    def stopped(mark_id: str) -> set[str]:
        context.header = SimpleNamespace(mark_id=mark_id)
        return {*sweeps.stopped_by_rings(context)}

    assert stopped(own) == set()
    stop(store, f"home/marks/{older}/sweeps/1")
    assert stopped(own) == {older}
    sweeps.accept_rings(context, "somebody else deleted it")
    assert stopped(own) == stopped(newer) == set()
    assert stopped(older) == {older}, "its own stop needs a person each time"
    stop(store, f"home/marks/{older}/sweeps/2")
    assert stopped(newer) == {older}, "it was stopped again"
    sweeps.accept_rings(context, "that, too")
    assert stopped(own) == set()
    store.write(f"home/marks/{older}/sweeps/2/stopped.json", encode(sealed({"gone": {"main/b": "data/2"}, "at": 11.0})))
    assert stopped(newer) == {older}, "the same sweep was gone on with, and stopped again"
    for damaged in (b"", b"{}", b'{"because": "meant"}'):
        store.write(f"home/marks/{older}/sweeps/2/accepted.json", damaged)
        assert stopped(newer) == {older}


def test_the_first_plan_tells_since_when_a_mark_deletes_unless_one_of_them_does_not_say(store: LocalStore) -> None:
    assert sweeps.first_planned_at(store, "m1") is None
    for number, at in ((1, 20.0), (2, 10.0)):
        store.write(f"m1/sweeps/{number}/plan.json", encode({"planned_at": at}))
    store.write("m1/sweeps/3/attempt-1/plan/part-1.parquet", b"")
    assert sweeps.first_planned_at(store, "m1") == 10.0
    for damaged in (b"{}", b"", b'{"planned_at": "soon"}'):
        store.write("m1/sweeps/1/plan.json", damaged)
        assert sweeps.first_planned_at(store, "m1") is None


def test_only_sweeps_that_are_over_have_a_report_and_a_damaged_one_is_an_error(store: LocalStore, context: Any) -> None:
    folder = context.mark.folder
    for number in (1, 2, 3):
        store.write(f"{folder}/sweeps/{number}/plan.json", b"{}")
    for number in (1, 3):
        store.write(f"{folder}/sweeps/{number}/report.json", encode({"sweep": number}))
    assert sweeps.finished_sweeps(context) == [{"sweep": 1}, {"sweep": 3}]
    assert sweeps.report_of(store, folder, 2) is None
    store.write(f"{folder}/sweeps/3/report.json", b"")
    with pytest.raises(MarkError, match="not a JSON object"):
        sweeps.finished_sweeps(context)


@pytest.mark.parametrize("name", ["0", "01", "-1", "1 ", "²", "١", "copy of 1", "1.5"])
def test_a_folder_beside_the_sweeps_whose_name_is_no_number_of_theirs_is_passed_over(
    store: LocalStore, name: str
) -> None:
    for number in ("1", name):
        store.write(f"m1/sweeps/{number}/plan.json", b"{}")
    assert sweeps.sweeps_of(store, "m1") == [1]


@pytest.mark.parametrize(
    "report",
    [
        b"{}",
        b'{"finished_at": "x"}',
        b'{"outcomes": []}',
        b'{"taken_back": [5]}',
        b'{"finished_at": 1, "delay": {"p50": 1}}',
        b'{"finished_at": 1, "oldest": {"since": "x"}}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_a_report_that_somebody_replaced_says_nothing_and_stops_nothing(store: LocalStore, report: bytes) -> None:
    store.write("m1/sweeps/1/report.json", report)
    assert sweeps.over_at(store, "m1", 1) == math.inf
