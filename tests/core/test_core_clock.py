"""How the clock writes durations and moments."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakegc_core.clock import duration, from_minute, roughly
from lakegc_core.config.durations import parse_duration

HOUR = 3600


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0s"),
        (0.5, "0.5s"),
        (45, "45s"),
        (300, "5m"),
        (90, "1m30s"),
        (HOUR, "1h"),
        (1.5 * HOUR, "1h30m"),
        (24 * HOUR, "24h"),
        (25 * HOUR, "25h"),
        (48 * HOUR, "48h"),
        (72 * HOUR, "3d"),
        (49 * HOUR, "49h"),
        (7 * 24 * HOUR, "7d"),
        (25 * HOUR + 61.25, "25h1m1.25s"),
    ],
)
def test_a_duration_is_written_as_options_take_it(seconds: float, written: str) -> None:
    assert duration(timedelta(seconds=seconds)) == written
    assert parse_duration(written).total_seconds() == seconds


@pytest.mark.parametrize(
    ("seconds", "read"),
    [
        (0.2, "0 s"),
        (15.4, "15 s"),
        (119, "119 s"),
        (120, "2m"),
        (299, "5m"),
        (3 * HOUR + 725, "3h12m"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2.0 days"),
        (9.3 * 24 * HOUR, "9.3 days"),
    ],
)
def test_what_passed_is_told_as_finely_as_people_need_it(seconds: float, read: str) -> None:
    assert roughly(seconds) == read


@pytest.mark.parametrize(("seconds", "told"), [(0.0, "00:00"), (0.5, "00:01"), (60.0, "00:01"), (60.001, "00:02")])
def test_from_when_something_may_be_done_is_the_first_whole_minute_that_is_not_before(
    seconds: float, told: str
) -> None:
    assert from_minute(seconds) == f"1970-01-01 {told} UTC"
