"""Findings on how the store keeps objects: lifecycle rules, locks, old versions, keys, open uploads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from lakegc_core.clock import duration
from lakegc_core.doctor.etags import REMOVE, WHY
from lakegc_core.doctor.finding import Finding, Level, cannot_be_told
from lakegc_core.marks.artifacts import ANSWERS, HOME
from lakegc_core.names import Symptom, see
from lakegc_core.policy.safety import RELIST
from lakegc_core.store.settings import Effect, LifecycleRule, StoreSettings, Untold, Uploads

_GC = "_lakefs/retention/gc/"
_LISTS = tuple(f"{_GC}{name}/" for name in ("commits", "uncommitted", "addresses", "unified", "reports"))
"""Folders of the lists that lakeFS prepares for marks and looks, and of what collectors deleted: docs/artifacts.md says
what may go when."""

_BACK = (
    "Until then `lakegc restore REPO MARK` brings back what the sweep of a mark deletes, and its space is free only "
    "after that."
)
_NO_WAY_BACK = (
    "The account has a hierarchical namespace: lakegc brings nothing back out of its soft delete, and the space is "
    "free only after that."
)
_ANOTHER_WAY = "Set `quarantine: 7d`, or `backup: required`, in lakegc.yaml."
_UNLESS = "The account does not tell whether it has a hierarchical namespace. If it has, lakegc brings nothing back."
_TRY = "Run `lakegc drill REPO`, which proves it."
_NOT_FREE = f"Nothing, if that was meant. {see(Symptom.BILL_DID_NOT_FALL)}"


def examine_settings(
    told: StoreSettings,
    *,
    metadata: str | None,
    now: datetime,
    etags_are_md5: bool = False,
    quarantine: timedelta | None = None,
    backed_up: bool = False,
    workspace: StoreSettings | None = None,
    home: str = HOME,
) -> list[Finding]:
    """The findings on a store's settings. `metadata`: the folder of ranges and metaranges, if it lies in the namespace.
    `etags_are_md5`: true if lakegc.yaml says so; `quarantine`: what it says; `backed_up`: whether it demands a backup
    before each sweep. `workspace`: the settings where marks and copies in quarantine lie, if that is another place;
    `home`: their folder there."""
    return [
        *_lifecycle(told, metadata or "_lakefs"),
        *_lifecycle_of_workspace(workspace, home),
        *_lock(told),
        *_lock_of_workspace(told, workspace),
        *_versions(told),
        *_soft_delete(told, has_copies=backed_up or quarantine is not None),
        *_quarantine(told, quarantine, workspace),
        *_encryption(told, etags_are_md5),
        *_uploads(told, now),
    ]


def _lifecycle(told: StoreSettings, metadata: str) -> Iterator[Finding]:
    if isinstance(told.lifecycle, Untold):
        yield cannot_be_told("lifecycle", "Whether lifecycle rules delete objects of this namespace", told.lifecycle)
        return
    for rule in told.lifecycle:
        if rule.effect is Effect.EXPIRES:
            yield from _expires(rule, metadata)
        elif rule.effect is Effect.ARCHIVES and _meets(rule.prefix, "data/", f"{metadata}/", "_lakefs/"):
            yield Finding(
                "lifecycle-archives",
                Level.WARNING,
                f"{_named(rule)} moves objects below {_place(rule)} {rule.when} to a class that does not read at once.",
                "Reads of live paths fail then, and marks fail if they cannot read metadata.",
                "Leave the storage namespace out of this rule.",
            )
        elif rule.effect is Effect.MOVES and _meets(rule.prefix, "data/"):
            yield Finding(
                "lifecycle-moves",
                Level.NOTE,
                f"{_named(rule)} moves objects below {_place(rule)} {rule.when} to another storage class.",
                "Objects read as before. Many classes bill for a least time, so deleting early saves less.",
                "Nothing, if that was meant.",
            )


def _lifecycle_of_workspace(told: StoreSettings | None, home: str) -> Iterator[Finding]:
    if told is None:
        return
    if isinstance(told.lifecycle, Untold):
        yield cannot_be_told("lifecycle", "Whether lifecycle rules delete marks in the workspace", told.lifecycle)
        return
    for rule in told.lifecycle:
        if rule.effect is Effect.EXPIRES and _meets(rule.prefix, f"{home}/") and not _may_expire(rule, home):
            what = f"{_named(rule)} deletes objects below {rule.prefix or 'the whole workspace'} {rule.when}"
            yield _marks_go(what.rstrip(), home)


def _marks_go(what: str, home: str) -> Finding:
    why = "Marks and records of sweeps go with it. Then garbage is confirmed anew, and a broken-off sweep is lost."
    do = f"Take {home}/ out of this rule. `lakegc retire` deletes old marks."
    return Finding("lifecycle-expires-marks", Level.WARNING, f"{what}.", why, do)


def _expires(rule: LifecycleRule, metadata: str) -> Iterator[Finding]:
    what = f"{_named(rule)} deletes objects below {_place(rule)} {rule.when}".rstrip()
    if _may_expire(rule, HOME):
        return
    if _folder(rule).startswith(f"{HOME}/"):
        yield _marks_go(what, HOME)
        return
    if not _meets(rule.prefix, "data/", f"{metadata}/", "_lakefs/"):
        why = "These objects are not lakeFS's, and lakegc never touches them."
        yield Finding("lifecycle-expires-foreign", Level.NOTE, f"{what}.", why, "Nothing, if that was meant.")
        return
    if rule.narrowed:
        what += ", as far as its tags, sizes or ends of names fit"
    why = "The store deletes by age alone and knows nothing of commits: live data is lost, and reads answer 410."
    do = "Take the storage namespace out of this rule at once. Let lakegc delete what nothing refers to."
    yield Finding("lifecycle-expires-data", Level.ALARM, f"{what}.", why, do)


def _may_expire(rule: LifecycleRule, home: str) -> bool:
    """True if a rule covers only what may go, by docs/artifacts.md: lakeFS's own lists, and what answers left over."""
    return _folder(rule).startswith((*_LISTS, f"{home}/{ANSWERS}/"))


