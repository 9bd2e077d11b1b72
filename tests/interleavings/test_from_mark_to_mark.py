"""What happens from mark to mark: whatever finds an object live starts its clock anew, wherever that was written down.

Level `full`, a day between marks. In each row the object is garbage at first, then live and seen so, then hidden: a
commit that holds it waits for its hooks while the path is overwritten. Only what saw it live can save it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakegc_core.config.budget import BudgetSettings
from lakegc_core.copies.backup import backup, restore
from lakegc_core.judging import since
from lakegc_core.marks import last_known, rescues
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import open_mark
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT
from lakegc_core.marks.previous import LaterMarks
from lakegc_core.names import Stage
from lakegc_core.policy import safety
from lakegc_core.store.base import connect
from lakegc_core.sweep import other_marks
from lakegc_core.sweep.call import SweepCall
from lakegc_core.sweep.look import Look
from lakegc_core.tables.dataset import Dataset
from tests.interleavings.rig import Act, Lake, Mechanism, Row, Story, row, stopped_by

DAY = timedelta(days=1)


def _no_rescues(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rescues, "journal", lambda spark, context: rescues.Rescues())


def _expired_and_kept(mark: MarkArtifacts) -> Dataset:
    names = (Stage.EXPIRED_ADDRESSES, KEPT)
    return sum((mark.dataset(names[0], FINDINGS_SCHEMA, name) for name in names), Dataset(FINDINGS_SCHEMA))


SERIES = Mechanism(
    "a mark that finds it live begins a new series",
    lambda patch: patch.setattr(since, "in_series", _expired_and_kept),
)
JOURNAL = Mechanism("the next mark knows what looks rescued", _no_rescues)
JOURNAL_AT_SWEEP = Mechanism("a sweep knows what other sweeps rescued", _no_rescues)
LATER = Mechanism(
    "a sweep knows what later marks found",
    lambda patch: patch.setattr(since, "later_marks", lambda context: LaterMarks(None, False)),
)
RESUMED = Mechanism(
    "the findings of a mark are as old as its staged dump",
    lambda patch: patch.setattr(
        since, "began_to_read_at", lambda mark: mark.require(Stage.RETENTION_COMMITS).started_at
    ),
)
RESTORED = Mechanism("a restore starts the gap anew", _no_rescues)


def _store_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(other_marks, "gone", lambda *args, ever=False, **more: last_known.gone(*args, **more))
    _no_rescues(patch)  # the gap of what a restore brought back protects it, too


STORE_ASKED = Mechanism("a sweep asks the store for all that other sweeps deleted", _store_not_asked)
GAP = Mechanism(
    "the gap, for what was held", lambda patch: patch.setitem(safety.LEVELS, "full", replace(safety.FULL, gap=0 * DAY))
)
GROUPS = {
    LATER.name: "sweep of the first mark",
    JOURNAL_AT_SWEEP.name: "sweep of the second mark",
    STORE_ASKED.name: "sweep of the second mark",
    RESTORED.name: "sweep of the second mark",
    GAP.name: "sweep of the second mark, too early",
    JOURNAL.name: "third mark",
    SERIES.name: "third mark",
    RESUMED.name: "third mark, resumed",
}


def _hooks(lake: Lake, branch: str) -> tuple[Act, Act]:
    """What hides path `a` of a branch, and what ends that: a commit waits for its hooks, and lands."""
    pending: list[Act] = []
    lake.upload(branch, "b")

    def hide() -> None:
        pending.append(lake.repository.begin_commit(branch, "slow hooks"))
        lake.upload(branch, "a", days=0)

    return hide, lambda: pending[-1]()


def _live_then_hidden(lake: Lake, branch: str, *, live: str, hidden: str, content: bytes = b"") -> Row:
    stage, (hide, land) = lake.dropped("a", content), _hooks(lake, branch)
    return row(f"{branch}@", "a", **{live: lambda: stage(branch), hidden: hide, "end": land})


@stopped_by(LATER)
def test_a_later_mark_found_it_live_and_the_earlier_one_is_swept(lake: Lake) -> Row:
    return _live_then_hidden(lake, "later", live="first_mark_over", hidden="second_mark_over")


@stopped_by(JOURNAL_AT_SWEEP)
def test_the_sweep_of_one_mark_rescued_it_and_another_mark_is_swept(lake: Lake) -> Row:
    return _live_then_hidden(lake, "rescued", live="second_mark_over", hidden="first_sweep_over")


@stopped_by(GAP)
def test_a_hold_is_lifted_and_put_back_within_the_gap(lake: Lake) -> Row:
    commit, hold = lake.expired("legal/a"), "path:legal/**"
    lake.holds.append(hold)
    return row(
        commit,
        "legal/a",
        first_mark_over=lambda: lake.holds.remove(hold),
        second_sweep_over=lambda: lake.holds.append(hold),
    )


@stopped_by(STORE_ASKED)
def test_what_a_mark_names_was_deleted_by_the_sweep_of_another_one_and_restored(lake: Lake) -> Row:
    commit, place = lake.expired("restored/a"), str(lake.folder / "backup")

    def bring_back() -> None:
        lake.wait(minutes=1)
        restore(lake.spark, open_mark(lake.open(), "m1"), place, paths=["restored/*"])

    return row(
        commit,
        "restored/a",
        second_mark_over=lambda: backup(lake.spark, open_mark(lake.open(), "m1"), place),
        first_sweep_over=bring_back,
    )


@stopped_by(RESTORED)
def test_what_went_without_a_record_was_restored_and_another_mark_that_names_it_is_swept(lake: Lake) -> Row:
    address, commit = lake.upload("unrecorded", "unrecorded/a"), lake.commit("unrecorded")
    lake.repository.delete_branch("unrecorded")
    place = str(lake.folder / "backup of unrecorded")

    def go_and_come_back() -> None:
        first = open_mark(lake.open(), "m1")
        backup(lake.spark, first, place)
        connect(first.data).delete_many([address])
        restore(lake.spark, first, place, paths=["unrecorded/*"])

    return row(commit, "unrecorded/a", second_mark_over=go_and_come_back)


@stopped_by(JOURNAL)
def test_a_look_rescued_it_between_two_marks(lake: Lake) -> Row:
    return _live_then_hidden(lake, "looked-at", live="second_mark_over", hidden="first_sweep_over")


@stopped_by(JOURNAL)
def test_the_last_look_of_a_sweep_saw_it_which_the_budget_had_left(lake: Lake) -> Row:
    lake.policy["budget"] = BudgetSettings(most_bytes=40_000)
    found = _live_then_hidden(
        lake, "left", live="first_sweep_deleted", hidden="first_sweep_over", content=bytes(50_000)
    )
    return replace(found, acts={**found.acts, "second_sweep_over": lambda: lake.policy.pop("budget")})


@stopped_by(SERIES)
def test_a_mark_between_two_others_found_it_live(lake: Lake) -> Row:
    return _live_then_hidden(lake, "between", live="first_mark_over", hidden="second_mark_over")


@stopped_by(RESUMED)
def test_a_look_rescued_it_after_the_staged_dump_of_a_mark_that_broke_off_and_was_resumed(lake: Lake) -> Row:
    content, (hide, land) = lake.content(), _hooks(lake, "broke-off")
    address = lake.repository.upload("main", "forgotten later", content, age=timedelta(days=60))
    full = lake.repository.place.qualify(address)
    return row(
        "broke-off@",
        "a",
        first_mark_over=lambda: lake.repository.delete("main", "forgotten later"),
        third_mark_broke_off=lambda: lake.repository.stage(
            "broke-off", "a", full, size=len(content), checksum="0" * 32
        ),
        resumed_mark_waited=hide,
        resumed_mark_swept=land,
    )


# --- the story ---


class FromMarkToMark(Story):
    """Three marks, and a sweep of each. What is off from some moment on is told again from there."""

    groups = GROUPS

    def __init__(self, found: Lake) -> None:
        super().__init__(found)
        found.options["safety_level"] = "full"
        self.garbage = found.forgotten(found.content())
        found.mark("m1")
        self.fire("first_mark_over")
        found.wait(days=1)
        found.mark("m2")
        self.fire("second_mark_over")
        self.before_first_sweep = found.save()
        with _before_the_last_look(lambda: self.fire("first_sweep_deleted")):
            found.sweep("m1")
        self.gone = self.garbage not in found.stored()
        self.fire("first_sweep_over")
        self.before_second_sweep = found.save()
        found.sweep("m2")
        self.fire("second_sweep_over")
        found.wait(hours=20)
        self.before_third_mark = found.save()

    def tell(self, off: frozenset[str]) -> None:
        """Go on from where the mechanism matters."""
        found = self.lake
        if LATER.name in off:
            found.rewind(self.before_first_sweep)
            found.sweep("m1")
        elif off & {JOURNAL_AT_SWEEP.name, STORE_ASKED.name, RESTORED.name, GAP.name}:
            found.rewind(self.before_second_sweep)
            found.sweep("m2")
        elif RESUMED.name not in off:
            found.rewind(self.before_third_mark)
            found.mark("m3")
            found.sweep("m3")
        self.fire("end")
        if not off or RESUMED.name in off:
            self.judge(*(mechanism for _, mechanism in self.setups.values() if mechanism is not RESUMED))
            self._third_mark_resumed()

    def _third_mark_resumed(self) -> None:
        """In a large repository, where the mark does not ask about each object what branches show."""
        found = self.lake
        found.rewind(self.before_third_mark)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(safety.LEVELS, "full", replace(safety.LEVELS["full"], whole_pages=0))
            found.mark("m3", stages=2)
            self.fire("third_mark_broke_off")
            found.sweep("m2")
            found.wait(hours=1)
            found.mark("m3")
            found.wait(hours=24)
            self.fire("resumed_mark_waited")
            found.sweep("m3")
            self.fire("resumed_mark_swept")


@contextmanager
def _before_the_last_look(act: Callable[[], object]) -> Iterator[None]:
    look_again = SweepCall._look_again

    def acted(sweep: Any, attempt: int) -> Look:
        act()
        return look_again(sweep, attempt)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SweepCall, "_look_again", acted)
        yield


def test_garbage_of_two_marks_goes_with_the_first_sweep(story: FromMarkToMark) -> None:
    assert story.gone
