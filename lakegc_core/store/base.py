"""The protocol by which lakegc uses an object store. It is small, and its addresses are relative to one root.

A `StoreConfig` is a frozen, picklable value that travels to Spark executors; `connect` turns it into a live `Store`
once per process. Keys are raw text: nothing here escapes, normalises or splits them.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import IO, Protocol, runtime_checkable
from urllib.parse import urlsplit

import pyarrow as pa

from lakegc_core.backoff import Backoff
from lakegc_core.errors import BucketNotFoundError, LakegcError, ObjectNotFoundError, StoreError, UnusableKeyError
from lakegc_core.store.pace import Gate
from lakegc_core.store.settings import StoreSettings

LISTING_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),  # key relative to the store's root
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),  # by the store's clock
        pa.field("etag", pa.string(), nullable=True),  # without quotes
    ]
)

NOT_ASKED = "not_asked"  # the gate was shut before the store took the request: no outcome yet

PROBE_KEY = "_lakefs/retention/gc/lakegc/probe"

DELETE_PROBES = "_lakegc/delete-probe/"
"""The place where deletes on condition are tried: not below `_lakefs/`, where no sweep needs the right to delete."""

NO_ETAGS: Mapping[str, str] = MappingProxyType({})

BACKOFF = Backoff(first=0.2, longest=20.0)  # between attempts of one request

MD5_DIGEST = "md5:"  # followed by 32 hex digits in lower case


@dataclass(frozen=True)
class ObjectInfo:
    """One object as a HEAD request shows it. `size` in bytes.

    `digest`: MD5_DIGEST of the whole content, only where the store vouches for it; None says nothing of the content.
    """

    address: str
    size: int
    last_modified: datetime
    etag: str | None
    digest: str | None = None


@dataclass(frozen=True)
class Deleted:
    """One object that lakegc deleted. `size` in bytes. It was written before `written_before`, and its delete was made
    between `since` and `until`; all by the store's clock."""

    address: str
    size: int
    written_before: datetime
    since: datetime
    until: datetime


class RefusedObjectError(StoreError):
    """The store refuses HEAD of one key, as S3 does under a customer's key (SSE-C) and to those who may not read the
    object, and it answers lists. `listed`: what a list shows under the key, without a digest; None if nothing.
    `is_denied`: the one who asks lacks the right, so that nothing follows of the object itself."""

    def __init__(self, message: str, listed: ObjectInfo | None, *, is_denied: bool = False) -> None:
        super().__init__(message, listed)
        self.message, self.listed, self.is_denied = message, listed, is_denied

    def __str__(self) -> str:
        return self.message


HeadAnswer = ObjectInfo | LakegcError | None
"""The answer to a HEAD of a key: the object, the reason why there is no answer, or None if there is no such object."""


@dataclass(frozen=True)
class Level:
    """One step of a listing by delimiter `/`: the objects directly below the prefix, and the prefixes below it."""

    objects: pa.RecordBatch  # LISTING_SCHEMA
    prefixes: tuple[str, ...]  # relative to the root, each ending in `/`


@dataclass(frozen=True)
class StoreProbe:
    """Capabilities of a store, found out by asking it. None = it does not say."""

    conditional_writes: bool
    versioning: bool | None = None  # whether what is deleted stays as an old version
    soft_delete: timedelta | None = None  # for how long the store keeps a deleted object besides; zero: not at all
    undeletes: bool | None = True  # whether `undelete` brings back what soft delete keeps; None: nobody can tell


@dataclass(frozen=True)
class Deletes:
    """The best way to delete on a store: keys a call, calls side by side, and the most requests in flight in all."""

    batch: int = 1000
    calls: int = 8
    requests: int = 8
    etags_a_request: int = 0  # for how many keys a request can name ETags


def holds_secret(endpoint: str) -> bool:
    """True if the URL of an endpoint carries more than a place: credentials before the host, or a query (a SAS)."""
    parts = urlsplit(endpoint)
    return "@" in parts.netloc or bool(parts.query)


