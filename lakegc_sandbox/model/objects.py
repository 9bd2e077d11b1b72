"""Objects of a repository: where they lie, uploading, staging, copying, deleting, listing and reading them.

Commits and merges belong in `repository`, the bytes themselves in `files`.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import RLock

from lakegc_core.errors import ObjectNotFoundError
from lakegc_core.policy.places import parse
from lakegc_sandbox.files.files import Files
from lakegc_sandbox.files.graveler_writer import FULL, RANGE_MAX_SIZE, RANGE_MODULUS, RELATIVE, Entry
from lakegc_sandbox.files.names import Names
from lakegc_sandbox.model.refs import Branch, GoneError, Refs, SandboxError, Staging
from lakegc_sandbox.model.tree import Changes, Tree, diff

OCTETS = "application/octet-stream"
NOW = timedelta(0)


@dataclass(frozen=True)
class Layout:
    """The layout of the objects that a server writes.

    `prefix` is where lakeFS keeps its own files in a namespace: `committed.block_storage_prefix`. `shards`: over how
    many shards new objects are spread; 0: the namespace is not sharded.
    """

    range_modulus: int = RANGE_MODULUS
    range_max_size: int = RANGE_MAX_SIZE
    prefix: str = "_lakefs"
    shards: int = 0


USUAL = Layout()
"""That of a server whose configuration says nothing of it."""


@dataclass(frozen=True)
class Attributes:
    """The fields that a client sends with an object beside its content."""

    content_type: str = OCTETS
    metadata: Mapping[str, str] = field(default_factory=dict)


PLAIN = Attributes()
"""The fields of a client that sends none."""


@dataclass(frozen=True)
class Place:
    """The place of a repository, and its sources of times and names. `local_base`: blockstore `local` only."""

    namespace: str
    files: Files
    clock: Callable[[], float]
    names: Names
    lock: RLock
    find: Callable[[str], tuple[Files, str] | None]  # full address -> the files it lies in, and its key there
    local_base: str | None = None
    layout: Layout = USUAL

    @property
    def namespace_slash(self) -> str:
        return self.namespace if self.namespace.endswith("/") else self.namespace + "/"

    def qualify(self, key: str) -> str:
        """The address lakeFS shows for a key of this namespace, in its own spelling of the namespace."""
        if self.local_base is None:
            url = parse(self.namespace)
            if url is None:
                raise SandboxError(400, f"namespace {self.namespace} is no URL")
            scheme = "https" if url.scheme == "http" else url.scheme
            return f"{scheme}://{f'{url.host}{url.raw}'.strip('/')}/{key}"
        return f"local://{self.local_base}/{self.namespace_slash.removeprefix('local://')}{key}"


class Objects:
    """Actions of users on objects of a branch, and the entries that a reference shows. Safe to call from any thread."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.files = place.files
        self.read_only = False
        self.storage_id = ""  # which of the server's storages it lies in
        self.refs = Refs()
        self._lock = place.lock

    def _time(self, age: timedelta) -> float:
        return self.place.clock() - age.total_seconds()

    def _branch(self, name: str) -> Branch:
        if self.read_only:
            raise SandboxError(403, "read-only repository")
        return self.refs.branch(name)

    def upload(
        self,
        branch: str,
        path: str,
        data: bytes | None = None,
        *,
        size: int = 0,
        age: timedelta = NOW,
        attributes: Attributes = PLAIN,
    ) -> str:
        """Store an object (`data`, or `size` bytes of filler) and stage it; return its relative address."""
        content = _filler(path, size) if data is None else data
        at = self._time(age)
        with self._lock:
            target = self._branch(branch)
            address = self.place.names.data_address(at)
        self.files.write(address, content, at)
        checksum = hashlib.md5(content, usedforsecurity=False).hexdigest()
        entry = Entry(
            address, len(content), checksum, int(at * 1e9), RELATIVE, dict(attributes.metadata), attributes.content_type
        )
        with self._lock:
            target.staging[path] = entry
        return address

    def physical_address(self, branch: str, *, age: timedelta = NOW) -> str:
        """A new signed address to put data under and link it: what a client gets before its own upload."""
        with self._lock:
            self._branch(branch)
            names = self.place.names
            return self.place.qualify(f"{names.data_address(self._time(age))},{names.signature()}")

    def put(self, address: str, data: bytes, *, age: timedelta = NOW) -> None:
        """Store bytes under a full address, as a client of the object store would, behind lakeFS's back."""
        found = self.place.find(address)
        if found is None:
            raise SandboxError(400, f"address {address} lies in no store of this sandbox")
        found[0].write(found[1], data, self._time(age))

    def stage(self, branch: str, path: str, address: str, *, size: int, checksum: str, age: timedelta = NOW) -> Entry:
        """Link or stage an object by its full address."""
        entry = self.entry_for(address, size=size, checksum=checksum, age=age)
        self.stage_entry(branch, path, entry)
        return entry

    def entry_for(
        self, address: str, *, size: int, checksum: str, age: timedelta = NOW, attributes: Attributes = PLAIN
    ) -> Entry:
        """The entry of an object by its full address: relative below `NS/data/`, full anywhere else."""
        kind, kept = FULL, address
        if address.startswith(f"{self.place.namespace_slash}data/"):
            kind, kept = RELATIVE, address.removeprefix(self.place.namespace_slash)
        at = int(self._time(age) * 1e9)
        return Entry(kept, size, checksum, at, kind, dict(attributes.metadata), attributes.content_type)

    def stage_entry(self, branch: str, path: str, entry: Entry) -> None:
        """Stage an entry as it is."""
        with self._lock:
            self._branch(branch).staging[path] = entry

    def copy(self, branch: str, path: str, source_ref: str, source_path: str, *, shallow: bool = False) -> Entry:
        """Copy an object to a path. With `shallow`, which not every lakeFS can, the new entry names the same object."""
        entry = self.entry(source_ref, source_path)
        at = self.place.clock()
        with self._lock:
            address = entry.address if shallow else self.place.names.data_address(at)
        if not shallow:
            self.files.write(address, self._read(entry), at)
            entry = replace(entry, address_type=RELATIVE)
        entry = replace(entry, address=address, last_modified=int(at * 1e9))
        with self._lock:
            self._branch(branch).staging[path] = entry
        return entry

    def delete(self, branch: str, path: str) -> None:
        """Remove a path from a branch; nothing is wrong if it is not there.

        A tombstone is staged wherever there was an entry: it also hides what the path shows after a hard reset.
        """
        with self._lock:
            target = self._branch(branch)
            if path in target.staged() or self._base(target).get(path) is not None:
                target.staging[path] = None

    def reset(self, branch: str, prefix: str = "") -> None:
        """Drop all that is staged, sealed tokens too; with a prefix, take back what is changed below it."""
        if prefix:
            self.reset_prefix(branch, prefix)
            return
        with self._lock:
            target = self._branch(branch)
            for token in target.sealed:  # a commit in flight holds them
                token.clear()
            target.staging, target.sealed, target.compacted = {}, [], None

    def reset_prefix(self, branch: str, prefix: str) -> None:
        """Take back what is changed below a prefix. The tokens are sealed; an identical re-upload stays staged."""
        with self._lock:
            target = self._branch(branch)
            head = self.refs.tree(target.commit_id)
            above: Staging = {}
            for path, _, _ in self.uncommitted(branch):
                if path.startswith(prefix):
                    _cover(above, target.staging, head, path)
            target.sealed.insert(0, target.staging)
            target.staging = above

    def reset_path(self, branch: str, path: str) -> None:
        """Take back what is changed at a path: its entry in the head is staged, or a tombstone where there is none.

        An identical re-upload stays staged.
        """
        with self._lock:
            target = self._branch(branch)
            head = self.refs.tree(target.commit_id)
            staged = target.staged()
            shown = staged[path] if path in staged else self._base(target).get(path)
            if not same(shown, head.get(path)):
                _cover(target.staging, target.staging, head, path)

    def entry(self, ref: str, path: str) -> Entry:
        """The entry that a reference shows under a path."""
        with self._lock:
            staged, tree = self._shown(ref)
            entry = staged[path] if path in staged else tree.get(path)
        if entry is None:
            raise SandboxError(404, "path not found")
        return entry

    def read(self, ref: str, path: str) -> bytes:
        """The data of an object. GoneError if it is not stored any more."""
        return self._read(self.entry(ref, path))

    def _read(self, entry: Entry) -> bytes:
        relative = entry.address_type == RELATIVE
        found = (self.files, entry.address) if relative else self.place.find(entry.address)
        if found is None:
            raise GoneError
        try:
            return found[0].read(found[1])
        except ObjectNotFoundError:
            raise GoneError from None

    def objects(self, ref: str, *, start: str = "") -> Iterator[tuple[str, Entry]]:
        """The entries that a reference shows from a path on, in path order."""
        with self._lock:
            staged, tree = self._shown(ref)
        committed = ((path, entry) for path, entry in tree.items(start) if path not in staged)
        added = ((path, entry) for path, entry in sorted(staged.items()) if entry is not None and path >= start)
        return heapq.merge(committed, added, key=lambda item: item[0])

    def uncommitted(self, branch: str) -> list[tuple[str, str, Entry]]:
        """Staging against the head, as lakeFS compares them: path, `added`/`changed`/`removed`, entry.

        What a compaction holds is compared with the head by itself. Of a path that differs in both, staging is told.
        """
        with self._lock:
            target = self.refs.branch(branch)
            head = self.refs.tree(target.commit_id)
            changed = diff(head, target.compacted) if target.compacted is not None else {}
            changed |= effective(head, target.staged())
            rows = []
            for path, entry in sorted(changed.items()):
                old = head.get(path)
                if entry is not None:
                    rows.append((path, "added" if old is None else "changed", entry))
                elif old is not None:
                    rows.append((path, "removed", old))
            return rows

    def _base(self, branch: Branch) -> Tree:
        """The entries under the staged ones of a branch."""
        return branch.compacted if branch.compacted is not None else self.refs.tree(branch.commit_id)

    def _shown(self, ref: str) -> tuple[Staging, Tree]:
        """The staged entries of a reference, and those under them."""
        if ref in self.refs.branches:
            return self.refs.branches[ref].staged(), self._base(self.refs.branches[ref])
        return {}, self.refs.tree(self.refs.resolve(ref).id)


def same(left: Entry | None, right: Entry | None) -> bool:
    """True if lakeFS takes two entries for the same: by what they claim, not by where their data lies."""
    if left is None or right is None:
        return left is right
    return left.identity == right.identity


def effective(head: Tree, changes: Changes) -> Changes:
    """The changes that lakeFS sees as such: an entry of the head's identity keeps the head's address."""
    return {path: entry for path, entry in changes.items() if not same(head.get(path), entry)}


def _cover(above: Staging, staging: Staging, head: Tree, path: str) -> None:
    """Hide a change at a path: under the head's own entry in the token above, or by a tombstone in the present one."""
    committed = head.get(path)
    if committed is None:
        staging[path] = None
    else:
        above[path] = committed


def _filler(path: str, size: int) -> bytes:
    block = hashlib.sha256(path.encode()).digest()
    return (block * (size // len(block) + 1))[:size]
