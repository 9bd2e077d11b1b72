"""One prefix of one bucket behind a boto3 client: how it is asked, what its errors mean, and what HEAD tells.

Here: what the store and its deletes share. Not here: which operation serves which method of the protocol (`store`),
deletes (`deletes`, `versions`), and how clients are built (`access`).

A key is `prefix + "/" + address`, or the address alone under an empty prefix: never cleaned or normalised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from lakegc_core.errors import (
    IncompleteError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreError,
    UnusableKeyError,
)
from lakegc_core.store.base import ObjectInfo
from lakegc_core.store.etags import digest_by_etag
from lakegc_core.store.remote import bare, date_of
from lakegc_core.store.s3.access import ABSENT, CONDITION_FAILED, SDK_ERRORS, attempts_of, code_of, hint

_EXPRESS, DIRECTORY_BUCKET = "EXPRESS_ONEZONE", "--x-s3"  # their ETags are no digests


@dataclass(frozen=True)
class Bucket:
    """A bucket's `name`, and the `base` that every key of ours begins with: empty, or the prefix and its slash."""

    root: str  # for messages
    name: str
    base: str
    attempts: int  # of each request, the first one included
    client: Any

    def call(self, operation: str, key: str, **arguments: Any) -> Any:
        """Ask the client, and raise lakegc's errors. `key` is for messages."""
        try:
            return getattr(self.client, operation)(Bucket=self.name, **arguments)
        except SDK_ERRORS as error:
            raise self.error(error, operation, key) from None  # a trace would quote the server
        except UnicodeError as error:
            raise UnusableKeyError(f"{self.root}: {key!r} is not Unicode text: no object is called so") from error

    def answer(self, operation: str, key: str, **arguments: Any) -> Any:
        """Ask the client for any answer: one that says that it is refused, or that nothing is there, is dated too."""
        try:
            return getattr(self.client, operation)(Bucket=self.name, **arguments)
        except ClientError as error:
            return error.response
        except SDK_ERRORS as error:
            raise self.error(error, operation, key) from None  # a trace would quote the server

    def error(self, error: Exception, operation: str, key: str) -> StoreError:
        """The error in lakegc's words, without the server's own text: some servers quote requests in it."""
        code = code_of(error)
        what = f"{self.root}: {''.join(part.capitalize() for part in operation.split('_'))} of {key!r}"
        if code in ABSENT and operation != "list_objects_v2":
            return ObjectNotFoundError(f"{what}: there is no such object")
        if code in CONDITION_FAILED and operation == "put_object":
            return PreconditionFailedError(f"{what}: the object is there already, or is not the one expected ({code})")
        if isinstance(error, ClientError):
            return StoreError(f"{what}: the store answered {code} after {attempts_of(error)} attempts{hint(code)}")
        return StoreError(f"{what}: {code} after up to {self.attempts} attempts{hint(code)}")

    def head(self, key: str) -> ObjectInfo:
        """Size, time, ETag and digest of one object.

        The ETag is the content's MD5 for an object that was uploaded in one piece, neither under KMS nor under a
        customer's key, nor lies in a directory bucket. A listing does not tell these apart, HEAD does.
        """
        answer = self.call("head_object", key, Key=self.base + key)
        if not {"ContentLength", "LastModified"} <= answer.keys():
            raise IncompleteError(f"{self.root}: the store knows {key!r}, but not its size or time")
        modified = answer["LastModified"].astimezone(UTC)
        etag = bare(answer.get("ETag"))
        is_weak = (answer.get("ETag") or "").startswith("W/")
        return ObjectInfo(key, answer["ContentLength"], modified, etag, None if is_weak else self._digest(answer, etag))

    def _digest(self, answer: Mapping[str, Any], etag: str | None) -> str | None:
        own_key = any(name.startswith(("SSECustomer", "SSEKMS")) for name in answer)
        if own_key or answer.get("ServerSideEncryption") not in (None, "AES256"):
            return None
        if answer.get("StorageClass") == _EXPRESS or self.name.endswith(DIRECTORY_BUCKET):
            return None
        return digest_by_etag(etag)

    def date_of(self, answer: Mapping[str, Any]) -> datetime:
        """When the store sent an answer, by its own clock."""
        return date_of(answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date"), self.root)
