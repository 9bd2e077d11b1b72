"""Settings by which an S3 bucket keeps objects. `Untold`: the key may not ask for it, or the store does not know it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from lakegc_core.errors import StoreError
from lakegc_core.store.s3.access import UNSUPPORTED
from lakegc_core.store.s3.bucket import Bucket
from lakegc_core.store.settings import (
    Effect,
    LifecycleRule,
    StoreSettings,
    Untold,
    Uploads,
    after_days,
    prefix_below,
)

T = TypeVar("T")
Answer = Mapping[str, Any]

_DENIED = {"AccessDenied", "AllAccessDisabled", "Forbidden", "403"}
_ASLEEP = {"GLACIER", "DEEP_ARCHIVE"}  # classes whose objects cannot be read before they are restored
_PAGES = 20  # of open uploads that are counted; a page has 1,000


def settings_of(bucket: Bucket, *, leaves_versions: bool) -> StoreSettings:
    """Ask the bucket. `leaves_versions`: true if lakegc's deletes leave old versions where the bucket keeps them."""
    return StoreSettings(
        versioning=_told(
            lambda: bucket.answer("get_bucket_versioning", ""),
            lambda answer: _versioning(answer) if leaves_versions else False,
            "s3:GetBucketVersioning",
        ),
        soft_delete=timedelta(0),
        lock=_told(
            lambda: bucket.answer("get_object_lock_configuration", ""),
            _lock,
            "s3:GetBucketObjectLockConfiguration",
            {"ObjectLockConfigurationNotFoundError": ""},
        ),
        encryption=_told(
            lambda: bucket.answer("get_bucket_encryption", ""),
            _encryption,
            "s3:GetEncryptionConfiguration",
            {"ServerSideEncryptionConfigurationNotFoundError": ""},
        ),
        lifecycle=_told(
            lambda: bucket.answer("get_bucket_lifecycle_configuration", ""),
            lambda answer: tuple(_rules(answer, bucket.base)),
            "s3:GetLifecycleConfiguration",
            {"NoSuchLifecycleConfiguration": ()},
        ),
        uploads=_uploads(bucket),
    )


def _told(
    ask: Callable[[], Answer],
    read: Callable[[Answer], T | Untold],
    right: str,
    absent: Mapping[str, T] | None = None,
) -> T | Untold:
    """The setting in an answer. `absent`: the meaning of codes by which a store says that nothing is set."""
    try:
        answer = ask()
    except StoreError as error:
        return Untold(str(error))
    if "Error" in answer:
        code = str(answer["Error"].get("Code") or "Unknown")
        if absent and code in absent:
            return absent[code]
        if code in _DENIED:
            return Untold("the key may not ask", right)
        return Untold("the store does not know the question" if code in UNSUPPORTED else f"the store answered {code}")
    try:
        return read(answer)
    except (AttributeError, KeyError, TypeError, ValueError):
        return Untold("the store's answer is odd")


def _versioning(answer: Answer) -> bool | Untold:
    status = answer.get("Status")
    if status == "Suspended":
        return Untold("versioning is suspended: what was written while it was on leaves an old version")
    return {None: False, "Enabled": True}[status]


def _lock(answer: Answer) -> str:
    found = answer["ObjectLockConfiguration"]
    if found["ObjectLockEnabled"] != "Enabled":
        raise ValueError("an object lock that is neither on nor absent")
    kept = found.get("Rule", {}).get("DefaultRetention")
    if not kept:
        return "object lock is on, without a default retention"
    time = f"{kept['Days']} days" if "Days" in kept else f"{kept['Years']} years"
    return f"object lock keeps every new version for {time} ({kept['Mode']})"


def _encryption(answer: Answer) -> str:
    kinds = {
        rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"]
        for rule in answer["ServerSideEncryptionConfiguration"]["Rules"]
        if "ApplyServerSideEncryptionByDefault" in rule
    }
    return ", ".join(sorted(kinds - {"AES256"}))


def _rules(answer: Answer, base: str) -> Iterator[LifecycleRule]:
    for rule in answer["Rules"]:
        if not {"Enabled": True, "Disabled": False}[rule["Status"]]:
            continue
        chosen = rule.get("Filter") or {}
        both = chosen.get("And") or {}
        prefix = prefix_below(rule.get("Prefix") or chosen.get("Prefix") or both.get("Prefix") or "", base)
        narrowed = bool((chosen.keys() | both.keys()) - {"And", "Prefix"})
        if prefix is not None:
            for effect, when in _effects(rule):
                yield LifecycleRule(str(rule.get("ID", "")), effect, prefix, when, narrowed)


def _effects(rule: Answer) -> Iterator[tuple[Effect, str]]:
    expiration = rule.get("Expiration", {})
    if "Days" in expiration or "Date" in expiration:
        yield Effect.EXPIRES, _when(expiration)
    if old := rule.get("NoncurrentVersionExpiration"):
        yield Effect.OLD_VERSIONS, after_days(old["NoncurrentDays"]) if "NoncurrentDays" in old else ""
    if ended := rule.get("AbortIncompleteMultipartUpload"):
        yield Effect.ENDS_UPLOADS, after_days(ended["DaysAfterInitiation"])
    for moved in rule.get("Transitions", ()):
        yield Effect.ARCHIVES if moved["StorageClass"] in _ASLEEP else Effect.MOVES, _when(moved)


def _when(rule: Answer) -> str:
    return after_days(rule["Days"]) if "Days" in rule else f"on {rule['Date']:%Y-%m-%d}"


def _uploads(bucket: Bucket) -> Uploads | Untold:
    found, marker = Uploads(0, None), {"KeyMarker": "", "UploadIdMarker": ""}
    for _ in range(_PAGES):
        where = {name: value for name, value in marker.items() if value}
        page = _told(
            partial(_list_uploads, bucket, where),
            _page,
            "s3:ListBucketMultipartUploads",
        )
        if isinstance(page, Untold):
            return page
        some, following = page
        oldest = min((each for each in (found.oldest, some.oldest) if each), default=None)
        found = Uploads(found.count + some.count, oldest)
        if following is None:
            return found
        if following == marker:
            return Untold("the store goes round in circles")
        marker = following
    return Uploads(found.count, found.oldest, whole=False)


def _list_uploads(bucket: Bucket, where: Mapping[str, str]) -> Answer:
    answer: Answer = bucket.answer("list_multipart_uploads", "", Prefix=bucket.base, **where)
    return answer


def _page(answer: Answer) -> tuple[Uploads, dict[str, str] | None]:
    """One page of open uploads, and where the next one begins."""
    begun: list[datetime] = [each["Initiated"] for each in answer.get("Uploads", ())]
    some = Uploads(len(begun), min(begun, default=None))
    if not answer["IsTruncated"]:
        return some, None
    return some, {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer.get("NextUploadIdMarker", "")}
