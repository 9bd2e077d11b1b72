"""Typed answers of a store on how it keeps objects, the same for every kind of store.

Each store's own `settings` says which requests they take. Others judge what follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


@dataclass(frozen=True)
class Untold:
    """The reason why a store does not tell something. `right`: what asking takes, in its words; "" if nothing helps."""

    why: str
    right: str = ""


class Effect(StrEnum):
    """The effect of a lifecycle rule on what it covers."""

    EXPIRES = "expires"  # deletes objects
    OLD_VERSIONS = "old_versions"  # deletes old versions alone
    ENDS_UPLOADS = "ends_uploads"  # drops the parts of uploads that were never completed
    ARCHIVES = "archives"  # moves objects to where they cannot be read at once
    MOVES = "moves"  # moves objects to another class, where they read as before


@dataclass(frozen=True)
class LifecycleRule:
    """One thing that a rule in force does below the store's root.

    `prefix`: of addresses, relative to the root; "" covers all. `when`: in words, such as `after 3 days`. `narrowed`:
    it covers only some of what lies there, by tags, sizes or ends of names.
    """

    name: str
    effect: Effect
    prefix: str
    when: str
    narrowed: bool = False


@dataclass(frozen=True)
class Uploads:
    """The uploads in parts that were begun below the root and not completed. `whole`: true if all were counted."""

    count: int
    oldest: datetime | None
    whole: bool = True


@dataclass(frozen=True)
class StoreSettings:
    """The settings by which a store keeps objects."""

    versioning: bool | Untold  # whether what is deleted stays as an old version
    soft_delete: timedelta | Untold  # for how long the store keeps a deleted object besides; zero: not at all
    lock: str | Untold  # what keeps objects from being deleted, in words; "" if nothing does
    encryption: str | Untold  # whose key encrypts new objects where the collector needs rights on it; "" if it does not
    lifecycle: tuple[LifecycleRule, ...] | Untold  # those that touch the root
    uploads: Uploads | Untold | None  # None: none can be open here
    undeletes: bool | None = True  # whether lakegc brings back what soft delete keeps; None: nobody can tell
    lock_stops_writes: bool = False  # what is locked cannot be written over: the lock is not of versions alone

    @property
    def gives_nothing_back(self) -> bool:
        """True if nothing of what is deleted can come back out of the store, for all that it tells."""
        return self.undeletes is False or (self.versioning is False and self.soft_delete == timedelta(0))


def prefix_below(prefix: str, base: str) -> str | None:
    """The prefix of addresses that a prefix of whole keys covers below a root whose keys begin with `base`, or None."""
    if base.startswith(prefix):
        return ""
    return prefix[len(base) :] if prefix.startswith(base) else None


def after_days(days: object) -> str:
    """A waiting time of a rule, in words. ValueError unless it is a number of days."""
    if isinstance(days, bool) or not isinstance(days, int):
        raise ValueError(f"{days!r} is no number of days")
    return f"after {days} day{'' if days == 1 else 's'}"
