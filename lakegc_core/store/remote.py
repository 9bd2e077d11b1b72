"""The common part of the stores behind an SDK: pages of a listing, conditional writes, probes, incomplete answers.

Here: what is the same for every protocol. Not here: which request serves which method (`s3`, `azure`, `gcs`), and
deletes (`repeated_deletes`).

A key is `prefix + "/" + address`, or the address alone under an empty prefix: never cleaned or normalised.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from lakegc_core.errors import (
    IncompleteError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreError,
    UnusableKeyError,
)
from lakegc_core.store.base import (
    LISTING_SCHEMA,
    NO_ETAGS,
    PROBE_KEY,
    HeadAnswer,
    Level,
    ObjectInfo,
    RefusedObjectError,
    Store,
)
from lakegc_core.store.conditions import delete_fault
from lakegc_core.store.head_requests import ask_all, try_head
from lakegc_core.store.pace import Gate, Pace, Turn
from lakegc_core.store.repeated_deletes import BatchDeletes

REPEATED = {408, 429, 500, 502, 503, 504}
"""Statuses after which the same request may succeed if it is made again."""

THROTTLED = {429, 503}
"""Statuses by which a service asks for fewer requests."""

_REFUSED = {400, 414}
"""Statuses by which a store refuses a key. It also answers 400 to those whom it does not know or trust."""

_DENIED = 403
"""The status by which a store refuses one who lacks the right to read an object; it says so whether or not one is
there. It also answers so to those whom it does not know or trust, and then to lists as well."""

HEADS = 64
"""Requests in flight of one process that asks for many objects. So many hide the way to a distant store, and cost no
more than few with a near one."""

ASLEEP = (
    "the object lies in an archive class, from which nothing is copied or read. Bring it back from there first, or "
    "make a backup of all other objects and sweep once without `quarantine`"
)
"""Advice on an object that the store keeps in an archive class."""

LOCKED = (
    "a lock keeps the object from being written over or deleted. lakegc writes over its own lease and probe: put "
    "`workspace:` in lakegc.yaml into a place without a lock"
)
"""Advice on an object that a store keeps by retention, immutability or a hold."""

ENDPOINT = "the endpoint"
"""The end of advice on an error that a wrong endpoint may cause."""

NO_DATE = (
    "the store's answers bear no date, so that ages cannot be judged: let the store, or what stands between it and "
    "lakegc, send the header Date"
)


def with_endpoint(advice: str, endpoint: str, told: Mapping[str, str | None]) -> str:
    """Advice for messages; if it ends in ENDPOINT, with the URL, without credentials, and the variable that says so, or
    the setting that can say another. `told`: by variable, the endpoint that it names."""
    if not advice.endswith(ENDPOINT):
        return advice
    parts, by = urlsplit(endpoint), said_by(endpoint, told) or " (`stores` in lakegc.yaml can name another)"
    return f"{advice} {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}{by}"


def said_by(endpoint: str, told: Mapping[str, str | None]) -> str:
    """The variable that says an endpoint, in words, if one does. `told`: as for `with_endpoint`; the first one that is
    set counts."""
    variable = next((name for name, url in told.items() if url), "")
    is_it = variable and str(told[variable]).rstrip("/") == endpoint.rstrip("/")
    return f" ({variable} says so)" if is_it else ""


class RemoteStore(Store):
    """Listings, conditional writes and deletes over what each store asks for by itself. Safe to share between
    threads."""

    heads_at_once = HEADS
    _deletes: BatchDeletes

    def __init__(self, root: str, prefix: str) -> None:
        self.root = root
        self._base = f"{prefix}/" if prefix else ""
        self._pace = Pace(self.heads_at_once)

    def list(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        """Every object whose key starts with `prefix`, a batch a page.

        An object named like the root itself, with its slash, has the address ``""``.
        """
        for level in self._levels(prefix, ""):
            if level.objects.num_rows:
                yield level.objects

    def list_level(self, prefix: str = "") -> Iterator[Level]:
        """The objects and prefixes directly below `prefix`, a level a page; each prefix once."""
        yield from self._levels(prefix, "/")

    def _levels(self, prefix: str, delimiter: str) -> Iterator[Level]:
        where = f"{self.root}: listing {prefix!r}"
        token = ""
        seen = {token}
        told: set[str] = set()  # some stores repeat a prefix on the next page, or on every page
        while True:
            level, token = self._page(prefix, delimiter, token, where)
            fresh = tuple(name for name in dict.fromkeys(level.prefixes) if name not in told)
            told.update(fresh)
            yield Level(level.objects, fresh)
            if not token:
                return
            if token in seen:
                raise IncompleteError(f"{where}: the store goes round in circles: it sent a continuation token twice")
            seen.add(token)

    def _page(self, prefix: str, delimiter: str, token: str, where: str) -> tuple[Level, str]:
        """One page of a listing, and the token of the next one (empty: there is none). `where` names it in errors."""
        raise NotImplementedError

    def head(self, key: str) -> ObjectInfo:
        """Size, time and ETag of one object, and its digest where the store vouches for one.

        A bare 400 may mean the key, or the one who asks. It means the key if the store answers the same client about
        another key, and lists no object under this one. What is refused to this client is told by a list.
        """
        try:
            return self._head(key)
        except StoreError as error:
            status = self._status_of(error.__context__)
            said = self._lists_say(key, status)
            if said is None:
                raise
            (listed,) = said
            if listed is not None or status == _DENIED:
                lies = "the object" if listed else "no such object"
                raise RefusedObjectError(
                    f"{error}; the store lists {lies}", listed, is_denied=status == _DENIED
                ) from None
        raise UnusableKeyError(f"{self.root}: the store takes no key such as {key!r}: no object can lie there")

    def _lists_say(self, key: str, status: int) -> tuple[ObjectInfo | None] | None:
        """What a list says of a key whose HEAD is refused by this status; None if that may mean the one who asks."""
        if status in _REFUSED:
            try:
                with suppress(ObjectNotFoundError):
                    self._head(PROBE_KEY)
            except StoreError:
                return None
        elif status != _DENIED:
            return None
        try:
            first = next(self.list(key), None)
        except StoreError as error:
            return (None,) if {status, self._status_of(error.__context__)} <= _REFUSED else None
        if first is None or first["address"][0].as_py() != key:
            return (None,)
        return (ObjectInfo(**first.slice(0, 1).to_pylist()[0]),)

    def _head(self, key: str) -> ObjectInfo:
        """Answer `head` by one request."""
        raise NotImplementedError

    def _status_of(self, error: BaseException | None) -> int:
        """The HTTP status of an answer that the SDK raised as this error; 0 where there was none."""
        raise NotImplementedError

    def try_heads(self, keys: Sequence[str], *, failures: int = 0) -> builtins.list[HeadAnswer]:
        """Ask side by side; fewer at once as long as the store throttles."""
        return ask_all(keys, self._head_in_turn, failures=failures, threads=self.heads_at_once, root=self.root)

    def _head_in_turn(self, key: str) -> HeadAnswer:
        with self._pace.turn(1) as turn:
            turn.throttled = False
            found = self._quick_head(key, turn)
            said = found if found is not None else try_head(self.head, key)
            if isinstance(said, StoreError) and self._status_of(said.__context__) in THROTTLED:
                turn.throttled = True
        return said

    def _quick_head(self, key: str, turn: Turn) -> ObjectInfo | None:
        """The HEAD of an object by a way that costs less than `head`, where there is one; None says nothing.

        `turn.throttled` becomes true if the store asks for fewer requests.
        """
        return None

    def read_there(self, key: str) -> bytes:
        """Read in the way that costs less, where there is one; fewer at once as long as the store throttles."""
        with self._pace.turn(1) as turn:
            data = self._quick_read(key, turn)
        return self.read(key) if data is None else data

    def _quick_read(self, key: str, turn: Turn) -> bytes | None:
        """The object by a way that costs less than `read`, as `_quick_head`."""
        return None

    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write the object and return its ETag. Not for objects that need more than one request."""
        attempts: builtins.list[None] = []
        try:
            return self._put(key, data, if_absent, if_match, attempts)
        except PreconditionFailedError:
            # The first attempt may have won and its answer been lost: then the retry lost against ourselves.
            with suppress(ObjectNotFoundError):
                if len(attempts) > 1 and self.read(key) == data:
                    return self.head(key).etag or ""
            raise
        except ObjectNotFoundError as error:
            if if_match is None:
                raise
            raise PreconditionFailedError(f"{self.root}: {key!r} is gone; it was to be replaced") from error

    def _put(self, key: str, data: bytes, if_absent: bool, if_match: str | None, attempts: builtins.list[None]) -> str:
        """Send the object and return its ETag; `attempts` is given one element for each."""
        raise NotImplementedError

    def delete_many(
        self, keys: Sequence[str], gate: Gate | None = None, etags: Mapping[str, str] = NO_ETAGS
    ) -> builtins.list[str]:
        """Delete, as many objects a request as the store takes.

        An object found gone after an answer was lost counts as `deleted`: that request may have done it. S3 does not
        tell what was there: `deleted` either way.
        """
        return self._deletes.delete_many(keys, gate or Gate(), etags)

    def delete_fault(self) -> str | None:
        """Each way to delete is tried with an ETag that an object had, and with the one that it has."""
        return delete_fault(self, self._deletes)


