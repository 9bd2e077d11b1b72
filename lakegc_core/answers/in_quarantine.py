"""Of objects that are gone: whether copies of them lie in quarantine, and until when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.clock import instant, minute
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.quarantine import Quarantine, place_of, quarantined, record_of
from lakegc_core.names import Json
from lakegc_core.store.base import StoreConfig, connect, heads


def quarantine_of(context: RepositoryContext, mark_id: str, sweep: int) -> Json | None:
    """Until when copies of what a sweep deleted lie in quarantine (`until`, ISO 8601, None where nobody knows). None if
    no copies lie there."""
    if mark_id not in quarantined(context):
        return None
    record = _record(context, mark_id)
    if record is None:
        return {"until": None}
    return {"until": instant(record.until)} if str(sweep) in record.sweeps else None


def copies_of(context: RepositoryContext, deleted: Mapping[str, Iterable[str]]) -> dict[str, Json]:
    """Of some of these addresses, each with the marks whose sweeps deleted it: the mark in whose quarantine a copy lies
    (`mark_id`; of several the last by id), and until when (`until`, ISO 8601, None where nobody knows)."""
    found: dict[str, Json] = {}
    for mark_id in sorted({*quarantined(context)} if deleted else ()):
        asked = [address for address, marks in deleted.items() if mark_id in marks]
        lie = [each for each in heads(connect(place_of(context, mark_id)), asked) if each is not None]
        record = _record(context, mark_id) if lie else None
        until = instant(record.until) if record else None
        found |= {each.address: {"mark_id": mark_id, "until": until} for each in lie}
    return found


def places(context: RepositoryContext) -> dict[str, StoreConfig]:
    """Where the copies of each mark lie, by the ids of the marks that have any."""
    return {mark_id: place_of(context, mark_id) for mark_id in quarantined(context)}


def began_since(context: RepositoryContext, before: Mapping[str, StoreConfig]) -> Iterator[str]:
    """Sentences on marks into whose quarantine nobody looked: their sweeps began to copy after `before` was listed."""
    for mark_id in sorted({*quarantined(context)} - {*before}):
        yield f"a sweep of mark {mark_id} began to copy into quarantine meanwhile: ask again"


def with_copies(batch: pa.RecordBatch, kept: Mapping[str, StoreConfig], column: str) -> pa.RecordBatch:
    """A batch of address, inside and size (null: not in the store), with a column: the name of a place of copies, such
    as the mark of a quarantine, in which a copy of an object lies that the namespace lacks; null if in none. Any sweep
    may have made it, also one that died before it said so, or whose delete failed."""
    absent = pc.and_(batch["inside"], pc.is_null(batch["size"]))
    left = pc.indices_nonzero(absent).to_pylist()
    copied: list[str | None] = [None] * batch.num_rows
    for name, place in kept.items():
        addresses = batch["address"].take(pa.array(left, pa.int64())).to_pylist()
        found = heads(connect(place), addresses)
        for row, info in zip(left, found, strict=True):
            copied[row] = name if info is not None else copied[row]
    return batch.append_column(column, pa.array(copied, pa.string()))


def lying(context: RepositoryContext, groups: Iterable[Json]) -> Iterator[str]:
    """Sentences on marks in whose quarantine copies of some of the objects lie: nobody can say that all is gone.
    `groups`: of objects, each with `copied` (such a mark, or None)."""
    copies = Counter[str]()
    for each in groups:
        if each["copied"]:
            copies[each["copied"]] += each["objects"]
    for mark_id, objects in sorted(copies.items()):
        record = _record(context, mark_id)
        when = f"until {minute(record.until)}" if record else "nobody knows until when"
        yield (
            f"{copies_lie(objects)} in the quarantine of mark {mark_id}, {when}; `lakegc retire` empties it after that"
        )


def copies_lie(objects: int) -> str:
    """The beginning of a sentence on where copies of so many of the objects lie."""
    return "a copy of 1 of the objects lies" if objects == 1 else f"copies of {objects:,} of the objects lie"


def _record(context: RepositoryContext, mark_id: str) -> Quarantine | None:
    """The record of a mark's quarantine; None if there is none that can be read."""
    with suppress(MarkError):
        return record_of(context, mark_id)
    return None
