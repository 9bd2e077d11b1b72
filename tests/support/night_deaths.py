"""Nights in which a collector dies, and what is done about it: gone on with, closed, or left to time.

Each function plays the nights that it needs.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from lakegc_core.errors import RefusedError
from lakegc_core.marks.lease import NAME, Holder
from lakegc_core.policy.safety import LEASE
from tests.support.night_damage import give_other_format
from tests.support.night_stores import MIDWAY, UNREPORTED, UNSEALED, slow_look
from tests.support.towns import MARGIN, Crash

if TYPE_CHECKING:
    from tests.support.long_nights import Year

LATER = LEASE.total_seconds() + 60
TRIES = 4  # nights in which something must happen


def _killed_mark(year: Year) -> str:
    """A night whose mark was killed."""
    for most in (45, 25, 15, 8):
        year.evening()
        mark_id = year.tonight()
        try:
            year.mark(mark_id, crash=year.chance.randrange(most // 2, most))
        except Crash:
            year.books.judge_ages()
            year.morning()
            return mark_id
        year.sweep(mark_id)
        year.morning()
    raise AssertionError("no mark could be killed")


def a_mark_is_killed_and_resumed(year: Year) -> None:
    mark_id = _killed_mark(year)
    year.evening()
    year.mark(mark_id)
    year.sweep(mark_id)
    year.morning()


def a_mark_is_killed_and_abandoned(year: Year) -> None:
    _killed_mark(year)
    year.plain()


def _killed_sweep(year: Year, place: str, *, cut_off: bool = False) -> str:
    """The mark of a night whose sweep was killed. `cut_off`: its journal lacks what it deleted last."""
    for _ in range(TRIES):
        year.evening()
        year.litter(6)
        mark_id = year.mark()
        try:
            year.sweep(mark_id, dies=place)
        except Crash:
            if cut_off:
                before = year.town.counts["journals cut off"]
                year.town.forget_last_outcomes(mark_id)
                assert year.town.counts["journals cut off"] > before
            year.books.judge_ages()
            return mark_id
        year.morning()
    raise AssertionError(f"no sweep could be killed {place}")


def _next_night(year: Year, mark_id: str, *, first: bool) -> None:
    """The night after a sweep broke off: it is gone on with before or after tonight's."""
    year.morning()
    year.evening()
    tonight = year.mark()
    if not first:
        year.sweep(tonight)
    year.finish(mark_id)
    if first:
        year.sweep(tonight)
    year.morning()


def a_sweep_is_killed_before_its_plan_is_sealed(year: Year) -> None:
    mark_id = _killed_sweep(year, UNSEALED)
    year.open.discard(mark_id)  # it deleted nothing, and nothing is to be finished
    year.morning()
    year.plain()


def a_sweep_is_killed_before_its_plan_is_sealed_and_resumed(year: Year) -> None:
    _next_night(year, _killed_sweep(year, UNSEALED), first=True)


def a_sweep_is_killed_midway_and_resumed(year: Year) -> None:
    _next_night(year, _killed_sweep(year, MIDWAY), first=True)


def a_sweep_is_killed_midway_and_resumed_after_the_next_one(year: Year) -> None:
    _next_night(year, _killed_sweep(year, MIDWAY), first=False)


def a_sweep_is_killed_before_its_report_and_resumed(year: Year) -> None:
    _next_night(year, _killed_sweep(year, UNREPORTED), first=True)


def a_sweep_is_killed_midway_and_closed_two_nights_later(year: Year) -> None:
    mark_id = _killed_sweep(year, MIDWAY)
    year.morning()
    year.plain()
    year.plain()
    year.close(mark_id)


def a_sweep_is_killed_midway_and_left_until_retire_has_named_it(year: Year) -> None:
    mark_id = _killed_sweep(year, MIDWAY)
    year.morning()

    def close() -> None:
        assert "broke off" in year.retire().kept[mark_id]
        year.close(mark_id)

    year.later(9, close)


