"""The findings of marks and the deletes of sweeps over time: a picture, and its figures. Made of a history."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lakegc_core.clock import roughly
from lakegc_core.names import Json, counted
from lakegc_core.views.history import is_complete
from lakegc_core.views.page.parts import folded, table
from lakegc_core.views.page.pictures import DELAY, trend
from lakegc_core.views.waits import oldest_in_words
from lakegc_core.views.words import day_and_time, human_bytes


def over_time(history: Json) -> str:
    """The trend of a repository as HTML. `history`: as `history_of` has it."""
    found, deleted = found_and_deleted(history)
    if len(found) + len(deleted) < 2:
        return '<p class="small">There is too little for a picture yet: it begins with the second complete mark.</p>'
    rows = [
        (day_and_time(each["at"]), f"<code>{escape(each['mark_id'])}</code>", what, f"{each['objects']:,}",
         human_bytes(each["bytes"]), *_delays(each))
        for each, what in sorted(
            [*((each, "found") for each in found), *((each, "deleted") for each in deleted)],
            key=lambda row: str(row[0]["at"]),
            reverse=True,
        )
    ]  # fmt: skip
    titles = ("when", "mark", "", "objects", "bytes", "half within", "99 % within")
    figures = folded("The figures of this picture", table(titles, rows, (3, 4, 5, 6)))
    oldest = escape(oldest_in_words(history.get("oldest")))
    waits = f"<p>{oldest[:1].upper()}{oldest[1:]}</p>" if oldest else ""
    return trend(found, deleted, "Garbage over time") + figures + _delay_over_time(deleted) + waits


def _delay_over_time(deleted: Sequence[Json]) -> str:
    """A picture of how long what each sweep deleted had been unreferenced; "" if fewer than two sweeps say it."""
    half, most = (
        [
            each | {"objects": each["delay"]["objects"], "seconds": each["delay"][name]}
            for each in deleted
            if each["delay"]
        ]
        for name in ("p50", "p99")
    )
    return trend(half, most, "From unreferenced to deleted", DELAY) if len(half) > 1 else ""


def _delays(point: Json) -> tuple[str, str]:
    delay = point["delay"]
    return (roughly(delay["p50"]), roughly(delay["p99"])) if delay else ("", "")


def found_and_deleted(history: Json) -> tuple[list[Json], list[Json]]:
    """The findings of each complete mark, and the deletes of each sweep ({at, mark_id, objects, bytes, delay}), oldest
    first. `delay`: of a sweep, as its report has it, or None.

    A sweep that broke off says no time: it stands where its mark began. Sweeps before `since` are left out.
    """
    marks = [mark for mark in reversed(history["marks"]) if mark["started_at"]]
    found = [
        _point(mark["started_at"], mark, mark["expired"], mark["expired_bytes"]) for mark in marks if is_complete(mark)
    ]
    deleted = [
        _point(sweep["finished_at"] or mark["started_at"], mark, sweep["deleted"], sweep["bytes_deleted"])
        | {"delay": sweep.get("delay")}
        for mark in marks
        for sweep in mark.get("swept", ())
        if sweep["deleted"] and not (sweep["finished_at"] and sweep["finished_at"] < (history["since"] or ""))
    ]
    return found, sorted(deleted, key=lambda each: str(each["at"]))


def unread(history: Json) -> str:
    """A sentence on marks that are not in the figures, in plain text; "" if all are."""
    problems = [mark["problem"] for mark in history["marks"] if "problem" in mark]
    if not problems:
        return ""
    do = "does" if len(problems) == 1 else "do"
    return f"{counted(len(problems), 'mark')} {do} not read, so that the figures can leave something out: {problems[0]}"


def _point(at: str, mark: Json, objects: int, size: int) -> Json:
    return {"at": at, "mark_id": mark["mark_id"], "objects": objects, "bytes": size, "delay": None}
