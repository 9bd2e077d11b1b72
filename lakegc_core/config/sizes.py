"""Amounts of bytes, and times of day, as people write them: `2TB`, `500GiB`, plain bytes; `06:00`."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta

from lakegc_core.errors import SettingsError

SIZE = r"([0-9]{1,18})\s*([kKmMgGtTpP][iI]?[bB]|[bB])?"
TIME = r"([01][0-9]|2[0-3]):([0-5][0-9])"
_POWERS = {letter: power for power, letter in enumerate("BKMGTP")}


def parse_size(value: object) -> int:
    """Read an amount of bytes: `2TB` (10^12 each), `500GiB` (2^30 each), or a plain number of bytes.

    SettingsError if it is none, or less than a byte.
    """
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    found = re.fullmatch(SIZE, text)
    if found is None or not int(found[1]):
        raise SettingsError(f"{value!r} is no amount of bytes above 0; write 2TB, 500GB, 10GiB, or plain bytes")
    unit = (found[2] or "B").upper()
    size: int = int(found[1]) * (1024 if "I" in unit else 1000) ** _POWERS[unit[0]]
    return size


def parse_time_of_day(value: object) -> time:
    """Read a time of day, UTC: `06:00`. SettingsError if it is none."""
    found = re.fullmatch(TIME, value.strip()) if isinstance(value, str) else None
    if found is None:
        raise SettingsError(f'{value!r} is no time of day; write 06:00 (in YAML "06:00", in quotes); it is UTC')
    return time(int(found[1]), int(found[2]))


def next_time(at: time, now: datetime) -> datetime:
    """The next moment after `now`, UTC, at which it is so late."""
    found = now.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    return found if found > now else found + timedelta(days=1)
