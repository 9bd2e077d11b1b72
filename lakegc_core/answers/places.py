"""Where some objects stand: in ranges, and in the metaranges that hold these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.answers.scratch import Scratch
from lakegc_core.answers.workers import Column, Few, Values, Workers
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Stage
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.commits.commit_walk import OTHERS
from lakegc_core.references.ranges.protected import protected_rows
from lakegc_core.references.ranges.range_files import INDEX, RANGES, RangeReader, reading
from lakegc_core.spark.session import Json
from lakegc_core.store.base import StoreConfig
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import Part, PartWriter, part_results, parts_of, read_part

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
    """What is looked for: one path, or some addresses by their hashes. A picklable value that tasks carry."""

    path: str | None = None
    addresses: tuple[str, ...] = ()

    @property
    def hashes(self) -> pa.Array:
        """Of the addresses, in their order."""
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
    aside: Scratch

    def indexed(self, wish: Wish) -> list[Part]:
        """Entries of ranges that marks have read, by the hashes of their addresses: parts of HITS_SCHEMA."""
        sources = [source for layer in self.layers for source in layer.sources(Stage.COMMITTED_ADDRESSES, INDEX)]
        task = _InIndex(self.aside.config, self.aside.folder, wish.hashes)
        return parts_of(self.workers.run(sources, task), [HITS])[HITS]

    def retained(self, wish: Wish, indexed: Sequence[Part]) -> tuple[list[Part], set[int]]:
        """Entries of retained ranges among what is indexed, with their paths (parts of HITS_SCHEMA), and the hashes of
        all addresses that any retained range refers to."""
        # An index has no paths: some ranges of each address are read for them. Marks below have also read ranges that
        # are not retained any more.
        known = Column(self.aside.config, f"{self.aside.folder}/{HITS}", indexed, "range_id")
        among = self._retained if len(self.layers) > 1 else None
        some = Values((known,), among=among, few=Few("hash", _READ_FOR_PATHS))
        results = self.workers.run_on_values(some, self._entries(wish).entries)
        return parts_of(results, [HITS])[HITS], {number for each in results for number in each.get("hashes", ())}

    def anywhere(self, wish: Wish) -> list[Part]:
        """Entries of the ranges of all commits that show a path; of addresses that no retained range refers to, those
        of all other ranges: parts of HITS_SCHEMA."""
        reader = self._entries(wish)
        ranges = parts_of(self.workers.run_on_values(self._metaranges, reader.ranges), [FITTING])[FITTING]
        retained = self._retained if wish.path is None else None
        fitting = Column(self.aside.config, f"{self.aside.folder}/{FITTING}", ranges, "range_id")
        results = self.workers.run_on_values(Values((fitting,), apart=retained), reader.entries)
        return parts_of(results, [HITS])[HITS]

    def holding(self, hits: Sequence[Part]) -> list[Part]:
        """The metaranges of all commits that hold a range among the hits: parts of HOLDING_SCHEMA."""
        if not hits:
            return []
        folder = self.aside.folder
        work = reading(self.aside.of(self.context), folder)
        task = _Holding(work, f"{folder}/{HITS}", tuple(hits), f"{folder}/{HOLDING}")
        return parts_of(self.workers.run_on_values(self._metaranges, task), [HOLDING])[HOLDING]

    def _entries(self, wish: Wish) -> _Entries:
        folder = self.aside.folder
        return _Entries(reading(self.aside.of(self.context), folder), wish, self.context.namespace, folder)

    @property
    def _retained(self) -> Column:
        """The retained ranges."""
        own = self.layers[0]
        stage = Stage.COMMITTED_ADDRESSES
        return Column(own.mark.config, own.mark.stage_folder(stage, RANGES), own.parts(stage, RANGES), "range_id")

    @property
    def _metaranges(self) -> Values:
        """The metaranges of all commits, each once."""
        commits = self.context.mark.require(Stage.RETENTION_COMMITS)
        places = (("", commits.datasets[Stage.RETENTION_COMMITS]), (OTHERS, commits.datasets[OTHERS]))
        return Values(
            tuple(
                Column(
                    self.context.workspace,
                    self.context.mark.stage_folder(Stage.RETENTION_COMMITS, name),
                    parts,
                    "metarange_id",
                )
                for name, parts in places
            )
        )


@dataclass(frozen=True)
class _InIndex:
    """Looks for addresses in a part of an index; a picklable value that tasks carry."""

    config: StoreConfig
    folder: str
    hashes: pa.Array

    def __call__(self, source: Source) -> Iterator[Json]:
        writer = PartWriter(self.config, f"{self.folder}/{HITS}", HITS_SCHEMA)
        for batch in read_part(source.config, source.folder, source.part, ["range_id", "hash"], repeated=["range_id"]):
            rows = batch.filter(pc.is_in(batch["hash"], value_set=self.hashes))
            unknown = pa.nulls(rows.num_rows, pa.string())
            columns = [rows["range_id"].cast(pa.string()), rows["hash"], unknown, unknown]
            writer.write(pa.RecordBatch.from_arrays(columns, schema=HITS_SCHEMA))
        yield from part_results(HITS, writer.close())


@dataclass(frozen=True)
class _Entries:
    """Looks for entries in ranges; a picklable value that tasks carry."""

    work: RangeReader
    wish: Wish
    namespace: Namespace
    folder: str  # for what is found

    def ranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        """The ranges of metaranges that can have the path."""
        writer = PartWriter(self.work.artifacts, f"{self.folder}/{FITTING}", FITTING_SCHEMA)
        for batch in batches:
            for found in self.work.metarange_rows(batch.column("metarange_id").to_pylist()):
                rows = found.filter(pc.not_equal(found["range_id"], ""))
                if self.wish.path is not None:
                    key = pa.scalar(_key(self.wish.path), pa.binary())
                    fits = pc.and_(pc.less_equal(rows["min_key"], key), pc.greater_equal(rows["max_key"], key))
                    rows = rows.filter(fits)
                for each in rows.select(["range_id"]).to_batches():
                    writer.write(each)
        yield from part_results(FITTING, writer.close())

    def entries(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        """The entries of ranges that are looked for. A range that comes with hashes is read for these alone, and all
        of them that were found are told."""
        writer = PartWriter(self.work.artifacts, f"{self.folder}/{HITS}", HITS_SCHEMA)
        told: set[int] = set()
        for batch in batches:
            ids = batch.column("range_id").to_pylist()
            hashes = dict(zip(ids, batch["hash"], strict=True)) if "hash" in batch.schema.names else {}
            for each, data in self.work.fetched([graveler.Expected(range_id) for range_id in ids]):
                found = self._hits(str(each.id), graveler.read_range(data, paths=True, expected_id=each.id))
                if each.id in hashes:
                    found = found.filter(pc.is_in(found["hash"], value_set=hashes[each.id].values))
                    told.update(found["hash"].to_pylist())
                for rows in found.to_batches():
                    writer.write(rows)
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


@dataclass(frozen=True)
class _Holding:
    """Finds the metaranges that hold some ranges; a picklable value that tasks carry."""

    work: RangeReader
    place: str
    hits: tuple[Part, ...]
    target: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        found: set[str] = set()
        for part in self.hits:
            for batch in read_part(self.work.artifacts, self.place, part, ["range_id"]):
                found.update(pc.unique(batch["range_id"]).to_pylist())
        ids = pa.array(sorted(found), pa.string())
        writer = PartWriter(self.work.artifacts, self.target, HOLDING_SCHEMA)
        for batch in batches:
            for rows in self.work.metarange_rows(batch.column("metarange_id").to_pylist()):
                held = rows.filter(pc.is_in(rows["range_id"], value_set=ids))
                for each in held.select(HOLDING_SCHEMA.names).to_batches():
                    writer.write(each)
        yield from part_results(HOLDING, writer.close())
