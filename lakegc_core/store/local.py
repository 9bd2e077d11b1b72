"""A folder of the local file system as an object store: for lakeFS's `local` block adapter, tests and demos.

Here: what makes files behave like objects (atomic and conditional writes, listings, refused keys). Not here:
how a storage namespace becomes a path. Directories are not objects: they are walked, and left behind when
empty, as lakeFS's own adapter does.
"""

# Paths are bytes, which keep names that are not UTF-8 whole; pathlib has only text.
# ruff: noqa: PTH103, PTH105, PTH108, PTH112, PTH118, PTH120, PTH123

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO

import pyarrow as pa

from lakegc_core.errors import IncompleteError, ObjectNotFoundError, PreconditionFailedError, StoreError
from lakegc_core.store.base import (
    ALREADY_GONE,
    DELETED,
    FAILED,
    LISTING_SCHEMA,
    NOT_ASKED,
    PROBE_KEY,
    Deletes,
    Level,
    ObjectInfo,
    StoreConfig,
    StoreProbe,
)
from lakegc_core.store.pace import Gate

BATCH_ROWS = 8192

_HIDDEN = b".lakegc-"  # files of this module's own: never objects
_NO_NAMES = (b"", b".", b"..")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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

    def __init__(self, config: LocalConfig) -> None:
        self.root = config.root
        self._folder = os.path.realpath(os.fsencode(config.path))

    def list(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        """Every file whose key starts with `prefix`. A missing root raises: it is not an empty one."""
        start, name_start = self._start(prefix)
        rows = _Rows()
        waiting = [(start, name_start)]
        while waiting:
            folder, wanted = waiting.pop()
            for key, found in self._scan(folder, wanted):
                if found is None:
                    waiting.append((key, b""))
                    continue
                rows.add(key, found)
                if len(rows) >= BATCH_ROWS:
                    yield rows.batch()
                    rows = _Rows()
        if len(rows):
            yield rows.batch()

    def list_level(self, prefix: str = "") -> Iterator[Level]:
        """The files and folders directly below `prefix`; empty folders too."""
        if prefix and not prefix.endswith("/"):
            raise StoreError(f"{self.root}: a level is listed below a prefix that ends in '/', not {prefix!r}")
        rows, prefixes = _Rows(), []
        for key, found in self._scan(*self._start(prefix)):
            if found is None:
                prefixes.append(_text(key))
            else:
                rows.add(key, found)
        yield Level(rows.batch(), tuple(prefixes))

    def _start(self, prefix: str) -> tuple[bytes, bytes]:
        """The folder to begin in (empty, or ending in `/`) and what names in it must start with."""
        if not os.path.isdir(self._folder):
            raise StoreError(f"{self.root}: there is no such folder; a missing store is not an empty one")
        folder, slash, name = self._encode(prefix).rpartition(b"/")
        if slash:
            self._check(folder, prefix)
        return folder + slash, name

    def _scan(self, folder: bytes, name_start: bytes) -> Iterator[tuple[bytes, os.stat_result | None]]:
        """Files of one folder with their stat, and folders (ending in `/`) with None."""
        if folder and self._through_link(folder[:-1]):
            return
        try:
            with os.scandir(self._folder + b"/" + folder) as entries:
                for entry in entries:
                    name = entry.name
                    if not name.startswith(name_start) or name.startswith(_HIDDEN):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        yield folder + name + b"/", None
                    elif entry.is_file(follow_symlinks=False):
                        try:
                            found = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue  # deleted since the folder was read
                        yield folder + name, found
        except (FileNotFoundError, NotADirectoryError):
            # Gone since its parent was read, or a prefix nobody has written to. Not so when all is gone.
            if not os.path.isdir(self._folder):
                raise StoreError(f"{self.root}: the folder vanished during its listing") from None
        except OSError as error:
            raise self._error(error, "listing", _text(folder)) from error

    def read(self, key: str) -> bytes:
        """The whole file."""
        try:
            handle = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(handle, "rb") as file:
                before = os.fstat(handle)
                if not stat.S_ISREG(before.st_mode):
                    raise self._absent(key)
                data = file.read()
        except OSError as error:
            raise self._error(error, "reading", key) from error
        if len(data) != before.st_size:
            raise IncompleteError(f"{self.root}: {key!r} announced {before.st_size} bytes and gave {len(data)}")
        return data

    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write the file whole or not at all, and return its ETag."""
        return self._put(key, io.BytesIO(data), if_absent, if_match)

    def _put(self, key: str, data: IO[bytes], if_absent: bool = False, if_match: str | None = None) -> str:
        path = self._path(key)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with self._temporary(path, data) as (temporary, etag):
                if if_match is not None:
                    self._replace_matching(temporary, path, key, if_match)
                elif if_absent:
                    self._link(temporary, path, key)
                else:
                    os.replace(temporary, path)
        except OSError as error:
            raise self._error(error, "writing", key) from error
        return etag

    @contextmanager
    def _temporary(self, path: bytes, data: IO[bytes]) -> Iterator[tuple[bytes, str]]:
        temporary = os.path.join(os.path.dirname(path), _HIDDEN + uuid.uuid4().hex.encode())
        try:
            with open(temporary, "xb") as file:
                shutil.copyfileobj(data, file, 1 << 20)
                file.flush()
                os.fsync(file.fileno())
                etag = _etag(os.fstat(file.fileno()))
            yield temporary, etag
        finally:
            with suppress(FileNotFoundError):  # renamed: it is the object now
                os.unlink(temporary)

    def _link(self, temporary: bytes, path: bytes, key: str) -> None:
        try:
            os.link(temporary, path)
        except FileExistsError as error:
            raise PreconditionFailedError(f"{self.root}: {key!r} is there already") from error

    def _replace_matching(self, temporary: bytes, path: bytes, key: str, if_match: str) -> None:
        import fcntl  # not on Windows, where all else here works

        with open(os.path.join(os.path.dirname(path), _HIDDEN + b"lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until closed: compare and rename are one step for all who do this
            try:
                etag = self.head(key).etag
            except ObjectNotFoundError as error:
                raise PreconditionFailedError(f"{self.root}: {key!r} is gone; it was to be replaced") from error
            if etag != if_match:
                raise PreconditionFailedError(f"{self.root}: {key!r} is not the one expected any more")
            os.replace(temporary, path)

    def head(self, key: str) -> ObjectInfo:
        """Size, time and ETag of one file. Never a digest: nobody but a reader of the file knows it."""
        try:
            found = os.lstat(self._path(key))
        except OSError as error:
            raise self._error(error, "looking at", key) from error
        if not stat.S_ISREG(found.st_mode):
            raise self._absent(key)
        modified = _EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000)
        return ObjectInfo(key, found.st_size, modified, _etag(found))

    def delete_many(self, keys: Sequence[str], gate: Gate | None = None) -> builtins.list[str]:
        """Unlink the files. Folders stay, even empty ones."""
        gate = gate or Gate()
        with gate.pace.turn(len(keys)):
            if not gate.may():
                return [NOT_ASKED] * len(keys)
            folders: dict[str, bytes | None] = {}
            return [self._delete(key, folders) for key in keys]

    def _delete(self, key: str, folders: dict[str, bytes | None]) -> str:
        """`folders`: the paths of those looked at before, with a slash; None for what names no place of a file."""
        folder, slash, name = key.rpartition("/")
        try:
            if folder not in folders:
                folders[folder] = self._folder_of(folder + slash)
            parent = folders[folder]
            encoded = name.encode()
            if parent is None or encoded in _NO_NAMES or b"\0" in encoded or encoded.startswith(_HIDDEN):
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
            return ALREADY_GONE
        except OSError as error:
            return FAILED + errno.errorcode.get(error.errno or 0, "OSError")
        return DELETED

    def _folder_of(self, prefix: str) -> bytes | None:
        """The path, with its slash, of the folder of keys that begin with `prefix`; None if it can have no files."""
        try:
            return self._path(f"{prefix}x")[:-1]
        except StoreError:
            return None

    def copy(self, source: StoreConfig, source_key: str, key: str) -> str | None:
        """Copy a file from another folder."""
        if not isinstance(source, LocalConfig):
            return None
        with LocalStore(source)._opened(source_key, "copying") as file:
            return self._put(key, file)

    @contextmanager
    def _opened(self, key: str, doing: str) -> Iterator[IO[bytes]]:
        try:
            handle = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise self._error(error, doing, key) from error
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise self._absent(key)
            yield file

    def download(self, key: str, file: IO[bytes]) -> None:
        """Copy the file into another one."""
        with self._opened(key, "reading") as found:
            announced, start = os.fstat(found.fileno()).st_size, file.tell()
            shutil.copyfileobj(found, file, 1 << 20)
        if file.tell() - start != announced:
            raise IncompleteError(f"{self.root}: {key!r} announced {announced} bytes and gave {file.tell() - start}")

    def upload(self, key: str, file: IO[bytes]) -> None:
        """Write the file whole or not at all."""
        self._put(key, file)

    def clock(self) -> datetime:
        """The time that the file system gives a new file: a file server's own, where there is one."""
        self._start("")
        path = self._path(PROBE_KEY)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with self._temporary(path, io.BytesIO()) as (temporary, _):
                return _EPOCH + timedelta(microseconds=os.lstat(temporary).st_mtime_ns // 1000)
        except OSError as error:
            raise self._error(error, "asking for the time below", PROBE_KEY) from error

    def probe(self) -> StoreProbe:
        """The collector's own clock, and whether conditional writes work on this file system."""
        from lakegc_core import clock

        self._start("")  # a probe must not make the folder whose absence a listing would have noticed
        conditional = self._refuses(if_absent=True) or self._refuses(if_absent=True)
        return StoreProbe(clock.now(), conditional and self._refuses(if_match="none"), False)

    def _refuses(self, *, if_absent: bool = False, if_match: str | None = None) -> bool:
        try:
            self.write(PROBE_KEY, b"", if_absent=if_absent, if_match=if_match)
        except PreconditionFailedError:
            return True
        return False

    def _encode(self, key: str) -> bytes:
        try:
            return key.encode()
        except UnicodeEncodeError as error:
            raise StoreError(f"{self.root}: {key!r} is not Unicode text: no object is called so") from error

    def _check(self, key: bytes, shown: str) -> None:
        """Refuse what leaves the root, and what the file system takes for another name: `a//b` is `a/b`."""
        parts = key.split(b"/")
        if b"\0" in key or b"" in parts or b"." in parts or b".." in parts:
            raise StoreError(f"{self.root}: {shown!r} cannot be the key of a file: it names another place")
        if any(part.startswith(_HIDDEN) for part in parts):
            raise StoreError(f"{self.root}: {shown!r} is a name lakegc keeps for its own temporary files")

    def _path(self, key: str) -> bytes:
        """The file of a key."""
        encoded = self._encode(key)
        self._check(encoded, key)
        if self._through_link(encoded.rpartition(b"/")[0]):
            raise StoreError(f"{self.root}: {key!r} leads through a symbolic link, which is not followed")
        return self._folder + b"/" + encoded

    def _through_link(self, folder: bytes) -> bool:
        if not folder:
            return False
        path = self._folder + b"/" + folder
        return os.path.realpath(path) != path

    def _absent(self, key: str) -> ObjectNotFoundError:
        return ObjectNotFoundError(f"{self.root}: there is no object {key!r}")

    def _error(self, error: OSError, doing: str, key: str) -> StoreError:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return self._absent(key)
        code = errno.errorcode.get(error.errno or 0, type(error).__name__)
        return StoreError(f"{self.root}: {doing} {key!r} failed: {code}: {error.strerror}")


class _Rows:
    """Columns of a listing in the making."""

    def __init__(self) -> None:
        self.keys: builtins.list[bytes] = []
        self.sizes: builtins.list[int] = []
        self.times: builtins.list[int] = []
        self.etags: builtins.list[str] = []

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: bytes, found: os.stat_result) -> None:
        self.keys.append(key)
        self.sizes.append(found.st_size)
        self.times.append(found.st_mtime_ns // 1000)
        self.etags.append(_etag(found))

    def batch(self) -> pa.RecordBatch:
        try:
            keys = pa.array(self.keys, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:  # names that are not UTF-8: shown, but never equal to an address lakeFS knows
            keys = pa.array([_text(key) for key in self.keys], pa.string())
        times = pa.array(self.times, LISTING_SCHEMA.field("last_modified").type)
        columns = [keys, pa.array(self.sizes, pa.int64()), times, pa.array(self.etags, pa.string())]
        return pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA)


def _etag(found: os.stat_result) -> str:
    # The inode tells two writes apart that fall into one tick of the file system's clock.
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


def _text(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")
