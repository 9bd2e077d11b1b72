"""Tries once what a mark and a sweep do to the store: list, read, write under conditions, delete.

It writes and deletes only below lakegc's own folder, under keys that never existed; nothing of it stays. It does not
write what it could not remove again.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lakegc_core import clock
from lakegc_core.doctor.finding import Finding, Level, Need, Trials, sentence, warning
from lakegc_core.doctor.lakefs_rights import Answers
from lakegc_core.errors import (
    BucketNotFoundError,
    IncompleteError,
    LakegcError,
    NoConditionsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreError,
)
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.artifacts import HOME
from lakegc_core.marks.context import RepositoryContext, output_key
from lakegc_core.marks.shelf import marks
from lakegc_core.names import Outcome
from lakegc_core.policy.safety import Level as SafetyLevel
from lakegc_core.store.base import Store, StoreConfig, check_bucket, connect
from lakegc_core.store.conditions import fault_of

FOLDER = "doctor"
"""Below lakegc's own folder, where the doctor tries writes and deletes, each time in a folder of a new name."""

_NO_ETAG = "1"  # which no object has, and every kind of store takes for an ETag
_DONE = (Outcome.DELETED, Outcome.ALREADY_GONE)
_WHERE = "Give the key the rights that deploy/README.md#policies lists, or correct what the message names."
_MARK = Need(Level.ALARM, "Every mark needs this, and so does every sweep.", _WHERE)
_SWEEP = Need(
    Level.WARNING,
    "A mark does without, but proves no contents: where branches hold very many objects of the sizes of garbage, such "
    "garbage waits. A sweep looks whether planned objects that came back to life are there.",
    _WHERE,
)
_CONDITIONS = Need(
    Level.ALARM,
    "Without conditional writes nothing keeps two collectors from working on a repository side by side.",
    "Use a store that has them. Or say `lease: external` in lakegc.yaml if something else keeps collectors apart.",
)
_UNTRIED = Need(
    Level.NOTE,
    "A sweep deletes below data/, where the doctor tries nothing. The policies of deploy/ allow a sweep no delete in "
    "lakegc's own folder, and that is right.",
    "Nothing, if the policy is meant so. A sweep names each object that it may not delete, and nothing is lost by it.",
)


_FOLDS = Need(
    Level.NOTE,
    "lakeFS gives no object such a name. But whoever stages an object under an address with two slashes in a row has "
    "it listed under another one. lakegc keeps both names; two addresses may be one object all the same.",
    "Stage no addresses with `//` or a backslash, or with segments that are empty (docs/stores.md).",
)
_CONDITIONAL = "conditional-writes"


UNREACHABLE, MISSING = "store-unreachable", "store-missing"
"""Names of the findings with which it makes no sense to ask the store for more."""
_PLACE = Need(
    Level.ALARM,
    "Every mark needs the store, and so does every sweep. What rests on it was not looked at.",
    "Correct what the message names, and ask the doctor again.",
)


def try_clock(context: RepositoryContext, level: SafetyLevel) -> list[Finding]:
    """Try to reach the store, and judge its clock."""
    trials, store, before = Trials(), connect(context.data), clock.now()
    now = trials.attempt(UNREACHABLE, "Reaching the store", store.clock, _PLACE)
    return trials.findings if now is None else judge_clock((now - before).total_seconds(), level)


def missing(context: RepositoryContext) -> Finding | None:
    """The alarm that there is no such bucket or container, of the data or of the marks; None if there is one, or if
    nobody can tell."""
    for config in dict.fromkeys((context.data, context.workspace)):
        try:
            check_bucket(connect(config))
        except BucketNotFoundError as error:
            of = "" if config == context.data else f"`workspace` leads to {config.root}. "
            return Finding(MISSING, _PLACE.level, of + sentence(str(error)), _PLACE.why, _PLACE.do)
    return None


def try_server_clock(client: LakeFSClient, level: SafetyLevel) -> list[Finding]:
    """Judge lakeFS's clock, as far as its answers have a date. Up to a second of the difference comes from that
    date."""
    before = clock.now()
    now = client.clock()
    if now is None or clock.is_replaced():
        return []
    return judge_server_clock((now - before).total_seconds(), level)


