"""Access to S3 with boto3: the building of clients, and the meaning of S3's errors and codes.

Credentials come from the SDK's own chain unless they are given. What is asked of a bucket belongs in `store`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError
from botocore.httpsession import get_cert_path
from botocore.loaders import Loader, create_loader
from botocore.parsers import ResponseParserError
from botocore.utils import calculate_md5
from s3transfer import exceptions as transfer

from lakegc_core.errors import SettingsError
from lakegc_core.store.delete_results import GONE, refused
from lakegc_core.store.remote import ASLEEP, ENDPOINT, said_by, with_endpoint
from lakegc_core.store.repeated_deletes import DeleteAnswer
from lakegc_core.store.s3 import ENDPOINT_VARIABLES
from lakegc_core.store.s3 import listing as s3_listing

NO_BUCKET = "NoSuchBucket"
ABSENT = GONE | {"404"}  # HEAD has no code of the store's own; to a delete, anybody's page may answer 404
CONFLICT = {"ConditionalRequestConflict", "409"}
CONDITION_FAILED = {"PreconditionFailed", "412", "NotModified", "304"} | CONFLICT  # some say 304 where S3 says 412
UNSUPPORTED = {"NotImplemented", "MethodNotAllowed", "405", "501"}
CONDITION_UNKNOWN = {"InvalidArgument", "InvalidRequest", "400"} | UNSUPPORTED  # of a write that is sound without one
# One key can spoil a whole DeleteObjects with these, and some stores have no DeleteObjects at all.
BATCH_REFUSED = {"MalformedXML", "KeyTooLongError", "InvalidArgument", "InvalidRequest", "InvalidURI"} | UNSUPPORTED
# No answer, or one nobody can read: what was asked for may have happened.
LOST = (ConnectionError, HTTPClientError, ResponseParserError)
SDK_ERRORS = (ClientError, BotoCoreError, ResponseParserError)  # the last is not one of BotoCoreError
# Of objects that go in parts.
BROKEN_OFF = (
    transfer.RetriesExceededError,
    transfer.S3CopyFailedError,
    transfer.S3DownloadFailedError,
    transfer.S3UploadFailedError,
    transfer.S3ValidationError,
)

_WRITES = ("PutObject", "CopyObject", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload")
_BODIES = ("PutObject", "UploadPart")  # a bucket that locks new objects takes none without a checksum
_AWS = (".amazonaws.com", ".amazonaws.com.cn")


@dataclass(frozen=True)
class Access:
    """A way to reach S3. `main`: a client for all but deletes, which repeats requests by itself; `deleting` makes a
    client for deletes, which does not. `certificates`: the file of those that the clients trust."""

    main: Any
    deleting: Callable[[], Any]
    credentials: Any  # botocore's, which renew themselves; None: there are none
    certificates: Callable[[], str]


def access(where: str, attempts: int, options: Config, **reach: str | None) -> Access:
    """Clients of one session. `reach`: arguments of boto3's `client`. SettingsError, naming `where`, when no client can
    be made of them."""
    # A session of its own: boto3's default one is shared, and not safe to build clients from in threads.
    core = botocore.session.Session()
    try:
        core.register_component("data_loader", _loader(core.get_config_variable("data_path")))
        session = boto3.Session(botocore_session=core)
    except BotoCoreError as error:
        raise SettingsError(f"{where}: no S3 client: {error}. Correct AWS_PROFILE or the AWS configuration.") from error

    def client(**retries: Any) -> Any:
        try:
            return session.client("s3", config=options.merge(Config(retries=retries)), **reach)
        except (BotoCoreError, ValueError) as error:
            said = f"{where}: no S3 client: {type(error).__name__}: {error}"
            url = reach.get("endpoint_url") or ""
            by = ". Write the URL with http:// or https://" if "://" not in url and url in str(error) else ""
            raise SettingsError(f"{said}{by and by + said_by(url, _told())}") from error

    def deleting() -> Any:
        found = client(mode="standard", total_max_attempts=1)
        if not (urlsplit(found.meta.endpoint_url).hostname or "").endswith(_AWS):
            found.meta.events.register("before-call.s3.DeleteObjects", _send_md5)
        return found

    # Adaptive mode slows the whole client down while the store throttles.
    main = client(mode="adaptive", total_max_attempts=attempts)
    s3_listing.install(main.meta.events)
    for operation in _BODIES:
        main.meta.events.register(f"before-call.s3.{operation}", _send_md5)
    for operation in _WRITES:
        main.meta.events.register(f"before-parse.s3.{operation}", _check_written)
    key, secret, token = (reach.get(f"aws_{name}") for name in ("access_key_id", "secret_access_key", "session_token"))
    credentials = Credentials(key, secret, token) if key and secret else core.get_credentials()
    trusted = core.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE") or True
    return Access(main, deleting, credentials, lambda: get_cert_path(trusted))


class _Loader(Loader):  # type: ignore[misc]
    """Holds botocore's data about S3, read once for all sessions: reading it is most of the work of making a client."""

    @property
    def search_paths(self) -> list[str]:
        """A copy of the paths: each session of boto3 adds to it, for resources, of which there are none here."""
        return list(super().search_paths)


