"""Every limit that stands between a mark and a deletion, on one page.

Nothing about safety is decided by a number anywhere else. Each field says which danger it averts; each level is one
frozen value. `full` is the default; `standard` is what lakeFS itself promises, minus its defects; `none` is for tests.
These two take over from `full` what they do not name: a limit that they forget is as strict as there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from lakegc_core.clock import duration, unsafe_allowed
from lakegc_core.errors import SettingsError

LEASE = timedelta(minutes=10)
"""Time for which a lease that is no longer renewed keeps others out: longer than any pause of a living collector."""

LEASE_RENEWAL = timedelta(minutes=2)
"""Time after which a living collector renews its lease; four renewals may fail before it is lost."""

DEFAULT_MIN_AGE = timedelta(hours=25)
"""lakeFS lets a client link an upload for 24 h; one hour more for clocks that differ."""


KEEP_MARKS = 14
"""The number of newest complete marks that are never retired unless lakegc.yaml says otherwise: two weeks of nights, as
long as a mark may be swept."""

CLEAN_EVERY = 7
"""Marks that may rest on one another unless lakegc.yaml says otherwise: of a week's nights one reads all anew. The
others can miss only garbage that appeared in a slice after the slice had become old, or that others changed."""

RELIST = timedelta(days=7)
"""Time after the beginning of a slice in which objects may appear in it, so that every mark lists it: uploads are
linked within a day, but a writer completes those in parts when it likes."""

DRILL_OBJECTS = 20
"""Objects that a drill of undo deletes and brings back unless its option says otherwise: what nothing brings back is
lost."""

DRILL_OBJECTS_MOST = 1_000
"""The most that the option can say: a drill is no sweep, and this process reads each object twice."""

DRILL_BYTES = 1 << 30
"""Bytes that a drill reads before the delete, and again after it, unless its option says otherwise."""

NEIGHBOURS = timedelta(days=7)
"""Greatest age of a neighbour's newest mark unless lakegc.yaml says otherwise: if the mark is older, the neighbour may
have imported objects from here that nobody knows of."""

ASKED_AT_ONCE = 8
"""Requests for what branches show that lakeFS gets side by side unless lakegc.yaml says otherwise."""

PAGES_BEFORE_HEADS = 1_000
"""Pages up to which lakeFS is asked without HEADs that might save some: HEADs of the store take minutes."""

ASKING = timedelta(seconds=60)
"""Time that each mark may spend on HEADs that tell contents apart, however quick the rest of it is."""

ETAGS_ASKED = 50
"""Listed ETags that each mark checks by HEADs if lakegc.yaml says that they are MD5s. A bucket that encrypts shows
itself at once, and one object in twenty within a few nights. A single one may stay unseen."""

LOOKS = 3
"""Most times that a look is taken: anew if heads of branches moved while lakeFS was asked. The third one counts all the
same, with all that the others found referenced."""

LACKING_OBJECTS, LACKING_SHARE = 10, 0.01
"""A backup may lack so many objects, or such a share of them, whichever is more: the sweep leaves these. Beyond that
something is wrong with the backup."""

LEAST_MARKS = 2
"""Least number of marks to keep: the newest carries what is known of every object, and the next is compared with it."""


@dataclass(frozen=True)
class Level:
    """One safety level. Durations are waiting times; fractions are of what the mark listed, 0 to 1."""

    name: str

    age_margin: timedelta
    """Added to the server's grace period to get the smallest minimum age: an upload may be linked until the very
    end of the grace period, by a clock that is not ours."""

    part_age: timedelta
    """Minimum age of parts of unfinished multipart uploads (GCS): deleting one breaks an upload that still runs."""

    gap: timedelta
    """Time for which an object must have been unreferenced without interruption. Stops commits in flight behind a slow
    hook, branches created meanwhile, shallow moves, multipart uploads that appear late with an old date."""

    look_delay: timedelta
    """Least time between the end of the listing and the sweep's own look at what is staged: an upload that was
    completed around the listing has been staged by then."""

    look_validity: timedelta
    """Time for which a look at the references is believed; after it, content can have come back to life unseen."""

    watch_interval: timedelta
    """Longest time between requests for heads, tags and rules while deleting: a branch may be made of old content."""

    whole_pages: int
    """Pages of 1,000 objects up to which all branches are listed whole before garbage is called so: that rests on no
    belief about contents. Beyond it, lakegc asks only for the paths at which a branch may hide a candidate."""

    requests: int
    """Most requests by which one mark, or one look of a sweep, asks lakeFS what branches show. If they do not suffice
    for a candidate, it is not deleted: it stays unconfirmed, and comes first next time."""

    heads: int
    """Most HEADs by which one mark, or one look of a sweep, learns from the store which contents differ, so that it
    asks for fewer pages. Candidates that they do not suffice for wait: HEADs are remembered, and later marks make the
    others. They prove that something may go, so they never replace a look."""

    rules_memory: timedelta
    """Time for which a shorter rule must have been seen before it takes effect: otherwise every later mark would
    confirm a mistaken one."""

    mark_validity: timedelta
    """Greatest age of a mark that is swept: the world has moved on, and a new mark costs little."""

    retention_margin: timedelta
    """Added to every retention period: the server counts calendar days in its own time zone, so that a day may
    have 25 hours."""

    clock_skew: timedelta
    """Largest difference between the collector's clock and the store's: ages are judged by the store's dates."""

    blast_radius_objects: float
    """Largest share of lakeFS's objects that one sweep may take: a wrong rule or an emptied branch looks like garbage,
    only more of it. Objects that are not lakeFS's count for nothing: no sweep can take them."""

    blast_radius_bytes: float
    """The same in bytes: few large objects can be most of a repository."""

    shrink: float
    """Largest share of the previous mark's live objects that may be gone from the live ones of this mark, committed and
    staged apart: a short answer of the server looks like that."""

    samples: int
    """Paths on branch heads of which one byte is read before and after a sweep: the surest sign that reads work."""

    rings: tuple[float, ...]
    """Shares of a plan, ascending, after each of which paths near to what went are read: what is live in a plan then
    costs the first of them at most."""

    missing_live: float
    """Largest share of live addresses that the store may lack: above it, listing and references do not speak of
    the same place."""