def try_store(context: RepositoryContext, answers: Answers, *, versions: bool) -> list[Finding]:
    """Try the store of the data, and the one in which marks lie. `versions`: whether old versions may stay there."""
    trials = Trials()
    _try_reading(trials, context, connect(context.data), answers)
    own = uuid.uuid4().hex
    may = _try_deleting(trials, context.data, f"{HOME}/{FOLDER}/{own}/deleted", versions=versions)
    folder = f"{context.home}/{FOLDER}/{own}"
    if context.workspace != context.data:
        may = _try_deleting(trials, context.workspace, f"{folder}/deleted", versions=versions)
    _try_writing(trials, context, f"{folder}/written", may_delete=may, versions=versions)
    for config, home in ((context.data, HOME), (context.workspace, context.home)):
        _remove_folders(config, home)
    return trials.findings


def judge_clock(skew: float, level: SafetyLevel) -> list[Finding]:
    """Judge the store's clock, `skew` seconds ahead of this machine's; the limit is the guard `clocks`'s own."""
    limit = level.clock_skew.total_seconds()
    if abs(skew) <= limit / 2:
        return []
    is_over = abs(skew) > limit
    return [
        Finding(
            "clocks",
            Level.ALARM if is_over else Level.WARNING,
            f"The store's clock and that of this machine differ by {skew:.0f} s; the limit is {limit:.0f} s.",
            "A wrong clock makes young objects look old. "
            + ("The guard `clocks` stops every sweep." if is_over else "Beyond the limit no mark is swept."),
            "Set the clocks right (NTP), then make a new mark.",
        )
    ]


def judge_server_clock(skew: float, level: SafetyLevel) -> list[Finding]:
    """Judge lakeFS's clock, `skew` seconds ahead of this machine's. Stores have the same limit."""
    if abs(skew) <= level.clock_skew.total_seconds():
        return []
    return [
        warning(
            "server-clock",
            f"lakeFS's clock and that of this machine differ by {skew:.0f} s.",
            "lakeFS dates commits and names objects by its own clock. If that is behind, rules drop commits too early, "
            "and young objects look old.",
            "Set the clocks right (NTP), also of what stands between lakeFS and this machine, if that dates answers.",
        )
    ]


def _try_reading(trials: Trials, context: RepositoryContext, store: Store, answers: Answers) -> None:
    trials.attempt("right-store-list", "Listing the namespace", lambda: next(store.list_level(""), None), _MARK)
    if answers.prefix is not None and answers.commits is not None:
        key = f"{answers.prefix}/{answers.commits}"
        trials.attempt("right-store-read", "Reading metadata of lakeFS", lambda: store.head(key), _MARK)
    if prepared := answers.prepared:
        outputs = connect(context.outputs)
        trials.attempt(
            "right-store-read-lists",
            "Reading what lakeFS prepares",
            lambda: outputs.head(output_key(context, prepared)),
            _MARK,
        )
    batch = trials.attempt("right-store-list-data", "Listing data/", lambda: next(store.list("data/"), None), _MARK)
    if batch is not None and batch.num_rows:
        address = batch.column("address")[0].as_py()
        trials.attempt("right-store-see", "Asking for an object of data/", lambda: _see(store, address), _SWEEP)


def _see(store: Store, address: str) -> None:
    try:
        store.head(address)
    except ObjectNotFoundError:
        return  # deleted since it was listed: the key was answered all the same


def _try_deleting(trials: Trials, config: StoreConfig, key: str, *, versions: bool) -> bool:
    """Delete a key that never existed. True if this is allowed."""
    with_versions = getattr(config, "delete_versions", False)
    (outcome,) = connect(_deleting(config, versions=False) if with_versions else config).delete_many([key])
    if outcome in _DONE and with_versions:
        # Of a key without versions nothing is asked: in a bucket that keeps them, the first delete has made one.
        (outcome,) = connect(config).delete_many([key])
    if outcome in _DONE:
        if versions:
            _clear(config, key)
        return True
    trials.failed(
        "right-store-delete",
        f"Whether a sweep may delete cannot be told: {config.root}/{key}, which never existed, was refused ({outcome})",
        _UNTRIED,
    )
    return False


