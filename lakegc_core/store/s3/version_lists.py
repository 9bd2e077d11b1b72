"""Reads the list of the versions and delete markers of one key, and refuses pages that do not add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakegc_core.errors import IncompleteError
from lakegc_core.store.s3.bucket import Bucket

_NULL = "null"  # how S3 calls the version of an object that was written without versioning; some stores call it nothing
_AFTER = ("KeyMarker", "VersionIdMarker")


@dataclass(frozen=True)
class Listed:
    """The versions and the delete markers of one key, as botocore reads them; the newest of either first."""

    versions: list[Mapping[str, Any]] = field(default_factory=list)
    markers: list[Mapping[str, Any]] = field(default_factory=list)


def versions_of(bucket: Bucket, key: str, ask: Callable[..., Mapping[str, Any]]) -> Listed:
    """All versions of one key. `ask` gets a page of S3's ListObjectVersions, or raises. IncompleteError if a page is no
    list, or is not followed by the next one."""
    whole, found, after = bucket.base + key, Listed(), dict[str, str]()
    while True:
        page = ask(Prefix=whole, **after)
        found.versions.extend(each for each in page.get("Versions", ()) if each.get("Key") == whole)
        found.markers.extend(each for each in page.get("DeleteMarkers", ()) if each.get("Key") == whole)
        if page["ResponseMetadata"]["HTTPStatusCode"] != 200 or page.get("IsTruncated") is None:
            raise IncompleteError(f"{bucket.root}: the answer about versions of {key!r} is no list of versions")
        if not page["IsTruncated"]:
            return found
        following = {name: page[f"Next{name}"] for name in _AFTER if page.get(f"Next{name}")}
        if not following or following == after:
            raise IncompleteError(f"{bucket.root}: the list of versions of {key!r} does not say how it goes on")
        after = following


def id_of(version: Mapping[str, Any]) -> str:
    """The id by which a version can be named."""
    return version.get("VersionId") or _NULL
