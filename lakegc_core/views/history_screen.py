"""The history of repositories, and their marks, as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from lakegc_core import clock
from lakegc_core.names import COMPLETE, RETIRED, SWEPT, Json, Outcome
from lakegc_core.views.drills import drill_in_words
from lakegc_core.views.history import freed_bytes, summed
from lakegc_core.views.waits import delay_lines, oldest_in_words
from lakegc_core.views.words import (
    ago,
    from_the_minute,
    garbage_bytes,
    human_bytes,
    monthly,
    shown,
    still_taken,
    too_young,
)


def history_screen(found: Sequence[Json]) -> str:
    """All repositories, each with its marks; their totals below, if they are several."""
    lines = [line for each in found for line in (*_repository_lines(each), "")]
    if len(found) > 1:
        lines += _all_lines(found)
    return "\n".join(lines).rstrip()


def marks_lines(marks: Sequence[Json]) -> list[str]:
    """A table of the marks of a repository; several interrupted ones that follow each other are one line."""
    lines: list[str] = []
    waiting: list[Json] = []
    above: Sequence[Json] = ()
    newer_swept = False
    for mark in marks:
        if mark["state"] in (COMPLETE, SWEPT, RETIRED) or "problem" in mark:
            lines += [*_interrupted(waiting), *_mark_lines(mark, above, newer_swept=newer_swept)]
            waiting, above = [], mark.get("refused", ())
            newer_swept |= mark["state"] == SWEPT and _is_swept(mark)
        else:
            waiting.append(mark)
    return [line.rstrip() for line in (*lines, *_interrupted(waiting))]


def other_line(mark: Json) -> str:
    """The line of a mark that another tool left."""
    return f"  {mark['mark_id']:<24} {_minute(mark['written_at']):<16} by {mark['by']}"


def _interrupted(marks: Sequence[Json]) -> list[str]:
    if not marks:
        return []
    last = marks[0]
    more = f", and {len(marks) - 1:,} more" if len(marks) > 1 else ""
    began = _minute(last["started_at"])
    return [f"  {last['mark_id']:<24} {began:<16} not finished: {last['state']}{more}"]


def _mark_lines(mark: Json, above: Sequence[Json], *, newer_swept: bool) -> list[str]:
    """The lines of one mark. `above`: why the mark above it is refused; the same words are not said again.
    `newer_swept`: whether a newer mark was swept, which found what this one did."""
    if "problem" in mark:
        return [f"  {mark['mark_id']:<24} {_minute(mark['started_at']):<16} {mark['state']}: {shown(mark['problem'])}"]
    garbage = _amount(mark["expired"], mark["expired_bytes"]) + " expired"
    deleted = _amount(mark["deleted"], mark["bytes_deleted"]) + " deleted" if mark["sweeps"] else ""
    state = COMPLETE if mark["state"] == SWEPT and not _is_swept(mark) else mark["state"]
    line = f"  {mark['mark_id']:<24} {_minute(mark['started_at']):<16} {state:<9} {garbage:>31} {deleted:>31}"
    return [
        f"{line}  {_remark(mark, newer_swept=newer_swept)}",
        *delay_lines(mark),
        *(
            f"      ✗ {each['name']}: {'as above' if each in above else shown(each['description'])}"
            for each in mark.get("refused", ())
        ),
    ]


def _is_swept(mark: Json) -> bool:
    """True if a sweep of the mark is over, or has deleted anything."""
    return bool(mark["deleted"]) or any(not sweep["broke_off"] and not sweep["at_work"] for sweep in mark["swept"])


def _remark(mark: Json, *, newer_swept: bool) -> str:
    """A remark on a mark, beside its figures."""
    if mark["started_at"] and clock.is_to_come(clock.unix_seconds(mark["started_at"]), clock.now().timestamp()):
        return "by a clock that was wrong or replaced: not the newest"
    if any(sweep["broke_off"] for sweep in mark.get("swept", ())):
        return "a sweep broke off"
    if at_work := [sweep["at_work"] for sweep in mark.get("swept", ()) if sweep["at_work"]]:
        return f"a sweep is at work: {at_work[-1]}"
    if mark.get("refused"):
        return "refused"
    swept = [sweep for sweep in mark["swept"] if not sweep.get("drill")]
    if swept and (over := swept[-1]["outcomes"].get(Outcome.OVER_BUDGET)):
        return f"stopped by its budget or a ring: {over:,} objects left"
    waits = mark.get("unconfirmed", {"objects": 0})["objects"]
    if newer_swept and mark["state"] == COMPLETE and mark["expired"]:
        return "a newer mark was swept"
    if mark["state"] == COMPLETE and mark["expired"]:
        from_now = clock.unix_seconds(mark["sweepable_from"]) > clock.now().timestamp()
        return f"sweepable from {from_the_minute(mark['sweepable_from'])}" if from_now else "sweepable now"
    first = mark.get("first_young")
    if first and clock.unix_seconds(first["deletable_from"]) > clock.now().timestamp():
        return f"nothing yet: {too_young(first)}"
    if back := sum(sweep["came_back"]["objects"] for sweep in swept):
        return f"{back:,} came back, and are not counted"
    return f"{waits:,} were newly unreferenced" if waits and mark["state"] == SWEPT else ""


def _repository_lines(found: Json) -> list[str]:
    name = found["repository"]
    if "problem" in found:
        return [f"{name} · {shown(found['problem'])}"]
    if not found["last_mark"] and not found["marks"]:
        return [f"{name} · never marked"]
    age = f"last mark {ago(found['last_mark'])}" if found["last_mark"] else "no complete mark"
    garbage = found["garbage"]
    left = f" · {_garbage(garbage)} left" if garbage else ""
    return [
        f"{name} · {age}{left}",
        *marks_lines(found["marks"]),
        *(f"  {said}" for said in [oldest_in_words(found.get("oldest")), drill_in_words(found.get("drill"))] if said),
        *_total_lines(found["totals"], found["price"], found.get("came_back")),
    ]


def _all_lines(found: Sequence[Json]) -> list[str]:
    sums = summed(found)
    return [
        f"{len(found):,} repositories · {_garbage(sums['garbage'])} left",
        *_total_lines(sums["totals"], sums["price"]),
    ]


def _total_lines(totals: Json, price: Json | None, back: Json | None = None) -> list[str]:
    if not totals["sweeps"]:
        return []
    said = [f"deleted in all: {_amount(totals['deleted'], totals['bytes_deleted'])}", *still_taken(totals)]
    if back and back["objects"]:
        said.append(f"not counted, because they came back: {_amount(back['objects'], back['bytes'])}")
    saved = freed_bytes(totals)
    if price and saved:
        said.append(f"{monthly(saved, price)} saved")
    return ["  " + " · ".join(said)]


def _amount(objects: int, size: int) -> str:
    return f"{objects:,} objects {human_bytes(size):>9}" if objects else "0 objects"


def _garbage(found: Json) -> str:
    size = f" {garbage_bytes(found):>9}" if found["objects"] else ""
    return f"{found['objects']:,} objects{size} of garbage"


def _minute(moment: str | None) -> str:
    return f"{moment[:10]} {moment[11:16]}" if moment else "?"
