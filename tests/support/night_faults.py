"""What goes wrong in the nights of a year, every kind once, in an order in which those that take long begin first.

A fault is real damage to what lies in the store, a collector that dies, or a world that behaves oddly. Each plays the
first night that must go on again as well, where that is not a plain one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.support import night_damage as damage
from tests.support import night_deaths as deaths
from tests.support import night_events as events

if TYPE_CHECKING:
    from tests.support.long_nights import Year

FAULTS: tuple[Callable[[Year], None], ...] = (
    deaths.a_sweep_is_killed_midway_and_left_until_retire_has_named_it,
    events.a_hold_by_path_is_added_and_removed_weeks_later,
    deaths.a_sweep_is_killed_midway_and_resumed,
    damage.the_newest_mark_is_damaged,
    events.what_was_staged_is_committed_in_one_go,
    deaths.a_mark_is_killed_and_abandoned,
    deaths.a_sweep_is_killed_midway_and_its_mark_is_of_another_format_then,
    events.a_hold_by_tag_outlives_its_tag,
    deaths.answers_of_deletes_are_lost_and_the_sweep_is_run_again,
    deaths.a_report_is_torn,
    deaths.a_night_is_skipped,
    events.an_imported_object_dies,
    deaths.a_sweep_is_killed_midway_and_closed_two_nights_later,
    damage.an_old_mark_is_damaged,
    events.much_is_dropped_at_once,
    deaths.a_lease_is_left_behind,
    events.one_path_is_forbidden,
    deaths.a_sweep_is_killed_before_its_plan_is_sealed,
    damage.the_newest_mark_is_of_another_format,
    deaths.a_journal_is_cut_off_and_the_sweep_resumed,
    deaths.the_collectors_clock_is_some_minutes_off,
    deaths.a_mark_is_killed_and_resumed,
    deaths.three_nights_are_skipped,
    deaths.a_look_takes_longer_than_it_counts,
    deaths.a_sweep_is_killed_before_its_report_and_resumed,
    events.lakefs_may_be_asked_little,
    damage.an_old_mark_is_of_another_format,
    deaths.a_sweep_is_killed_midway_and_resumed_after_the_next_one,
    deaths.answers_of_deletes_are_lost_and_the_sweep_is_run_again_a_night_later,
    deaths.a_lease_is_torn,
    deaths.the_collectors_clock_is_too_far_off,
    deaths.a_journal_is_cut_off_and_the_sweep_closed,
    deaths.a_sweep_is_killed_before_its_plan_is_sealed_and_resumed,
)
