"""Reads what Azure keeps of a deleted blob, and chooses what is brought back: soft delete, or a previous version.

Accounts with versioning make the current version of a deleted blob a previous one. Others keep it by soft delete. Not
here: the requests (`store`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from xml.etree import ElementTree

from lakegc_core.errors import IncompleteError, ObjectNotFoundError
from lakegc_core.store.azure.listing import name_of, parts_of
from lakegc_core.store.base import Deleted
from lakegc_core.store.kept import check_delete, check_hidden, check_object
from lakegc_core.store.remote import bare

INCLUDED = ["deleted", "versions"]
"""The more that a list has of each blob."""


@dataclass(frozen=True)
class Kept:
    """A blob, or a version of it. `version`: its id; None of a blob without versions. `gone_at`: when it was
    soft-deleted; Azure does not tell when a version ceased to be the current one."""

    size: int  # bytes
    written: datetime
    etag: str
    version: str | None
    gone_at: datetime | None
    is_shown: bool


def read_kept(body: bytes, name: str, where: str) -> tuple[list[Kept], str]:
    """What a page of a list has of one blob, and the marker of the next page. Other blobs, whose names begin the same,
    snapshots, and versions that somebody deleted are left out."""
    blobs, marker = parts_of(body, where)
    mine = [each for each in blobs if each.tag == "Blob" and name_of(each.find("Name"), where) == name]
    try:
        found = [_read(each) for each in mine if not each.findtext("Snapshot")]
    except (TypeError, ValueError):
        raise IncompleteError(f"{where}: the store lists a blob without size or times") from None
    return [each for each in found if not (each.version and each.gone_at)], marker


def _read(blob: ElementTree.Element) -> Kept:
    """TypeError or ValueError if a field is missing, or cannot be read."""

    def time_of(name: str) -> datetime:
        return parsedate_to_datetime(blob.findtext(f"Properties/{name}") or "")

    version, is_deleted = blob.findtext("VersionId") or None, blob.findtext("Deleted") == "true"
    return Kept(
        int(blob.findtext("Properties/Content-Length") or ""),
        time_of("Last-Modified"),
        bare(blob.findtext("Properties/Etag")) or "",
        version,
        time_of("DeletedTime") if is_deleted else None,
        blob.findtext("IsCurrentVersion") == "true" or not (version or is_deleted),
    )


def choose(kept: Sequence[Kept], deleted: Deleted, where: str) -> Kept:
    """The blob or version that was deleted: the newest one. Raises as `Store.undelete` does.

    Of a version, that it is the newest and not written later says that nobody has written since.
    """
    if not kept:
        # An account with a hierarchical namespace lists deleted blobs in another way.
        raise ObjectNotFoundError(f"{where}: a list shows neither a soft-deleted blob nor a version of it")
    newest = max(kept, key=lambda each: (each.written, each.version or ""))
    check_hidden(where, is_shown=any(each.is_shown for each in kept))
    check_object(deleted, where, newest.size, newest.written)
    if newest.gone_at is not None:
        check_delete(deleted, where, newest.gone_at)
    return newest
