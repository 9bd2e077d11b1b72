"""Azure Blob Storage, with azure-storage-blob on the Blob endpoint: one prefix behind the protocol of `base`.

Not here: names and errors (`container`), the reading of list pages (`listing`), deletes and the answers to batches
(`deletes`), and the choice of credentials (`access`).
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO, Any, TypeVar
from urllib.parse import quote

from azure.core import MatchConditions
from azure.storage.blob import BlobBlock

from lakegc_core.errors import IncompleteError, ObjectNotFoundError, SettingsError, StoreError
from lakegc_core.store.azure import access as azure_access
from lakegc_core.store.azure.container import Container
from lakegc_core.store.azure.deletes import BEST, BlobDeletes
from lakegc_core.store.azure.listing import Pages, read_folders, read_page
from lakegc_core.store.azure.settings import settings_of
from lakegc_core.store.azure.undelete import INCLUDED, Kept, choose, read_kept
from lakegc_core.store.base import (
    BACKOFF,
    PROBE_KEY,
    Deleted,
    Level,
    ObjectInfo,
    StoreConfig,
    StoreProbe,
    holds_secret,
)
from lakegc_core.store.conditions import writes_conditionally
from lakegc_core.store.remote import RemoteStore, bare, check_whole, date_of
from lakegc_core.store.settings import StoreSettings

_COPY_AT_ONCE = 256 << 20  # bytes: larger blobs are copied block by block
_COPY_BLOCK = 1 << 30  # bytes

_CLOCK_TRIES = 4

T = TypeVar("T")


@dataclass(frozen=True)
class AzureConfig:
    """One prefix of one container. What is None comes from the environment, or azure-identity's default chain."""

    account: str
    container: str
    prefix: str = ""  # verbatim, without the one slash that separates it from addresses
    endpoint_url: str | None = None  # None: the account's own in the public cloud
    account_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    page_size: int = 5000  # blobs a list page, 5000 at most
    max_attempts: int = 6  # of each request, the first one included
    connect_timeout: float = 10.0  # seconds
    read_timeout: float = 60.0  # seconds

    def __post_init__(self) -> None:
        if holds_secret(self.url):
            raise SettingsError("the Azure endpoint URL holds credentials: give them as account key or SAS instead")

    @property
    def url(self) -> str:
        """The Blob endpoint, without a slash at its end."""
        return (self.endpoint_url or f"https://{self.account}.blob.core.windows.net").rstrip("/")

    @property
    def root(self) -> str:
        """URL of the prefix, for messages."""
        return f"{self.url}/{self.container}/{self.prefix}"

    def connect(self) -> AzureStore:
        """A store with a client of its own. The client is safe to share between threads."""
        return AzureStore(self)


@dataclass(frozen=True)
class _Source:
    """A source of copies. `options`: the SDK's arguments by which the service may read it."""

    key: str  # for messages
    size: int  # bytes
    url: str = field(repr=False)  # may hold a secret
    options: dict[str, str] = field(repr=False)


