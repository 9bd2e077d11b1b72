"""Amounts of bytes and times of day, as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest

from lakegc_core.config.sizes import next_time, parse_size, parse_time_of_day
from lakegc_core.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "size"), [("2TB", 2 * 10**12), (" 10 gib ", 10 * 2**30), ("5kB", 5_000), (7, 7), ("7", 7), ("1B", 1)]
)
def test_an_amount_of_bytes_is_read_in_powers_of_ten_or_two(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["0", "0TB", "-1GB", "1.5TB", "2T", "lots", "", 0, -1, True, 1.0, None])
def test_what_is_no_amount_of_bytes_is_an_error(text: object) -> None:
    with pytest.raises(SettingsError, match="no amount of bytes"):
        parse_size(text)


def test_a_time_of_day_has_two_digits_each_and_is_no_number() -> None:
    assert parse_time_of_day("06:00") == time(6) and parse_time_of_day("23:59") == time(23, 59)
    for text in ("24:00", "6:00", "06:60", "06:00:00", "6", 1320, None):
        with pytest.raises(SettingsError, match="in quotes"):
            parse_time_of_day(text)


def test_the_next_time_is_after_now() -> None:
    now = datetime(2026, 11, 26, 6, 0, tzinfo=UTC)
    assert next_time(time(6, 1), now) == datetime(2026, 11, 26, 6, 1, tzinfo=UTC)
    assert next_time(time(6, 0), now) == datetime(2026, 11, 27, 6, 0, tzinfo=UTC)
