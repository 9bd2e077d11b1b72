"""Places of some objects: the ranges in which they stand, and the metaranges that hold these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.answers.workers import Column, Few, Values, Workers
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Json, Stage
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS
from lakegc_core.references.ranges.protected import protected_rows
from lakegc_core.references.ranges.range_files import (
    INDEX,
    INDEX_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    RangeReader,
    range_reader,
)
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import Feed
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.parts import part_results, parts_of

HITS, HOLDING, FITTING = "hits", "holding", "fitting"
_READ_FOR_PATHS = 4  # ranges; an object has one path, unless it was copied or moved without its bytes
HITS_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("hash", pa.int64(), nullable=False),  # of the address
        pa.field("address", pa.string(), nullable=True),  # these are null where only the hash is known
        pa.field("path", pa.string(), nullable=True),
    ]
)
HOLDING_SCHEMA = pa.schema(
    [pa.field("metarange_id", pa.string(), nullable=False), pa.field("range_id", pa.string(), nullable=False)]
)
FITTING_SCHEMA = pa.schema([HITS_SCHEMA.field("range_id")])


@dataclass(frozen=True)
class Wish:
    """Objects that are looked for: by one path, or by the hashes of their addresses."""

    path: str | None = None
    addresses: tuple[str, ...] = ()

    @property
    def hashes(self) -> pa.Array:
        """The hashes of the addresses, in their order."""
        return pa.array(hashes_of(self.addresses))


def hashes_of(addresses: Sequence[str]) -> np.ndarray:
    """The hashes by which addresses are looked for."""
    return hash_strings(pa.array(addresses, pa.string())) if addresses else np.empty(0, np.int64)


@dataclass(frozen=True)
class Search:
    """Looks for objects in what a mark knew: by the work of `workers`, in `layers` (the mark and those that it rests
    on). What is found lies `aside`."""

    workers: Workers
    context: MarkContext
    layers: Sequence[Layer]
    aside: DatasetFolder

    def indexed(self, wish: Wish) -> Dataset:
        """Entries of ranges that marks have read, by the hashes of their addresses: HITS_SCHEMA."""
        indexes = (layer.dataset(Stage.COMMITTED_ADDRESSES, INDEX_SCHEMA, INDEX) for layer in self.layers)
        feeds = [feed for index in indexes for feed in index.feeds("range_id", "hash", repeated=("range_id",))]
        return self._written(HITS, self.workers.run(feeds, partial(_in_index, self.aside, wish.hashes)), HITS_SCHEMA)

    def retained(self, wish: Wish, indexed: Dataset) -> tuple[Dataset, set[int]]:
        """Entries of retained ranges among what is indexed, with their paths (HITS_SCHEMA), and the hashes of all
        addresses that any retained range refers to."""
        # An index has no paths: some ranges of each address are read for them. Marks below have also read ranges that
        # are not retained any more.
        among = self._retained if len(self.layers) > 1 else None
        some = Values((Column(indexed, "range_id"),), among=among, few=Few("hash", _READ_FOR_PATHS))
        results = self.workers.run_on_values(some, self._entries(wish).entries)
        hashes = {number for each in results for number in each.get("hashes", ())}
        return self._written(HITS, results, HITS_SCHEMA), hashes

    def anywhere(self, wish: Wish) -> Dataset:
        """Entries of the ranges of all commits that show a path; of addresses that no retained range refers to, those
        of all other ranges: HITS_SCHEMA."""
        reader = self._entries(wish)
        results = self.workers.run_on_values(self._metaranges, reader.ranges)
        fitting = Column(self._written(FITTING, results, FITTING_SCHEMA), "range_id")
        retained = self._retained if wish.path is None else None
        results = self.workers.run_on_values(Values((fitting,), apart=retained), reader.entries)
        return self._written(HITS, results, HITS_SCHEMA)

    def holding(self, hits: Dataset) -> Dataset:
        """The metaranges of all commits that hold a range among the hits: HOLDING_SCHEMA."""
        if not hits.rows:
            return Dataset(HOLDING_SCHEMA)
        task = partial(_holding, range_reader(self.context), hits, self.aside)
        return self._written(HOLDING, self.workers.run_on_values(self._metaranges, task), HOLDING_SCHEMA)

    def _written(self, name: str, results: Sequence[Json], schema: pa.Schema) -> Dataset:
        """The dataset that tasks wrote."""
        return self.aside.dataset(name, parts_of(results, [name])[name], schema)

    def _entries(self, wish: Wish) -> _Entries:
        return _Entries(range_reader(self.context), wish, self.context.namespace, self.aside)

    @property
    def _retained(self) -> Column:
        """The retained ranges."""
        return Column(self.layers[0].dataset(Stage.COMMITTED_ADDRESSES, RANGES_SCHEMA, RANGES), "range_id")

    @property
    def _metaranges(self) -> Values:
        """The metaranges of all commits, each once."""
        own, stage = self.layers[0], Stage.RETENTION_COMMITS
        datasets = (own.dataset(stage, COMMITS_SCHEMA, name) for name in ("", OTHERS))
        return Values(tuple(Column(dataset, "metarange_id") for dataset in datasets))


def _in_index(aside: DatasetFolder, hashes: pa.Array, feed: Feed) -> Iterator[Json]:
    """Look for addresses in a part of an index."""
    writer = aside.writer(HITS, HITS_SCHEMA)
    for batch in feed.read():
        rows = batch.filter(pc.is_in(batch["hash"], value_set=hashes))
        unknown = pa.nulls(rows.num_rows, pa.string())
        columns = [rows["range_id"].cast(pa.string()), rows["hash"], unknown, unknown]
        writer.write(pa.RecordBatch.from_arrays(columns, schema=HITS_SCHEMA))
    yield from part_results(HITS, writer.close())


@dataclass(frozen=True)
class _Entries:
    """Looks for entries in ranges, and writes what is found `aside`."""

    work: RangeReader
    wish: Wish
    namespace: Namespace
    aside: DatasetFolder

    def ranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        """The ranges of metaranges that can have the path."""
        fitting = (rows.filter(self._may_have(rows)) for rows in self.work.metaranges(batches))
        yield from self.aside.results(FITTING, fitting, FITTING_SCHEMA)

    def _may_have(self, rows: pa.RecordBatch) -> pa.Array:
        is_range = pc.not_equal(rows["range_id"], "")
        if self.wish.path is None:
            return is_range
        key = pa.scalar(_key(self.wish.path), pa.binary())
        return pc.and_(is_range, pc.and_(pc.less_equal(rows["min_key"], key), pc.greater_equal(rows["max_key"], key)))

    def entries(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        """The entries of ranges that are looked for. A range that comes with hashes is read for these alone, and all
        of them that were found are told."""
        writer = self.aside.writer(HITS, HITS_SCHEMA)
        told: set[int] = set()
        for batch in batches:
            ids = batch.column("range_id").to_pylist()
            hashes = dict(zip(ids, batch["hash"], strict=True)) if "hash" in batch.schema.names else {}
            for each, data in self.work.fetched(ids):
                found = self._hits(each, graveler.read_range(data, paths=True, expected_id=each))
                if each in hashes:
                    found = found.filter(pc.is_in(found["hash"], value_set=hashes[each].values))
                    told.update(found["hash"].to_pylist())
                writer.write(found)
        yield from part_results(HITS, writer.close())
        if told:
            yield {"hashes": sorted(told)}

    def _hits(self, range_id: str, entries: pa.Table) -> pa.Table:
        """Those of a range's entries that are looked for: HITS_SCHEMA."""
        if self.wish.path is not None:
            path = pa.scalar(_key(self.wish.path), pa.binary())
            entries = entries.filter(pc.equal(entries["path"].cast(pa.binary()), path))
        rows = protected_rows(self.namespace, [range_id], [len(entries)], entries)
        if self.wish.path is not None:
            rows = rows.filter(rows["exact"])
        else:
            rows = rows.filter(pc.is_in(rows["address"], value_set=pa.array(self.wish.addresses, pa.string())))
        hashes = hash_strings(rows["address"]) if len(rows) else np.empty(0, np.int64)
        paths = [path.decode("utf-8", "replace") for path in rows["path"].cast(pa.binary()).to_pylist()]
        columns = [rows["range_id"], pa.array(hashes), rows["address"], pa.array(paths, pa.string())]
        return pa.table(columns, schema=HITS_SCHEMA)


def _key(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _holding(
    work: RangeReader, hits: Dataset, aside: DatasetFolder, batches: Iterator[pa.RecordBatch]
) -> Iterator[Json]:
    """Find the metaranges that hold some ranges, and write them `aside`."""
    ids = pa.array(sorted(set(hits.values("range_id"))), pa.string())
    held = (rows.filter(pc.is_in(rows["range_id"], value_set=ids)) for rows in work.metaranges(batches))
    yield from aside.results(HOLDING, held, HOLDING_SCHEMA)
