"""Keys as files of one folder: which file a key names, which keys name none, what a file tells and what errors mean.

Symbolic links below the folder are never followed.
"""

# Paths are bytes, which keep names that are not UTF-8 whole; pathlib has only text.
# ruff: noqa: PTH112, PTH120, PTH123

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO

from lakegc_core.errors import ObjectNotFoundError, StoreError, UnusableKeyError

HIDDEN = b".lakegc-"  # files of this store's own: never objects
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Files:
    """The files below one folder. `root` names it in messages."""

    root: str
    folder: bytes  # its real path

    def encode(self, key: str) -> bytes:
        """The bytes of a key. UnusableKeyError for what is no text."""
        try:
            return key.encode()
        except UnicodeEncodeError as error:
            raise UnusableKeyError(f"{self.root}: {key!r} is not Unicode text: no object is called so") from error

    def check(self, key: bytes, shown: str) -> None:
        """Refuse what leaves the root, and what the file system takes for another name: `a//b` is `a/b`."""
        parts = key.split(b"/")
        if b"\0" in key or b"" in parts or b"." in parts or b".." in parts:
            raise UnusableKeyError(f"{self.root}: {shown!r} cannot be the key of a file: it names another place")
        if any(part.startswith(HIDDEN) for part in parts):
            raise UnusableKeyError(f"{self.root}: {shown!r} is a name lakegc keeps for its own temporary files")

    def path(self, key: str) -> bytes:
        """The file of a key."""
        encoded = self.encode(key)
        self.check(encoded, key)
        if self.through_link(encoded.rpartition(b"/")[0]):
            raise UnusableKeyError(f"{self.root}: {key!r} leads through a symbolic link, which is not followed")
        return self.folder + b"/" + encoded

    def folder_of(self, prefix: str) -> bytes | None:
        """The path, with its slash, of the folder of keys that begin with `prefix`; None if it can have no files."""
        try:
            return self.path(f"{prefix}x")[:-1]
        except StoreError:
            return None

    def through_link(self, folder: bytes) -> bool:
        """True if a symbolic link stands on the way to a folder (relative, without a slash at its end)."""
        if not folder:
            return False
        path = self.folder + b"/" + folder
        return os.path.realpath(path) != path

    def absent(self, key: str) -> ObjectNotFoundError:
        """The error for a key that has no file."""
        return ObjectNotFoundError(f"{self.root}: there is no object {key!r}")

    def error(self, error: OSError, doing: str, key: str) -> StoreError:
        """An error of the file system in lakegc's words."""
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return self.absent(key)
        code = errno.errorcode.get(error.errno or 0, type(error).__name__)
        if error.errno == errno.ENAMETOOLONG:
            return UnusableKeyError(f"{self.root}: {key!r} is too long to be the key of a file: {code}")
        return StoreError(f"{self.root}: {doing} {key!r} failed: {code}: {error.strerror}")

    def write_error(self, error: OSError, key: str) -> StoreError:
        """An error of a write. A folder that cannot be made is no object that is not there."""
        if not isinstance(error, FileNotFoundError | NotADirectoryError | FileExistsError):
            return self.error(error, "writing", key)
        above = os.path.dirname(self.path(key))
        if isinstance(error, FileNotFoundError) and os.path.isdir(above):
            return StoreError(
                f"{self.root}: the file that was being written for {key!r} is gone: another process removed it, "
                "such as one of lakegc by whose clock it was over an hour old. Run the same command again. If it fails "
                "so again, set the clocks right, and let nothing else clean up there."
            )
        while not os.path.lexists(above):
            above = os.path.dirname(above)
        shown = text_of(above)
        is_folder = os.path.isdir(above)
        found = f"no folder can be made in {shown}" if is_folder else f"{shown} is a file, not a folder"
        return StoreError(f"{self.root} cannot be written to: {found}. Name a folder that can be written to.")

    def stat(self, key: str) -> os.stat_result:
        """The file system's facts about a key's file."""
        try:
            found = os.lstat(self.path(key))
        except OSError as error:
            raise self.error(error, "looking at", key) from error
        if not stat.S_ISREG(found.st_mode):
            raise self.absent(key)
        return found

    @contextmanager
    def opened(self, key: str, doing: str) -> Iterator[IO[bytes]]:
        """The file of a key, to be read. `doing` says what for, in messages."""
        try:
            handle = os.open(self.path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise self.error(error, doing, key) from error
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise self.absent(key)
            yield file


def modified_at(found: os.stat_result) -> datetime:
    """The time at which a file was written, in whole microseconds."""
    return _EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000)


def etag_of(found: os.stat_result) -> str:
    """A text that tells one content of a file from another."""
    # The inode tells two writes apart that fall into one tick of the file system's clock.
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


def text_of(key: bytes) -> str:
    """A key as text, whether it is UTF-8 or not."""
    return key.decode("utf-8", "backslashreplace")