FULL = Level(
    name="full",
    age_margin=timedelta(hours=1),
    part_age=timedelta(days=7),
    gap=timedelta(hours=24),
    look_delay=timedelta(0),  # the gap is longer
    look_validity=timedelta(minutes=60),
    watch_interval=timedelta(seconds=60),
    whole_pages=500,
    requests=100_000,
    heads=1_000_000,
    rules_memory=timedelta(days=7),
    mark_validity=timedelta(days=14),
    retention_margin=timedelta(hours=1),
    clock_skew=timedelta(minutes=10),
    blast_radius_objects=0.10,
    blast_radius_bytes=0.10,
    shrink=0.30,
    samples=20,
    rings=(0.001, 0.01, 0.1),
    missing_live=0.001,
)
"""Deletes only what two looks, a day apart, found unreferenced, and no mark or look between them found live."""

PATIENCE = timedelta(hours=1)
"""Longest time for which Dagster's one sweep of a mark waits for garbage that lacks little of the gap: marks that begin
at the same hour end minutes apart."""

RETIREMENT = FULL.gap + timedelta(days=7)
"""Time for which no mark is retired after it was begun or read anything: its findings may still be waited for, and a
shortened rule that it saw has not taken effect yet."""

RESUMED_WITHIN = timedelta(hours=12)
"""Greatest age of an unfinished mark that is gone on with if nobody names a mark: less than a night and a day."""

STANDARD = replace(
    FULL, name="standard", gap=timedelta(0), look_delay=timedelta(minutes=15), mark_validity=timedelta(days=7)
)
"""No gap: a mark may be swept a quarter of an hour after its listing."""

NONE = replace(
    FULL,
    name="none",
    age_margin=timedelta(days=-36500),
    part_age=timedelta(0),
    gap=timedelta(0),
    rules_memory=timedelta(0),
    mark_validity=timedelta(days=36500),
    retention_margin=timedelta(0),
    clock_skew=timedelta(days=36500),
    blast_radius_objects=1.0,
    blast_radius_bytes=1.0,
    shrink=1.0,
    samples=0,
    rings=(),
    missing_live=1.0,
)
"""Tests and throw-away repositories (`lakegc try`): no waiting and no limits of size. Order and completeness are still
demanded."""

LEVELS = {level.name: level for level in (FULL, STANDARD, NONE)}
_STRICTNESS = {"none": 0, "standard": 1, "full": 2}


def level_to_read(name: str) -> Level:
    """The level of that name, for those who mark nothing and sweep nothing by it."""
    if name not in LEVELS:
        raise SettingsError(f"There is no safety level {name!r}; the levels are {', '.join(LEVELS)}.")
    return LEVELS[name]


def level(name: str, *, throw_away: bool = False) -> Level:
    """The level of that name, to mark or to sweep by. `none` needs LAKEGC_UNSAFE=yes in the environment, or a
    repository that `lakegc try` has made (`throw_away`)."""
    found = level_to_read(name)
    if name == NONE.name and not (throw_away or unsafe_allowed()):
        raise SettingsError(
            "Safety level 'none' deletes without waiting and without limits. It is for tests and throw-away "
            "repositories only, and needs LAKEGC_UNSAFE=yes in the environment."
        )
    return found


def stricter(one: Level, other: Level) -> Level:
    """The stricter of two levels."""
    return max(one, other, key=lambda each: _STRICTNESS[each.name])


def least_min_age(grace_period: timedelta, level: Level) -> timedelta:
    """The smallest minimum age that a level allows."""
    return grace_period if level is NONE else grace_period + level.age_margin


def check_min_age(min_age: timedelta, grace_period: timedelta, level: Level, *, throw_away: bool = False) -> None:
    """Refuse a minimum age that the server's own grace period does not allow. `throw_away`: see `level`.

    Between an upload and its link nothing in lakeFS refers to the object; that may last the whole grace period.
    """
    least = least_min_age(grace_period, level)
    if min_age < least and not (throw_away or unsafe_allowed()):
        raise SettingsError(
            f"The minimum age of {duration(min_age)} is too short: this lakeFS lets a client link an upload for "
            f"{duration(grace_period)}, and level {level.name!r} adds {duration(least - grace_period)}. "
            f"Use --min-age {duration(least)} or more (or set min_age in lakegc.yaml)."
        )


def may_lack(objects: int) -> int:
    """The number of objects that a backup of so many may lack."""
    return max(LACKING_OBJECTS, int(objects * LACKING_SHARE))
