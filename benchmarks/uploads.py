"""Puts objects of a generated repository into a folder: of the right age and size, in slices.

Which objects there are, and what refers to them, belongs to `generate`.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from lakegc_sandbox.files.names import SLICE_SECONDS, Names


class Uploaded(NamedTuple):
    """A new object: its address, its size in bytes, and what its upload claims to be its content's MD5.

    That is true where contents can be told apart by nothing else: where all objects have one size.
    """

    address: str
    size: int
    e_tag: str


class Uploads:
    """Puts objects into a folder, a slice after the other, evenly over a period.

    Files are sparse: they take no blocks, whatever their size. Objects of a slice that have one size are links to one
    file: file systems make links several times as fast as files. `sizes`: how many different ones are dealt out in
    turn; 0: each object has its own. With `by_lot`, objects of one lot share theirs.

    `length`: every object has so many bytes instead, in a file of its own, as no other object has them. OverflowError
    if there are more objects than such contents.
    """

    def __init__(
        self,
        folder: Path,
        names: Names,
        slice_objects: int,
        *,
        sizes: int = 0,
        by_lot: bool = False,
        length: int = 0,
    ) -> None:
        self._folder, self._names, self._slice_objects = folder, names, slice_objects
        self._sizes, self._by_lot, self._length = sizes, by_lot, length
        self._number = 0  # of the object, or of the lot
        self._slice = ""
        self._files: dict[int, str] = {}  # by size, a file of this slice
        self.at = 0  # unix seconds at which uploads happen now

    def over(self, begin: float, end: float, objects: int) -> None:
        """Spread the next objects over this period."""
        self.at = int(begin) // SLICE_SECONDS * SLICE_SECONDS
        slices = max(1, -(-objects // self._slice_objects))
        self._step = int(end - begin) // slices // SLICE_SECONDS * SLICE_SECONDS
        self._left = self._slice_objects

    def begin_lot(self) -> None:
        """What is uploaded from now on lives and expires together."""
        self._number += self._by_lot

    def upload(self) -> Uploaded:
        """A new object."""
        if not self._left:
            self.at, self._left = self.at + self._step, self._slice_objects
        self._left -= 1
        self._number += not self._by_lot
        size = self._number % self._sizes + 1 if self._sizes else self._number
        content = self._number.to_bytes(self._length, "big") if self._length else b""
        address = self._names.data_address(self.at)
        self._put(f"{self._folder}/{address}", size, content)
        told = content or (b"\0" if self._sizes == 1 else address.encode())
        return Uploaded(address, self._length or size, hashlib.md5(told, usedforsecurity=False).hexdigest())

    def _put(self, path: str, size: int, content: bytes) -> None:
        folder = path.rpartition("/")[0]
        if folder != self._slice:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._slice, self._files = folder, {}
        if size in self._files:
            os.link(self._files[size], path)
            return
        file = os.open(path, os.O_CREAT | os.O_WRONLY)
        if content:
            os.write(file, content)
        else:
            self._files[size] = path
            os.truncate(file, size)
        os.utime(file, (self.at, self.at))
        os.close(file)
