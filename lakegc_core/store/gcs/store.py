"""Google Cloud Storage, with google-cloud-storage: one bucket and prefix behind the protocol of `base`.

An object's ETag is its generation, which tells every two writes apart and is what conditions are made of. Not here: the
client and what the SDK's errors mean (`access`), the reading of list pages (`listing`), and deletes (`deletes`).

A name is `prefix + "/" + address`, or the address alone under an empty prefix: never cleaned or normalised.
"""

from __future__ import annotations

import base64
import builtins
import functools
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO, Any, TypeVar
from urllib.parse import quote

from google.auth.transport.requests import AuthorizedSession
from google.cloud import storage

from lakegc_core.errors import (
    IncompleteError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SettingsError,
    StoreError,
    UnusableKeyError,
)
from lakegc_core.store.base import (
    BACKOFF,
    MD5_DIGEST,
    PROBE_KEY,
    Deleted,
    Level,
    ObjectInfo,
    StoreConfig,
    StoreProbe,
    holds_secret,
)
from lakegc_core.store.conditions import writes_conditionally
from lakegc_core.store.gcs import access as gcs_access
from lakegc_core.store.gcs.access import SDK_ERRORS, error_of, in_words, should_repeat
from lakegc_core.store.gcs.deletes import BEST, ObjectDeletes
from lakegc_core.store.gcs.listing import FIELDS, page_of, read_page
from lakegc_core.store.gcs.settings import settings_of
from lakegc_core.store.gcs.undelete import FIELDS as KEPT_FIELDS
from lakegc_core.store.gcs.undelete import NONCURRENT, SOFT_DELETED, Kept, choose, read_kept
from lakegc_core.store.remote import RemoteStore, date_of
from lakegc_core.store.settings import StoreSettings

Answer = TypeVar("Answer")

_CONTENT_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class GCSConfig:
    """One prefix of one bucket, reached with Google's default credentials."""

    bucket: str
    prefix: str = ""  # verbatim, without the one slash that separates it from addresses
    endpoint_url: str | None = None  # None: Google's own
    page_size: int = 5000  # objects a list page
    max_attempts: int = 6  # of each request, the first one included
    connect_timeout: float = 10.0  # seconds
    read_timeout: float = 60.0  # seconds

    def __post_init__(self) -> None:
        if self.endpoint_url and holds_secret(self.endpoint_url):
            raise SettingsError("the GCS endpoint URL holds credentials: Google's default ones are used")

    @property
    def root(self) -> str:
        """`gs://bucket/prefix`, for messages."""
        return f"gs://{self.bucket}/{self.prefix}"

    def connect(self) -> GCSStore:
        """A store with a client of its own. The client is safe to share between threads."""
        return GCSStore(self, *gcs_access.client(self.root, self.endpoint_url))


