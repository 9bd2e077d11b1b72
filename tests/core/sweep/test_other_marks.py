"""What a sweep asks of the sweeps of other marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.ledger import Records, records_of
from lakegc_core.names import STAGES
from lakegc_core.sweep import other_marks as module
from lakegc_core.sweep.record import SweepRecord
from tests.support.lake import NO_SPARK, lake
from tests.support.marks import finish


def test_what_sweeps_of_other_marks_left_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def records(context: MarkContext, since: float) -> Records:
        asked.append(since)
        return records_of(context, since)

    monkeypatch.setattr(module, "records_of", records)
    with lake(tmp_path) as served:
        served.create("lake")
        context = served.begin("lake", "m1")
        for stage in STAGES:
            finish(context, stage)
        sweep = SweepRecord(NO_SPARK, context, dry_run=False)
        assert sweep.other_marks.deleted() is None and sweep.other_marks.deleted() is None and not sweep.taken_back()
    assert len(asked) == 1