def date_of(answered: str | None, root: str) -> datetime:
    """The time at which a store sent an answer, by its own clock: the header `Date`."""
    if not answered:
        raise StoreError(f"{root}: {NO_DATE}")
    return parsedate_to_datetime(answered).astimezone(UTC)


def check_whole(announced: int | None, sent: int, key: str, root: str) -> None:
    """IncompleteError if an object did not come whole."""
    if sent != announced:
        raise IncompleteError(f"{root}: {key!r} announced {announced} bytes and sent {sent}")


def below(names: Iterable[str], wanted: str, cut: int, where: str) -> list[str]:
    """Names that were listed, without their first `cut` characters. StoreError unless all begin with `wanted`."""
    found = []
    for name in names:
        if not name.startswith(wanted):
            raise StoreError(
                f"{where}: the store listed {name!r}, which is not below what was asked for; it changes keys, and "
                "cannot be collected safely"
            )
        found.append(name[cut:])
    return found


def listed(keys: Sequence[str], sizes: Sequence[int], moments: Any, etags: Sequence[str | None]) -> pa.RecordBatch:
    """LISTING_SCHEMA, out of its columns."""
    columns = [pa.array(keys, pa.string()), pa.array(sizes, pa.int64()), moments, pa.array(etags, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA)


def bare(etag: str | None) -> str | None:
    """An ETag without its quotes, and without the `W/` of a proxy that changes how the object is sent."""
    return etag.removeprefix("W/").strip('"') if etag else None
