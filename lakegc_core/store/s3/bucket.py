"""One prefix of one bucket behind a boto3 client: how it is asked, what its errors mean, and what HEAD tells.

Here: what the store and its deletes share. Not here: which operation serves which method of the protocol (`store`),
deletes (`deletes`, `versions`), and how clients are built (`access`).

A key is `prefix + "/" + address`, or the address alone under an empty prefix: never cleaned or normalised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.exceptions import ClientError
from botocore.utils import parse_timestamp

from lakegc_core.errors import (
    BucketNotFoundError,
    IncompleteError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreError,
    UnusableKeyError,
)
from lakegc_core.store.base import ObjectInfo
from lakegc_core.store.etags import digest_by_etag
from lakegc_core.store.remote import bare, date_of
from lakegc_core.store.s3.access import (
    ABSENT,
    BROKEN_OFF,
    CONDITION_FAILED,
    NO_BUCKET,
    SDK_ERRORS,
    attempts_of,
    code_of,
    hint,
)
from lakegc_core.store.s3.listing import utc

_DATE = re.compile("[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT")
_LISTS = ("list_objects_v2", "list_object_versions")  # that something is absent is no answer to them
_ENCRYPTION = "x-amz-server-side-encryption"
_OWN_KEY = (f"{_ENCRYPTION}-customer-", f"{_ENCRYPTION}-aws-kms-")
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
        except BROKEN_OFF as error:
            raise IncompleteError(f"{self.root}: the transfer of {key!r} broke off: {code_of(error)}") from None
        except UnicodeError as error:
            raise UnusableKeyError(f"{self.root}: {key!r} is not Unicode text: no object is called so") from error
        except ValueError:  # as boto3 has it of a date that cannot be read
            raise IncompleteError(f"{self.root}: the store's answer about {key!r} cannot be read") from None

    def takes(self, operation: str, argument: str) -> bool:
        """True if the SDK knows this argument of an operation of S3."""
        return argument in self.client.meta.service_model.operation_model(operation).input_shape.members

    def answer(self, operation: str, key: str, **arguments: Any) -> Any:
        """Ask the client for any answer: an answer that refuses, or that finds nothing, is dated too."""
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
        if code in ABSENT and operation not in _LISTS:
            return ObjectNotFoundError(f"{what}: there is no such object")
        if code in CONDITION_FAILED and operation in ("put_object", "copy_object"):
            return PreconditionFailedError(f"{what}: the object is there already, or is not the one expected ({code})")
        if isinstance(error, ClientError):
            what += f": the store answered {code} after {attempts_of(error)} attempts"
        else:
            what += f": {code} after up to {self.attempts} attempts"
        kind = BucketNotFoundError if code == NO_BUCKET else StoreError
        return kind(what + hint(error, operation, self.client.meta.endpoint_url))

    def head(self, key: str) -> ObjectInfo:
        """Size, time, ETag and digest of one object.

        The ETag is the content's MD5 if the object was uploaded in one piece, neither under KMS nor under a customer's
        key, and does not lie in a directory bucket. A listing does not tell these apart, HEAD does.
        """
        answer = self.call("head_object", key, Key=self.base + key)
        return self.read(key, answer["ResponseMetadata"]["HTTPHeaders"])

    def read(self, key: str, headers: Mapping[str, str]) -> ObjectInfo:
        """The object by the headers (names in lower case) of an answer to HEAD. IncompleteError if they lack size or
        time."""
        size, modified = headers.get("content-length", ""), _moment(headers.get("last-modified", ""))
        if not (size.isascii() and size.isdecimal()) or modified is None:
            raise IncompleteError(f"{self.root}: the store knows {key!r}, but not its size or time")
        shown = headers.get("etag", "")
        etag = bare(shown)
        return ObjectInfo(
            key, int(size), modified, etag, None if shown.startswith("W/") else self._digest(headers, etag)
        )

    def _digest(self, headers: Mapping[str, str], etag: str | None) -> str | None:
        if any(name.startswith(_OWN_KEY) for name in headers) or headers.get(_ENCRYPTION) not in (None, "AES256"):
            return None
        if headers.get("x-amz-storage-class") == _EXPRESS or self.name.endswith(DIRECTORY_BUCKET):
            return None
        return digest_by_etag(etag)

    def date_of(self, answer: Mapping[str, Any]) -> datetime:
        """The time at which the store sent an answer, by its own clock."""
        return date_of(answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date"), self.root)


def _moment(text: str) -> datetime | None:
    """A time as HTTP writes it, or in another form that botocore knows; None if it is none."""
    try:
        return parsedate_to_datetime(text) if _DATE.fullmatch(text) else utc(parse_timestamp(text))
    except (ValueError, OverflowError):
        return None