@functools.cache
def _loader(paths: str | None) -> Loader:
    """The loader of all sessions. `paths`: AWS_DATA_PATH, which comes before the SDK's own."""
    return _Loader(extra_search_paths=create_loader(paths).search_paths, include_default_search_paths=False)


def _check_written(response_dict: dict[str, Any], **_: Any) -> None:
    """Refuse any success but S3's for a write: another's says nothing of what was written."""
    if 200 <= response_dict["status_code"] < 300 and response_dict["status_code"] not in (200, 201):
        raise ResponseParserError("the answer to a write is none of S3's")


def _send_md5(params: dict[str, Any], **_: Any) -> None:
    """Give a request the checksum that every compatible store knows: newer ones are AWS's own. A file is read for it,
    piece by piece, and stands afterwards where it stood."""
    params["headers"]["Content-MD5"] = calculate_md5(params["body"])
    params["context"].pop("checksum", None)


_VIRTUAL = (
    "the store takes only names of the bucket in the host (virtual-hosted style): set `addressing_style = virtual` in "
    "the AWS configuration file, as docs/stores.md says"
)
_LOCKS = (
    "the bucket locks new objects and takes none without a checksum. lakegc sends Content-MD5 with each: let what "
    "stands between it and the store pass this header on"
)
_CHANGED = "the bytes changed on the way; run it again; if it happens again, look at what stands between"
_OTHER_BYTES = {"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch"}  # not those that a checksum names
_HINTS = {
    **dict.fromkeys(_OTHER_BYTES, _CHANGED),
    "InvalidAccessKeyId": f"the store does not know the access key; check it, and {ENDPOINT}",
    "SignatureDoesNotMatch": "the secret key is not the right one",
    "ExpiredToken": "renew the session",
    NO_BUCKET: f"check the name of the bucket, and {ENDPOINT}",
    "NoCredentialsError": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role",
    "ResponseParserError": "that is no answer of S3; look at what stands between lakegc and the store",
    **dict.fromkeys(("SecondLevelDomainForbidden", "PathStyleDomainForbidden", "InvalidPathAccess"), _VIRTUAL),
    "InvalidObjectState": ASLEEP,
    "EndpointConnectionError": f"check the network, and {ENDPOINT}",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
}


_DENIED = {"AccessDenied", "403"}  # HEAD has no code of the store's own
_KEYS = (
    "under SSE-KMS kms:GenerateDataKey and kms:Decrypt on the key; a policy of the bucket may also demand headers of "
    "encryption (`encryption` in lakegc.yaml's `stores`)"
)
_RIGHTS = {
    "list_objects_v2": "s3:ListBucket",
    "list_object_versions": "s3:ListBucketVersions",
    **dict.fromkeys(("get_object", "head_object", "download_fileobj"), "s3:GetObject"),
    **dict.fromkeys(("put_object", "upload_fileobj"), f"s3:PutObject; {_KEYS}"),
    **dict.fromkeys(
        ("copy_object", "copy"),
        "s3:GetObject on the one and s3:PutObject on the other, for objects with tags s3:GetObjectTagging and "
        f"s3:PutObjectTagging; {_KEYS}",
    ),
    "delete_object": "s3:DeleteObjectVersion",  # of a version; other deletes raise nothing
}
"""Actions that operations of boto3 take, by name."""


def hint(error: BaseException, operation: str, endpoint: str) -> str:
    """Advice on the error with which an operation ended, after a colon; empty where there is none. `endpoint`: the URL
    that was asked, which is named where it may be the wrong one."""
    code = code_of(error)
    if lacks_checksum(error):
        return f": {_LOCKS}"
    if code in _DENIED and operation in _RIGHTS:
        return f": grant these credentials {_RIGHTS[operation]}"
    said = _HINTS.get(code, "")
    return f": {with_endpoint(said, endpoint, _told())}" if said else ""


def _told() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in ENDPOINT_VARIABLES}


def lacks_checksum(error: BaseException | None) -> bool:
    """True if a bucket that locks new objects refuses a write that came without a checksum. No code says so alone."""
    told = error.response.get("Error", {}) if isinstance(error, ClientError) else {}
    return told.get("Code") not in _OTHER_BYTES and "content-md5" in str(told.get("Message")).lower()


def code_of(error: BaseException | None) -> str:
    """The store's own code, or the name of the SDK's error when there was no answer."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code") or "Unknown")
    return type(error).__name__


def failure(error: Exception) -> DeleteAnswer:
    """The answer for each key of a request that failed as a whole. It never says that a key is gone."""
    if isinstance(error, LOST):
        return DeleteAnswer.lost()
    return refused(status_of(error), code_of(error))


def status_of(error: BaseException | None) -> int:
    """The HTTP status of an answer; 0 where there was none."""
    response = error.response if isinstance(error, ClientError) else {}
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def attempts_of(error: BaseException | None) -> int:
    response = error.response if isinstance(error, ClientError) else {}
    return int(response.get("ResponseMetadata", {}).get("RetryAttempts", 0)) + 1
