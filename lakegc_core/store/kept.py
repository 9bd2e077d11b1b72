"""Judges what a store keeps of a key, before a delete of lakegc is taken back: is it the deleted object, and whose is
the delete?

Not here: how a store is asked what it keeps, and how it shows it again (each store's own `undelete`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from lakegc_core.errors import PreconditionFailedError
from lakegc_core.store.base import Deleted


def check_object(deleted: Deleted, where: str, size: Any, written: datetime) -> None:
    """PreconditionFailedError unless the newest that is kept under the key is the deleted object."""
    if size != deleted.size or written >= deleted.written_before:
        found = f"{size} bytes, written {_second(written)}"
        raise PreconditionFailedError(f"{where}: the newest that is kept is not the deleted object, but {found}")


def check_delete(deleted: Deleted, where: str, at: datetime) -> None:
    """PreconditionFailedError unless a delete is of the time of lakegc's own."""
    if not deleted.since <= at <= deleted.until:
        raise PreconditionFailedError(f"{where}: somebody else deleted it, {_second(at)}")


def check_hidden(where: str, *, is_shown: bool) -> None:
    """PreconditionFailedError if an object lies under the key."""
    if is_shown:
        raise PreconditionFailedError(f"{where}: an object lies there, which somebody has written since")


def _second(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
