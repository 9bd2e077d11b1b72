"""Waits between attempts double, end at the longest, and differ from one another."""

from __future__ import annotations

from lakegc_core.backoff import Backoff


def test_a_wait_is_half_to_all_of_what_doubles_up_to_the_longest() -> None:
    backoff = Backoff(first=0.5, longest=15.0)
    for attempt, most in enumerate((0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0), start=1):
        waits = [backoff.wait(attempt) for _ in range(100)]
        assert most / 2 <= min(waits) < max(waits) <= most
