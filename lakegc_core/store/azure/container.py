"""One prefix of one container: the names of its blobs, and how the SDK's errors become lakegc's.

Here: what the store and its deletes share. Not here: which request serves which method of the protocol (`store`),
deletes (`deletes`), and how clients are built (`access`).

A blob's name is `prefix + "/" + address`, or the address alone under an empty prefix: never cleaned or normalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import AzureError

from lakegc_core.errors import IncompleteError, ObjectNotFoundError, PreconditionFailedError, StoreError
from lakegc_core.store.azure.access import ABSENT, code_of, hint, is_lost, should_repeat

_CONDITION_FAILED = {"ConditionNotMet", "BlobAlreadyExists", "TargetConditionNotMet"}


@dataclass(frozen=True)
class Container:
    """The SDK's `client` of a container, and the `base` that every name of ours begins with."""

    root: str  # for messages
    base: str  # empty, or the prefix and its slash
    attempts: int  # of each request, the first one included
    client: Any

    def name(self, key: str) -> str:
        """The blob's name. StoreError for those that name another blob: URLs have no `.` and `..` segments."""
        name = self.base + key
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise StoreError(f"{self.root}: {key!r} is not Unicode text: no object is called so") from error
        if not key or not {".", ".."}.isdisjoint(name.split("/")):
            raise StoreError(f"{self.root}: {key!r} cannot be the name of a blob: it names another place")
        return name

    def blob(self, key: str) -> Any:
        """The SDK's client of one blob."""
        return self.client.get_blob_client(self.name(key))

    def errors(self, operation: str, key: str) -> _Errors:
        """A context that raises lakegc's errors. `operation` as the service calls it."""
        return _Errors(self, operation, key)


class _Errors:
    """Turns the SDK's errors into lakegc's, without the service's own text: it may quote requests."""

    def __init__(self, container: Container, operation: str, key: str) -> None:
        self._container, self._operation, self._key = container, operation, key

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, AzureError | ValueError) or isinstance(error, UnicodeError):
            return
        code = code_of(error)
        what = f"{self._container.root}: {self._operation} of {self._key!r}"
        if code in ABSENT and self._operation != "List Blobs":
            raise ObjectNotFoundError(f"{what}: there is no such object") from None
        if code in _CONDITION_FAILED and self._operation == "Put Blob":
            raise PreconditionFailedError(
                f"{what}: the object is there already, or is not the one expected ({code})"
            ) from None
        if is_lost(error) and self._operation == "Get Blob":
            raise IncompleteError(f"{what} broke off: {code}") from None
        tries = f" after up to {self._container.attempts} attempts" if should_repeat(error) else ""
        raise StoreError(f"{what}: the store answered {code}{tries}{hint(code)}") from None
