"""Reads what Google Cloud Storage keeps of deleted objects, and chooses what is brought back.

In a bucket with versioning a deleted object stays as a noncurrent one; elsewhere soft delete keeps it for some days.
Not here: the requests (`store`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakegc_core.errors import IncompleteError, ObjectNotFoundError
from lakegc_core.store.base import Deleted
from lakegc_core.store.kept import check_delete, check_hidden, check_object

NONCURRENT, SOFT_DELETED = "versions", "softDeleted"
"""Parameters of a list that has such objects too."""
FIELDS = "kind,items(name,size,generation,timeCreated,updated,timeDeleted,softDeleteTime),nextPageToken"
_WRITTEN_AT = ("timeCreated", "updated")
"""When a generation was written: the earlier of these. One that soft delete gave back is created anew, and `updated`,
by which marks judge its age, may stay as it was. A change of its metadata moves `updated`."""
_GONE_AT = ("timeDeleted", "softDeleteTime")
"""When a generation was deleted: the first of these fields that it has. A bucket with versioning and soft delete
soft-deletes a noncurrent object later, when a lifecycle rule removes it."""


@dataclass(frozen=True)
class Kept:
    """One generation of an object. `kind`: the parameter of the list that has it. `gone_at`: None of a live one."""

    kind: str
    generation: int
    size: int  # bytes
    written: datetime
    gone_at: datetime | None


def read_kept(page: dict[str, Any], name: str, kind: str, where: str) -> list[Kept]:
    """The generations of one object on a page of a list. Others whose names begin the same may be on it."""
    items = [each for each in page.get("items", []) if each.get("name") == name]
    try:
        return [
            Kept(
                kind,
                int(each["generation"]),
                int(each["size"]),
                min(datetime.fromisoformat(each[name]) for name in _WRITTEN_AT),
                next((datetime.fromisoformat(each[name]) for name in _GONE_AT if name in each), None),
            )
            for each in items
        ]
    except (KeyError, TypeError, ValueError):
        raise IncompleteError(f"{where}: the store lists a generation without size or times") from None


def choose(kept: Sequence[Kept], deleted: Deleted, where: str) -> Kept:
    """The generation that was deleted: the newest one. Raises as `Store.undelete` does."""
    if not kept:
        raise ObjectNotFoundError(f"{where}: the bucket keeps no generation of it")
    newest = max(kept, key=lambda each: each.generation)
    check_hidden(where, is_shown=newest.gone_at is None)
    check_object(deleted, where, newest.size, newest.written)
    check_delete(deleted, where, newest.gone_at or newest.written)
    return newest