def _folder(rule: LifecycleRule) -> str:
    return f"{rule.prefix.rstrip('/')}/"  # rules need no slash at their end


def _meets(prefix: str, *folders: str) -> bool:
    """True if a rule's prefix covers anything below one of these folders."""
    return any(folder.startswith(prefix) or prefix.startswith(folder) for folder in folders)


def _on_data(told: StoreSettings, effect: Effect) -> list[LifecycleRule]:
    """The rules that do this to all that lies below data/, as far as the store tells."""
    rules = () if isinstance(told.lifecycle, Untold) else told.lifecycle
    return [each for each in rules if each.effect is effect and "data/".startswith(each.prefix) and not each.narrowed]


def _named(rule: LifecycleRule) -> str:
    return f"Lifecycle rule {rule.name}" if rule.name else "A lifecycle rule"


def _place(rule: LifecycleRule) -> str:
    return rule.prefix or "the whole namespace"


def _lock(told: StoreSettings) -> Iterator[Finding]:
    if isinstance(told.lock, Untold):
        yield cannot_be_told("lock", "Whether a lock keeps objects from being deleted", told.lock)
    elif told.lock:
        why = (
            "A sweep deletes locked objects, but they stay as old versions, which nobody can delete before their time. "
            "Until then they cost."
        )
        do = "Nothing, if the lock is wanted. With `versions: delete` each locked object fails, and the sweep goes on."
        if told.lock_stops_writes:
            why = "Locked objects can be neither deleted nor written over before their time."
            do = "Nothing, if the lock is wanted. Each locked object fails in a sweep, and the sweep goes on."
        yield Finding("lock", Level.WARNING, f"The store locks objects: {told.lock}.", why, do)


def _lock_of_workspace(told: StoreSettings, workspace: StoreSettings | None) -> Iterator[Finding]:
    """Where lakegc's own files lie: in a workspace elsewhere, or beside the data."""
    lock = (workspace or told).lock
    if isinstance(lock, Untold):
        if workspace is not None:
            yield cannot_be_told("lock-workspace", "Whether a lock keeps lakegc from writing its own files", lock)
    elif lock:
        level, why = Level.NOTE, "Each lease that lakegc writes stays as an old version till its time, and costs."
        if (workspace or told).lock_stops_writes:
            level, why = Level.WARNING, "lakegc writes over its own lease and probe, so marks and sweeps fail."
        do = "Put `workspace:` in lakegc.yaml into a place without a lock."
        yield Finding("lock-workspace", level, f"The store locks lakegc's own files: {lock}.", why, do)


def _versions(told: StoreSettings) -> Iterator[Finding]:
    if isinstance(told.versioning, Untold):
        yield cannot_be_told("versioning", "Whether deleted objects stay as old versions", told.versioning)
    if told.versioning is not True:
        return
    why = "What a sweep deletes stays as an old version, and its space is not free."
    if ends := [f"{_named(rule)} deletes them {rule.when}".rstrip() for rule in _on_data(told, Effect.OLD_VERSIONS)]:
        what = f"The store keeps old versions; {' and '.join(ends)}."
        yield Finding("versioning", Level.NOTE, what, _BACK, _NOT_FREE)
        return
    what = "The store keeps old versions, and no lifecycle rule that covers data/ deletes them."
    if isinstance(told.lifecycle, Untold):
        what = "The store keeps old versions. Whether a lifecycle rule deletes them cannot be told."
    do = (
        "Let a lifecycle rule delete old versions. `versions: delete` in lakegc.yaml (S3; docs/stores.md) is for later "
        "sweeps only: what went already stays until such a rule deletes it. "
        f"{see(Symptom.BILL_DID_NOT_FALL)}"
    )
    yield Finding("versioning", Level.NOTE if isinstance(told.lifecycle, Untold) else Level.WARNING, what, why, do)


