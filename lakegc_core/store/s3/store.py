"""S3 and the stores that speak its protocol, with boto3.

Here: one bucket and prefix behind the protocol of `base`, and how botocore's errors become lakegc's.
Not here: the reading of list pages (`s3_listing.py`), clients and the meaning of codes (`s3_access.py`), how hard
deletes are asked for (`pace.py`), and any notion of what the keys mean.

A key is `prefix + "/" + address`, or the address alone under an empty prefix: never cleaned or normalised.
"""

from __future__ import annotations

import builtins
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import IO, Any
from urllib.parse import urlsplit

import pyarrow as pa
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError, IncompleteReadError, ResponseStreamingError

from lakegc_core.errors import (
    IncompleteError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SettingsError,
    StoreError,
)
from lakegc_core.store.base import (
    ALREADY_GONE,
    BACKOFF,
    DELETED,
    FAILED,
    MD5_DIGEST,
    PROBE_KEY,
    Deletes,
    Level,
    ObjectInfo,
    StoreConfig,
    StoreProbe,
)
from lakegc_core.store.pace import Gate, Told, delete_all
from lakegc_core.store.s3 import access as s3_access
from lakegc_core.store.s3 import listing as s3_listing
from lakegc_core.store.s3.access import (
    ABSENT,
    BATCH_REFUSED,
    CONDITION_FAILED,
    LOST,
    SDK_ERRORS,
    TOO_LARGE,
    UNSUPPORTED,
    attempts_of,
    bare,
    code_of,
    failure,
    hint,
    told,
)

_IN_PARTS = TransferConfig(multipart_chunksize=512 << 20)  # bytes
# What XML 1.0 cannot hold, so that no DeleteObjects can name it.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GONE = Told(DELETED)
_MD5 = re.compile("[0-9a-f]{32}")
_EXPRESS, _DIRECTORY_BUCKET = "EXPRESS_ONEZONE", "--x-s3"  # their ETags are no digests


@dataclass(frozen=True)
class S3Config:
    """One prefix of one bucket. What is None comes from the SDK's own chain: environment, profile, role."""

    bucket: str
    prefix: str = ""  # verbatim, without the one slash that separates it from addresses
    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    max_attempts: int = 6  # of each request, the first one included
    connect_timeout: float = 10.0  # seconds
    read_timeout: float = 60.0  # seconds
    delete_versions: bool = False  # a delete takes all versions of a key, not only what lists of objects show

    def __post_init__(self) -> None:
        if self.endpoint_url and "@" in urlsplit(self.endpoint_url).netloc:
            raise SettingsError("the S3 endpoint URL holds credentials: give them as access key and secret instead")

    @property
    def root(self) -> str:
        """`s3://bucket/prefix`, for messages."""
        return f"s3://{self.bucket}/{self.prefix}"

    def connect(self) -> S3Store:
        """A store with clients of its own, which are safe to share between threads."""
        # With an endpoint of its own, by argument or by environment, botocore addresses buckets by path; only AWS
        # itself gets host names.
        options = Config(
            connect_timeout=self.connect_timeout,
            read_timeout=self.read_timeout,
            max_pool_connections=32,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            user_agent_extra="lakegc",
        )
        main, deleting = s3_access.clients(
            self.root,
            self.max_attempts,
            options,
            endpoint_url=self.endpoint_url,
            region_name=self.region,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            aws_session_token=self.session_token,
        )
        if self.delete_versions:
            from lakegc_core.store.s3.versions import S3VersionsStore

            return S3VersionsStore(self, main, deleting)
        return S3Store(self, main, deleting)


