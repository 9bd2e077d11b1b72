"""The collector's clock. One place, so that a test can replace it for the collector and the store alike.

`LAKEGC_NOW` (unix seconds) stands in for the present; it is refused unless `LAKEGC_UNSAFE=yes`, because a wrong
clock makes young objects look old.
"""

from __future__ import annotations

import math
import os
import time
from datetime import UTC, datetime, timedelta

from lakegc_core.errors import SettingsError

APART = 3600.0
"""Seconds by which the clocks of two collectors may differ where one has to know what the other did."""

_DAY = 86_400.0
_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.0


def unsafe_allowed() -> bool:
    """True when the operator has said that this is a test or a throw-away repository."""
    return os.environ.get("LAKEGC_UNSAFE") == "yes"


def now() -> datetime:
    """The present, UTC, with microseconds."""
    fixed = os.environ.get("LAKEGC_NOW")
    if not fixed:
        return datetime.now(UTC)
    if not unsafe_allowed():
        raise SettingsError("LAKEGC_NOW replaces the clock; it needs LAKEGC_UNSAFE=yes. Unset it for real work.")
    try:
        return datetime.fromtimestamp(float(fixed), UTC)
    except (ValueError, OverflowError, OSError):
        raise SettingsError(f"LAKEGC_NOW must be unix seconds, not {fixed!r}.") from None


def is_replaced() -> bool:
    """True if another time stands in for the present, so that no clock of a server can agree with it."""
    return bool(os.environ.get("LAKEGC_NOW"))


def is_to_come(at: float, now: float) -> bool:
    """True of a time, unix seconds, that no clock that is right can have shown by `now`: it was wrong, or replaced."""
    return at > now + APART


def instant(seconds: float) -> str:
    """Unix seconds as an ISO 8601 instant, UTC, as reports and lists show every time. Clients may give any date to a
    commit: what is later than the year 9999 is shown as its end, what is earlier than the year 1 as its beginning."""
    seconds = min(max(seconds, _FIRST), _LAST)
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def minute(seconds: float) -> str:
    """Unix seconds as people read them, UTC, to the minute: `2026-11-23 16:30 UTC`."""
    at = instant(seconds)
    return f"{at[:10]} {at[11:16]} UTC"


def from_minute(seconds: float) -> str:
    """The first whole minute that is not before a moment: from when something may be done, as people read it."""
    return minute(math.ceil(seconds / 60) * 60)


def unix_seconds(of: str) -> float:
    """An `instant` as unix seconds. ValueError if it is none: a time without a zone is no moment."""
    found = datetime.fromisoformat(of)
    if found.tzinfo is None:
        raise ValueError(f"{of} has no zone")
    return found.timestamp()


def duration(of: timedelta) -> str:
    """A duration as options and lakegc.yaml take it: `45s`, `5m`, `1h30m`, `48h`, `7d`. Whole days from three on."""
    seconds = of.total_seconds()
    if seconds >= 3 * _DAY and seconds % _DAY == 0:
        return f"{seconds / _DAY:.0f}d"
    hours, rest = divmod(seconds, 3600.0)
    minutes, rest = divmod(rest, 60.0)
    parts = [(hours, "h"), (minutes, "m"), (rest, "s")]
    return "".join(f"{number:.6f}".rstrip("0").rstrip(".") + unit for number, unit in parts if number) or "0s"


def roughly(seconds: float) -> str:
    """Seconds that passed, as people read them: `15 s`, from two minutes on `5m` or `3h12m`, then `9.3 days`."""
    if seconds >= 2 * _DAY:
        return f"{seconds / _DAY:.1f} days"
    return f"{seconds:.0f} s" if seconds < 120 else duration(timedelta(minutes=round(seconds / 60)))


def uptime() -> float:
    """Seconds on a clock of this machine that nobody sets. It counts while the machine sleeps, where there is such a
    clock."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def ambient() -> dict[str, str]:
    """The variables that stand in for the clock in this process, to be carried to executors."""
    return {name: os.environ[name] for name in ("LAKEGC_NOW", "LAKEGC_UNSAFE") if name in os.environ}


def adopt(ambient: dict[str, str]) -> None:
    """Take over another process's clock: an executor judges by the driver's."""
    for name in ("LAKEGC_NOW", "LAKEGC_UNSAFE"):
        if name in ambient:
            os.environ[name] = ambient[name]
        else:
            os.environ.pop(name, None)
