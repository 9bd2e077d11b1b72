"""The store of the sandbox's bytes: a folder, or any object store lakegc can speak to.

Which key holds what belongs in `repository`; how an S3 request looks belongs in `lakegc_core.store`.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lakegc_core.errors import ObjectNotFoundError
from lakegc_core.store.base import Store, StoreConfig


class Files(Protocol):
    """The bytes below one root, by key."""

    def write(self, key: str, data: bytes, at: float) -> None:
        """Store an object; `at` (unix seconds) becomes its time where the store lets a client choose it."""

    def read(self, key: str) -> bytes:
        """The whole object. ObjectNotFoundError if it is not there."""

    def delete(self, key: str) -> None:
        """Remove the object if it is there."""


@dataclass(frozen=True)
class FolderFiles:
    """Objects as files below a folder, with settable times."""

    folder: Path

    def _path(self, key: str) -> Path:
        path = Path(os.path.normpath(self.folder / key))
        if path == self.folder or not path.is_relative_to(self.folder):
            raise ObjectNotFoundError(f"Key {key!r} leads out of {self.folder}. Nothing is kept there.")
        return path

    def write(self, key: str, data: bytes, at: float) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (at, at))

    def read(self, key: str) -> bytes:
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise ObjectNotFoundError(f"Nothing is stored under {key!r}.") from error

    def delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)


@dataclass(frozen=True)
class StoreFiles:
    """Objects in a store of lakegc's own; their times are the store's."""

    config: StoreConfig

    @functools.cached_property
    def _store(self) -> Store:
        return self.config.connect()

    def write(self, key: str, data: bytes, at: float) -> None:
        self._store.write(key, data)

    def read(self, key: str) -> bytes:
        return self._store.read(key)

    def delete(self, key: str) -> None:
        self._store.delete_many([key])