class S3Store:
    """`Store` over one boto3 client. Safe to share between threads."""

    deletes: Deletes = Deletes()
    proves = True

    def __init__(self, config: S3Config, client: Any, deleting: Callable[[], Any]) -> None:
        self.root = config.root
        self.client = client  # for the few things beyond the protocol
        self._new_deleting, self._deleting, self._lock = deleting, None, threading.Lock()
        self._config = config
        self._base = f"{config.prefix}/" if config.prefix else ""

    def list(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        """Every object whose key starts with `prefix`, a batch a page.

        An object named like the root itself, with its slash, has the address ``""``.
        """
        for objects, _ in self._pages(prefix):
            if objects.num_rows:
                yield objects

    def list_level(self, prefix: str = "") -> Iterator[Level]:
        """The objects and prefixes directly below `prefix`, a level a page."""
        for objects, prefixes in self._pages(prefix, Delimiter="/"):
            yield Level(objects, tuple(prefixes))

    def _pages(self, prefix: str, **options: str) -> Iterator[tuple[pa.RecordBatch, builtins.list[str]]]:
        key_prefix = self._base + prefix
        where = f"{self.root}: listing {prefix!r}"
        token: dict[str, str] = {}
        seen: set[int] = set()
        while True:
            answer = self._call("list_objects_v2", prefix, Prefix=key_prefix, EncodingType="url", **options, **token)
            yield s3_listing.read_page(answer, key_prefix, self._base, where)
            truncated = answer.get("IsTruncated")
            if truncated is None:
                raise IncompleteError(f"{where}: a page does not say whether it is the last one")
            if not truncated:
                return
            following = answer.get("NextContinuationToken")
            if not following:
                raise IncompleteError(f"{where}: a page says that there are more, but not where")
            if hash(following) in seen:
                raise IncompleteError(f"{where}: the store goes round in circles: it sent a continuation token twice")
            seen.add(hash(following))
            token = {"ContinuationToken": following}

    def read(self, key: str) -> bytes:
        """The whole object. An answer that breaks off is asked for again, like any other lost one."""
        for attempt in range(1, self._config.max_attempts + 1):
            answer = self._call("get_object", key, Key=self._base + key)
            announced = answer.get("ContentLength")
            try:
                body: bytes = answer["Body"].read()
            except (IncompleteReadError, ResponseStreamingError, *LOST) as error:
                if attempt == self._config.max_attempts:
                    raise IncompleteError(f"{self.root}: reading {key!r} broke off: {type(error).__name__}") from error
                time.sleep(BACKOFF.wait(attempt))
                continue
            if len(body) != announced:
                raise IncompleteError(f"{self.root}: {key!r} announced {announced} bytes and sent {len(body)}")
            return body
        raise AssertionError("max_attempts is at least 1")

    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write the object and return its ETag. Not for objects that need more than one request."""
        conditions = {"IfNoneMatch": "*"} if if_absent else {}
        if if_match is not None:
            conditions["IfMatch"] = f'"{if_match}"'
        try:
            answer = self._call("put_object", key, Key=self._base + key, Body=data, **conditions)
        except PreconditionFailedError as error:
            # The first attempt may have won and its answer been lost: then the retry lost against ourselves.
            if attempts_of(error.__context__) > 1 and self._holds(key, data):
                return self.head(key).etag or ""
            raise
        except ObjectNotFoundError as error:
            if if_match is None:
                raise
            raise PreconditionFailedError(f"{self.root}: {key!r} is gone; it was to be replaced") from error
        return bare(answer.get("ETag")) or ""

    def _holds(self, key: str, data: bytes) -> bool:
        try:
            return self.read(key) == data
        except ObjectNotFoundError:
            return False

    def head(self, key: str) -> ObjectInfo:
        """Size, time, ETag and digest of one object.

        The ETag is the content's MD5 for an object that was uploaded in one piece, neither under KMS nor under a
        customer's key, nor lies in a directory bucket. A listing does not tell these apart, HEAD does.
        """
        answer = self._call("head_object", key, Key=self._base + key)
        if not {"ContentLength", "LastModified"} <= answer.keys():
            raise IncompleteError(f"{self.root}: the store knows {key!r}, but not its size or time")
        modified = answer["LastModified"].astimezone(UTC)
        etag = bare(answer.get("ETag"))
        return ObjectInfo(key, answer["ContentLength"], modified, etag, self._digest(answer, etag))

    def _digest(self, answer: Mapping[str, Any], etag: str | None) -> str | None:
        own_key = any(name.startswith(("SSECustomer", "SSEKMS")) for name in answer)
        if own_key or answer.get("ServerSideEncryption") not in (None, "AES256"):
            return None
        if answer.get("StorageClass") == _EXPRESS or self._config.bucket.endswith(_DIRECTORY_BUCKET):
            return None
        return f"{MD5_DIGEST}{etag}" if etag and _MD5.fullmatch(etag) else None

    def delete_many(self, keys: Sequence[str], gate: Gate | None = None) -> builtins.list[str]:
        """Delete, 1000 keys a request. S3 does not tell what was there: `deleted` either way."""
        gate = gate or Gate()
        outcomes: dict[str, str] = {}
        batchable: builtins.list[str] = []
        for key in dict.fromkeys(keys):
            if not key:
                outcomes[key] = FAILED + "InvalidKey"  # would name the root itself
            elif _NOT_XML.search(self._base + key):
                outcomes |= delete_all([key], self._ask_one, attempts=self._config.max_attempts, gate=gate)
            else:
                batchable.append(key)
        for start in range(0, len(batchable), self.deletes.batch):
            batch = batchable[start : start + self.deletes.batch]
            outcomes |= delete_all(
                batch, self._ask_batch, attempts=self._config.max_attempts, gate=gate, single=self._ask_one
            )
        return [outcomes[key] for key in keys]

    def _deleter(self) -> Any:
        """The client for deletes: what it does not repeat by itself is repeated at the pace of all deletes."""
        with self._lock:
            if self._deleting is None:
                self._deleting = self._new_deleting()
            return self._deleting

    def _ask_batch(self, keys: Sequence[str]) -> Mapping[str, Told] | None:
        return self._delete_named(keys, [{"Key": self._base + key} for key in keys])

    def _delete_named(self, keys: Sequence[str], objects: Sequence[Mapping[str, str]]) -> Mapping[str, Told] | None:
        """One DeleteObjects for `objects`, which belong to `keys`; what it said by key."""
        try:
            answer = self._deleter().delete_objects(
                Bucket=self._config.bucket, Delete={"Objects": objects, "Quiet": True}
            )
        except SDK_ERRORS as error:
            return None if code_of(error) in BATCH_REFUSED else dict.fromkeys(keys, failure(error))
        failed = {error.get("Key"): error.get("Code") or "Unknown" for error in answer.get("Errors") or ()}
        named = {key: failed.pop(self._base + key) for key in keys if self._base + key in failed}
        if failed:  # errors about keys not asked for: nobody knows which of ours they mean
            whole = dict.fromkeys(keys, Told.failed(next(iter(failed.values()))))
            return whole | {key: told(code)._replace(again=False) for key, code in named.items()}
        return dict.fromkeys(keys, _GONE) | {key: told(code) for key, code in named.items()}

    def _ask_one(self, keys: Sequence[str]) -> Mapping[str, Told]:
        (key,) = keys
        try:
            self._deleter().delete_object(Bucket=self._config.bucket, Key=self._base + key)
        except SDK_ERRORS as error:
            return {key: Told(ALREADY_GONE) if code_of(error) in ABSENT else failure(error)}
        except UnicodeError:  # half a surrogate pair: no key is called so
            return {key: Told.failed("InvalidKey")}
        return {key: _GONE}

    def copy(self, source: StoreConfig, source_key: str, key: str) -> str | None:
        """Copy an object that the same endpoint and credentials reach. Beyond 5 GiB it goes part by part."""
        if not isinstance(source, S3Config) or _reach(source) != _reach(self._config):
            return None
        origin = {"Bucket": source.bucket, "Key": f"{source.prefix}/{source_key}" if source.prefix else source_key}
        try:
            answer = self._call("copy_object", source_key, Key=self._base + key, CopySource=origin)
        except StoreError as error:
            if code_of(error.__context__) not in TOO_LARGE:
                raise
            self._call("copy", source_key, Key=self._base + key, CopySource=origin, Config=_IN_PARTS)
            return self.head(key).etag
        return bare(answer.get("CopyObjectResult", {}).get("ETag"))

    def download(self, key: str, file: IO[bytes]) -> None:
        """Fetch the object into a file, in parts if it is large."""
        announced, start = self.head(key).size, file.tell()
        self._call("download_fileobj", key, Key=self._base + key, Fileobj=file)
        if file.tell() - start != announced:
            raise IncompleteError(f"{self.root}: {key!r} announced {announced} bytes and sent {file.tell() - start}")

    def upload(self, key: str, file: IO[bytes]) -> None:
        """Send the object, in parts if it is large."""
        self._call("upload_fileobj", key, Key=self._base + key, Fileobj=file)

    def probe(self) -> StoreProbe:
        """Clock, conditional writes and versioning, each found out by asking."""
        versioning: bool | None = None
        try:
            answer = self.client.get_bucket_versioning(Bucket=self._config.bucket)
            versioning = answer.get("Status") == "Enabled"
        except ClientError as error:  # refused or unknown to this store, but answered, and so dated
            answer = error.response
        except SDK_ERRORS as error:
            raise self._error(error, "get_bucket_versioning", "") from None  # a trace would quote the server
        return StoreProbe(self._date(answer), self._conditional_writes(), versioning)

    def clock(self) -> datetime:
        """The date of the answer to one HEAD."""
        try:
            answer = self.client.head_object(Bucket=self._config.bucket, Key=self._base + PROBE_KEY)
        except ClientError as error:  # absent or refused, but answered, and so dated
            answer = error.response
        except SDK_ERRORS as error:
            raise self._error(error, "head_object", PROBE_KEY) from None  # a trace would quote the server
        return self._date(answer)

    def _date(self, answer: Mapping[str, Any]) -> datetime:
        date = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
        if not date:
            raise StoreError(f"{self.root}: the store's answers bear no date, so that ages cannot be judged")
        return parsedate_to_datetime(date).astimezone(UTC)

    def _conditional_writes(self) -> bool:
        # Every write has its own content, so that none is taken for the lost answer of another.
        def refused(**condition: Any) -> bool:
            try:
                self.write(PROBE_KEY, uuid.uuid4().bytes, **condition)
            except PreconditionFailedError:
                return True
            except StoreError as error:
                if code_of(error.__context__) in UNSUPPORTED:
                    return False
                raise
            return False

        present = refused(if_absent=True)  # refused only when an earlier probe left the object
        return (present or refused(if_absent=True)) and refused(if_match="0" * 32)

    def _call(self, operation: str, key: str, **arguments: Any) -> Any:
        try:
            return getattr(self.client, operation)(Bucket=self._config.bucket, **arguments)
        except SDK_ERRORS as error:
            raise self._error(error, operation, key) from None  # a trace would quote the server
        except UnicodeError as error:
            raise StoreError(f"{self.root}: {key!r} is not Unicode text: no object is called so") from error

    def _error(self, error: Exception, operation: str, key: str) -> StoreError:
        """The error in lakegc's words, without the server's own text: some servers quote requests in it."""
        code = code_of(error)
        what = f"{self.root}: {''.join(part.capitalize() for part in operation.split('_'))} of {key!r}"
        if code in ABSENT and operation != "list_objects_v2":
            return ObjectNotFoundError(f"{what}: there is no such object")
        if code in CONDITION_FAILED and operation == "put_object":
            return PreconditionFailedError(f"{what}: the object is there already, or is not the one expected ({code})")
        if isinstance(error, ClientError):
            return StoreError(f"{what}: the store answered {code} after {attempts_of(error)} attempts{hint(code)}")
        return StoreError(f"{what}: {code} after up to {self._config.max_attempts} attempts{hint(code)}")


def _reach(config: S3Config) -> tuple[str | None, ...]:
    """What two configs share that reach the same buckets in the same way."""
    return config.endpoint_url, config.region, config.access_key_id, config.secret_access_key, config.session_token
