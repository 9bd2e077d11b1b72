"""One folder behind the protocol of `base`.

Not here: how a storage namespace becomes a path. Directories are not objects: they are walked (`listing`), and left
behind when empty, as lakeFS's own adapter does. What makes files behave like objects is in `files` and `writes`.
"""

# Paths are bytes, which keep names that are not UTF-8 whole; pathlib has only text.
# ruff: noqa: PTH106, PTH103, PTH108, PTH118, PTH120, PTH208

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import IO

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.errors import ObjectNotFoundError, StoreError
from lakegc_core.names import FAILED, Outcome
from lakegc_core.store.base import (
    NO_ETAGS,
    NOT_ASKED,
    PROBE_KEY,
    Deleted,
    Deletes,
    HeadAnswer,
    Level,
    ObjectInfo,
    StoreConfig,
    StoreProbe,
)
from lakegc_core.store.conditions import writes_conditionally
from lakegc_core.store.head_requests import ask_all, try_head
from lakegc_core.store.local import listing, writes
from lakegc_core.store.local.files import HIDDEN, Files, etag_of, modified_at
from lakegc_core.store.pace import Gate
from lakegc_core.store.remote import check_whole
from lakegc_core.store.settings import StoreSettings

_NO_NAMES = (b"", b".", b"..")


@dataclass(frozen=True)
class LocalConfig:
    """One folder, by its absolute path."""

    path: str

    @property
    def root(self) -> str:
        """`local://` and the path, for messages."""
        return f"local://{self.path}"

    def connect(self) -> LocalStore:
        """A store over the folder, which need not exist before the first write."""
        return LocalStore(self)


