"""One prefix of one container: the names of its blobs, and how the SDK's errors become lakegc's.

Here: what the store and its deletes share. Not here: which request serves which method of the protocol (`store`),
deletes (`deletes`), and how clients are built (`access`).

A blob's name is `prefix + "/" + address`, or the address alone under an empty prefix: never cleaned or normalised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from azure.core.exceptions import AzureError

from lakegc_core.errors import (
    BucketNotFoundError,
    IncompleteError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreError,
    UnusableKeyError,
)
from lakegc_core.store.azure.access import ABSENT, NO_CONTAINER, code_of, hint, is_lost, should_repeat
from lakegc_core.store.base import ObjectInfo
from lakegc_core.store.remote import bare

_CONDITION_FAILED = {"ConditionNotMet", "BlobAlreadyExists", "TargetConditionNotMet"}


@dataclass(frozen=True)
class Container:
    """The SDK's `client` of a container, and the `base` that every name of ours begins with."""

    root: str  # for messages, as are the account and its endpoint
    account: str
    endpoint: str
    base: str  # empty, or the prefix and its slash
    attempts: int  # of each request, the first one included
    client: Any

    def name(self, key: str) -> str:
        """The blob's name. UnusableKeyError for those that name another blob: URLs have no `.` and `..` segments."""
        name = self.base + key
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise UnusableKeyError(f"{self.root}: {key!r} is not Unicode text: no object is called so") from error
        if not key or not {".", ".."}.isdisjoint(name.split("/")):
            raise UnusableKeyError(f"{self.root}: {key!r} cannot be the name of a blob: it names another place")
        return name

    def blob(self, key: str) -> Any:
        """The SDK's client of one blob."""
        return self.client.get_blob_client(self.name(key))

    def head(self, key: str) -> ObjectInfo:
        """Size, time and ETag of one blob. Never a digest: anyone may set a blob's Content-MD5."""
        with self.errors("Get Blob Properties", key):
            found = self.blob(key).get_blob_properties()
        if found.size is None or found.last_modified is None:
            raise IncompleteError(f"{self.root}: the store knows {key!r}, but not its size or time")
        return ObjectInfo(key, found.size, found.last_modified.astimezone(UTC), bare(found.etag))

    @contextmanager
    def errors(self, operation: str, key: str) -> Iterator[None]:
        """Raise the SDK's errors as lakegc's, without the service's own text: it may quote requests. `operation` as the
        service calls it."""
        try:
            yield
        except UnicodeError:  # a ValueError, and not the SDK's
            raise
        except (AzureError, ValueError) as error:
            code = code_of(error)
            what = f"{self.root}: {operation} of {key!r}"
            if code in ABSENT and operation != "List Blobs":
                raise ObjectNotFoundError(f"{what}: there is no such object") from None
            if code in _CONDITION_FAILED and operation in ("Put Blob", "Copy Blob From URL"):
                raise PreconditionFailedError(
                    f"{what}: the object is there already, or is not the one expected ({code})"
                ) from None
            if is_lost(error) and operation == "Get Blob":
                raise IncompleteError(f"{what} broke off: {code}") from None
            tries = f" after up to {self.attempts} attempts" if should_repeat(error) else ""
            kind = BucketNotFoundError if code == NO_CONTAINER else StoreError
            raise kind(f"{what}: the store answered {code}{tries}{hint(code, self.account, self.endpoint)}") from None
