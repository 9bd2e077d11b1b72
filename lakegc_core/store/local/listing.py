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

_Row = tuple[bytes, int, int, str]  # key, size, microseconds since 1970, ETag


def batches(files: Files, prefix: str) -> Iterator[pa.RecordBatch]:
    """Every file whose key starts with `prefix`, at any depth."""
    rows: list[_Row] = []
    waiting = [_start(files, prefix)]
    while waiting:
        folder, wanted = waiting.pop()
        for key, found in _scan(files, folder, wanted):
            if found is None:
                waiting.append((key, b""))
                continue
            rows.append(_row(key, found))
            if len(rows) >= BATCH_ROWS:
                yield _batch(rows)
                rows = []
    if rows:
        yield _batch(rows)


def level(files: Files, prefix: str) -> Level:
    """The files and folders directly below `prefix`."""
    rows: list[_Row] = []
    prefixes = []
    for key, found in _scan(files, *_start(files, prefix)):
        if found is None:
            prefixes.append(text_of(key))
        else:
            rows.append(_row(key, found))
    return Level(_batch(rows), tuple(prefixes))


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


def _row(key: bytes, found: os.stat_result) -> _Row:
    return key, found.st_size, found.st_mtime_ns // 1000, etag_of(found)


def _batch(rows: list[_Row]) -> pa.RecordBatch:
    keys, sizes, times, etags = zip(*rows, strict=True) if rows else ((), (), (), ())
    try:
        addresses = pa.array(keys, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # names that are not UTF-8: shown, but never equal to an address lakeFS knows
        addresses = [text_of(key) for key in keys]
    return listed(addresses, sizes, pa.array(times, LISTING_SCHEMA.field("last_modified").type), etags)
