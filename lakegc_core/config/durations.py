"""Durations as people write them: `25h`, `7d`, `90m`, `10s`, `1h30m`, or plain seconds. Nothing else."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from lakegc_core.errors import SettingsError

_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])", re.ASCII)
_LONGEST = timedelta(days=365 * 50)
"""A longer one reaches back to before there were stores; and 1970 is where their clocks begin."""


def parse_duration(value: object) -> timedelta:
    """Read one duration; a number without a unit is seconds.

    SettingsError if it is no duration, negative, or longer than 50 years.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _refusal(value)
    text = str(value).strip()
    if text.startswith("-"):
        raise SettingsError(f"the duration {text!r} is negative; a duration is 0 or more, such as 25h")
    if not isinstance(value, str):
        seconds = float(value)
    elif _NUMBER.fullmatch(text):
        seconds = float(text)
    else:
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise _refusal(value)
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not math.isfinite(seconds):
        raise _refusal(value)
    if seconds > _LONGEST.total_seconds():
        raise SettingsError(f"the duration {text!r} is longer than 50 years; write something like 25h or 7d")
    return timedelta(seconds=seconds)


def duration_with_unit(text: str) -> timedelta:
    """A duration that a person types. SettingsError for a number without a unit, which seldom means seconds; 0 needs
    none."""
    found, number = parse_duration(text), text.strip()
    if found and _NUMBER.fullmatch(number):
        raise SettingsError(f"{number!r} has no unit: did you mean {number}d, {number}h, {number}m or {number}s?")
    return found


def _refusal(value: object) -> SettingsError:
    return SettingsError(f"{value!r} is no duration; write something like 25h, 7d, 90m or 10s")
