"""S3 buckets that keep versions, emptied for good: a delete takes every version and delete marker of a key.

Keys of lakeFS's data are never written twice, so no version of one is anybody's but the object's that is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakegc_core.errors import ObjectNotFoundError, StoreError
from lakegc_core.store.base import ALREADY_GONE, DELETED, Deletes, StoreProbe
from lakegc_core.store.pace import Told
from lakegc_core.store.s3.access import SDK_ERRORS, failure
from lakegc_core.store.s3.store import S3Store

_MOST = 1000  # versions a request


class S3VersionsStore(S3Store):
    """`S3Store` whose deletes leave nothing that could be brought back. Costs one more request a key."""

    deletes: Deletes = Deletes(batch=100)

    def probe(self) -> StoreProbe:
        """As the bucket's, but that nothing stays of what is deleted."""
        return replace(super().probe(), versioning=False)

    def _ask_batch(self, keys: Sequence[str]) -> Mapping[str, Told] | None:
        found: dict[str, Told] = {}
        try:
            versions = {key: self._versions(key) for key in keys}
        except SDK_ERRORS as error:
            return dict.fromkeys(keys, failure(error))
        wanted = [(key, version) for key in keys for version in versions[key]]
        for start in range(0, len(wanted), _MOST):
            some = wanted[start : start + _MOST]
            objects = [{"Key": self._base + key, "VersionId": version} for key, version in some]
            told = self._delete_named([key for key, _ in some], objects)
            if told is None:
                return None
            for key, said in told.items():
                if key not in found or found[key].outcome == DELETED:
                    found[key] = said  # one version that stays is the key's outcome
        return {key: found.get(key) or self._without_versions(key) for key in keys}

    def _ask_one(self, keys: Sequence[str]) -> Mapping[str, Told]:
        (key,) = keys
        try:
            versions = self._versions(key)
            for version in versions:
                self._deleter().delete_object(Bucket=self._config.bucket, Key=self._base + key, VersionId=version)
        except SDK_ERRORS as error:
            return {key: failure(error)}
        except UnicodeError:  # half a surrogate pair: no key is called so
            return {key: Told.failed("InvalidKey")}
        return {key: Told(DELETED) if versions else self._without_versions(key)}

    def _without_versions(self, key: str) -> Told:
        """What it means that no version of a key is listed: it is gone, if the store does not show it all the same."""
        try:
            self.head(key)
        except ObjectNotFoundError:
            return Told(ALREADY_GONE)
        except StoreError:
            pass  # nobody knows: not gone
        return Told.failed("NoVersions")

    def _versions(self, key: str) -> list[str]:
        """The ids of all versions of one key, delete markers too. Raises the SDK's errors."""
        whole, found = self._base + key, []
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=self._config.bucket, Prefix=whole)
        for page in pages:
            listed = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            found += [each["VersionId"] for each in listed if each["Key"] == whole]
        return found