def _quarantine(told: StoreSettings, age: timedelta | None, workspace: StoreSettings | None) -> Iterator[Finding]:
    if age is None:
        return
    why = "Until then `lakegc restore REPO MARK` brings it back, and its space is free only after that."
    do = "Run `lakegc retire` every night: it empties quarantines."
    if workspace is not None and _keeps(workspace):
        why += " The store of the workspace keeps what is deleted, so copies take space there after that too."
        do += " See that a lifecycle rule deletes old versions in the workspace."
    if _keeps(told):
        why += " The store keeps what is deleted too, so that it takes space twice."
        if told.versioning is True or told.undeletes:
            do = "Leave `quarantine` out of lakegc.yaml."
    yield Finding(
        "quarantine",
        Level.NOTE,
        f"lakegc copies what a sweep deletes into quarantine, and keeps the copies for {duration(age)}.",
        why,
        do,
    )


def _keeps(told: StoreSettings) -> bool:
    """True if the store says that it keeps what is deleted."""
    return told.versioning is True or (isinstance(told.soft_delete, timedelta) and told.soft_delete > timedelta(0))


def _soft_delete(told: StoreSettings, *, has_copies: bool) -> Iterator[Finding]:
    """`has_copies`: lakegc.yaml demands copies of what a sweep deletes."""
    if isinstance(told.soft_delete, Untold):
        yield cannot_be_told("soft-delete", "For how long deleted objects can be brought back", told.soft_delete)
    elif told.soft_delete:
        what = f"The store's soft delete keeps what is deleted for {told.soft_delete / timedelta(days=1):g} days."
        if told.undeletes:
            yield Finding("soft-delete", Level.NOTE, what, _BACK, _NOT_FREE)
        elif told.undeletes is None:
            yield Finding("soft-delete", Level.NOTE, what, f"{_UNLESS} {_BACK}", f"{_TRY} {_NOT_FREE}")
        elif has_copies:
            yield Finding("soft-delete", Level.NOTE, what, _NO_WAY_BACK, _NOT_FREE)
        else:
            yield Finding("soft-delete", Level.WARNING, what, _NO_WAY_BACK, _ANOTHER_WAY)


def _encryption(told: StoreSettings, etags_are_md5: bool) -> Iterator[Finding]:
    if isinstance(told.encryption, Untold):
        yield cannot_be_told("encryption", "With whose key the store encrypts", told.encryption)
    elif told.encryption:
        if etags_are_md5:
            what = f"The store encrypts new objects ({told.encryption}) so that their ETags are no MD5s."
            yield Finding("etags-encrypted", Level.ALARM, what, WHY, REMOVE)
        yield Finding(
            "encryption",
            Level.NOTE,
            f"The store encrypts new objects with a key that has rights of its own ({told.encryption}).",
            "Reading and writing need rights on that key too. Where ETags are no digests, marks ask lakeFS more.",
            "Allow lakegc to encrypt and decrypt with it (on S3 kms:GenerateDataKey and kms:Decrypt).",
        )


def _uploads(told: StoreSettings, now: datetime) -> Iterator[Finding]:
    if isinstance(told.uploads, Untold):
        yield cannot_be_told("open-uploads", "Whether uploads in parts were left open", told.uploads)
        return
    if told.uploads is None or told.uploads.oldest is None or now - told.uploads.oldest <= RELIST:
        return
    if _on_data(told, Effect.ENDS_UPLOADS):
        return  # the store is at it
    yield Finding(
        "open-uploads",
        Level.WARNING,
        f"{_count(told.uploads)} uploads in parts are open; the oldest was begun {_days(told.uploads, now)} ago.",
        "Their parts cost like objects. No list of objects shows them, so no mark sees them and no sweep frees them.",
        f"Add a lifecycle rule that ends incomplete uploads after 7 days. {see(Symptom.BILL_DID_NOT_FALL)}",
    )


def _count(uploads: Uploads) -> str:
    return f"{uploads.count:,}" if uploads.whole else f"More than {uploads.count:,}"


def _days(uploads: Uploads, now: datetime) -> str:
    assert uploads.oldest is not None  # who has none has no finding
    return f"{(now - uploads.oldest) / timedelta(days=1):.0f} days"
