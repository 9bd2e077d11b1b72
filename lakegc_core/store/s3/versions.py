"""S3 buckets that keep versions, emptied for good: a delete takes every version and delete marker of a key.

Keys of lakeFS's data are never written twice, so no version of one is anybody's but the object's that is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakegc_core.errors import ObjectNotFoundError, StoreError
from lakegc_core.names import Outcome
from lakegc_core.store.base import Deletes
from lakegc_core.store.repeated_deletes import DeleteAnswer
from lakegc_core.store.s3.access import SDK_ERRORS, failure
from lakegc_core.store.s3.deletes import ObjectDeletes

_MOST = 1000  # versions a request


class VersionDeletes(ObjectDeletes):
    """Deletes that leave nothing that could be brought back. Cost one more request a key."""

    best: Deletes = Deletes(batch=100)
    leaves_versions = False

    def ask_batch(self, keys: Sequence[str]) -> Mapping[str, DeleteAnswer] | None:
        """One request for the versions of each key, and one for 1000 versions of all."""
        found: dict[str, DeleteAnswer] = {}
        try:
            versions = {key: self.versions(key) for key in keys}
        except SDK_ERRORS as error:
            return dict.fromkeys(keys, failure(error))
        wanted = [(key, version) for key in keys for version in versions[key]]
        for start in range(0, len(wanted), _MOST):
            some = wanted[start : start + _MOST]
            objects = [{"Key": self.bucket.base + key, "VersionId": version} for key, version in some]
            told = self.delete_named([key for key, _ in some], objects)
            if told is None:
                return None
            for key, said in told.items():
                if key not in found or found[key].outcome == Outcome.DELETED:
                    found[key] = said  # one version that stays is the key's outcome
        return {key: found.get(key) or self._without_versions(key) for key in keys}

    def ask_one(self, keys: Sequence[str]) -> Mapping[str, DeleteAnswer]:
        """One request for the versions of one key, and one for each of them."""
        (key,) = keys
        try:
            versions = self.versions(key)
            for version in versions:
                self.client().delete_object(Bucket=self.bucket.name, Key=self.bucket.base + key, VersionId=version)
        except SDK_ERRORS as error:
            return {key: failure(error)}
        except UnicodeError:  # half a surrogate pair: no key is called so
            return {key: DeleteAnswer.failed("InvalidKey")}
        return {key: DeleteAnswer(Outcome.DELETED) if versions else self._without_versions(key)}

    def _without_versions(self, key: str) -> DeleteAnswer:
        """What it means that no version of a key is listed: it is gone, if the store does not show it all the same."""
        try:
            self.bucket.head(key)
        except ObjectNotFoundError:
            return DeleteAnswer(Outcome.ALREADY_GONE)
        except StoreError:
            pass  # nobody knows: not gone
        return DeleteAnswer.failed("NoVersions")

    def versions(self, key: str) -> list[str]:
        """The ids of all versions of one key, delete markers too. Raises the SDK's errors."""
        whole, found = self.bucket.base + key, []
        pages = self.bucket.client.get_paginator("list_object_versions").paginate(Bucket=self.bucket.name, Prefix=whole)
        for page in pages:
            listed = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            found += [each["VersionId"] for each in listed if each["Key"] == whole]
        return found
