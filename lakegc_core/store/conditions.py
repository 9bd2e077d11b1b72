"""Finds out by writing and deleting if a store's conditions do what the lease, and exact deletes, are made of.

A capability is proved on both sides: a request whose condition holds must succeed, and one whose condition does not
hold must be refused. Not here: how a store is asked for a condition (each store's own `write`, and its deletes).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from lakegc_core.errors import LakegcError, NoConditionsError, PreconditionFailedError
from lakegc_core.names import Outcome
from lakegc_core.store.base import DELETE_PROBES, PROBE_KEY, Store, head_if_there
from lakegc_core.store.repeated_deletes import BatchDeletes

_TRIES = 8  # somebody else may probe under the same key at the same time, and write between two writes

NOT_TAKEN = "the store does not know conditions of writes"
NO_ETAG = "the store sends no ETag of what it has written, so that nothing can be made a condition"
FREE_REFUSED = "a write that needs the key to be free was refused, though it is free"
FREE_IGNORED = "a write that needs the key to be free overwrote an object"
UNCHANGED_REFUSED = "a write that needs the object to be unchanged was refused, though it is unchanged"
UNCHANGED_IGNORED = "a write that needs the object to be unchanged overwrote another one"


def writes_conditionally(store: Store) -> bool:
    """True if the conditional writes of a store work, as far as that shows under a key that nobody may delete."""
    faults = (fault_of(store, PROBE_KEY) for _ in range(_TRIES))
    return next((fault for fault in faults if fault != UNCHANGED_REFUSED), UNCHANGED_REFUSED) is None


def fault_of(store: Store, key: str, *, is_free: bool = False) -> str | None:
    """The fault of a store's conditional writes; None if there is none. Leaves an object under the key.

    `is_free`: no object lies under the key, and nobody else knows it. StoreError if plain writes fail.
    """
    try:
        if is_free and _is_refused(store, key, if_absent=True):
            return FREE_REFUSED
        first = store.write(key, uuid.uuid4().bytes)
        if not first:
            return NO_ETAG
        if not _is_refused(store, key, if_absent=True):
            return FREE_IGNORED
        if _is_refused(store, key, if_match=first):
            return UNCHANGED_REFUSED
        if not _is_refused(store, key, if_match=first):
            return UNCHANGED_IGNORED
    except NoConditionsError as error:
        return f"{NOT_TAKEN} ({error})"
    return None


def _is_refused(store: Store, key: str, **condition: Any) -> bool:
    try:  # its own content, so that it is not taken for the lost answer of another
        store.write(key, uuid.uuid4().bytes, **condition)
    except PreconditionFailedError:
        return True
    return False


def delete_fault(store: Store, deletes: BatchDeletes) -> str | None:
    """The fault of a store's deletes that name an ETag; None if there is none.

    Each way to delete is tried on an object that was overwritten: a delete that names what it was must leave it, and
    one that names what it is must remove it. The ETags are those of listings, as in plans.
    """
    for name, together in (("of many objects", True), ("of one object", False)):
        if together and deletes.best.etags_a_request < 2:
            continue
        key = f"{DELETE_PROBES}{'together' if together else 'alone'}"
        try:
            fault = _fault_of_deletes(store, key, partial(deletes.try_etag, key, together=together))
        except LakegcError as error:
            return f"it could not be tried: {error}"
        if fault:
            with suppress(LakegcError):
                store.delete_many([key])
            return f"a delete {name} {fault}"
    return None


def _fault_of_deletes(store: Store, key: str, delete: Callable[[str], str]) -> str | None:
    """The fault of one way to delete a key by an ETag, as the end of a sentence that begins with the delete."""
    before, now = (_written(store, key) for _ in range(2))
    if not before or not now or before == now:
        return "has no ETag to name: the store lists none that tells one object from another"
    said = delete(before)
    if head_if_there(store, key) is None:
        return "that named another ETag deleted the object"
    if said != Outcome.CHANGED:
        return f"that named another ETag was answered with {said}"
    said = delete(now)
    if said != Outcome.DELETED or head_if_there(store, key) is not None:
        return f"that named the object's own ETag, as it was listed, was answered with {said}"
    return None


def _written(store: Store, key: str) -> str | None:
    """Write an object, and return its ETag as the store lists it."""
    store.write(key, uuid.uuid4().bytes)
    listed = (row for batch in store.list(key) for row in batch.to_pylist())
    return next((row["etag"] for row in listed if row["address"] == key), None)
