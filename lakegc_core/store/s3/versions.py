"""Deletes for good in S3 buckets that keep versions: a delete takes every version and delete marker of a key.

Keys of lakeFS's data are never written twice, so every version of a key belongs to the object that is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lakegc_core.errors import IncompleteError, LakegcError, ObjectNotFoundError, PreconditionFailedError
from lakegc_core.names import Outcome
from lakegc_core.store.base import Deletes
from lakegc_core.store.delete_results import Name
from lakegc_core.store.pace import Gate
from lakegc_core.store.remote import bare
from lakegc_core.store.repeated_deletes import DeleteAnswer
from lakegc_core.store.s3.access import SDK_ERRORS, failure
from lakegc_core.store.s3.bucket import Bucket
from lakegc_core.store.s3.deletes import ObjectDeletes
from lakegc_core.store.s3.version_lists import id_of, versions_of

_MOST = 1000  # versions a request
_DONE = (Outcome.DELETED, Outcome.ALREADY_GONE)
_OTHERS, _SHOWN = slice(None, -1), slice(-1, None)  # of the versions of a key
_CHANGED = DeleteAnswer.not_met("PreconditionFailed")


class VersionDeletes(ObjectDeletes):
    """Deletes that leave nothing that could be brought back. Cost one more request a key."""

    best: Deletes = Deletes(batch=100, etags_a_request=100)
    leaves_versions = False

    def ask_batch(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str]) -> Mapping[str, DeleteAnswer]:
        """One request for the versions of each key, which may take minutes in all; and one for 1000 versions of all.

        A request promises no order, and answers version by version. The version that shows goes in a later one, and
        only if all others of its key went: else an older version would show, and pass for another object.
        """
        found: dict[str, DeleteAnswer] = {}
        versions: dict[str, list[str]] = {}
        try:
            for key in keys:
                try:
                    versions[key] = self.versions(key, etags.get(key))
                except PreconditionFailedError:
                    versions[key], found[key] = [], _CHANGED
        except SDK_ERRORS as error:
            return dict.fromkeys(keys, failure(error))
        except IncompleteError:
            return dict.fromkeys(keys, DeleteAnswer.lost())
        is_open, requests = True, 0
        for part in (_OTHERS, _SHOWN):
            going = [key for key in keys if key not in found or found[key].outcome in _DONE]
            wanted = [(key, (self.bucket.base + key, version)) for key in going for version in versions[key][part]]
            for some in (wanted[start : start + _MOST] for start in range(0, len(wanted), _MOST)):
                is_open = is_open and (gate.opens() if requests else gate.may())
                requests += 1
                for key, said in self.delete_named(some) if is_open else _not_sent(some):
                    if key not in found:
                        found[key] = said
                    elif found[key].outcome in _DONE:  # one version that stays is the key's outcome
                        found[key] = said if is_open else DeleteAnswer.lost()  # some of its versions are gone
        return {key: found.get(key) or self._without_versions(key) for key in keys}

    def ask_one(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str]) -> Mapping[str, DeleteAnswer]:
        """One request for the versions of one key, and one for each of them; then the versions are asked for again."""
        (key,) = keys
        name, client = {"Bucket": self.bucket.name, "Key": self.bucket.base + key}, self.client()
        try:
            versions = self.versions(key, etags.get(key))
            for number, version in enumerate(versions):
                if not (gate.opens() if number else gate.may()):
                    return {key: DeleteAnswer.lost() if number else DeleteAnswer.not_sent()}
                client.delete_object(**name, VersionId=version)
            stays = bool(versions and self.versions(key))  # whatever was answered; HEAD does not show delete markers
        except SDK_ERRORS as error:
            return {key: failure(error)}
        except PreconditionFailedError:
            return {key: _CHANGED}
        except IncompleteError:
            return {key: DeleteAnswer.lost()}
        except UnicodeError:  # half a surrogate pair: no key is called so
            return {key: DeleteAnswer.failed("InvalidKey")}
        if stays:
            return {key: DeleteAnswer.failed("NotCarriedOut", again=True)}
        return {key: DeleteAnswer(Outcome.DELETED) if versions else self._without_versions(key)}

    def _without_versions(self, key: str) -> DeleteAnswer:
        """The answer for a key of which no version is listed: it is gone, unless the store still shows it."""
        try:
            self.bucket.head(key)
        except ObjectNotFoundError:
            return DeleteAnswer(Outcome.ALREADY_GONE)
        except LakegcError:
            pass  # nobody knows: not gone
        return DeleteAnswer.failed("NoVersions")

    def versions(self, key: str, etag: str | None = None) -> list[str]:
        """The ids of all versions of one key, delete markers too. Raises the SDK's errors, and what `versions_of` does.

        PreconditionFailedError if the version that shows has another ETag than this. What is written after the list was
        made has an id of its own, in a bucket that keeps versions: no delete names it.
        """
        listed = versions_of(self.bucket, key, partial(_ask, self.bucket))
        shown = next((bare(each.get("ETag")) for each in listed.versions if each.get("IsLatest")), None)
        if etag and shown and shown != etag:
            raise PreconditionFailedError(f"{self.bucket.root}: {key!r} is another object than the one named")
        # The version that shows stays the one that was named until it goes itself, as the last of all.
        every = (*reversed(listed.versions), *listed.markers)
        return [id_of(each) for each in sorted(every, key=lambda each: bool(each.get("IsLatest")))]


def _not_sent(wanted: Sequence[tuple[str, Name]]) -> list[tuple[str, DeleteAnswer]]:
    return [(key, DeleteAnswer.not_sent()) for key, _ in wanted]


def _ask(bucket: Bucket, **arguments: Any) -> Mapping[str, Any]:
    """A page of a list of versions, or the SDK's error."""
    page: Mapping[str, Any] = bucket.client.list_object_versions(Bucket=bucket.name, **arguments)
    return page
