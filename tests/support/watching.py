"""Stores that tell who reads and lists what, and stores in which one byte is another one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lakegc_core.store.base import Level
from lakegc_core.store.local import LocalStore


@dataclass(frozen=True)
class WatchedConfig:
    """A folder as a store that notes each read in a file: the key, and the function of lakegc that asked; and in
    another, in `log`.listings, each prefix that is listed."""

    path: str
    log: str

    @property
    def root(self) -> str:
        return f"local://{self.path}"

    def connect(self) -> WatchedStore:
        return WatchedStore(self)

    def reads(self) -> set[tuple[str, str]]:
        """Key and function of every read so far, of all processes."""
        return {(line.partition("\t")[0], line.partition("\t")[2]) for line in Path(self.log).read_text().splitlines()}

    def listings(self) -> list[tuple[str, str]]:
        """`list` or `list_level`, and the prefix, of every listing so far, of all processes."""
        lines = Path(f"{self.log}.listings").read_text().splitlines()
        return [(line.partition("\t")[0], line.partition("\t")[2]) for line in lines]


class WatchedStore(LocalStore):
    """`LocalStore` whose reads and listings are noted."""

    def __init__(self, config: WatchedConfig) -> None:
        super().__init__(config)  # type: ignore[arg-type]
        self._log = config.log

    def read(self, key: str) -> bytes:
        with Path(self._log).open("a") as file:
            file.write(f"{key}\t{_asker()}\n")
        return super().read(key)

    def list(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        self._note("list", prefix)
        return super().list(prefix)

    def list_level(self, prefix: str = "") -> Iterator[Level]:
        self._note("list_level", prefix)
        return super().list_level(prefix)

    def _note(self, how: str, prefix: str) -> None:
        with Path(f"{self._log}.listings").open("a") as file:
            file.write(f"{how}\t{prefix}\n")


def _asker() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals["__name__"]
        asker = f"{module.rpartition('.')[2]}.{frame.f_code.co_name}"
        # These read, unchecked, for who asks them.
        if module.startswith("lakegc_core.") and asker not in ("json_files.read_json", "store.read_there"):
            return asker
        frame = frame.f_back
    return "nobody of lakegc's"


@dataclass(frozen=True)
class FlippedConfig:
    """A folder as a store that may give one byte another value."""

    path: str

    @property
    def root(self) -> str:
        return f"local://{self.path}"

    def connect(self) -> FlippedStore:
        return FlippedStore(self)


class FlippedStore(LocalStore):
    """`LocalStore` that reads one key as `data`, whatever the file holds."""

    def __init__(self, config: FlippedConfig) -> None:
        super().__init__(config)  # type: ignore[arg-type]
        self.key, self.data = "", b""

    def read(self, key: str) -> bytes:
        return self.data if key == self.key else super().read(key)