class Store(Protocol):
    """A live connection to one root of one object store. Every method raises `StoreError` when the store does."""

    root: str  # URI of the root, for messages: never holds a secret
    deletes: Deletes
    proves: bool  # whether `head` may show a digest
    listed_digests: bool  # whether lakegc.yaml says that listed ETags are digests where `etags.digest_by_etag` has one

    def list(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        """Every object whose key starts with `prefix`, at any depth, as batches of LISTING_SCHEMA.

        The prefix need not end at a `/`. A listing that breaks off raises; it never just ends.
        """

    def list_level(self, prefix: str = "") -> Iterator[Level]:
        """The objects and prefixes directly below `prefix` (empty, or ending in `/`), page by page; each prefix
        once, whatever the store repeats."""

    def read(self, key: str) -> bytes:
        """The whole object; its length is checked against what the store announced. ObjectNotFoundError if absent."""

    def read_there(self, key: str) -> bytes:
        """`read`, of an object that is sure to be there: a store may have a way for it that costs less."""

    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write the object and return its ETag. PreconditionFailedError if a condition does not hold."""

    def head(self, key: str) -> ObjectInfo:
        """Size, time, ETag and, where it is proven, the digest of one object. ObjectNotFoundError if absent,
        UnusableKeyError if it is proven that the store refuses the key itself, and not the one who asks,
        RefusedObjectError if it refuses HEAD of this key and a list says what lies there."""

    def try_heads(self, keys: Sequence[str], *, failures: int = 0) -> builtins.list[HeadAnswer]:
        """Ask for the HEAD of each key, side by side where that is faster, and return the answers in order. None: there
        is no such object, or the store takes no such key. An error of a single key is not raised: it is the answer for
        its key. After more than `failures` errors no more HEADs are sent, and one of the errors stands for each key
        left.

        Takes any number of keys, and needs memory for the answers. See `heads`, which raises.
        """

    def delete_many(
        self, keys: Sequence[str], gate: Gate | None = None, etags: Mapping[str, str] = NO_ETAGS
    ) -> builtins.list[str]:
        """Delete the objects and return one outcome per key, in order: `deleted`, `already_gone` or `failed:CODE`.

        A key that has an ETag in `etags` is deleted only if this is the ETag of its object; if another object lies
        there, it is `changed`. A store is given ETags only if it has no `delete_fault`.

        Never raises for what happens to single keys; a lost answer is `failed:no_answer` for each of its keys. Every
        request passes the gate, if there is one; keys that it does not let through are `not_asked`.
        """

    def delete_fault(self) -> str | None:
        """The fault of deletes that name an ETag, in words; None if they delete the object with this ETag and no other.

        It is found out below DELETE_PROBES, where something may stay if there is a fault.
        """

    def undelete(self, deleted: Deleted) -> None:
        """Bring an object that lakegc deleted back out of what the store keeps of it: old versions, soft delete.

        ObjectNotFoundError if the store keeps it no more. PreconditionFailedError, and nothing is changed, if somebody
        else has written or deleted under the key. What shows afterwards is for the caller to see.
        """

    def remove_empty_folders(self, prefix: str) -> None:
        """Remove the folder of this prefix (ending in `/`) with those in it, as far as they hold no object.

        Most stores have no folders: there it does nothing.
        """
        return

    def copy(
        self,
        source: StoreConfig,
        source_key: str,
        key: str,
        found: ObjectInfo | None = None,
        *,
        if_absent: bool = False,
    ) -> str | None:
        """Copy an object of another root to `key` inside the store, overwriting it, and return the new ETag.

        `if_absent`: PreconditionFailedError, and nothing copied, if something lies under `key`. NoConditionsError if it
        is known that the store cannot tell. S3 tells of what one request copies or uploads, if the server does.

        `found`: what HEAD has just shown of the source; None: a store that has to know asks for it. What takes several
        requests copies exactly this object, or raises.

        None, and nothing copied, where the store cannot: `source` is another kind of store, or another account.
        ObjectNotFoundError if there is no source.
        """

    def download(self, key: str, file: IO[bytes]) -> None:
        """Write the whole object to a file, piece by piece; the length is checked. ObjectNotFoundError if absent."""

    def upload(self, key: str, file: IO[bytes], *, if_absent: bool = False) -> None:
        """Write what the file holds from its place on, of any size, over whatever lies under the key. `if_absent`: as
        of `copy`."""

    def clock(self) -> datetime:
        """The store's own time, by one request: the date of its answer, in whole seconds where it gives no more."""

    def now(self) -> datetime:
        """The time by which marks, sweeps and restores are judged, without a write: the store's own, as `clock` tells
        it. A folder goes by the collector's clock."""
        return self.clock()

    def probe(self) -> StoreProbe:
        """Ask the store what it can. Writes nothing outside `_lakefs/retention/gc/lakegc/`."""

    def settings(self) -> StoreSettings:
        """Ask the store how it keeps objects. Writes nothing, and raises nothing: what it does not tell is `Untold`."""


def head_if_there(store: Store, key: str) -> ObjectInfo | None:
    """What lies under a key: as HEAD shows it, or as a list does where the store refuses HEAD of this key. None if
    nothing lies there, or the store takes no such key. Users of lakeFS may stage any text as an address: no such text,
    and no single object that the store does not show, may stop the caller."""
    try:
        return store.head(key)
    except (ObjectNotFoundError, UnusableKeyError):
        return None
    except RefusedObjectError as error:
        return error.listed


def check_bucket(store: Store) -> None:
    """BucketNotFoundError if there is no such bucket or container, which some stores (SeaweedFS) make at a first write.
    A store that does not list says nothing of it."""
    try:
        next(store.list_level(""), None)
    except BucketNotFoundError:
        raise
    except LakegcError:
        pass


def folders_in_use(store: Store, prefix: str) -> list[str]:
    """The folders directly below a prefix that hold an object, in order; each costs a request. Some stores go on
    showing folders that hold nothing: SeaweedFS for a while, Azure with a hierarchical namespace for ever."""
    shown = (each for level in store.list_level(prefix) for each in level.prefixes)
    return sorted(each for each in shown if holds_any(store, each))


def holds_any(store: Store, folder: str) -> bool:
    """True if an object lies below a folder (ending in `/`)."""
    return next(iter(store.list(folder)), None) is not None


def heads(store: Store, keys: Sequence[str]) -> list[ObjectInfo | None]:
    """`head_if_there` of each key, in order, side by side. Raises the first error; after it no more HEADs are sent."""
    told: dict[str, ObjectInfo | None] = {}
    left: Sequence[str] = keys
    while left:
        errors, refused = list[LakegcError](), 0
        for key, said in zip(left, store.try_heads(left), strict=True):
            if isinstance(said, RefusedObjectError):
                told[key], refused = said.listed, refused + 1
            elif isinstance(said, LakegcError):
                errors.append(said)
            else:
                told[key] = said
        if errors and not refused:
            raise errors[0]
        left = [key for key in left if key not in told]  # not asked for after one that was refused
    return [told[key] for key in keys]


@runtime_checkable
class StoreConfig(Hashable, Protocol):
    """A way to reach one root of a store: a frozen, hashable, picklable dataclass with secrets kept out of its repr."""

    @property
    def root(self) -> str:
        """URI of the root, for messages."""

    def connect(self) -> Store:
        """Open a new connection. Use `connect(config)` to share one per process."""


@functools.lru_cache(maxsize=64)
def connect(config: StoreConfig) -> Store:
    """The process's one connection for this config: clients are costly to build and safe to share."""
    return config.connect()