class AzureStore(RemoteStore):
    """`Store` over one container client. Safe to share between threads."""

    deletes = BEST
    proves = False
    listed_digests = False

    def __init__(self, config: AzureConfig) -> None:
        super().__init__(config.root, config.prefix)
        self._config = config
        self._pages = Pages()
        self._access = azure_access.find(config.account, config.account_key, config.sas_token)
        timeout = (config.connect_timeout, config.read_timeout)
        self.service = azure_access.service_client(
            config.url, self._access, self._pages.keep, attempts=config.max_attempts, timeout=timeout
        )
        client = self.service.get_container_client(config.container)
        named = (config.root, config.account, config.url)
        self.container = Container(*named, self._base, config.max_attempts, client)
        self._deletes = BlobDeletes(self.container, config.account, config.url)

    def _page(self, prefix: str, delimiter: str, token: str, where: str) -> tuple[Level, str]:
        client, wanted = self.container.client, self._base + prefix
        ask = client.walk_blobs if delimiter else client.list_blobs
        pages = ask(name_starts_with=wanted, include=["metadata"], results_per_page=self._config.page_size)
        with self.container.errors("List Blobs", prefix):
            next(pages.by_page(continuation_token=token or None), None)
        return read_page(self._pages.take(where), wanted, len(self._base), where)

    def read(self, key: str) -> bytes:
        """The whole blob. An answer that breaks off is asked for again, by the SDK."""
        with self.container.errors("Get Blob", key):
            found = self.container.blob(key).download_blob(decompress=False)
            body: bytes = found.readall()
        check_whole(found.size, len(body), key, self.root)
        return body

    def _put(self, key: str, data: bytes, if_absent: bool, if_match: str | None, attempts: builtins.list[None]) -> str:
        condition: dict[str, Any] = {"overwrite": not if_absent}
        if if_match is not None:
            condition |= {"etag": f'"{if_match}"', "match_condition": MatchConditions.IfNotModified}
        attempts.append(None)
        with self.container.errors("Put Blob", key):
            answer = self.container.blob(key).upload_blob(
                data, retry_hook=lambda **_: attempts.append(None), **condition
            )
        return bare(answer["etag"]) or ""

    def _status_of(self, error: BaseException | None) -> int:
        return azure_access.status_of(error)

    def _head(self, key: str) -> ObjectInfo:
        return self.container.head(key)

    def copy(
        self,
        source: StoreConfig,
        source_key: str,
        key: str,
        found: ObjectInfo | None = None,
        *,
        if_absent: bool = False,
    ) -> str | None:
        """Copy a blob of the same account, inside the service. Large ones go block by block."""
        if not isinstance(source, AzureConfig) or (source.account, source.url) != (
            self._config.account,
            self._config.url,
        ):
            return None
        origin = AzureStore(source) if source != self._config else self
        found = found or origin.head(source_key)
        match = {"source_etag": f'"{found.etag}"', "source_match_condition": MatchConditions.IfNotModified}

        def changed() -> bool:
            return origin.head(source_key).etag != found.etag

        condition = {"match_condition": MatchConditions.IfMissing} if if_absent else {}
        return self._copy(origin._source(source_key, found.size), key, match, changed, **condition)

    def _source(self, key: str, size: int, version: str | None = None) -> _Source:
        """A blob here, or a version of it, as the source of a copy. StoreError if no token for it can be had."""
        name, container = self.container.name(key), self._config.container
        address = f"{self._config.url}/{quote(container)}/{quote(name, safe='/~')}"
        with self.container.errors("Copy Blob From URL", key):
            return _Source(key, size, *self._access.source(address, container, name, version))

    def _copy(
        self, source: _Source, key: str, match: dict[str, Any], changed: Callable[[], bool] | None, **condition: Any
    ) -> str:
        """Copy a blob to `key`, and return the new ETag. `condition`: of what lies at `key`; `match`: of the source,
        where one request copies it; `changed`: whether the source changed, where several do. A version cannot."""
        target, extra = self.container.blob(key), source.options
        with self.container.errors("Copy Blob From URL", source.key):
            if source.size <= _COPY_AT_ONCE:
                answer = target.start_copy_from_url(source.url, requires_sync=True, **condition, **match, **extra)
                return bare(answer["etag"]) or ""
            blocks = []
            for number, start in enumerate(range(0, source.size, _COPY_BLOCK)):
                block = f"{number:08d}"
                length = min(_COPY_BLOCK, source.size - start)
                target.stage_block_from_url(block, source.url, source_offset=start, source_length=length, **extra)
                blocks.append(BlobBlock(block_id=block))
            if changed is not None and changed():
                raise StoreError(f"{self.root}: {source.key!r} was written over while it was copied")
            return bare(target.commit_block_list(blocks, **condition)["etag"]) or ""

    def undelete(self, deleted: Deleted) -> None:
        """Copy the newest version over nothing, or undelete the soft-deleted blob; never over a blob that shows."""
        key = deleted.address
        found = choose(self._kept(key), deleted, f"{self.root}: {key!r}")
        if found.version is None:
            with self.container.errors("Undelete Blob", key):
                self.container.blob(key).undelete_blob()
            return
        self._copy(
            self._source(key, found.size, found.version), key, {}, None, match_condition=MatchConditions.IfMissing
        )

    def _kept(self, key: str) -> builtins.list[Kept]:
        """What the account keeps of one blob, and the blob itself if it shows."""
        name, where = self.container.name(key), f"{self.root}: listing what is kept of {key!r}"
        return self._read_pages(key, INCLUDED, where, lambda body: read_kept(body, name, where))

    def _read_pages(
        self, key: str, include: Sequence[str], where: str, read: Callable[[bytes], tuple[builtins.list[T], str]]
    ) -> builtins.list[T]:
        """All that `read` finds on the pages of a list of the blobs whose names begin with that of `key`."""
        found: builtins.list[T] = []
        marker = ""
        while True:
            pages = self.container.client.list_blobs(name_starts_with=self.container.name(key), include=include)
            with self.container.errors("List Blobs", key):
                next(pages.by_page(continuation_token=marker or None), None)
            some, following = read(self._pages.take(where))
            found += some
            if following == marker and marker:
                raise IncompleteError(f"{where}: the store goes round in circles")
            if not following:
                return found
            marker = following

    def remove_empty_folders(self, prefix: str) -> None:
        """Remove directories of an account with a hierarchical namespace; in others there are none. The service refuses
        to delete what holds anything, and whatever it refuses stays: an empty directory harms nobody."""
        top, where = prefix.rstrip("/"), f"{self.root}: listing directories below {prefix!r}"
        names = self._read_pages(top, ["metadata"], where, lambda body: read_folders(body, where))
        inside = (name.removeprefix(self._base) for name in names)
        for folder in sorted((each for each in inside if f"{each}/".startswith(prefix)), reverse=True):
            with suppress(StoreError), self.container.errors("Delete Blob", folder):
                self.container.blob(folder).delete_blob()

    def download(self, key: str, file: IO[bytes]) -> None:
        """Fetch the blob into a file, in pieces."""
        start = file.tell()
        with self.container.errors("Get Blob", key):
            found = self.container.blob(key).download_blob(decompress=False)
            found.readinto(file)
        check_whole(found.size, file.tell() - start, key, self.root)

    def upload(self, key: str, file: IO[bytes], *, if_absent: bool = False) -> None:
        """Send the blob, in blocks if it is large."""
        with self.container.errors("Put Blob", key):
            self.container.blob(key).upload_blob(file, overwrite=not if_absent)

    def clock(self) -> datetime:
        """The date of the answer to a request for properties; one without a date is asked for again."""
        dates: builtins.list[str] = []
        for attempt in range(1, _CLOCK_TRIES + 1):
            with suppress(ObjectNotFoundError), self.container.errors("Get Blob Properties", PROBE_KEY):
                self.container.blob(PROBE_KEY).get_blob_properties(
                    raw_response_hook=lambda answer: dates.append(answer.http_response.headers.get("date") or "")
                )
            if dates and dates[-1]:
                break
            time.sleep(BACKOFF.wait(attempt))
        return date_of(dates[-1] if dates else None, self.root)

    def probe(self) -> StoreProbe:
        """Conditional writes, versioning and soft delete, each found out by asking."""
        conditional, told = writes_conditionally(self), self.settings()
        versioning, soft_delete = told.versioning, told.soft_delete
        return StoreProbe(
            conditional,
            versioning if isinstance(versioning, bool) else None,
            soft_delete if isinstance(soft_delete, timedelta) else None,
            told.undeletes,
        )

    def settings(self) -> StoreSettings:
        """Soft delete, versioning and immutability, each by a request of its own."""
        return settings_of(self.container, self.service)
