"""S3 and the stores that speak its protocol, with boto3: one bucket and prefix behind the protocol of `base`.

Not here: what errors mean and what HEAD tells (`bucket`), the reading of list pages (`listing`), deletes (`deletes`,
`versions`), clients and the meaning of codes (`access`), and any notion of what the keys mean.
"""

from __future__ import annotations

import builtins
import os
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO

from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import IncompleteReadError, ResponseStreamingError

from lakegc_core.errors import (
    IncompleteError,
    NoConditionsError,
    PreconditionFailedError,
    SettingsError,
    StoreError,
    UnusableKeyError,
)
from lakegc_core.store.base import (
    BACKOFF,
    PROBE_KEY,
    Deleted,
    Deletes,
    Level,
    ObjectInfo,
    StoreConfig,
    StoreProbe,
    holds_secret,
)
from lakegc_core.store.conditions import writes_conditionally
from lakegc_core.store.pace import Turn
from lakegc_core.store.remote import HEADS, RemoteStore, bare, check_whole
from lakegc_core.store.s3 import access as s3_access
from lakegc_core.store.s3 import listing as s3_listing
from lakegc_core.store.s3.access import (
    CONDITION_UNKNOWN,
    CONFLICT,
    LOST,
    UNSUPPORTED,
    Access,
    attempts_of,
    code_of,
    lacks_checksum,
)
from lakegc_core.store.s3.bucket import DIRECTORY_BUCKET, Bucket
from lakegc_core.store.s3.deletes import ObjectDeletes
from lakegc_core.store.s3.quick import QuickWay
from lakegc_core.store.s3.settings import settings_of
from lakegc_core.store.s3.undelete import undelete
from lakegc_core.store.s3.versions import VersionDeletes
from lakegc_core.store.settings import StoreSettings

# Many stores send no byte of their answer before a copy is complete: no request may take them longer than the read
# timeout. Bytes.
_COPY_AT_ONCE = 256 << 20  # larger objects are copied part by part
_PUT_AT_ONCE = 8 << 20  # larger objects are uploaded part by part, without a condition
_IN_PARTS = TransferConfig(multipart_threshold=_COPY_AT_ONCE, multipart_chunksize=64 << 20)
_VERSIONING = {None: False, "Enabled": True}
"""Maps the bucket's status to True if the deleted stay. `Suspended` does not tell: older objects leave a version."""


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
    etags_are_md5: bool = False  # promised: no object below was ever written with KMS or a customer's key
    encryption: str | None = None  # AES256 or aws:kms: demanded of each write; None: as the bucket has it
    kms_key_id: str | None = None  # of aws:kms; None: the account's own

    def __post_init__(self) -> None:
        if self.endpoint_url and holds_secret(self.endpoint_url):
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
            max_pool_connections=HEADS,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"payload_signing_enabled": True},  # beside Content-MD5, botocore would leave bodies unsigned on https
            user_agent_extra="lakegc",
        )
        access = s3_access.access(
            self.root,
            self.max_attempts,
            options,
            endpoint_url=self.endpoint_url,
            region_name=self.region,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            aws_session_token=self.session_token,
        )
        return S3Store(self, access)


