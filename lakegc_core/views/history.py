"""The history of a repository's marks: what each found, what its sweeps deleted, what is refused, what waits.

Made of what stands and of the records of what was retired. No listing, no Spark: a few small files a mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from lakegc_core import clock
from lakegc_core.clock import instant
from lakegc_core.errors import LakegcError, ObjectNotFoundError, StoreError
from lakegc_core.marks.catalogue import own_marks
from lakegc_core.marks.context import RepositoryContext, open_mark
from lakegc_core.marks.lease import living_holder
from lakegc_core.marks.quarantine import quarantined
from lakegc_core.marks.retired_records import freed_by, restores_in
from lakegc_core.marks.shelf import Shelf, retired_marks
from lakegc_core.marks.sweeps import is_drill, journalled, report_of, sweeps_of
from lakegc_core.names import COMPLETE, RETIRED, SWEPT, Json, Outcome, Stage
from lakegc_core.policy.facts import ExpiredFacts
from lakegc_core.store.base import connect
from lakegc_core.sweep.authorize import judge, ready_at
from lakegc_core.sweep.record import FINAL
from lakegc_core.sweep.result import in_quarantine, not_freed
from lakegc_core.views.drills import drill_json
from lakegc_core.views.report import first_young_json, price_json
from lakegc_core.views.waits import of_sweep, oldest_of

_SIDE_BY_SIDE = 16  # small files that are asked for at a time
_NONE = {"objects": 0, "bytes": 0}
_NOT_FREED = ("kept_as_versions", "recoverable", "in_quarantine", "unknown")
_NO_SWEEPS = dict.fromkeys(("sweeps", "deleted", "bytes_deleted", *_NOT_FREED), 0)


def history_of(
    context: RepositoryContext,
    since: float = 0.0,
    *,
    judged: bool = True,
    most_retired: int | None = None,
    strict: bool = False,
) -> Json:
    """The contract of `lakegc history --json`, of one repository: marks that began since a moment (unix seconds), or
    that were swept since, newest first; and totals of what was deleted since. Without `judged`, no guard is asked, and
    nothing says what is refused or what waits: that takes many more requests where many marks stand. `most_retired`:
    records to read of retired marks, the newest; if there are more, the history begins with what was read. `strict`: an
    error of the store about a mark that stands is raised, because it may pass; else it is a problem of that mark."""
    own = own_marks(context)
    ids = _retired_besides(context, own)
    found = _counted(context, own, ids[:most_retired], judged=judged, strict=strict)
    if len(ids) > len(ids[:most_retired]):
        read = found[len(own) :]  # a mark that stands may be older than retired ones that nobody read
        began = (clock.unix_seconds(mark["started_at"]) for mark in read if mark["started_at"])
        since = max(since, min(began, default=since))
    found.sort(key=lambda mark: (mark["started_at"] or "", mark["mark_id"]), reverse=True)
    shown = [mark for mark in found if _touched(mark, since)]
    whole = whole_marks(found, clock.now().timestamp())
    swept = [sweep for mark in shown for sweep in mark.get("swept", ())]
    return {
        "repository": context.repository.id,
        "since": instant(since) if since else None,
        "marks": shown,
        "last_mark": whole[0]["started_at"] if whole else None,
        "garbage": _left_of_mark(whole[0]) if whole else None,
        "oldest": oldest_of(whole[0]) if whole else None,
        "refused": whole[0].get("refused", []) if whole else [],
        "drill": drill_json(context),
        "came_back": {name: sum(each["came_back"][name] for each in swept if not each.get("drill")) for name in _NONE},
        "totals": _totals(swept, since),
        "price": price_json(context.settings.price),
    }


def standing_marks(context: RepositoryContext, own: Sequence[Json]) -> list[Json]:
    """Marks as `own_marks` has them, with what `history_of` says of each: of the deleted objects, those that came back
    are not counted."""
    return _counted(context, own, _retired_besides(context, own))[: len(own)]


def _retired_besides(context: RepositoryContext, own: Sequence[Json]) -> list[str]:
    """The ids of retired marks, newest first, without those whose retirement has begun and failed: they are `own`."""
    here = {mark["mark_id"] for mark in own}
    return [each for each in retired_marks(context.workspace, context.home) if each not in here]


def _counted(
    context: RepositoryContext,
    own: Sequence[Json],
    retired: Sequence[str],
    *,
    judged: bool = True,
    strict: bool = False,
) -> list[Json]:
    """The marks that stand, then the retired ones, with their sweeps, less what came back."""
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        found = list(pool.map(lambda mark: _standing(context, mark, judged=judged, strict=strict), own))
        found += [each for each in pool.map(partial(_retired, context), retired) if each is not None]
    _take_back(context, found)
    _tell_who_sweeps(context, found)
    return found


def _tell_who_sweeps(context: RepositoryContext, found: Sequence[Json]) -> None:
    """Name who is at work on sweeps without a report, where the lease tells of a living collector."""
    begun = [(mark["mark_id"], sweep) for mark in found for sweep in mark.get("swept", ()) if sweep["broke_off"]]
    holder = None
    with suppress(LakegcError):
        holder = living_holder(context.workspace, context.home) if begun else None
    for mark_id, sweep in begun:
        if holder and holder.verb in (f"{verb} {context.repository.id} {mark_id}" for verb in ("sweep", "drill")):
            sweep |= {"broke_off": False, "at_work": f"{holder.host}, process {holder.process}"}


def _retired(context: RepositoryContext, mark_id: str) -> Json | None:
    """A retired mark, by its record; None if that is gone by now. One that was altered hides no other."""
    try:
        record = context.artifacts(mark_id).retired()
    except LakegcError as error:
        return {"mark_id": mark_id, "by": "lakegc", "started_at": None, "state": "damaged", "problem": str(error)}
    if record is None:
        return None
    swept = [_swept(*each) for each in record["sweeps"].items()]
    facts = record["stages"].get(Stage.EXPIRED_ADDRESSES, {}).get("facts", {})
    told = {"complete": Stage.EXPIRED_ADDRESSES in record["stages"], "swept": swept}
    back = {"restores": record.get("restores", {}), "taken_back": facts.get("taken_back", ())}
    return freed_by(record) | told | back


def _take_back(context: RepositoryContext, found: Sequence[Json]) -> None:
    """Subtract from what each sweep deleted what came back of it: by restores, and by what marks and sweeps saw. Forget
    until when it lay in quarantine, where that was emptied."""
    held = set(quarantined(context))
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        standing = dict(pool.map(lambda each: (each.mark_id, restores_in(each.mark)), Shelf.of(context)))
    back: dict[tuple[str, int], tuple[int, int]] = {}
    records = [each for mark in found for each in mark.pop("taken_back", ())]
    records += [each for mark in found for sweep in mark.get("swept", ()) for each in sweep.pop("taken_back")]
    retired = {mark["mark_id"]: mark.pop("restores", {}) for mark in found}
    for mark_id in {*standing, *retired}:
        for report in (retired.get(mark_id, {}) | standing.get(mark_id, {})).values():
            records += report["taken_back"]
    for each in records:
        objects, size = back.get((each["mark_id"], each["sweep"]), (0, 0))
        back[each["mark_id"], each["sweep"]] = objects + each["objects"], size + each["bytes"]
    for mark in found:
        for sweep in mark.get("swept", ()):
            objects, size = back.get((mark["mark_id"], sweep["sweep"]), (0, 0))
            sweep["quarantined_until"] = sweep["quarantined_until"] if mark["mark_id"] in held else None
            sweep["came_back"] = {"objects": objects, "bytes": size}
            sweep["deleted"] = max(0, sweep["deleted"] - objects)
            sweep["bytes_deleted"] = max(0, sweep["bytes_deleted"] - size)
        if "deleted" in mark:
            mark |= _deleted(mark.get("swept", ()))


def unreadable(name: str, error: LakegcError) -> Json:
    """The history of a repository whose history cannot be read: its name and the problem."""
    empty: Json = dict.fromkeys(("since", "last_mark", "garbage", "oldest", "drill", "price"))
    empty |= {"marks": [], "refused": [], "came_back": dict(_NONE)}
    return {"repository": name} | empty | {"totals": _totals((), 0.0), "problem": str(error)}


def is_complete(mark: Json) -> bool:
    """True if a mark found all that it looked for. A retired one may have been retired unfinished."""
    return bool(mark["state"] in (COMPLETE, SWEPT) or (mark["state"] == RETIRED and mark.get("complete", True)))


def whole_marks(marks: Iterable[Json], now: float) -> list[Json]:
    """The complete ones of some marks, in their order. Those whose time is to come by `now`, in unix seconds, are left
    out: the clock that they were made by was wrong or replaced, and they tell nothing of the present."""
    whole = (mark for mark in marks if is_complete(mark) and mark["started_at"])
    return [mark for mark in whole if not clock.is_to_come(clock.unix_seconds(mark["started_at"]), now)]


def summed(found: Sequence[Json]) -> Json:
    """The garbage, the totals and the price of several repositories; those that cannot be read are left out."""
    garbage = [each["garbage"] for each in found if each["garbage"]]
    at_most = {"at_most": True} if any(each.get("at_most") for each in garbage) else {}
    return {
        "garbage": {name: sum(each[name] for each in garbage) for name in _NONE} | at_most,
        "totals": {name: sum(each["totals"][name] for each in found) for name in _NO_SWEEPS},
        "price": next((each["price"] for each in found if each["price"]), None),
    }


def freed_bytes(totals: Json) -> int:
    """Bytes that the store has no more: not those that it can still bring back, and none of which nobody knows."""
    return int(totals["bytes_deleted"] - sum(totals[name] for name in _NOT_FREED))


def _standing(context: RepositoryContext, mark: Json, *, judged: bool, strict: bool) -> Json:
    """A mark as `own_marks` has it, with its sweeps; if `judged`, a whole one with what it waits for. If not all of
    that reads, with what does, and `problem`. `strict`: see `history_of`."""
    store, folder = connect(context.workspace), context.artifacts(mark["mark_id"]).folder
    found = mark
    try:
        swept = [
            _swept(number, report_of(store, folder, number) or journalled(context.workspace, folder, number))
            for number in sweeps_of(store, folder)
        ]
        found = mark | {"swept": swept} | _deleted(swept)
        if mark["state"] not in (COMPLETE, SWEPT) or not judged:
            return found
        opened = open_mark(context, mark["mark_id"])
        facts = opened.mark.facts(ExpiredFacts)
        is_swept = any(not sweep.get("drill") for sweep in swept)
        refused = [] if is_swept else [verdict for verdict in judge(opened) if verdict.stops]
        return found | {
            "cutoff": instant(opened.header.cutoff),
            "sweepable_from": instant(ready_at(opened)),
            "first_young": first_young_json(opened),
            "unconfirmed": {
                "objects": facts.expired.objects - facts.confirmed.objects,
                "bytes": facts.expired.bytes - facts.confirmed.bytes,
            },
            "unasked": asdict(facts.waiting),
            "refused": [{"name": each.name, "description": each.description} for each in refused],
        }
    except LakegcError as error:
        if strict and isinstance(error, StoreError) and not isinstance(error, ObjectNotFoundError):
            raise
        return {"problem": str(error)} | found


def _swept(number: int | str, report: Mapping[str, Any]) -> Json:
    """One sweep, by its report or by what its journal counts."""
    outcomes, finished = report.get("outcomes", {}), report.get("finished_at")
    until, kept, size = (report.get(name) for name in ("recoverable_until", "quarantine", "bytes_deleted"))
    held = kept.get("until", finished) if kept else None  # its record did not read: nothing was promised
    drill = is_drill(report)
    return {
        "sweep": int(number),
        "finished_at": instant(finished) if finished else None,
        "outcomes": dict(outcomes),
        "deleted": outcomes.get(Outcome.DELETED, 0),
        "bytes_deleted": size or 0,
        "versioned": report.get("versioned"),
        "recoverable_until": instant(until) if until else None,
        "quarantined_until": instant(held) if held else None,
        "bytes_quarantined": in_quarantine(kept, size or 0) if held else 0,
        "broke_off": not finished,
        "at_work": None,
        "drill": drill,
        "taken_back": report.get("taken_back", ()),
        **of_sweep({} if drill else report),
    }


def _deleted(swept: Sequence[Json]) -> Json:
    return {name: sum(sweep[name] for sweep in swept) for name in ("deleted", "bytes_deleted")}


def _touched(mark: Json, since: float) -> bool:
    """True if a mark began since a moment, or a sweep of it was over since, or is not over."""
    moments = [mark["started_at"], *(sweep["finished_at"] for sweep in mark.get("swept", ()))]
    return any(each is None or clock.unix_seconds(each) >= since for each in moments)


def _left_of_mark(mark: Json) -> Json:
    return left_of(mark.get("expired", 0), mark.get("expired_bytes", 0), mark.get("swept", ()))


def left_of(objects: int, size: int, swept: Sequence[Json]) -> Json:
    """The garbage of a mark that sweeps of it left: `objects` and `bytes`. What they found gone, live or another object
    is none; no sizes of it are on record, so that with `at_most` there are no more bytes than that. `swept`: reports,
    or sweeps as a history has them, whose `deleted` lacks what came back."""
    ended = {outcome: sum(each["outcomes"].get(outcome, 0) for each in swept) for outcome in FINAL}
    ended[Outcome.DELETED] = sum(each.get("deleted", each["outcomes"].get(Outcome.DELETED, 0)) for each in swept)
    left = max(0, objects - sum(ended.values()))
    unsized = any(ended[outcome] for outcome in FINAL if outcome not in (Outcome.DELETED, Outcome.LOST))
    found = {"objects": left, "bytes": max(0, size - sum(each["bytes_deleted"] for each in swept)) if left else 0}
    return found | ({"at_most": True} if left and unsized else {})


def _totals(sweeps: Iterable[Json], since: float) -> Json:
    """The deletes of sweeps since a moment. `kept_as_versions`: bytes of it that a store keeps as old versions;
    `recoverable`: bytes that its soft delete still holds; `in_quarantine`: bytes of which copies lie there; `unknown`:
    bytes of which nobody knows."""
    found = dict(_NO_SWEEPS)
    for sweep in sweeps:
        if sweep["finished_at"] and clock.unix_seconds(sweep["finished_at"]) < since:
            continue
        found["sweeps"] += not sweep.get("drill")
        for name in ("deleted", "bytes_deleted"):
            found[name] += sweep[name]
        for kind, size in _not_freed(sweep).items():
            found[kind] += size
    return found


def _not_freed(sweep: Json) -> dict[str, int]:
    """The bytes that deleted objects of a sweep still take, or may, by the reason, now."""
    until, copied = sweep["recoverable_until"], sweep["bytes_quarantined"] if sweep["quarantined_until"] else 0
    recoverable = bool(until) and clock.unix_seconds(until) > clock.now().timestamp()
    return not_freed(sweep["bytes_deleted"], copied, versioned=sweep["versioned"], recoverable=recoverable)
