"""Google Cloud Storage, with google-cloud-storage: one bucket and prefix behind the protocol of `base`.

An object's ETag is its generation, which tells every two writes apart and is what conditions are made of. Not here: the
client and what the SDK's errors mean (`access`), and the reading of list pages (`listing`).

A name is `prefix + "/" + address`, or the address alone under an empty prefix: never cleaned or normalised.
"""

from __future__ import annotations

import base64
import builtins
import functools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import IO, Any, TypeVar
from urllib.parse import quote

import pyarrow as pa
from google.api_core.exceptions import NotFound, from_http_response
from google.auth.transport.requests import AuthorizedSession
from google.cloud import storage

from lakegc_core.errors import IncompleteError, ObjectNotFoundError, PreconditionFailedError, SettingsError, StoreError
from lakegc_core.names import Outcome
from lakegc_core.store.base import (
    BACKOFF,
    MD5_DIGEST,
    PROBE_KEY,
    Deletes,
    Level,
    ObjectInfo,
    StoreConfig,
    StoreProbe,
    holds_secret,
)
from lakegc_core.store.gcs import access as gcs_access
from lakegc_core.store.gcs.access import SDK_ERRORS, in_words, should_repeat, told_by
from lakegc_core.store.gcs.listing import Lists, read_page
from lakegc_core.store.pace import Gate
from lakegc_core.store.repeated_deletes import DeleteAnswer, delete_all

Answer = TypeVar("Answer")

_DELETES = 16  # side by side; the JSON API's batches are no faster for the service, and hide single answers


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


