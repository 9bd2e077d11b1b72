"""How long garbage waits for its delete: what sweeps report of it, and what has waited longest and why. In JSON and in
words; nothing here decides anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lakegc_core import clock
from lakegc_core.clock import instant, roughly
from lakegc_core.names import COMPLETE, FAILED, REFUSED, UNSWEPT, Json, Outcome
from lakegc_core.views.words import shown, to_the_minute

GAP, GUARD, BROKE_OFF, AT_WORK, YOUNG = "gap", "guard", "broke_off", "at_work", "young"
"""Reasons why garbage is still there that no sweep reports; `YOUNG` is that of objects that are no garbage yet. The
others are UNSWEPT and outcomes of sweeps."""
_WHY = {
    GAP: "not unreferenced for long enough yet",
    GUARD: "a guard refuses the sweep",
    UNSWEPT: "not swept yet",
    BROKE_OFF: "a sweep broke off",
    AT_WORK: "a sweep is at work",
    YOUNG: "too young",
    Outcome.UNCONFIRMED: "not unreferenced for long enough yet, or lakeFS was not asked about it",
    Outcome.HELD: "a hold keeps it",
    Outcome.OVER_BUDGET: "the budget kept it back",
    Outcome.NOT_IN_BACKUP: "its backup lacks it",
    Outcome.LEFT: "a ring stopped the sweep, or it was closed",
}


def of_sweep(report: Mapping[str, Any]) -> Json:
    """The delay and the oldest object of a sweep, by its report: None for what it does not tell."""
    oldest = report.get("oldest") or None
    return {"delay": report.get("delay") or None, "oldest": oldest and {**oldest, "since": instant(oldest["since"])}}


def oldest_of(mark: Json) -> Json | None:
    """The garbage of a mark, as a history has it, that has waited longest: `since` and `address` (each None if not
    known) and `why` it is still there, an outcome or one of the reasons above. None if nothing waits, or if a sweep of
    an older version does not say."""
    swept = [each for each in mark.get("swept", ()) if not each.get("drill")]
    if swept and swept[-1]["finished_at"]:
        last = swept[-1]["oldest"]
        return last and {"since": last["since"], "address": last.get("address"), "why": last["outcome"]}
    if not mark.get("expired"):
        return {"since": None, "address": None, "why": YOUNG} if mark.get("first_young") else None
    return {"since": mark.get("garbage_since"), "address": None, "why": _why_unswept(mark, swept)}


def _why_unswept(mark: Json, begun: Sequence[Json]) -> str:
    if begun:
        return AT_WORK if begun[-1]["at_work"] else BROKE_OFF
    if mark.get("refused"):
        return GUARD
    ready = mark.get("sweepable_from") if mark["state"] == COMPLETE else None
    is_to_wait = ready and datetime.fromisoformat(ready) > clock.now()
    return GAP if is_to_wait else UNSWEPT


def last_delay(marks: Sequence[Json]) -> Json | None:
    """The delay of the last sweep that deleted anything, of some marks as a history has them; None if none says it."""
    swept = [each for mark in marks for each in mark.get("swept", ()) if each.get("delay")]
    return max(swept, key=lambda each: str(each["finished_at"]))["delay"] if swept else None


# --- as people read it ---


def delay_lines(mark: Json) -> list[str]:
    """A line for each sweep of a mark that deleted anything."""
    return [
        f"      sweep {each['sweep']}: {delay_in_words(each['delay'])}"
        for each in mark.get("swept", ())
        if each.get("delay")
    ]


def delay_in_words(delay: Json) -> str:
    """How long deleted objects had been unreferenced."""
    return f"unreferenced until the delete: half up to {roughly(delay['p50'])}, 99 % up to {roughly(delay['p99'])}"


def oldest_in_words(oldest: Json | None) -> str:
    """What has waited longest, and why; "" if nothing does."""
    if not oldest or oldest["why"] == YOUNG:  # of which the mark's own line says when it may go
        return ""
    since = f"unreferenced since {to_the_minute(oldest['since'])}" if oldest["since"] else "since when is not known"
    named = f" · {shown(oldest['address'])}" if oldest["address"] else ""
    return f"oldest garbage: {since} · {_in_words(oldest['why'])}{named}"


def _in_words(why: str) -> str:
    if why.startswith(FAILED):
        return f"its delete failed ({why.removeprefix(FAILED)})"
    if why.startswith(REFUSED):
        return f"the sweep does not take it ({why.removeprefix(REFUSED)})"
    return _WHY.get(why, why)