class LocalStore:
    """`Store` over one folder. Symbolic links below it are neither listed nor followed."""

    deletes = Deletes(calls=1, requests=1)  # threads would only wait for each other
    proves = False
    listed_digests = False

    def __init__(self, config: LocalConfig) -> None:
        self.root = config.root
        self._files = Files(config.root, os.path.realpath(os.fsencode(config.path)))

    def list(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        """Every file whose key starts with `prefix`. A missing root raises: it is not an empty one."""
        yield from listing.batches(self._files, prefix)

    def list_level(self, prefix: str = "") -> Iterator[Level]:
        """The files and folders directly below `prefix`; empty folders too."""
        if prefix and not prefix.endswith("/"):
            raise StoreError(f"{self.root}: a level is listed below a prefix that ends in '/', not {prefix!r}")
        yield listing.level(self._files, prefix)

    def read(self, key: str) -> bytes:
        """The whole file."""
        with self._files.opened(key, "reading") as file:
            try:
                announced, data = os.fstat(file.fileno()).st_size, file.read()
            except OSError as error:
                raise self._files.error(error, "reading", key) from error
        check_whole(announced, len(data), key, self.root)
        return data

    def read_there(self, key: str) -> bytes:
        """As `read`: a folder has one way."""
        return self.read(key)

    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write the file whole or not at all, and return its ETag."""
        return writes.put(self._files, key, io.BytesIO(data), if_absent=if_absent, if_match=if_match)

    def head(self, key: str) -> ObjectInfo:
        """Size, time and ETag of one file. Never a digest: nobody but a reader of the file knows it."""
        found = self._files.stat(key)
        return ObjectInfo(key, found.st_size, modified_at(found), etag_of(found))

    def try_heads(self, keys: Sequence[str], *, failures: int = 0) -> builtins.list[HeadAnswer]:
        """Make the HEADs one after another: threads would only wait for each other."""
        return ask_all(keys, partial(try_head, self.head), failures=failures, threads=1, root=self.root)

    def delete_many(
        self, keys: Sequence[str], gate: Gate | None = None, etags: Mapping[str, str] = NO_ETAGS
    ) -> builtins.list[str]:
        """Unlink the files, without a look at ETags. Folders stay, even empty ones."""
        gate = gate or Gate()
        with gate.pace.turn(len(keys)):
            if not gate.opens():
                return [NOT_ASKED] * len(keys)
            folders: dict[str, bytes | None] = {}
            return [self._delete(key, folders) for key in keys]

    def delete_fault(self) -> str | None:
        """A file system knows no such deletes."""
        return "a file system deletes by name alone"

    def remove_empty_folders(self, prefix: str) -> None:
        """Remove the folder of this prefix with those in it, as far as they are empty: neither a lock nor a file that a
        killed writer left is an object."""
        top = self._files.folder_of(prefix)
        for folder, _, names in os.walk(top or b"", topdown=False):
            with contextlib.suppress(OSError):  # what holds a file stays
                if any(name.startswith(HIDDEN) and name != writes.LOCK for name in names):
                    with writes.temporary(os.path.join(folder, b""), io.BytesIO()):
                        writes.remove_abandoned(folder)
                if os.listdir(folder) == [writes.LOCK]:  # a write under way has another file beside it
                    os.unlink(os.path.join(folder, writes.LOCK))
                os.rmdir(folder)

    def _delete(self, key: str, folders: dict[str, bytes | None]) -> str:
        """Delete one key. `folders`: paths of folders looked at before, with a slash; None for no place of a file."""
        folder, slash, name = key.rpartition("/")
        try:
            if folder not in folders:
                folders[folder] = self._files.folder_of(folder + slash)
            parent = folders[folder]
            encoded = name.encode()
            if parent is None or encoded in _NO_NAMES or b"\0" in encoded or encoded.startswith(HIDDEN):
                return FAILED + "InvalidKey"
            path = parent + encoded
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                return FAILED + "ELOOP"
            if stat.S_ISDIR(mode):
                return FAILED + "EISDIR"
            os.unlink(path)
        except UnicodeEncodeError:
            return FAILED + "InvalidKey"
        except (FileNotFoundError, NotADirectoryError):
            return Outcome.ALREADY_GONE
        except OSError as error:
            return FAILED + errno.errorcode.get(error.errno or 0, "OSError")
        return Outcome.DELETED

    def undelete(self, deleted: Deleted) -> None:
        """A folder keeps nothing of what is deleted."""
        raise ObjectNotFoundError(f"{self.root}: nothing of {deleted.address!r} is left: a folder keeps no versions")

    def copy(
        self,
        source: StoreConfig,
        source_key: str,
        key: str,
        found: ObjectInfo | None = None,
        *,
        if_absent: bool = False,
    ) -> str | None:
        """Copy a file from another folder."""
        if not isinstance(source, LocalConfig):
            return None
        with LocalStore(source)._files.opened(source_key, "copying") as file:
            return writes.put(self._files, key, file, if_absent=if_absent)

    def download(self, key: str, file: IO[bytes]) -> None:
        """Copy the file into another one."""
        with self._files.opened(key, "reading") as found:
            announced, start = os.fstat(found.fileno()).st_size, file.tell()
            shutil.copyfileobj(found, file, 1 << 20)
        check_whole(announced, file.tell() - start, key, self.root)

    def upload(self, key: str, file: IO[bytes], *, if_absent: bool = False) -> None:
        """Write the file whole or not at all."""
        writes.put(self._files, key, file, if_absent=if_absent)

    def clock(self) -> datetime:
        """The time that the file system gives a new file: a file server's own, where there is one."""
        listing.require_folder(self._files)
        path = self._files.path(PROBE_KEY)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with writes.temporary(path, io.BytesIO()) as (temporary, _):
                return modified_at(os.lstat(temporary))
        except OSError as error:
            raise self._files.error(error, "asking for the time below", PROBE_KEY) from error

    def now(self) -> datetime:
        """The collector's own clock."""
        listing.require_folder(self._files)
        return clock.now()

    def probe(self) -> StoreProbe:
        """Find out whether conditional writes work on this file system."""
        # A probe must not make the folder whose absence a listing would have noticed.
        listing.require_folder(self._files)
        return StoreProbe(writes_conditionally(self), False)

    def settings(self) -> StoreSettings:
        """A folder keeps what it is given, and nothing of what is deleted."""
        return StoreSettings(False, timedelta(0), "", "", (), None)
