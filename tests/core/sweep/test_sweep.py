"""A sweep deletes nothing before it may, and a second one nothing again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lakegc_core.errors import MarkError, RefusedError
from lakegc_core.names import STAGES
from lakegc_core.stages import swept_report
from lakegc_core.sweep import sweep
from lakegc_core.sweep.sweep import close_sweep
from tests.support.lake import NO_SPARK, lake
from tests.support.marks import finish
from tests.support.night_stores import MIDWAY, dying
from tests.support.swept import ACCEPTED, GARBAGE, Swept
from tests.support.towns import Crash

if TYPE_CHECKING:
    pass


def folders(swept: Swept) -> set[str]:
    """What lies in the mark's folder beside its stages."""
    mark = swept.lake.files("lake") / swept.context.mark.folder
    return {path.name for path in mark.iterdir() if path.is_dir()} - set(STAGES) - {"deleted.text"}


def test_a_mark_whose_stages_are_not_all_finished_is_not_swept(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        context = served.begin("lake", "m1")
        for each in STAGES[:-1]:
            finish(context, each)
        with pytest.raises(MarkError, match="expired_addresses of mark m1 is not finished"):
            swept_report(NO_SPARK, context)


def test_what_a_guard_refuses_is_not_deleted_and_leaves_no_plan(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = SimpleNamespace(stops=True, name="blast-radius", description="too much")
    monkeypatch.setattr(sweep, "judge", lambda *_, **__: [refusing])
    with pytest.raises(RefusedError, match=r"Nothing was deleted\.\n  blast-radius: too much"):
        swept.sweep()
    assert swept.left() == GARBAGE and folders(swept) == set() and swept.looks == 0


def test_a_dry_run_deletes_nothing_and_is_no_sweep(swept: Swept) -> None:
    found = swept_report(swept.spark, swept.context, accepted=ACCEPTED, dry_run=True)
    assert (found.planned, found.dry_run, found.bytes_deleted) == (3, True, 0)
    assert found.planned_bytes == sum((swept.lake.files("lake") / name).stat().st_size for name in GARBAGE) > 0
    assert swept.left() == GARBAGE and folders(swept) == {"dry-runs"} and found.refused_by == {}


def test_a_dry_run_goes_past_guards_that_can_be_accepted_and_names_them_and_past_no_other(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft = SimpleNamespace(stops=True, name="blast-radius", description="too much")
    monkeypatch.setattr(sweep, "judge", lambda *_, **__: [soft])
    found = swept_report(swept.spark, swept.context, dry_run=True)
    assert found.planned == 3 and found.refused_by == {"blast-radius": "too much"}
    assert found.refusal.startswith("A sweep of mark m1 of lake is refused until")
    assert found.refusal.endswith("\n  blast-radius: too much")
    hard = SimpleNamespace(stops=True, name="completeness", description="too little")
    monkeypatch.setattr(sweep, "judge", lambda *_, **__: [soft, hard])
    with pytest.raises(RefusedError, match="completeness: too little"):
        swept_report(swept.spark, swept.context, dry_run=True)
    assert swept.left() == GARBAGE


def test_a_sweep_whose_repository_was_created_anew_is_closed_without_a_look(swept: Swept) -> None:
    with pytest.raises(Crash), dying(MIDWAY):
        swept.sweep()
    swept.lake.sandbox.repository("lake").creation_date += 1_000
    said: list[str] = []
    found = close_sweep(swept.spark, replace(swept.context, say=said.append))
    assert (found.outcomes["deleted"], found.outcomes["left"]) == (2, 1)
    assert any(
        "the last look failed, so that live objects may be unknown. Repository lake is not the one" in each
        for each in said
    )
