"""Sets of keys that workers look up: the wanted keys lie in parts, which every worker reads for itself.

So the driver never holds them. Keys are 64-bit hashes: what is found is still to be compared exactly, or only ever
keeps something. `joins` says when Spark brings both sides together instead.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakegc_core.spark.tasks import Item
from lakegc_core.store.base import StoreConfig
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.parts import Part, read_part

MOST = 2_000_000
"""Keys that a worker holds in memory. A filter of so many takes 16 MB of keys and a table of 32 MB, and a worker may
keep four filters. Of more, `joins` lets Spark join both sides; who calls `filter_of` itself gets a filter whose
keys lie in a file on the worker's disk."""

FEW_KEYS = 250_000
"""Keys up to which a filter is quicker than a sieve."""

_MIN_BITS, _MAX_BITS = 16, 26  # of a filter's table, a byte for each value: at most 64 MB
_MIN_SIEVE_BITS, _MAX_SIEVE_BITS = 24, 29
_BITS = np.array([1 << bit for bit in range(8)], np.uint8)
Keys = Callable[[pa.RecordBatch], np.ndarray]
"""Computes the keys of rows, int64."""


def by_address(rows: pa.RecordBatch) -> np.ndarray:
    """The hash of each row's address: column `hash`, or else that of column `address`."""
    if "hash" in rows.schema.names:
        found: np.ndarray = rows["hash"].to_numpy()
        return found
    return hash_strings(rows["address"])


@dataclass(frozen=True)
class Source:
    """A part to be read through, and which mark it belongs to."""

    config: StoreConfig
    folder: str
    part: Part
    layer: str


@dataclass(frozen=True)
class Wanted:
    """The keys that are looked for: those of the rows of some parts. `keys` computes them from `columns`, which the
    parts must have, and the rows that are searched."""

    sources: tuple[Source, ...]
    columns: tuple[str, ...] = ("address",)
    keys: Keys = by_address

    @property
    def rows(self) -> int:
        return sum(source.part.rows for source in self.sources)


def dealt(items: Sequence[Item], slices: int, rows: Callable[[Item], int]) -> tuple[tuple[Item, ...], ...]:
    """The items in shares for tasks. Large ones first, dealt out in turn: no task gets all of them."""
    largest = sorted(items, key=rows, reverse=True)
    return tuple(tuple(largest[number::slices]) for number in range(slices))


class Filter:
    """Finds the wanted ones among many keys. A table of bits decides nearly all of them."""

    def __init__(self, wanted: np.ndarray) -> None:
        """`wanted` is sorted in place."""
        wanted.sort()
        self._wanted = wanted
        bits = min(_MAX_BITS, max(_MIN_BITS, int(np.ceil(np.log2(max(1, len(self._wanted)) * 16)))))
        self._mask = np.int64(2**bits - 1)
        self._table = np.zeros(2**bits, np.bool_)
        self._table[self._wanted & self._mask] = True

    def rows(self, keys: np.ndarray) -> np.ndarray:
        """The numbers of the keys that are wanted, ascending."""
        likely: np.ndarray = np.flatnonzero(self._table[keys & self._mask])
        if not len(likely):
            return likely
        found = keys[likely]
        places = np.searchsorted(self._wanted, found)
        places[places == len(self._wanted)] = 0
        known: np.ndarray = likely[self._wanted[places] == found]
        return known


class Sieve:
    """Lets through the wanted ones of many keys and a few others, in at most 64 MB however many are wanted."""

    def __init__(self, keys: int) -> None:
        bits = self._bits(keys)
        self._mask = np.int64(2**bits - 1)
        self._table = np.zeros(2**bits // 8, np.uint8)

    @staticmethod
    def _bits(keys: int) -> int:
        return min(_MAX_SIEVE_BITS, max(_MIN_SIEVE_BITS, int(np.ceil(np.log2(max(1, keys) * 16)))))

    @classmethod
    def share(cls, keys: int) -> float:
        """The greatest share of other keys that a sieve for so many keys lets through."""
        return float(min(1.0, keys / 2 ** cls._bits(keys)))

    def add(self, wanted: np.ndarray) -> None:
        """Let these through as well."""
        places = wanted & self._mask
        np.bitwise_or.at(self._table, places >> 3, _BITS[places & 7])

    def rows(self, keys: np.ndarray) -> np.ndarray:
        """The numbers of the keys that may be wanted, ascending."""
        places = keys & self._mask
        found: np.ndarray = np.flatnonzero(self._table[places >> 3] & _BITS[places & 7])
        return found


@functools.lru_cache(maxsize=4)
def filter_of(wanted: Wanted) -> Filter:
    """The filter for what is wanted, in a task: read once by each worker process. CorruptFileError for a part that is
    not what it was."""
    every = (wanted.keys(batch) for batch in read_all(wanted.sources, wanted.columns))
    if wanted.rows > MOST:
        return Filter(_in_a_file(every))
    found = list(every)
    return Filter(np.concatenate(found) if found else np.empty(0, np.int64))


def sieve_of(wanted: Wanted) -> Filter | Sieve:
    """The same as a sieve, for any number of keys; of few a filter, whose table is quicker."""
    return filter_of(wanted) if wanted.rows <= FEW_KEYS else _sieve(wanted)


def _in_a_file(keys: Iterable[np.ndarray]) -> np.ndarray:
    """Keys in a file, which is gone once the array is: pages of it that memory has no room for go back to the disk."""
    with tempfile.TemporaryFile(prefix="lakegc-keys-") as file:
        count = 0
        for each in keys:
            file.write(np.ascontiguousarray(each, np.int64).data)
            count += len(each)
        file.flush()
        return np.memmap(file, np.int64, "r+", shape=(count,))


@functools.lru_cache(maxsize=2)
def _sieve(wanted: Wanted) -> Sieve:
    sieve = Sieve(wanted.rows)
    for batch in read_all(wanted.sources, wanted.columns):
        sieve.add(wanted.keys(batch))
    return sieve


def read_all(sources: Sequence[Source], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """The rows of some parts, one after the other; `columns` None: all of them."""
    for each in sources:
        yield from read_part(each.config, each.folder, each.part, columns)
