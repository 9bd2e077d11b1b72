"""Settings by which a bucket of Google Cloud Storage keeps objects: its metadata, read by one request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from google.api_core.exceptions import Forbidden, Unauthorized

from lakegc_core.store.gcs.access import SDK_ERRORS, code_of
from lakegc_core.store.settings import Effect, LifecycleRule, StoreSettings, Untold, after_days, prefix_below

T = TypeVar("T")
Rule = Mapping[str, Any]

_RIGHT = "storage.buckets.get"
_OLD = {"daysSinceNoncurrentTime", "noncurrentTimeBefore", "numNewerVersions"}  # conditions on old versions alone
_PLACES = {"matchesPrefix", "age", "createdBefore"}  # conditions that leave no object out for ever


def settings_of(bucket: Any, base: str, times: Any) -> StoreSettings:
    """Ask the bucket. `bucket`: the SDK's; `base`: what its names of ours begin with; `times`: how long to wait."""
    try:
        bucket.reload(retry=None, timeout=times)
    except SDK_ERRORS as error:
        denied = isinstance(error, Forbidden | Unauthorized)
        told = Untold("the key may not ask", _RIGHT) if denied else Untold(f"the store answered {code_of(error)}")
        return StoreSettings(told, told, told, told, told, told)
    return StoreSettings(
        versioning=_read(lambda: bool(bucket.versioning_enabled)),
        soft_delete=_read(lambda: timedelta(seconds=bucket.soft_delete_policy.retention_duration_seconds or 0)),
        lock=_read(lambda: _lock(bucket)),
        encryption=_read(lambda: str(bucket.default_kms_key_name or "")),
        lifecycle=_read(lambda: tuple(_rules(bucket.lifecycle_rules, base))),
        uploads=None,  # lakeFS's own are objects here, which a mark sees
        lock_stops_writes=True,
    )


def _read(part: Callable[[], T]) -> T | Untold:
    try:
        return part()
    except (AttributeError, KeyError, TypeError, ValueError):
        return Untold("the store's answer is odd")


def _lock(bucket: Any) -> str:
    seconds = bucket.retention_period
    found = [f"a retention policy of {seconds / 86400:g} days"] if seconds else []
    if bucket.default_event_based_hold:
        found.append("an event-based hold on every new object")
    return " and ".join(found)


def _rules(rules: Any, base: str) -> Iterator[LifecycleRule]:
    for number, rule in enumerate(rules):
        action, condition = rule["action"], rule["condition"]
        effect = _effect(action, condition)
        for prefix in condition.get("matchesPrefix") or [""]:
            inside = prefix_below(prefix, base)
            if inside is not None:
                narrowed = bool(condition.keys() - _PLACES) and effect is not Effect.OLD_VERSIONS
                yield LifecycleRule(f"number {number + 1}", effect, inside, _when(condition), narrowed)


def _effect(action: Rule, condition: Rule) -> Effect:
    if action["type"] == "Delete":
        old = condition.get("isLive") is False or _OLD & condition.keys()
        return Effect.OLD_VERSIONS if old else Effect.EXPIRES
    return {"AbortIncompleteMultipartUpload": Effect.ENDS_UPLOADS, "SetStorageClass": Effect.MOVES}[action["type"]]


def _when(condition: Rule) -> str:
    if "daysSinceNoncurrentTime" in condition:
        return after_days(condition["daysSinceNoncurrentTime"])
    if "createdBefore" in condition:
        return f"if made before {condition['createdBefore']}"
    return after_days(condition["age"]) if "age" in condition else ""
