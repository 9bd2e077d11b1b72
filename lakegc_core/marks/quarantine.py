"""The quarantine of a mark: copies of what its sweeps delete, for a while, where the store itself keeps nothing.

Copies lie below lakegc's own folder, beside the mark and not in it, so that they outlive its retirement. A record is
written before the first copy and deleted after the last one: it says since when, and for how long, they stay. Who makes
the copies is in `sweep.keeping`; who brings objects back is in `copies`; who deletes the copies is in `emptying`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lakegc_core import clock
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.json_files import encode, read_sealed, sealed
from lakegc_core.names import Json
from lakegc_core.store.base import StoreConfig, connect, folders_in_use
from lakegc_core.store.clock import ahead
from lakegc_core.store.factory import below

FOLDER = "quarantine"
"""The folder of a home for quarantines, with a folder for each mark: the record, and the copies below `objects/`."""


@dataclass(frozen=True)
class Quarantine:
    """The record of a mark's quarantine. `age`: seconds for which copies stay after `at`, unix seconds: the end of the
    last sweep, or the begin of a later restore. `sweeps` maps the numbers of sweeps to the objects and bytes that they
    deleted and that have a copy, 0 while not over; and to the `attempts` that made copies (all, if that is missing)."""

    mark_id: str
    age: float
    at: float
    sweeps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def until(self) -> float:
        """The moment up to which nothing is emptied, unix seconds, once the last sweep is over."""
        return self.at + self.age

    @property
    def amount(self) -> dict[str, int]:
        """Objects and bytes that the sweeps deleted and that have a copy."""
        return {name: sum(each.get(name, 0) for each in self.sweeps.values()) for name in ("objects", "bytes")}


def place_of(context: RepositoryContext, mark_id: str) -> StoreConfig:
    """The store rooted where the copies of a mark lie, under the keys of their objects."""
    return below(context.workspace, f"{folder_of(context, mark_id)}/objects")


def quarantined(context: RepositoryContext) -> list[str]:
    """The ids of the marks of which something lies in quarantine."""
    store, prefix = connect(context.workspace), f"{context.home}/{FOLDER}/"
    return [each.removeprefix(prefix).rstrip("/") for each in folders_in_use(store, prefix)]


def record_of(context: RepositoryContext, mark_id: str) -> Quarantine | None:
    """The record of a mark's quarantine; None if there is none. MarkError if it cannot be read."""
    key = f"{folder_of(context, mark_id)}/{FOLDER}.json"
    changed = f"{context.workspace.root}/{key} was changed after it was written. Look at what lies there."
    found = read_sealed(connect(context.workspace), key, changed, mark_id=mark_id)
    try:
        return None if found is None else Quarantine(**found)
    except TypeError:
        raise MarkError(changed) from None


def begin(context: RepositoryContext, mark_id: str, sweep: int, age: float, attempt: int = 1) -> None:
    """Put on record that an attempt of a sweep is about to copy. Of two ages (seconds) the longer one counts."""
    found = record_of(context, mark_id) or Quarantine(mark_id, age, 0.0)
    own = dict(found.sweeps.get(str(sweep), {"objects": 0, "bytes": 0, "attempts": []}))
    if "attempts" in own:
        own["attempts"] = sorted({*own["attempts"], attempt})
    sweeps = dict(found.sweeps) | {str(sweep): own}
    _write(context, replace(found, age=max(age, found.age), at=_latest(context), sweeps=sweeps))


def end(context: RepositoryContext, mark_id: str, sweep: int, objects: int, size: int) -> Quarantine | None:
    """Put on record what a sweep deleted and copied (objects, and their bytes) that is about to be over. None if no
    attempt of it was to copy."""
    found = record_of(context, mark_id)
    if found is None or str(sweep) not in found.sweeps:
        return None
    own = dict(found.sweeps[str(sweep)]) | {"objects": objects, "bytes": size}
    sweeps = dict(found.sweeps) | {str(sweep): own}
    found = replace(found, at=_latest(context), sweeps=sweeps)
    _write(context, found)
    return found


def copying(context: RepositoryContext, mark_id: str, sweep: int) -> Sequence[int] | None:
    """The attempts of a sweep that copied what they deleted; None: all. A record that cannot be read tells of none."""
    try:
        found = record_of(context, mark_id)
    except MarkError:
        return ()
    own = {} if found is None else found.sweeps.get(str(sweep), {})
    return own.get("attempts") if own else ()


def keep_on(context: RepositoryContext, mark_id: str) -> None:
    """Keep what lies in quarantine of a mark for as long again from now on: a restore is about to copy from there.

    Without a record that can be read, there is nothing to do: the copies stay anyway.
    """
    with suppress(MarkError):
        found = record_of(context, mark_id)
        if found is not None:
            _write(context, replace(found, at=_latest(context)))


def folder_of(context: RepositoryContext, mark_id: str) -> str:
    """The folder of the quarantine of a mark, in the workspace."""
    return f"{context.home}/{FOLDER}/{mark_id}"


def _write(context: RepositoryContext, record: Quarantine) -> None:
    value: Json = asdict(record)
    key = f"{folder_of(context, record.mark_id)}/{FOLDER}.json"
    connect(context.workspace).write(key, encode(sealed(value)))


def _latest(context: RepositoryContext) -> float:
    """Now, unix seconds, by the clock that is ahead: the collector's or the store's. So copies never go too early."""
    return clock.now().timestamp() + max(0.0, ahead(context.workspace))
