"""A sweep that gets nowhere fails, and does not go on without end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import clock
from lakegc_core.errors import IncompleteError
from lakegc_core.marks.lease import Lease
from lakegc_core.sweep import deletion, spinning, waves
from lakegc_core.sweep.deletion import Piece, Wave
from lakegc_core.sweep.planning import Planner
from tests.support.swept import Swept

if TYPE_CHECKING:
    pass


def test_waves_that_delete_nothing_end_the_sweep_with_an_error(swept: Swept) -> None:
    swept.each_wave(lambda spark, pieces, work, tasks: Wave(list(pieces), 0))
    with pytest.raises(IncompleteError, match=r"5 waves of deletes in a row deleted nothing.* 3 objects are left"):
        swept.sweep()
    assert swept.waves == spinning.MOST
    assert len(swept.left()) == 3


def test_the_next_sweep_goes_on_where_one_that_got_nowhere_stopped(swept: Swept) -> None:
    with swept.patch.context() as patch:
        patch.setattr(waves, "run_wave", lambda spark, pieces, work, tasks: Wave(list(pieces), 0))
        with pytest.raises(IncompleteError, match="lakegc sweep lake m1"):
            swept.sweep()
    assert swept.sweep().outcomes["deleted"] == 3
    assert swept.left() == []


def test_looks_that_lead_to_nothing_end_the_sweep_with_an_error(swept: Swept) -> None:
    swept.patch.setattr(waves.Waves, "_look_is_due", lambda *arguments: True)
    with pytest.raises(IncompleteError, match=r"5 looks in a row led to nothing.* 3 objects are left"):
        swept.sweep()
    assert swept.looks == spinning.MOST
    assert len(swept.left()) == 3


def test_a_wave_that_deletes_something_begins_the_count_anew(swept: Swept) -> None:
    def one_row_every_other_time(spark: Any, pieces: list[Piece], work: Any, tasks: Any) -> Wave:
        if swept.waves % 3:
            return Wave(list(pieces), 0)
        (start, stop), *more = pieces[0].ranges
        first = Piece(pieces[0].source, ((start, start + 1),))
        assert deletion.run_wave(spark, [first], work, tasks) == Wave([], 1)
        left = tuple(each for each in ((start + 1, stop), *more) if each[0] < each[1])
        return Wave([*([Piece(pieces[0].source, left)] if left else []), *pieces[1:]], 1)

    swept.each_wave(one_row_every_other_time)
    assert swept.sweep().outcomes["deleted"] == 3
    assert swept.waves == 9 > spinning.MOST


def test_looks_that_are_too_old_before_the_first_delete_end_the_sweep_the_second_time(swept: Swept) -> None:
    """A plan takes longer than its look counts: it would for ever."""
    write_plan = Planner._write_plan

    def slow(*arguments: Any, **more: Any) -> Any:
        os.environ["LAKEGC_NOW"] = str(clock.now().timestamp() + 61 * 60)
        return write_plan(*arguments, **more)

    with swept.patch.context() as patch:
        patch.setattr(Planner, "_write_plan", slow)
        patch.setattr(Lease, "check", lambda lease: None)  # renewed as the hour passes
        with pytest.raises(IncompleteError, match=r"2 times .* longer than the 60 minutes .* the last time 61\."):
            swept.sweep()
        assert (swept.looks, len(swept.left())) == (2, 3)
    assert swept.sweep().outcomes["deleted"] == 3, "the next one goes on where it stopped"


def test_a_plan_that_comes_late_counts_no_more_once_objects_were_deleted(swept: Swept) -> None:
    found = spinning.Spinning(swept.context)
    for left in (10, 5):
        found.late(3_700.0, left)
        found.wave(left, left - 1)
    found.late(3_700.0, 4)
    found.wave(4, 4)
    with pytest.raises(IncompleteError, match="2 times a look"):
        found.late(3_700.0, 4)
