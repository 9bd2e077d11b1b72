"""Writes a file whole or not at all, and only if a condition holds: this makes a folder as good as an object store.

Not here: which file a key names (`files`).
"""

# Paths are bytes, which keep names that are not UTF-8 whole; pathlib has only text.
# ruff: noqa: PTH103, PTH105, PTH108, PTH118, PTH120, PTH123

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from lakegc_core.errors import NoConditionsError, ObjectNotFoundError, PreconditionFailedError
from lakegc_core.store.local.files import HIDDEN, Files, etag_of

LOCK = HIDDEN + b"lock"
"""The file by which writers of one folder wait for each other."""
_TEMPORARY = re.compile(re.escape(HIDDEN) + rb"[0-9a-f]{32}")
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_ABANDONED = 3600.0  # seconds without a change after which nobody writes a file any more


def put(files: Files, key: str, data: IO[bytes], *, if_absent: bool = False, if_match: str | None = None) -> str:
    """Write what `data` holds from its place on, and return the file's ETag."""
    path = files.path(key)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with temporary(path, data) as (written, etag):
            _tidy(os.path.dirname(path))
            if if_match is not None:
                _replace_matching(files, written, path, key, if_match)
            elif if_absent:
                _link(files, written, path, key)
            else:
                os.replace(written, path)
    except OSError as error:
        raise files.write_error(error, key) from error
    return etag


@contextmanager
def temporary(path: bytes, data: IO[bytes]) -> Iterator[tuple[bytes, str]]:
    """A file beside `path` that holds the data, and its ETag. It goes at the end, unless it was renamed."""
    name = os.path.join(os.path.dirname(path), HIDDEN + uuid.uuid4().hex.encode())
    try:
        with open(name, "xb") as file:
            shutil.copyfileobj(data, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
            etag = etag_of(os.fstat(file.fileno()))
        yield name, etag
    finally:
        with suppress(FileNotFoundError):  # renamed: it is the object now
            os.unlink(name)


@functools.lru_cache(maxsize=10_000)
def _tidy(folder: bytes) -> None:
    """`remove_abandoned`, once for each folder and process."""
    remove_abandoned(folder)


def remove_abandoned(folder: bytes) -> None:
    """Remove files that writers left here when they were killed. By the dates of the file system: whoever calls this
    has just written a `temporary` file here."""
    found: dict[bytes, float] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name):
                with suppress(FileNotFoundError):  # renamed since the folder was read
                    found[entry.path] = entry.stat(follow_symlinks=False).st_mtime
    for path, at in found.items():
        if at < max(found.values()) - _ABANDONED:
            with suppress(OSError):  # somebody else removes it, or must
                os.unlink(path)


def _link(files: Files, written: bytes, path: bytes, key: str) -> None:
    try:
        os.link(written, path)
    except FileExistsError as error:
        raise PreconditionFailedError(f"{files.root}: {key!r} is there already") from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise NoConditionsError(f"{files.root}: the file system has no hard links: {error.strerror}") from error


def _replace_matching(files: Files, written: bytes, path: bytes, key: str, if_match: str) -> None:
    import fcntl  # not on Windows, where all else here works

    with open(os.path.join(os.path.dirname(path), LOCK), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until closed: compare and rename are one step for all who do this
        try:
            etag = etag_of(files.stat(key))
        except ObjectNotFoundError as error:
            raise PreconditionFailedError(f"{files.root}: {key!r} is gone; it was to be replaced") from error
        if etag != if_match:
            raise PreconditionFailedError(f"{files.root}: {key!r} is not the one expected any more")
        os.replace(written, path)
