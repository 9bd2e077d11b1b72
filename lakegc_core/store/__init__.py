"""Object stores: one protocol (`base`) and the stores that speak it, a package each.

Nothing here knows lakeFS: addresses are text, roots are given. Which store a storage namespace means is
decided elsewhere.
"""

from lakegc_core.store.base import (
    ALREADY_GONE,
    DELETED,
    FAILED,
    LISTING_SCHEMA,
    NO_ANSWER,
    Level,
    ObjectInfo,
    Store,
    StoreConfig,
    StoreProbe,
    connect,
)

__all__ = [
    "ALREADY_GONE",
    "DELETED",
    "FAILED",
    "LISTING_SCHEMA",
    "NO_ANSWER",
    "Level",
    "ObjectInfo",
    "Store",
    "StoreConfig",
    "StoreProbe",
    "connect",
]