class S3Store(RemoteStore):
    """`Store` over one boto3 client. Safe to share between threads."""

    proves = True

    def __init__(self, config: S3Config, access: Access) -> None:
        super().__init__(config.root, config.prefix)
        self.client = access.main  # for the few things beyond the protocol
        self._config = config
        demanded = {"ServerSideEncryption": config.encryption, "SSEKMSKeyId": config.kms_key_id}
        self._encryption = {name: value for name, value in demanded.items() if value}
        self.listed_digests = config.etags_are_md5 and not config.bucket.endswith(DIRECTORY_BUCKET)
        self._bucket = Bucket(config.root, config.bucket, self._base, config.max_attempts, self.client)
        deletes = VersionDeletes if config.delete_versions else ObjectDeletes
        self._deletes: ObjectDeletes = deletes(self._bucket, access.deleting)
        self._quick = QuickWay(self._bucket, access, config.connect_timeout, config.read_timeout)
        self.deletes: Deletes = self._deletes.best

    def _page(self, prefix: str, delimiter: str, token: str, where: str) -> tuple[Level, str]:
        options = {name: value for name, value in (("Delimiter", delimiter), ("ContinuationToken", token)) if value}
        wanted = self._base + prefix
        answer = self._bucket.call("list_objects_v2", prefix, Prefix=wanted, EncodingType="url", **options)
        level = s3_listing.read_page(answer, wanted, len(self._base), where)
        truncated, following = answer.get("IsTruncated"), answer.get("NextContinuationToken")
        if truncated is None:
            raise IncompleteError(f"{where}: a page does not say whether it is the last one")
        if truncated and not following:
            raise IncompleteError(f"{where}: a page says that there are more, but not where")
        return level, following if truncated else ""

    def read(self, key: str) -> bytes:
        """The whole object. An answer that breaks off is asked for again, like any other lost one."""
        for attempt in range(1, self._config.max_attempts + 1):
            answer = self._bucket.call("get_object", key, Key=self._base + key)
            announced = answer.get("ContentLength")
            try:
                body: bytes = answer["Body"].read()
            except (IncompleteReadError, ResponseStreamingError, *LOST) as error:
                if attempt == self._config.max_attempts:
                    raise IncompleteError(f"{self.root}: reading {key!r} broke off: {type(error).__name__}") from error
                time.sleep(BACKOFF.wait(attempt))
                continue
            check_whole(announced, len(body), key, self.root)
            return body
        raise AssertionError("max_attempts is at least 1")

    def _quick_read(self, key: str, turn: Turn) -> bytes | None:
        return self._quick.read(key, turn)

    def _put(self, key: str, data: bytes, if_absent: bool, if_match: str | None, attempts: builtins.list[None]) -> str:
        sent = {"Key": self._base + key, "Body": data, **self._encryption}
        conditions = {"IfNoneMatch": "*"} if if_absent else {}
        if if_match is not None:
            conditions["IfMatch"] = f'"{if_match}"'
        for attempt in range(1, self._config.max_attempts + 1):
            try:
                answer = self._bucket.call("put_object", key, **sent, **conditions)
            except PreconditionFailedError as error:
                attempts += [None] * attempts_of(error.__context__)
                if code_of(error.__context__) not in CONFLICT or attempt == self._config.max_attempts:
                    raise
                time.sleep(BACKOFF.wait(attempt))  # another write was under way: S3 wants this one repeated
            except StoreError as error:
                cause = error.__context__
                if conditions and code_of(cause) in CONDITION_UNKNOWN and not lacks_checksum(cause):
                    raise NoConditionsError(str(error)) from None
                raise
            else:
                return bare(answer.get("ETag")) or ""
        raise AssertionError("max_attempts is at least 1")

    def _head(self, key: str) -> ObjectInfo:
        if not self._base + key:
            raise UnusableKeyError(f"{self.root}: no object has an empty name")
        return self._bucket.head(key)

    def _status_of(self, error: BaseException | None) -> int:
        return s3_access.status_of(error)

    def _quick_head(self, key: str, turn: Turn) -> ObjectInfo | None:
        return self._quick.head(key, turn)

    def undelete(self, deleted: Deleted) -> None:
        """Remove the delete markers of the delete, in a bucket that keeps versions."""
        undelete(self._bucket, deleted)

    def copy(
        self,
        source: StoreConfig,
        source_key: str,
        key: str,
        found: ObjectInfo | None = None,
        *,
        if_absent: bool = False,
    ) -> str | None:
        """Copy an object that the same endpoint and credentials reach. A large one goes part by part."""
        if not isinstance(source, S3Config) or _reach(source) != _reach(self._config):
            return None
        origin = {"Bucket": source.bucket, "Key": f"{source.prefix}/{source_key}" if source.prefix else source_key}
        found = found or source.connect().head(source_key)
        if found.size > _COPY_AT_ONCE:
            more = self._encryption | ({"CopySourceIfMatch": f'"{found.etag}"'} if found.etag else {})
            asked = {"Key": self._base + key, "CopySource": origin, "Config": _IN_PARTS, "ExtraArgs": more}
            try:
                self._bucket.call("copy", source_key, **asked)
            except StoreError as error:
                if code_of(error.__context__) not in UNSUPPORTED:
                    raise
            else:
                return self.head(key).etag or ""
        asked = {"Key": self._base + key, "CopySource": origin, **self._encryption}
        if if_absent and self._bucket.takes("CopyObject", "IfNoneMatch"):
            asked["IfNoneMatch"] = "*"
        try:
            answer = self._bucket.call("copy_object", source_key, **asked)
        except StoreError as error:
            if "IfNoneMatch" in asked and code_of(error.__context__) in CONDITION_UNKNOWN:
                raise NoConditionsError(str(error)) from None
            raise
        return bare(answer.get("CopyObjectResult", {}).get("ETag")) or self.head(key).etag or ""

    def download(self, key: str, file: IO[bytes]) -> None:
        """Fetch the object into a file, in parts if it is large."""
        announced, start = self.head(key).size, file.tell()
        self._bucket.call("download_fileobj", key, Key=self._base + key, Fileobj=file)
        file.seek(0, os.SEEK_END)  # parts come in any order
        check_whole(announced, file.tell() - start, key, self.root)

    def upload(self, key: str, file: IO[bytes], *, if_absent: bool = False) -> None:
        """Send the object, in parts if it is large."""
        start = file.tell()
        if if_absent and file.seek(0, os.SEEK_END) - start <= _PUT_AT_ONCE:
            file.seek(start)
            self._put(key, file.read(), True, None, [])
            return
        file.seek(start)
        self._bucket.call("upload_fileobj", key, Key=self._base + key, Fileobj=file, ExtraArgs=self._encryption)

    def probe(self) -> StoreProbe:
        """Conditional writes and versioning, each found out by asking."""
        answer = self._bucket.answer("get_bucket_versioning", "")
        # Refused or unknown to this store, it says nothing.
        versioning = None if "Error" in answer else _VERSIONING.get(answer.get("Status"))
        if not self._deletes.leaves_versions:
            versioning = False  # nothing stays of what is deleted
        return StoreProbe(writes_conditionally(self), versioning)

    def settings(self) -> StoreSettings:
        """Versioning, object lock, encryption, lifecycle rules and open uploads, each by a request of its own."""
        return settings_of(self._bucket, leaves_versions=self._deletes.leaves_versions)

    def clock(self) -> datetime:
        """The date of the answer to one HEAD."""
        return self._bucket.date_of(self._bucket.answer("head_object", PROBE_KEY, Key=self._base + PROBE_KEY))


def _reach(config: S3Config) -> tuple[str | None, ...]:
    """The values that two configs share if they reach the same buckets in the same way."""
    return config.endpoint_url, config.region, config.access_key_id, config.secret_access_key, config.session_token
