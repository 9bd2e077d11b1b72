"""Object stores: one protocol (`base`) and the stores that speak it, a package each.

Nothing here knows lakeFS: addresses are text, roots are given. Which store a storage namespace means is
decided elsewhere.
"""

from lakegc_core.store.base import LISTING_SCHEMA, Level, ObjectInfo, Store, StoreConfig, StoreProbe, connect

__all__ = [
    "LISTING_SCHEMA",
    "Level",
    "ObjectInfo",
    "Store",
    "StoreConfig",
    "StoreProbe",
    "connect",
]
