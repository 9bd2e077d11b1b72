"""Of objects that are gone: whether copies of them lie in quarantine, and until when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakegc_core.clock import instant
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.quarantine import place_of, quarantined, record_of
from lakegc_core.names import Json
from lakegc_core.store.base import connect, heads


def quarantine_of(context: RepositoryContext, mark_id: str, sweep: int) -> Json | None:
    """Until when copies of what a sweep deleted lie in quarantine (`until`, ISO 8601, None where nobody knows). None if
    no copies lie there."""
    if mark_id not in quarantined(context):
        return None
    try:
        record = record_of(context, mark_id)
    except MarkError:
        record = None
    if record is None:
        return {"until": None}
    return {"until": instant(record.until)} if str(sweep) in record.sweeps else None


def with_copies(context: RepositoryContext, vanished: Sequence[Json]) -> tuple[Json, ...]:
    """Objects that are gone (address, mark_id of the sweep that took each), each with `copied`: true if the store shows
    its copy in quarantine."""
    copied: set[tuple[str, str]] = set()
    for mark_id in sorted({each["mark_id"] for each in vanished if each["mark_id"]} & {*quarantined(context)}):
        addresses = [each["address"] for each in vanished if each["mark_id"] == mark_id]
        found = zip(addresses, heads(connect(place_of(context, mark_id)), addresses), strict=True)
        copied.update((mark_id, address) for address, info in found if info is not None)
    return tuple(each | {"copied": (each["mark_id"], each["address"]) in copied} for each in vanished)


def lying(sweeps: Sequence[Json]) -> Iterator[str]:
    """Sentences on sweeps (as `gone` names them) of which copies lie in quarantine: nobody can say that all is gone."""
    for each in sweeps:
        if each["quarantine"]:
            until = each["quarantine"]["until"]
            when = f"until {until}" if until else "nobody knows until when"
            yield (
                f"copies of what sweep {each['sweep']} of mark {each['mark_id']} took lie in quarantine, {when}; "
                "`lakegc retire` empties it after that"
            )