def _try_writing(trials: Trials, context: RepositoryContext, key: str, *, may_delete: bool, versions: bool) -> None:
    """Write under lakegc's own folder. A condition that cannot hold comes first: it leaves nothing behind."""
    store, external = connect(context.workspace), context.settings.lease == "external"
    written, problems = False, Trials()
    try:
        store.write(key, b"a condition that cannot hold", if_match=_NO_ETAG)
        written = True
        if not external:
            problems.failed(_CONDITIONAL, f"{store.root} takes writes whose condition does not hold", _CONDITIONS)
    except PreconditionFailedError:
        pass
    except NoConditionsError as error:
        if not external:
            problems.failed(_CONDITIONAL, f"{store.root} takes no conditions of writes: {error}", _CONDITIONS)
    except LakegcError as error:
        trials.failed("right-store-write", f"Writing below {store.root}/{context.home} fails: {error}", _MARK)
        return
    try:
        if may_delete:
            written = True
            trials.attempt("right-store-write", "Writing to lakegc's own folder", lambda: _round(store, key), _MARK)
            if not problems.findings and not external:
                free = f"{key}-on-condition"
                trials.attempt(_CONDITIONAL, "A write under a condition", lambda: _conditions(store, free), _CONDITIONS)
                _remove(trials, context.workspace, free, versions=versions)
    finally:
        if written:
            _remove(trials, context.workspace, key, versions=versions)
    if may_delete:
        _try_folding(trials, context.workspace, key, versions=versions)
    trials.findings += problems.findings


def _round(store: Store, key: str) -> None:
    """Write and read back."""
    body = uuid.uuid4().bytes
    store.write(key, body)
    if store.read(key) != body:
        raise IncompleteError(f"{store.root}/{key} does not read as it was written")


def _conditions(store: Store, key: str) -> None:
    """Try the conditional writes of the lease under a free key. StoreError if one does what it must not."""
    if fault := fault_of(store, key, is_free=True):
        raise StoreError(fault)


def _try_folding(trials: Trials, config: StoreConfig, key: str, *, versions: bool) -> None:
    """Find out if the store takes `a//b` for `a/b`. Say nothing if it refuses such keys, or if trying fails."""
    store, twofold, folded = connect(config), f"{key}-folded//x", f"{key}-folded/x"
    with suppress(LakegcError):
        store.write(twofold, b"")
        try:
            store.head(folded)
        except ObjectNotFoundError:
            _remove(trials, config, twofold, versions=versions)
            return
        trials.failed("slashes-folded", f"{store.root} takes a key `a//b` for `a/b`", _FOLDS)
        _remove(trials, config, folded, versions=versions)


def _remove(trials: Trials, config: StoreConfig, key: str, *, versions: bool) -> None:
    """Delete what was written, and see that it is gone."""
    store = connect(config)

    def remove() -> None:
        (outcome,) = store.delete_many([key])
        try:
            store.head(key)
        except ObjectNotFoundError:
            return
        raise StoreError(f"the delete was answered with {outcome}, and the object is still there")

    why = "The doctor wrote a few bytes there to try it, and could not remove them. They harm nothing."
    need = Need(Level.WARNING, why, f"Delete {store.root}/{key} by hand.")
    trials.attempt("left-behind", f"Removing {store.root}/{key}", remove, need)
    if versions:
        _clear(config, key)


def _clear(config: StoreConfig, key: str) -> None:
    """Remove the old versions of a key of the doctor's own as well, where the store and the key's rights let it."""
    if getattr(config, "delete_versions", None) is False:
        connect(_deleting(config, versions=True)).delete_many([key])


def _deleting(config: StoreConfig, *, versions: bool) -> StoreConfig:
    """The same place on S3, where deletes take all versions of a key, or none."""
    s3: Any = config
    changed: StoreConfig = replace(s3, delete_versions=versions)
    return changed


def _remove_folders(config: StoreConfig, home: str) -> None:
    """Remove the folders that trying has made: where no mark was yet, a folder's clock has made the whole home."""
    with suppress(LakegcError):  # they hold no object, and the listing that fails is a finding already
        connect(config).remove_empty_folders(f"{home}/{FOLDER}/" if marks(config, home) else f"{home}/")
