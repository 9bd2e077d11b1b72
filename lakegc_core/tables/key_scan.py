"""Looks for many keys in the parts of marks, by reading them through once: no shuffle, a few bytes a row.

What is looked for lies in parts as well, which every worker reads for itself, so that the driver never holds it. Keys
are 64-bit hashes: what is found is still to be compared exactly, or only ever keeps something.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakegc_core import clock
from lakegc_core.spark.session import Item, Mapped, begin_task, empty
from lakegc_core.store.base import StoreConfig
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.parts import Part, read_part, rows_of, spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = 2_000_000
"""Keys that a worker holds in memory: at most 50 MB, and it may keep four such sets. Where there may be more, Spark
joins them; a filter that has more all the same keeps them in a file on the worker's disk."""

LAYER = pa.field("layer", pa.string(), nullable=False)

_MIN_BITS, _MAX_BITS = 16, 26  # a byte each: 64 MB, which is more than MOST keys take
_MIN_SIEVE_BITS, _MAX_SIEVE_BITS = 24, 29
_BITS = np.array([1 << bit for bit in range(8)], np.uint8)
Keys = Callable[[pa.RecordBatch], Sequence[np.ndarray]]
"""The keys of rows, int64: one array, or several of which any may be found."""


def by_hash(rows: pa.RecordBatch) -> Sequence[np.ndarray]:
    """Column `hash`."""
    return (rows["hash"].to_numpy(),)


def by_address(rows: pa.RecordBatch) -> Sequence[np.ndarray]:
    """The hash of column `address`."""
    return (hash_strings(rows["address"]),)


@dataclass(frozen=True)
class Source:
    """A part to be read through, and which mark it belongs to."""

    config: StoreConfig
    folder: str
    part: Part
    layer: str


def sources_of(config: StoreConfig, folder: str, parts: Sequence[Part], layer: str) -> list[Source]:
    """The parts of a dataset of a mark, to be read through."""
    return [Source(config, folder, part, layer) for part in parts]


@dataclass(frozen=True)
class Wanted:
    """What is looked for: the keys of the rows of some parts, by folder. `columns`: those that `keys` needs."""

    config: StoreConfig
    places: tuple[tuple[str, Sequence[Part]], ...]
    columns: tuple[str, ...] = ("hash",)
    keys: Keys = by_hash

    @property
    def rows(self) -> int:
        return sum(rows_of(parts) for _, parts in self.places)

    @property
    def names(self) -> tuple[tuple[Any, ...], ...]:
        """Folder, name, rows, bytes and sha256 of each part: what can be a key of a cache."""
        return tuple(
            (folder, part.name, part.rows, part.bytes, part.sha256) for folder, parts in self.places for part in parts
        )


def dealt(items: Sequence[Item], slices: int, rows: Callable[[Item], int]) -> tuple[tuple[Item, ...], ...]:
    """The items in shares for tasks. Large ones first, dealt out in turn: no task gets all of them."""
    largest = sorted(items, key=rows, reverse=True)
    return tuple(tuple(largest[number::slices]) for number in range(slices))


def scan(
    spark: SparkSession,
    sources: Sequence[Source],
    schema: pa.Schema,
    wanted: Wanted | None,
    keys: Keys = by_hash,
    *,
    found: bool = True,
    only: Callable[[pa.RecordBatch, str], np.ndarray] | None = None,
    within: Callable[[], tuple[str, Sequence[str]]] | None = None,
    repeated: Sequence[str] = (),
) -> Mapped:
    """The rows of the sources of which a key (by `keys`) is wanted, or with `found=False` all the others; without
    `wanted` all rows: the columns of `schema`, and `layer`.

    `only`: which rows of a layer count. `within` (where what is wanted can lie), `repeated`: see `read_part`.
    """
    shape = pa.schema([*schema, LAYER])
    if not sources or (found and wanted is not None and not wanted.rows):
        return Mapped(empty(spark, shape), shape)
    slices = min(len(sources), 2 * max(2, spark_width(spark)))
    shares = dealt(sources, slices, lambda source: source.part.rows)
    clocks = clock.ambient()

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(clocks)
        sought = filter_of(wanted) if wanted else None
        places = within() if within else None
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for source in shares[number]:
                    for rows in read_part(source.config, source.folder, source.part, schema.names, places, repeated):
                        chosen = rows
                        if sought is not None:
                            hits = sought.any(keys(rows))
                            if not found:
                                hits = np.delete(np.arange(rows.num_rows), hits)
                            chosen = rows.take(pa.array(hits))
                        if only is not None and chosen.num_rows:
                            chosen = chosen.filter(pa.array(only(chosen, source.layer)))
                        if chosen.num_rows:
                            columns = [chosen[field.name].cast(field.type) for field in schema]
                            columns.append(pa.repeat(source.layer, chosen.num_rows))
                            yield pa.RecordBatch.from_arrays(columns, schema=shape)

    return Mapped(spark.range(0, slices, 1, slices), shape, body)


class Filter:
    """Which of many keys are among the wanted ones. A table of bits decides nearly all of them."""

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

    def any(self, several: Sequence[np.ndarray]) -> np.ndarray:
        """The numbers of the rows of which any key is wanted, ascending."""
        found = [self.rows(keys) for keys in several]
        return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


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
        """Which share of others a sieve for so many keys lets through at most."""
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


def filter_of(wanted: Wanted) -> Filter:
    """The filter for what is wanted, in a task: read once by each worker process. CorruptFileError for a part that is
    not what it was."""
    return _filter(wanted.config, wanted.columns, wanted.keys, wanted.names)


def sieve_of(wanted: Wanted) -> Sieve:
    """The same as a sieve, for any number of keys."""
    return _sieve(wanted.config, wanted.columns, wanted.keys, wanted.names)


@functools.lru_cache(maxsize=4)
def _filter(config: StoreConfig, columns: tuple[str, ...], keys: Keys, names: tuple[tuple[Any, ...], ...]) -> Filter:
    every = (each for batch in read_named(config, names, columns) for each in keys(batch))
    if sum(rows for _, _, rows, _, _ in names) > MOST:
        return Filter(_in_a_file(every))
    found = list(every)
    return Filter(np.concatenate(found) if found else np.empty(0, np.int64))


def _in_a_file(keys: Iterable[np.ndarray]) -> np.ndarray:
    """Keys in a file that ends with the array: pages of it that memory has no room for go back to the disk."""
    with tempfile.TemporaryFile(prefix="lakegc-keys-") as file:
        count = 0
        for each in keys:
            file.write(np.ascontiguousarray(each, np.int64).data)
            count += len(each)
        file.flush()
        return np.memmap(file, np.int64, "r+", shape=(count,))


@functools.lru_cache(maxsize=2)
def _sieve(config: StoreConfig, columns: tuple[str, ...], keys: Keys, names: tuple[tuple[Any, ...], ...]) -> Sieve:
    sieve = Sieve(sum(rows for _, _, rows, _, _ in names))
    for batch in read_named(config, names, columns):
        for each in keys(batch):
            sieve.add(each)
    return sieve


def read_named(
    config: StoreConfig, names: tuple[tuple[Any, ...], ...], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of the parts that `Wanted.names` names."""
    for folder, name, rows, size, sha256 in names:
        yield from read_part(config, folder, Part(name, rows, size, sha256), columns)
