"""The record of a quarantine says until when copies stay."""

from __future__ import annotations

from pathlib import Path

from lakegc_core.marks import quarantine
from tests.support.lake import lake
from tests.support.old_marks import DAY, START
from tests.support.replays import environment


def test_a_later_sweep_of_the_mark_keeps_all_for_longer_by_the_longer_age(tmp_path: Path) -> None:
    with lake(tmp_path) as found:
        found.create("lake", "s3://b/ns")
        context = found.open("lake")
        with environment({"LAKEGC_NOW": str(START)}):
            quarantine.begin(context, "m1", 1, 7 * DAY)
            told = quarantine.end(context, "m1", 1, 1, 3)
        assert told is not None and (told.until, told.amount) == (START + 7 * DAY, {"objects": 1, "bytes": 3})
        with environment({"LAKEGC_NOW": str(START + 5 * DAY)}):
            quarantine.begin(context, "m1", 2, DAY)
            told = quarantine.end(context, "m1", 2, 2, 10)
            assert told is not None and (told.until, told.amount) == (START + 12 * DAY, {"objects": 3, "bytes": 13})
            assert quarantine.end(context, "m1", 3, 1, 1) is None, "a sweep that copied nothing"
