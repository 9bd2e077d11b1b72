"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakegc_core.config.durations import duration_with_unit, parse_duration
from lakegc_core.errors import SettingsError


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("25h", 90_000),
        ("10s", 10),
        ("7d", 604_800),
        ("90m", 5_400),
        ("1h30m", 5_400),
        ("1.5h", 5_400),
        ("3600", 3_600),
        (3600, 3_600),
        (0.5, 0.5),
        (0, 0),
        (" 48h ", 172_800),
    ],
)
def test_a_duration_is_a_number_with_a_unit_or_seconds(written: object, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written", ["", "h", "25 h", "25x", "25H", "1h-30m", "٣h", "nan", "inf", True, None, [], float("nan")]
)
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(SettingsError, match="no duration"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["-1h", -5, -0.1])
def test_a_negative_duration_is_refused(written: object) -> None:
    with pytest.raises(SettingsError, match="negative"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["18251d", "999999d", "99999999999d"])
def test_a_duration_that_reaches_back_before_all_stores_is_refused(written: str) -> None:
    """A mark with a minimum age of 999999d broke off after it had begun, and all waiting times began anew."""
    with pytest.raises(SettingsError, match="longer than 50 years"):
        parse_duration(written)
    assert parse_duration("18250d") == timedelta(days=18_250)


@pytest.mark.parametrize("written", ["30", " 3600 ", "0.5"])
def test_a_typed_number_without_a_unit_is_refused_with_what_may_be_meant(written: str) -> None:
    number = written.strip()
    with pytest.raises(SettingsError, match=f"'{number}' has no unit: did you mean {number}d, {number}h"):
        duration_with_unit(written)


@pytest.mark.parametrize(("written", "seconds"), [("0", 0), ("0.0", 0), ("30s", 30), ("30d", 2_592_000)])
def test_a_typed_duration_has_a_unit_unless_it_is_0(written: str, seconds: float) -> None:
    assert duration_with_unit(written) == timedelta(seconds=seconds)
