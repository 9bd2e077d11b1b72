"""Copies one object from one store to another under the same key, and never over something different.

A copy counts only after the target was asked for it: its size must be the source's, and its digest too where both
stores vouch for one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition

from lakegc_core.errors import LakegcError, NoConditionsError, ObjectNotFoundError, PreconditionFailedError, StoreError
from lakegc_core.marks.backups import ALREADY_THERE, COPIED
from lakegc_core.names import Json
from lakegc_core.store.base import ObjectInfo, Store, StoreConfig, connect, head_if_there

MISSING = "missing"  # not in the source
DIFFERENT = "different"  # something else lies at the target: left alone
FAILED = "failed"

_IN_MEMORY = 16 << 20  # bytes of an object between two stores that stay out of a temporary file
_ON_THEIR_WAY = 1 << 30  # bytes of all objects of this process between two stores; a larger one goes alone


class Room:
    """Room for objects that lie in temporary files: `most` bytes together, or one object of more."""

    def __init__(self, most: int) -> None:
        self._most, self._taken, self._freed = most, 0, Condition()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Wait until there is room for so many bytes, and take it until the block ends."""
        with self._freed:
            self._freed.wait_for(lambda: not self._taken or self._taken + size <= self._most)
            self._taken += size
        try:
            yield
        finally:
            with self._freed:
                self._taken -= size
                self._freed.notify_all()


_room = Room(_ON_THEIR_WAY)


@dataclass(frozen=True)
class OneCopy:
    """Copies objects, one at a time. `bandwidth`: bytes a second between stores that cannot copy from each other; 0: no
    limit.

    `sized`: an object of another size than asked for is another one (`is_another`): it is `different`, and not copied.
    `may_be_gone`: a copy of the size asked for is `already_there` also if the source holds the object no longer.
    `if_absent`: what somebody else writes to the target meanwhile stays, as far as stores know such a condition.
    `made_after`: what lies at the target counts only if it was written after the source, or proves its content.
    """

    source: StoreConfig
    target: StoreConfig
    bandwidth: float = 0.0
    sized: bool = False
    may_be_gone: bool = False
    made_after: bool = False
    if_absent: bool = False

    def copy(self, wanted: Json) -> Json:
        """Copy one object, and return what came of it (`transfer.SCHEMA`). `wanted`: address, and size as it is on
        record."""
        row, found = self.look(wanted)
        return row if found is None else self.make(row, found)

    def look(self, wanted: Json) -> tuple[Json, ObjectInfo | None]:
        """Ask both stores, and copy nothing. Returns the row as `copy` does, and the object if it is yet to be copied:
        both are for `make`."""
        address, size = str(wanted["address"]), int(wanted["size"])
        row: Json = {"address": address, "size": size, "etag": None, "outcome": FAILED, "problem": None}
        source, target = connect(self.source), connect(self.target)
        try:
            try:
                found = source.head(address)
            except ObjectNotFoundError:  # a 404 of a later request proves nothing of the source
                return row | self._lacking(target, address, size), None
            row |= {"size": found.size, "etag": found.etag}
            if self.sized and found.size != size:
                return row | {"outcome": DIFFERENT, "problem": self._of_another_size(found, size)}, None
            there = head_if_there(target, address)
        except LakegcError as error:
            return row | {"problem": str(error)[:500]}, None
        return (row, found) if there is None else (row | self._lying(found, there), None)

    def make(self, row: Json, found: ObjectInfo) -> Json:
        """Copy an object that has no copy, as `look` found it, and prove the copy."""
        source, target = connect(self.source), connect(self.target)
        try:
            there = self._send(source, target, found)
            if there is not None:
                return row | self._lying(found, there)
            if not _same(found, target.head(found.address)):
                raise StoreError(f"the copy in {self.target.root} is not what {self.source.root} holds")
        except (LakegcError, OSError) as error:  # such as a full disk, on the way between two stores
            return row | {"problem": str(error)[:500]}
        return row | {"outcome": COPIED}

    def _send(self, source: Store, target: Store, found: ObjectInfo) -> ObjectInfo | None:
        """Copy an object. Returns what lies at the target if something came there first: then it was left alone."""
        if self.if_absent:
            try:
                self._put(source, target, found, if_absent=True)
                return None
            except (PreconditionFailedError, NoConditionsError):
                there = head_if_there(target, found.address)
                if there is not None:
                    return there
        self._put(source, target, found)  # also where a store refuses the condition although nothing lies there
        return None

    def _put(self, source: Store, target: Store, found: ObjectInfo, **condition: bool) -> None:
        if target.copy(self.source, found.address, found.address, found, **condition) is None:
            self._carry(source, target, found, **condition)

    def _lying(self, found: ObjectInfo, there: ObjectInfo) -> Json:
        """The outcome of an object under whose key something lies at the target."""
        if not _same(found, there):
            problem = f"{there.size:,} bytes lie there, not the {found.size:,} of the source"
            return {"outcome": DIFFERENT, "problem": problem}
        proven = found.digest and there.digest
        if self.made_after and not proven and there.last_modified < found.last_modified:
            return {"outcome": DIFFERENT, "problem": "the source was written over after it was copied"}
        return {"outcome": ALREADY_THERE}

    def _of_another_size(self, found: ObjectInfo, size: int) -> str:
        return (
            f"not taken from {self.source.root}: {found.size:,} bytes lie there, not the {size:,} on record. If these "
            "are the right ones, copy the object by hand, under its key"
        )

    def _lacking(self, target: Store, address: str, size: int) -> Json:
        """The outcome of an object that the source does not hold."""
        if self.may_be_gone:
            there = head_if_there(target, address)
            if there is not None and there.size == size:
                return {"outcome": ALREADY_THERE}
        return {"outcome": MISSING, "problem": f"{self.source.root} does not hold it"}

    def _carry(self, source: Store, target: Store, found: ObjectInfo, **condition: bool) -> None:
        """Between stores that cannot copy from each other: down and up again."""
        with _room.taken(found.size), tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            began = time.monotonic()
            source.download(found.address, file)
            file.seek(0)
            target.upload(found.address, file, **condition)
        if self.bandwidth:
            time.sleep(max(0.0, found.size / self.bandwidth - (time.monotonic() - began)))


def is_another(wanted: Json, row: Json) -> bool:
    """True if the source holds another object than the one `wanted`, by the row that came of it (`OneCopy.sized`)."""
    return bool(row["outcome"] == DIFFERENT and row["size"] != wanted["size"])


def _same(one: ObjectInfo, other: ObjectInfo) -> bool:
    """Equal as far as the stores prove: an ETag proves nothing, however much it looks like an MD5 (SSE-KMS)."""
    if one.size != other.size:
        return False
    digests = {each.digest for each in (one, other) if each.digest}
    return len(digests) < 2
