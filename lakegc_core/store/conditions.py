"""Finds out by writing if a store's conditional writes do what the lease is made of.

A capability is proved on both sides: a write whose condition holds must succeed, and one whose condition does not hold
must be refused. Not here: how a store is asked for a condition (each store's own `write`).
"""

from __future__ import annotations

import uuid
from typing import Any

from lakegc_core.errors import NoConditionsError, PreconditionFailedError
from lakegc_core.store.base import PROBE_KEY, Store

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
