"""Copies into quarantine: right before its delete each object is copied, and only what has a copy is deleted.

A task looks for the copies of up to ROWS rows, and deletes what has one; then it copies the others, and deletes these.
What a killed task leaves is a copy too many. `marks.quarantine` knows where copies lie, and when they go.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakegc_core.clock import duration
from lakegc_core.errors import MarkError
from lakegc_core.marks import quarantine
from lakegc_core.marks.backups import SAVED, backup_place
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.one_copy import DIFFERENT, MISSING, OneCopy, is_another
from lakegc_core.names import FAILED, Json, Outcome, Stage
from lakegc_core.store.base import NOT_ASKED, ObjectInfo, StoreConfig, connect
from lakegc_core.sweep.result import keeps
from lakegc_core.sweep.totals import Totals

NOT_COPIED = f"{FAILED}NotCopied"
"""Outcome of an object that stays because it could not be copied into quarantine."""
COPY_DIFFERS = f"{FAILED}CopyDiffers"
"""Outcome of an object that stays because another object lies in quarantine under its key."""

ROWS = 100
"""The most objects that are copied, then deleted, by one request: few wait for the copies of others."""
_SIDE_BY_SIDE = 8
_SHARE = 0.75
"""Of the time that is left, the share in which copies begin. The rest is for the deletes of what was copied."""

_NOT_ASKED: Json = {"outcome": NOT_ASKED}
_CHANGED: Json = {"outcome": str(Outcome.CHANGED)}
_OUTCOMES = {MISSING: str(Outcome.ALREADY_GONE), DIFFERENT: COPY_DIFFERS} | {
    each["outcome"]: each["outcome"] for each in (_NOT_ASKED, _CHANGED)
}


@dataclass(frozen=True)
class Keeping:
    """Copies what is about to be deleted. `data`: the store of the objects; `place`: that of the copies."""

    data: StoreConfig
    place: StoreConfig

    def delete(
        self,
        rows: pa.RecordBatch,
        until: float,
        now: Callable[[], float],
        delete: Callable[[pa.RecordBatch], list[str]],
        problems: list[str],
    ) -> list[str]:
        """Copy the rows of a plan, and have those deleted that have a copy. Returns one outcome per row, in order.

        `until`: the end of the wave by the clock `now`. No copy begins in the last quarter of the time that is left.
        What has a copy already goes first: copies that took longer than their wave make the next one get somewhere.
        What the store does not hold is not deleted: it is gone. Nor is an object of another size than the plan has: it
        is another one. So each copy has the size that the journal names. `problems` gets why an object was not copied,
        of one.
        """
        began = now()
        stop = began + _SHARE * (until - began)
        work = OneCopy(self.data, self.place, sized=True, made_after=True)

        def look(row: Json) -> tuple[Json, ObjectInfo | None]:
            if now() >= stop:
                return _NOT_ASKED, None
            told, found = work.look(row)
            return (_CHANGED if is_another(row, told) else told), found

        def make(looked: tuple[Json, ObjectInfo | None]) -> Json:
            row, found = looked
            return work.make(row, found) if found is not None and now() < stop else _NOT_ASKED

        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            looked = list(pool.map(look, rows.select(["address", "size"]).to_pylist()))
            first = _outcomes_of(rows, [row for row, _ in looked], delete)
            made = list(pool.map(make, looked))
        second = _outcomes_of(rows, made, delete)
        if not problems:
            problems += _problem([*(row for row, _ in looked), *made])
        return [one if found is None else two for (_, found), one, two in zip(looked, first, second, strict=True)]


def _outcomes_of(rows: pa.RecordBatch, told: list[Json], delete: Callable[[pa.RecordBatch], list[str]]) -> list[str]:
    """The outcome of each row by what came of its copy; those that have one are deleted."""
    saved = [each["outcome"] in SAVED for each in told]
    answers = iter(delete(rows.filter(pa.array(saved, pa.bool_()))) if any(saved) else [])
    return [
        next(answers) if has_copy else _OUTCOMES.get(each["outcome"], NOT_COPIED)
        for each, has_copy in zip(told, saved, strict=True)
    ]


def _problem(told: list[Json]) -> list[str]:
    """Why the first of the objects that were not copied was not, if any; what is gone is none of them."""
    found = [each for each in told if each.get("problem") and each["outcome"] != MISSING]
    return [f"{each['address']}: {each['problem']}" for each in found[:1]]


def keeping_of(context: MarkContext, sweep: int, attempt: int) -> Keeping | None:
    """The copies that an attempt of a sweep makes, which go on record before the first one; None if lakegc.yaml wants
    none."""
    age = context.policy.quarantine
    if age is None:
        return None
    mark_id = context.header.mark_id
    quarantine.begin(context, mark_id, sweep, age.total_seconds(), attempt)
    place = quarantine.place_of(context, mark_id)
    context.say(f"{Stage.SWEPT_REPORT}: each object is copied to {place.root} first, and stays there {duration(age)}")
    return Keeping(context.data, place)


def kept(context: MarkContext, sweep: int, totals: Totals, since: float | None) -> dict[str, Any]:
    """The fields of a result that say for how long the deletes of a sweep can be taken back. `since`: before the first
    of them, unix seconds; None: not known. Puts on record what lies in quarantine: the sweep is about to be over. A
    record that cannot be read keeps the copies: `until` is left out."""
    deleted = totals.outcomes.get(Outcome.DELETED, 0) + totals.outcomes.get(Outcome.LOST, 0)
    copied: dict[str, int] = {"objects": 0, "bytes": 0} | dict(totals.copied)
    try:
        found = quarantine.end(context, context.header.mark_id, sweep, copied["objects"], copied["bytes"])
        told = {"age": found.age, "until": found.until} if found and (copied["objects"] or not deleted) else {}
        if told and copied["objects"] < deleted:  # `quarantine` was set, or taken out, between two calls
            told |= copied
    except MarkError as error:
        context.say(f"{Stage.SWEPT_REPORT}: until when copies stay in quarantine is not known. {error}")
        told = {"age": context.policy.quarantine.total_seconds() if context.policy.quarantine else 0.0}
    return {
        "quarantine": told,
        "backup": backup_place(context) if deleted else None,
        **keeps(connect(context.data), since),
    }


def promised(context: MarkContext, size: int) -> dict[str, Any]:
    """The fields of a dry run's result: the bytes that a sweep would delete, and for how long it would keep copies."""
    age = context.policy.quarantine
    return {"planned_bytes": size, "quarantine": {} if age is None else {"age": age.total_seconds()}}