def a_sweep_is_killed_midway_and_its_mark_is_of_another_format_then(year: Year) -> None:
    mark_id = _killed_sweep(year, MIDWAY)
    give_other_format(year, mark_id)
    year.open.discard(mark_id)  # nobody can go on with it
    year.morning()

    def look() -> None:
        assert mark_id not in year.retire().kept, "a mark that cannot be read goes, with the account of its journal"

    year.later(11, look)


def a_journal_is_cut_off_and_the_sweep_resumed(year: Year) -> None:
    _next_night(year, _killed_sweep(year, MIDWAY, cut_off=True), first=True)


def a_journal_is_cut_off_and_the_sweep_closed(year: Year) -> None:
    mark_id = _killed_sweep(year, MIDWAY, cut_off=True)
    year.morning()
    year.plain()
    year.close(mark_id)


def _silent_sweep(year: Year) -> str:
    """The mark of a night of whose deletes some had no answer."""
    for _ in range(TRIES):
        year.evening()
        year.litter(6)
        mark_id = year.mark()
        result = year.sweep(mark_id, silent=True)
        if result is not None and result.failed:
            assert "Run the same sweep again" in result.trouble
            return mark_id
        year.morning()
    raise AssertionError("no answer was lost")


def answers_of_deletes_are_lost_and_the_sweep_is_run_again(year: Year) -> None:
    year.finish(_silent_sweep(year))
    year.morning()


def answers_of_deletes_are_lost_and_the_sweep_is_run_again_a_night_later(year: Year) -> None:
    mark_id = _silent_sweep(year)
    year.open.add(mark_id)
    _next_night(year, mark_id, first=False)


def a_report_is_torn(year: Year) -> None:
    """Half of it is in the store. A person removes it and closes the sweep, as `retire` says."""
    result = None
    while result is None or result.report is None:
        year.evening()
        mark_id = year.mark()
        result = year.sweep(mark_id)
        year.morning()
    file = year.town.home / f"marks/{mark_id}/sweeps/{result.sweep}/report.json"
    file.write_bytes(file.read_bytes()[:200])
    year.town.date_artifacts()
    year.open.add(mark_id)

    def close() -> None:
        kept = year.retire().kept[mark_id]
        assert "--close" in kept, kept
        file.unlink()
        year.close(mark_id)

    year.later(3, close)
    year.plain()


def _lease(year: Year, data: bytes) -> None:
    (year.town.home / NAME).write_bytes(data)
    year.town.date_artifacts()


def _waited_out(year: Year) -> None:
    """A night that begins while somebody else seems to be at work."""
    mark_id = year.tonight()
    with pytest.raises(RefusedError, match="whose lease runs until"):
        year.mark(mark_id)
    year.town.pass_time(LATER)
    year.mark(mark_id)
    year.sweep(mark_id)
    year.morning()


def a_lease_is_left_behind(year: Year) -> None:
    year.evening()
    year.until_mark()
    now = year.town.clock()
    holder = Holder("x", "sweep", "another machine", "", "", 7, "1", now - 60, now + LEASE.total_seconds() - 60)
    _lease(year, json.dumps(asdict(holder)).encode())
    _waited_out(year)


def a_lease_is_torn(year: Year) -> None:
    year.evening()
    year.until_mark()
    _lease(year, b'{"owner": "')
    _waited_out(year)


def a_night_is_skipped(year: Year) -> None:
    year.skip()
    year.plain()


def three_nights_are_skipped(year: Year) -> None:
    for _ in range(3):
        year.skip()
    year.plain()


def the_collectors_clock_is_some_minutes_off(year: Year) -> None:
    for year.skew in (7 * 60.0, -7 * 60.0):
        year.plain()
    year.skew = 0.0


def the_collectors_clock_is_too_far_off(year: Year) -> None:
    year.evening()
    mark_id = year.mark()
    year.skew = 15 * 60.0
    year.sweep(mark_id, expected="clocks")
    year.skew = 0.0
    year.morning()
    year.plain()


def a_look_takes_longer_than_it_counts(year: Year) -> None:
    year.evening()
    mark_id = year.mark()
    year.until_sweep()
    with slow_look(year.town.clock, MARGIN + 60):
        year.sweep(mark_id)
    year.morning()