class GCSStore:
    """`Store` over one client. Safe to share between threads."""

    deletes = Deletes(batch=1000, calls=2, requests=2 * _DELETES)
    proves = True

    def __init__(self, config: GCSConfig, client: storage.Client, session: AuthorizedSession) -> None:
        self.root = config.root
        self.session = session  # for listings, whose pages the SDK does not check
        self.client = client
        self._config = config
        self._base = f"{config.prefix}/" if config.prefix else ""
        self._bucket = client.bucket(config.bucket)
        self._time = (config.connect_timeout, config.read_timeout)
        self._service = gcs_access.service(config.endpoint_url)

    def list(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        """Every object whose name starts with `prefix`, a batch a page.

        An object named like the root itself, with its slash, has the address ``""``.
        """
        for level in self._levels(prefix):
            if level.objects.num_rows:
                yield level.objects

    def list_level(self, prefix: str = "") -> Iterator[Level]:
        """The objects and prefixes directly below `prefix`, a level a page."""
        yield from self._levels(prefix, delimiter="/")

    def _levels(self, prefix: str, **options: str) -> Iterator[Level]:
        wanted = self._base + prefix
        where = f"{self.root}: listing {prefix!r}"
        cut = len(self._base)
        config = self._config
        lists = Lists(self.session, self.root, self._service, config.bucket, config.page_size, self._time)
        last = ""  # of the prefixes so far: some servers repeat them on every page
        token: dict[str, str] = {}
        seen: set[str] = set()
        while True:
            page = self._call("listing", prefix, functools.partial(lists.page, {"prefix": wanted} | options | token))
            objects, prefixes = read_page(page, wanted, cut, where)
            fresh = sorted(name for name in prefixes if name > last)
            last = fresh[-1] if fresh else last
            yield Level(objects, tuple(name[cut:] for name in fresh))
            following = page.get("nextPageToken")
            if not following:
                return
            if following in seen:
                raise IncompleteError(f"{where}: the store goes round in circles: it sent a page token twice")
            seen.add(following)
            token = {"pageToken": following}

    def read(self, key: str) -> bytes:
        """The whole object, as stored; its CRC32C is compared with the store's."""
        blob = self._blob(key)
        data: bytes = self._call(
            "reading",
            key,
            lambda: blob.download_as_bytes(raw_download=True, checksum="crc32c", retry=None, timeout=self._time),
        )
        return data

    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write the object and return its ETag."""
        return str(self._write(key, data, if_absent, if_match).generation)

    def _write(self, key: str, data: bytes, if_absent: bool, if_match: str | None) -> Any:
        blob = self._blob(key)
        generation = 0 if if_absent else _generation(if_match)
        attempts: builtins.list[None] = []

        def put() -> None:
            attempts.append(None)
            blob.upload_from_string(
                data,
                content_type="application/octet-stream",
                if_generation_match=generation,
                retry=None,
                timeout=self._time,
            )

        try:
            self._call("writing", key, put)
        except PreconditionFailedError:
            # The first attempt may have won and its answer been lost: then the retry lost against ourselves.
            with suppress(ObjectNotFoundError):
                if len(attempts) > 1 and self.read(key) == data:
                    self._call("looking at", key, lambda: blob.reload(retry=None, timeout=self._time))
                    return blob
            raise
        except ObjectNotFoundError as error:
            if if_match is None:
                raise StoreError(f"{self.root}: writing {key!r}: there is no such bucket") from error
            raise PreconditionFailedError(f"{self.root}: {key!r} is gone; it was to be replaced") from error
        return blob

    def head(self, key: str) -> ObjectInfo:
        """Size, time, ETag (generation) and digest of one object.

        The digest is md5Hash, which the service computes by itself, for all objects that are not composed of others.
        """
        blob = self._blob(key)
        self._call("looking at", key, lambda: blob.reload(retry=None, timeout=self._time))
        if blob.size is None or blob.updated is None:
            raise IncompleteError(f"{self.root}: the store knows {key!r}, but not its size or time")
        digest = _digest(blob.md5_hash)
        return ObjectInfo(key, blob.size, blob.updated.astimezone(UTC), str(blob.generation), digest)

    def delete_many(self, keys: Sequence[str], gate: Gate | None = None) -> builtins.list[str]:
        """Delete, one request an object, many at once.

        An object found gone after an answer was lost counts as `deleted`: that request may have done it.
        """
        different, gate = builtins.list(dict.fromkeys(keys)), gate or Gate()
        outcomes: dict[str, str] = {}

        def delete(key: str) -> dict[str, str]:
            return delete_all([key], self._ask_one, attempts=self._config.max_attempts, gate=gate)

        with ThreadPoolExecutor(_DELETES) as pool:
            for found in pool.map(delete, different):
                outcomes |= found
        return [outcomes[key] for key in keys]

    def _ask_one(self, keys: Sequence[str]) -> Mapping[str, DeleteAnswer]:
        (key,) = keys
        try:
            self._blob(key).delete(retry=None, timeout=self._time)
        except StoreError:
            return {key: DeleteAnswer.failed("InvalidKey")}
        except NotFound as error:
            no_bucket = "bucket does not exist" in error.message
            return {key: DeleteAnswer.failed("NoSuchBucket") if no_bucket else DeleteAnswer(Outcome.ALREADY_GONE)}
        except SDK_ERRORS as error:
            return {key: told_by(error)}
        return {key: DeleteAnswer(Outcome.DELETED)}

    def copy(self, source: StoreConfig, source_key: str, key: str) -> str | None:
        """Copy an object that the same endpoint reaches, in as many steps as the service wants."""
        if not isinstance(source, GCSConfig) or source.endpoint_url != self._config.endpoint_url:
            return None
        origin = GCSStore(source, self.client, self.session)._blob(source_key)
        target = self._blob(key)
        token: str | None = None
        while True:
            step = functools.partial(target.rewrite, origin, token=token, retry=None, timeout=self._time)
            token, _, _ = self._call("copying", source_key, step)
            if token is None:
                return str(target.generation)

    def download(self, key: str, file: IO[bytes]) -> None:
        """Fetch the object into a file, as stored; its CRC32C is compared with the store's."""
        blob, start = self._blob(key), file.tell()

        def fetch() -> None:
            file.seek(start)
            blob.download_to_file(file, raw_download=True, checksum="crc32c", retry=None, timeout=self._time)

        self._call("reading", key, fetch)
        file.truncate()

    def upload(self, key: str, file: IO[bytes]) -> None:
        """Send the object, in pieces if it is large."""
        blob, start = self._blob(key), file.tell()

        def send() -> None:
            file.seek(start)
            blob.upload_from_file(file, content_type="application/octet-stream", retry=None, timeout=self._time)

        self._call("writing", key, send)

    def clock(self) -> datetime:
        """The date of the answer to one request for an object's metadata."""
        url = f"{self._service}/storage/v1/b/{quote(self._config.bucket, safe='')}/o/"

        def ask() -> str | None:
            answer = self.session.get(url + quote(self._base + PROBE_KEY, safe=""), timeout=self._time)
            if answer.status_code not in (200, 403, 404):  # absent or refused, but answered, and so dated
                raise from_http_response(answer)
            date: str | None = answer.headers.get("date")
            return date

        date = self._call("asking for the time by", PROBE_KEY, ask)
        if not date:
            raise StoreError(f"{self.root}: the store's answers bear no date, so that ages cannot be judged")
        return parsedate_to_datetime(date).astimezone(UTC)

    def probe(self) -> StoreProbe:
        """Clock, conditional writes, versioning and soft delete, each found out by asking."""
        written = self._write(PROBE_KEY, uuid.uuid4().bytes, False, None)
        if written.updated is None:
            raise StoreError(f"{self.root}: the store's answers bear no date, so that ages cannot be judged")
        conditional = self._refuses(if_absent=True) and self._refuses(if_match="1")
        versioning, soft_delete = None, None
        with suppress(*SDK_ERRORS):  # a right of its own, which a collector need not have
            self._bucket.reload(retry=None, timeout=self._time)
            versioning = bool(self._bucket.versioning_enabled)
            soft_delete = timedelta(seconds=self._bucket.soft_delete_policy.retention_duration_seconds or 0)
        return StoreProbe(written.updated.astimezone(UTC), conditional, versioning, soft_delete)

    def _refuses(self, *, if_absent: bool = False, if_match: str | None = None) -> bool:
        try:  # its own content, so that it is not taken for the lost answer of another
            self.write(PROBE_KEY, uuid.uuid4().bytes, if_absent=if_absent, if_match=if_match)
        except PreconditionFailedError:
            return True
        return False

    def _blob(self, key: str) -> Any:
        try:
            (self._base + key).encode()
        except UnicodeEncodeError as error:
            raise StoreError(f"{self.root}: {key!r} is not Unicode text: no object is called so") from error
        if not key or self._base + key in (".", ".."):  # the latter lead a URL out of the bucket
            raise StoreError(f"{self.root}: {key!r} cannot be the name of an object: it names another place")
        return self._bucket.blob(self._base + key)

    def _call(self, doing: str, key: str, ask: Callable[[], Answer]) -> Answer:
        """Ask, again while it may help; the SDK's errors become lakegc's, without the service's own text."""
        for attempt in range(1, self._config.max_attempts + 1):
            try:
                return ask()
            except SDK_ERRORS as error:
                if attempt == self._config.max_attempts or not should_repeat(error):
                    raise in_words(error, f"{self.root}: {doing} {key!r}", listing=doing == "listing") from None
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