class GCSStore(RemoteStore):
    """`Store` over one client. Safe to share between threads."""

    deletes = BEST
    proves = True
    listed_digests = False
    heads_at_once = 10  # connections that the SDK keeps

    def __init__(self, config: GCSConfig, client: storage.Client, session: AuthorizedSession) -> None:
        super().__init__(config.root, config.prefix)
        self.session = session  # for listings, whose pages the SDK does not check
        self.client = client
        self._config = config
        self._bucket = client.bucket(config.bucket)
        self._time = (config.connect_timeout, config.read_timeout)
        self._service = service = (config.endpoint_url or "https://storage.googleapis.com").rstrip("/")
        self._objects = f"{service}/storage/v1/b/{quote(config.bucket, safe='')}/o"
        self._deletes = ObjectDeletes(
            session,
            service,
            config.bucket,
            attempts=config.max_attempts,
            timeout=self._time,
            name=self._name,
            head=self.head,
        )

    def _page(self, prefix: str, delimiter: str, token: str, where: str) -> tuple[Level, str]:
        wanted = self._base + prefix
        options = {"delimiter": delimiter or None, "pageToken": token or None}
        asked = {"maxResults": str(self._config.page_size), "fields": FIELDS, "prefix": wanted, **options}
        page = self._listed(prefix, asked)
        return read_page(page, wanted, len(self._base), where), page.get("nextPageToken") or ""

    def _listed(self, prefix: str, asked: dict[str, str | None]) -> dict[str, Any]:
        """One page of a list. `asked`: the parameters of the request."""

        def ask() -> dict[str, Any]:
            return page_of(self.session.get(self._objects, params=asked, timeout=self._time), self.root)

        return self._call("listing", prefix, ask)

    def read(self, key: str) -> bytes:
        """The whole object, as stored; its CRC32C is compared with the store's."""
        blob = self._blob(key)
        data: bytes = self._call(
            "reading",
            key,
            lambda: blob.download_as_bytes(raw_download=True, checksum="crc32c", retry=None, timeout=self._time),
        )
        return data

    def _put(self, key: str, data: bytes, if_absent: bool, if_match: str | None, attempts: builtins.list[None]) -> str:
        blob = self._blob(key)
        condition = 0 if if_absent else _generation(if_match)

        def put() -> None:
            attempts.append(None)
            blob.upload_from_string(
                data, content_type=_CONTENT_TYPE, if_generation_match=condition, retry=None, timeout=self._time
            )

        try:
            self._call("writing", key, put)
        except ObjectNotFoundError as error:
            if if_match is None:
                raise StoreError(f"{self.root}: writing {key!r}: there is no such bucket") from error
            raise
        return str(blob.generation)

    def _status_of(self, error: BaseException | None) -> int:
        return gcs_access.status_of(error)

    def _head(self, key: str) -> ObjectInfo:
        # The digest is md5Hash, which the service computes by itself, for all objects not composed of others.
        blob = self._blob(key)
        self._call("looking at", key, lambda: blob.reload(retry=None, timeout=self._time))
        try:
            size, updated = blob.size, blob.updated
        except AttributeError:  # the SDK takes any success for metadata, even one that holds none
            size = updated = None
        if size is None or updated is None:
            raise IncompleteError(f"{self.root}: the store knows {key!r}, but not its size or time")
        return ObjectInfo(key, size, updated.astimezone(UTC), str(blob.generation), _digest(blob.md5_hash))

    def copy(
        self,
        source: StoreConfig,
        source_key: str,
        key: str,
        found: ObjectInfo | None = None,
        *,
        if_absent: bool = False,
    ) -> str | None:
        """Copy an object that the same endpoint reaches, in as many steps as the service wants."""
        if not isinstance(source, GCSConfig) or source.endpoint_url != self._config.endpoint_url:
            return None
        origin, condition = GCSStore(source, self.client, self.session), {"if_generation_match": 0} if if_absent else {}
        return self._rewrite(origin._blob(source_key), source_key, key, **condition)

    def _rewrite(self, origin: Any, source_key: str, key: str, **condition: int) -> str:
        target = self._blob(key)
        token: str | None = None
        while True:
            step = functools.partial(target.rewrite, origin, token=token, retry=None, timeout=self._time, **condition)
            token, _, _ = self._call("copying", source_key, step)
            if token is None:
                return str(target.generation)

    def undelete(self, deleted: Deleted) -> None:
        """Copy the noncurrent generation over nothing, or restore the soft-deleted one; never over a live object."""
        key, name, where = deleted.address, self._name(deleted.address), f"{self.root}: {deleted.address!r}"
        kept = self._kept(key, NONCURRENT)
        try:
            found = choose(kept, deleted, where)
        except (ObjectNotFoundError, PreconditionFailedError):
            # What a bucket that had versioning once kept then is older than what it soft-deletes now.
            found = choose([*kept, *self._soft_deleted(key)], deleted, where)
        if found.kind == NONCURRENT:
            self._rewrite(self._bucket.blob(name, generation=found.generation), key, key, if_generation_match=0)
            return
        options = {"generation": found.generation, "if_generation_match": 0, "retry": None, "timeout": self._time}
        self._call("restoring", key, lambda: self._bucket.restore_blob(name, **options))

    def _soft_deleted(self, key: str) -> builtins.list[Kept]:
        """The soft-deleted generations of one object. A bucket without soft delete may not take the question."""
        try:
            return self._kept(key, SOFT_DELETED)
        except StoreError as error:
            if self._status_of(error.__context__) != 400:
                raise
            return []

    def _kept(self, key: str, kind: str) -> builtins.list[Kept]:
        """The generations of one object that a list of this kind has."""
        name, token, where = self._name(key), "", f"{self.root}: listing what is kept of {key!r}"
        found: builtins.list[Kept] = []
        while True:
            page = self._listed(key, {kind: "true", "fields": KEPT_FIELDS, "prefix": name, "pageToken": token or None})
            found += read_kept(page, name, kind, where)
            following = page.get("nextPageToken") or ""
            if following == token and token:
                raise IncompleteError(f"{where}: the store goes round in circles")
            if not following:
                return found
            token = following

    def download(self, key: str, file: IO[bytes]) -> None:
        """Fetch the object into a file, as stored; its CRC32C is compared with the store's."""
        blob, start = self._blob(key), file.tell()

        def fetch() -> None:
            file.seek(start)
            blob.download_to_file(file, raw_download=True, checksum="crc32c", retry=None, timeout=self._time)

        self._call("reading", key, fetch)
        file.truncate()

    def upload(self, key: str, file: IO[bytes], *, if_absent: bool = False) -> None:
        """Send the object, in pieces if it is large."""
        blob, start, free = self._blob(key), file.tell(), 0 if if_absent else None

        def send() -> None:
            file.seek(start)
            blob.upload_from_file(
                file, content_type=_CONTENT_TYPE, if_generation_match=free, retry=None, timeout=self._time
            )

        self._call("writing", key, send)

    def clock(self) -> datetime:
        """The date of the answer to one request for an object's metadata."""
        url = f"{self._objects}/{quote(self._base + PROBE_KEY, safe='')}"

        def ask() -> str | None:
            answer = self.session.get(url, timeout=self._time)
            if answer.status_code not in (200, 403, 404):  # absent or refused, but answered, and so dated
                raise error_of(answer)
            date: str | None = answer.headers.get("date")
            return date

        return date_of(self._call("asking for the time by", PROBE_KEY, ask), self.root)

    def probe(self) -> StoreProbe:
        """Conditional writes, versioning and soft delete, each found out by asking."""
        conditional, versioning, soft_delete = writes_conditionally(self), None, None
        with suppress(*SDK_ERRORS):  # a right of its own, which a collector need not have
            self._bucket.reload(retry=None, timeout=self._time)
            versioning = bool(self._bucket.versioning_enabled)
            soft_delete = timedelta(seconds=self._bucket.soft_delete_policy.retention_duration_seconds or 0)
        return StoreProbe(conditional, versioning, soft_delete)

    def settings(self) -> StoreSettings:
        """Versioning, soft delete, retention, encryption and lifecycle rules: the bucket's metadata, by one request."""
        return settings_of(self._bucket, self._base, self._time)

    def _blob(self, key: str) -> Any:
        return self._bucket.blob(self._name(key))

    def _name(self, key: str) -> str:
        try:
            (self._base + key).encode()
        except UnicodeEncodeError as error:
            raise UnusableKeyError(f"{self.root}: {key!r} is not Unicode text: no object is called so") from error
        if not key or self._base + key in (".", ".."):  # the latter lead a URL out of the bucket
            raise UnusableKeyError(f"{self.root}: {key!r} cannot be the name of an object: it names another place")
        return self._base + key

    def _call(self, doing: str, key: str, ask: Callable[[], Answer]) -> Answer:
        """Ask, again while it may help; the SDK's errors become lakegc's, without the service's own text."""
        for attempt in range(1, self._config.max_attempts + 1):
            try:
                return ask()
            except SDK_ERRORS as error:
                if attempt == self._config.max_attempts or not should_repeat(error):
                    what, listing = f"{self.root}: {doing} {key!r}", doing == "listing"
                    raise in_words(error, what, self._service, listing=listing) from None
                time.sleep(BACKOFF.wait(attempt))
        raise AssertionError("max_attempts is at least 1")


def _digest(md5_hash: str | None) -> str | None:
    try:
        digest = base64.b64decode(md5_hash or "", validate=True)
    except ValueError:
        return None
    return f"{MD5_DIGEST}{digest.hex()}" if len(digest) == 16 else None


def _generation(etag: str | None) -> int | None:
    if etag is None:
        return None
    return int(etag) if etag.isdecimal() else -1  # of another kind of store: matches nothing
