"""Getting at Google Cloud Storage: how the client is built, and what the SDK's errors mean.

Credentials are Google's default ones; over plain HTTP, to an emulator, none are sent. What is asked of a bucket belongs
in `store`.
"""

from __future__ import annotations

import os
from typing import Any

import google.auth
import requests
import urllib3
from google.api_core.exceptions import (
    Forbidden,
    GoogleAPICallError,
    NotFound,
    PreconditionFailed,
    from_http_response,
    from_http_status,
)
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from google.cloud import storage
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse

from lakegc_core.errors import (
    BucketNotFoundError,
    IncompleteError,
    LakegcError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SettingsError,
    StoreError,
)
from lakegc_core.store.gcs import ENDPOINT_VARIABLE
from lakegc_core.store.remote import ENDPOINT, LOCKED, REPEATED, THROTTLED, with_endpoint
from lakegc_core.store.repeated_deletes import DeleteAnswer

_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
_BROKEN_OFF = (requests.exceptions.ChunkedEncodingError, urllib3.exceptions.HTTPError)
_LOST = (requests.ConnectionError, requests.Timeout, *_BROKEN_OFF)
SDK_ERRORS = (
    GoogleAPICallError,
    GoogleAuthError,
    InvalidResponse,
    DataCorruption,
    requests.RequestException,
    *_BROKEN_OFF,
    AttributeError,  # of requests that the SDK itself makes: see `error_of`
)
_LOCKS = ("retentionPolicyNotMet", "objectUnderActiveHold")
_HINTS = {
    Forbidden: "grant the operation to these credentials",
    NotFound: f"check the name of the bucket, and {ENDPOINT}",
    requests.RequestException: f"check the network, and {ENDPOINT}",
}


def client(root: str, endpoint_url: str | None) -> tuple[storage.Client, AuthorizedSession]:
    """A client, and a session for what the SDK does not check; both are safe to share between threads.

    `root` is for messages; no `endpoint_url` means Google's own.
    """
    options = {"api_endpoint": endpoint_url} if endpoint_url else None
    try:
        if (endpoint_url or "").startswith("http://"):
            credentials: Any = AnonymousCredentials()
        else:
            credentials, _ = google.auth.default(scopes=_SCOPES)
        # A project is asked for by the SDK, but only the making of buckets would need it.
        found = storage.Client(project="none", credentials=credentials, client_options=options)
    except (DefaultCredentialsError, ValueError) as error:
        raise SettingsError(
            f"{root}: no GCS client: {type(error).__name__}. Set GOOGLE_APPLICATION_CREDENTIALS, use "
            "`gcloud auth application-default login`, or run where a service account is attached."
        ) from None
    return found, AuthorizedSession(credentials)


def in_words(error: Exception, what: str, endpoint: str, *, listing: bool) -> LakegcError:
    """The SDK's error as lakegc's, without the service's own text. `what`: what was asked for, as messages name it;
    `endpoint`: the URL that was asked, which is named where it may be the wrong one."""
    if isinstance(error, NotFound) and not listing:
        return ObjectNotFoundError(f"{what}: there is no such object")
    if isinstance(error, PreconditionFailed):
        return PreconditionFailedError(f"{what}: the object is there already, or is not the one expected")
    if isinstance(error, (DataCorruption, *_BROKEN_OFF)):
        return IncompleteError(f"{what} broke off: {code_of(error)}")
    code = code_of(error)
    hint = LOCKED if code in _LOCKS else next((text for kind, text in _HINTS.items() if isinstance(error, kind)), "")
    said = with_endpoint(hint, endpoint, {ENDPOINT_VARIABLE: os.environ.get(ENDPOINT_VARIABLE)})
    kind = BucketNotFoundError if isinstance(error, NotFound) else StoreError
    return kind(f"{what}: the store answered {code}{f': {said}' if said else ''}")


def error_of(answer: requests.Response) -> GoogleAPICallError:
    """The SDK's error for an answer other than success, whatever its body is."""
    try:
        found = from_http_response(answer)
        list(found.errors)
    except (AttributeError, TypeError):  # it reads `error` in JSON as an object
        return from_http_status(answer.status_code, "an answer without a reason", response=answer)
    return found


def told_by(error: Exception) -> DeleteAnswer:
    """The answer for an object whose delete ended in this error. It never says that the object is gone."""
    if isinstance(error, _LOST):
        return DeleteAnswer.lost()
    throttled = isinstance(error, GoogleAPICallError) and error.code in THROTTLED
    return DeleteAnswer.failed(code_of(error), again=should_repeat(error), throttled=throttled)


def should_repeat(error: Exception) -> bool:
    """True where the same request may succeed when it is made again."""
    if isinstance(error, _LOST):
        return True
    if isinstance(error, InvalidResponse):
        return error.response.status_code in REPEATED
    return isinstance(error, GoogleAPICallError) and error.code in REPEATED


def status_of(error: BaseException | None) -> int:
    """The HTTP status of an answer; 0 where there was none."""
    if isinstance(error, InvalidResponse):
        return int(error.response.status_code)
    return int(error.code or 0) if isinstance(error, GoogleAPICallError) else 0


def code_of(error: Exception) -> str:
    """The service's reason, the HTTP status without one, or the name of the SDK's error without an answer."""
    if isinstance(error, GoogleAPICallError):
        # Of an upload the SDK raises an error without the reason, which the answer has.
        told = error_of(error.response) if isinstance(error.response, requests.Response) else error
        reasons = [each.get("reason") for each in told.errors if isinstance(each, dict)]
        return str(next(filter(None, reasons), None) or int(error.code or 0))
    if isinstance(error, AttributeError):
        return "an error of another form than its own"
    return type(error).__name__
