"""A folder of the local file system as an object store: for lakeFS's `local` block adapter, tests and demos."""

from lakegc_core.store.local.store import LocalConfig, LocalStore

__all__ = ["LocalConfig", "LocalStore"]
