"""Reading a folder as a listing: its files as objects with all that is below, folder by folder.

Not here: which file a key names (`files`).
"""

# Paths are bytes, which keep names that are not UTF-8 whole; pathlib has only text.
# ruff: noqa: PTH112

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa

from lakegc_core.errors import StoreError
from lakegc_core.store.base import LISTING_SCHEMA, Level
from lakegc_core.store.local.files import HIDDEN, Files, etag_of, text_of
from lakegc_core.store.remote import listed

BATCH_ROWS = 8192


def batches(files: Files, prefix: str) -> Iterator[pa.RecordBatch]:
    """Every file whose key starts with `prefix`, at any depth."""
    rows = _Rows()
    waiting = [_start(files, prefix)]
    while waiting:
        folder, wanted = waiting.pop()
        for key, found in _scan(files, folder, wanted):
            if found is None:
                waiting.append((key, b""))
                continue
            rows.add(key, found)
            if len(rows) >= BATCH_ROWS:
                yield rows.batch()
                rows = _Rows()
    if len(rows):
        yield rows.batch()


def level(files: Files, prefix: str) -> Level:
    """The files and folders directly below `prefix`."""
    rows, prefixes = _Rows(), []
    for key, found in _scan(files, *_start(files, prefix)):
        if found is None:
            prefixes.append(text_of(key))
        else:
            rows.add(key, found)
    return Level(rows.batch(), tuple(prefixes))


def require_folder(files: Files) -> None:
    """StoreError if the folder is not there: its absence must not look like emptiness."""
    if not os.path.isdir(files.folder):
        raise StoreError(f"{files.root}: there is no such folder; a missing store is not an empty one")


def _start(files: Files, prefix: str) -> tuple[bytes, bytes]:
    """The folder to begin in (empty, or ending in `/`) and what names in it must start with."""
    require_folder(files)
    folder, slash, name = files.encode(prefix).rpartition(b"/")
    if slash:
        files.check(folder, prefix)
    return folder + slash, name


def _scan(files: Files, folder: bytes, name_start: bytes) -> Iterator[tuple[bytes, os.stat_result | None]]:
    """Files of one folder with their stat, and folders (ending in `/`) with None."""
    if folder and files.through_link(folder[:-1]):
        return
    try:
        with os.scandir(files.folder + b"/" + folder) as entries:
            for entry in entries:
                name = entry.name
                if not name.startswith(name_start) or name.startswith(HIDDEN):
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
        if not os.path.isdir(files.folder):
            raise StoreError(f"{files.root}: the folder vanished during its listing") from None
    except OSError as error:
        raise files.error(error, "listing", text_of(folder)) from error


class _Rows:
    """Columns of a listing in the making."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.sizes: list[int] = []
        self.times: list[int] = []
        self.etags: list[str] = []

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: bytes, found: os.stat_result) -> None:
        self.keys.append(key)
        self.sizes.append(found.st_size)
        self.times.append(found.st_mtime_ns // 1000)
        self.etags.append(etag_of(found))

    def batch(self) -> pa.RecordBatch:
        try:
            keys = pa.array(self.keys, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:  # names that are not UTF-8: shown, but never equal to an address lakeFS knows
            keys = pa.array([text_of(key) for key in self.keys], pa.string())
        times = pa.array(self.times, LISTING_SCHEMA.field("last_modified").type)
        return listed(keys, self.sizes, times, self.etags)
