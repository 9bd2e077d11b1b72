"""Where some objects stand: in ranges, in the commits that hold these, and in the records of marks and sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.answers.scratch import Scratch
from lakegc_core.errors import ObjectNotFoundError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer
from lakegc_core.policy.namespace import Namespace
from lakegc_core.spark.session import Json, many, run_on_rows, run_tasks
from lakegc_core.stages.committed_addresses.held_paths import HELD
from lakegc_core.stages.committed_addresses.protected import protected_rows
from lakegc_core.stages.committed_addresses.range_files import (
    INDEX,
    RANGES,
    RANGES_SCHEMA,
    STAGE,
    RangeReader,
    reading,
    tasks_for,
)
from lakegc_core.stages.expired_addresses.neighbour_references import NEIGHBOURS
from lakegc_core.stages.expired_addresses.old_ranges import ORIGINS
from lakegc_core.stages.expired_addresses.since import KEPT
from lakegc_core.stages.expired_addresses.since import STAGE as EXPIRED
from lakegc_core.stages.namespace_listing.inventory import journals
from lakegc_core.stages.retention_commits.commit_walk import COMMITS, COMMITS_SCHEMA, OTHERS
from lakegc_core.stages.uncommitted_addresses import stage as uncommitted_addresses
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.key_scan import Source, sources_of
from lakegc_core.tables.parts import Part, PartWriter, part_results, parts_of, read, read_part, rows_of, spark_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HITS, HOLDING = "hits", "holding"
_READ_FOR_PATHS = 4  # ranges; an object has one path, unless it was copied or moved without its bytes
HITS_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("hash", pa.int64(), nullable=False),  # of the address
        pa.field("address", pa.string(), nullable=True),  # these are null where only the hash is known
        pa.field("path", pa.string(), nullable=True),
        pa.field("size", pa.int64(), nullable=True),
    ]
)
HOLDING_SCHEMA = pa.schema(
    [pa.field("metarange_id", pa.string(), nullable=False), pa.field("hash", pa.int64(), nullable=False)]
)


@dataclass(frozen=True)
class Wish:
    """What is looked for: one path, or one address by its hash. A picklable value that tasks carry."""

    path: str | None
    address: str | None

    @property
    def hash(self) -> int:
        """Of the address."""
        return int(hash_strings(pa.array([self.address]))[0])


def retained_hits(
    spark: SparkSession, context: MarkContext, layers: Sequence[Layer], wish: Wish, aside: Scratch
) -> list[Part]:
    """Entries of retained ranges that refer to an address: parts of HITS_SCHEMA."""
    folder = aside.folder
    sources = [source for layer in layers for source in layer.sources(STAGE, INDEX)]
    found = parts_of(run_tasks(spark, sources, _InIndex(aside.config, folder, wish.hash)), [HITS])[HITS]
    some = read(spark, aside.config, f"{folder}/{HITS}", found, HITS_SCHEMA, ["range_id"]).distinct()
    if len(layers) > 1:  # marks below have read ranges that are not retained any more
        some = some.join(many(_retained(spark, layers)), "range_id", "left_semi")
    # An index has no paths: some of the ranges are read for them.
    again = parts_of(run_on_rows(some.limit(_READ_FOR_PATHS), _entries(context, wish, aside).entries), [HITS])[HITS]
    return [*found, *again] if again else []


def hits_anywhere(
    spark: SparkSession, context: MarkContext, layers: Sequence[Layer], wish: Wish, aside: Scratch
) -> list[Part]:
    """Entries of the ranges of all commits that show a path; those of commits that are not retained that refer to an
    address: parts of HITS_SCHEMA."""
    reader = _entries(context, wish, aside)
    ranges = _metaranges(spark, context).mapInArrow(reader.ranges, "range_id string").distinct()
    if wish.address is not None:  # no retained range refers to it
        ranges = ranges.join(many(_retained(spark, layers)), "range_id", "left_anti")
    return parts_of(run_on_rows(ranges.repartition(4 * spark_width(spark)), reader.entries), [HITS])[HITS]


def origin_of(spark: SparkSession, clean: Layer, wish: Wish) -> Json | None:
    """Where a clean mark found that an address was last shown: a row of its dataset `origins`."""
    wanted = pa.array([wish.address], pa.string())

    def task(source: Source) -> Iterator[Json]:
        for batch in read_part(source.config, source.folder, source.part, ["address", "path", "commit_id"]):
            yield from batch.filter(pc.is_in(batch["address"], value_set=wanted)).to_pylist()

    parts = clean.manifests[EXPIRED].datasets.get(ORIGINS, ())  # marks from before there were origins have none
    folder = clean.mark.stage_folder(EXPIRED, ORIGINS)
    found = run_tasks(spark, sources_of(clean.mark.config, folder, parts, clean.mark_id), task) if parts else []
    return next(iter(found), None)


def _entries(context: MarkContext, wish: Wish, aside: Scratch) -> _Entries:
    return _Entries(reading(aside.of(context), aside.folder), wish, context.namespace, f"{aside.folder}/{HITS}")


def _retained(spark: SparkSession, layers: Sequence[Layer]) -> DataFrame:
    return layers[0].frame(spark, STAGE, RANGES, RANGES_SCHEMA).select("range_id")


def holding_of(spark: SparkSession, context: MarkContext, hits: Sequence[Part], aside: Scratch) -> list[Part]:
    """The metaranges of all commits that hold a range among the hits: parts of HOLDING_SCHEMA."""
    if not hits:
        return []
    folder = aside.folder
    reader = _Holding(reading(aside.of(context), folder), f"{folder}/{HITS}", tuple(hits), f"{folder}/{HOLDING}")
    return parts_of(run_on_rows(_metaranges(spark, context), reader), [HOLDING])[HOLDING]


def _metaranges(spark: SparkSession, context: MarkContext) -> DataFrame:
    """The metaranges of all commits, each once."""
    commits = context.mark.require(COMMITS)
    frames = [
        read(
            spark, context.workspace, context.mark.stage_folder(COMMITS, name), parts, COMMITS_SCHEMA, ["metarange_id"]
        )
        for name, parts in (("", commits.datasets[COMMITS]), (OTHERS, commits.datasets[OTHERS]))
    ]
    every = frames[0].unionByName(frames[1]).where("metarange_id != ''").distinct()
    count = rows_of([*commits.datasets[COMMITS], *commits.datasets[OTHERS]])
    return every.repartition(tasks_for(count, 64, 4 * spark_width(spark)))


@dataclass(frozen=True)
class _InIndex:
    """Looks for an address in a part of an index; a picklable value that tasks carry."""

    config: StoreConfig
    folder: str
    hash: int

    def __call__(self, source: Source) -> Iterator[Json]:
        writer = PartWriter(self.config, f"{self.folder}/{HITS}", HITS_SCHEMA)
        columns = ["range_id", "hash", "size"]
        for batch in read_part(source.config, source.folder, source.part, columns, repeated=["range_id"]):
            rows = batch.filter(pc.equal(batch["hash"], self.hash))
            if rows.num_rows:
                table = pa.table(
                    {
                        "range_id": rows["range_id"].cast(pa.string()),
                        "hash": rows["hash"],
                        "address": pa.nulls(rows.num_rows, pa.string()),
                        "path": pa.nulls(rows.num_rows, pa.string()),
                        "size": rows["size"],
                    }
                )
                for each in table.to_batches():
                    writer.write(each)
        yield from part_results(HITS, writer.close())


@dataclass(frozen=True)
class _Entries:
    """Looks for entries in ranges; a picklable value that tasks carry."""

    work: RangeReader
    wish: Wish
    namespace: Namespace
    target: str

    def ranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The ranges of metaranges that can have the path."""
        for batch in batches:
            for found in self.work.metarange_rows(batch.column("metarange_id").to_pylist()):
                rows = found.filter(pc.not_equal(found["range_id"], ""))
                if self.wish.path is not None:
                    key = pa.scalar(_key(self.wish.path), pa.binary())
                    fits = pc.and_(pc.less_equal(rows["min_key"], key), pc.greater_equal(rows["max_key"], key))
                    rows = rows.filter(fits)
                yield pa.RecordBatch.from_pydict({"range_id": rows["range_id"].combine_chunks()})

    def entries(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        """The entries of ranges that are looked for."""
        store = connect(self.work.data)
        writer = PartWriter(self.work.artifacts, self.target, HITS_SCHEMA)
        for batch in batches:
            for range_id in batch.column("range_id").to_pylist():
                data = store.read(f"{self.work.prefix}/{range_id}")
                entries = graveler.read_range(data, paths=True, expected_id=range_id)
                if self.wish.path is not None:
                    path = pa.scalar(_key(self.wish.path), pa.binary())
                    entries = entries.filter(pc.equal(entries["path"].cast(pa.binary()), path))
                rows = protected_rows(self.namespace, [range_id], [len(entries)], entries)
                rows = (
                    rows.filter(rows["exact"])
                    if self.wish.path is not None
                    else rows.filter(pc.equal(rows["address"], self.wish.address))
                )
                for each in _hits(rows).to_batches():
                    writer.write(each)
        yield from part_results(HITS, writer.close())


def _hits(rows: pa.Table) -> pa.Table:
    hashes = hash_strings(rows["address"]) if len(rows) else np.empty(0, np.int64)
    paths = [path.decode("utf-8", "replace") for path in rows["path"].cast(pa.binary()).to_pylist()]
    columns = {
        "range_id": rows["range_id"],
        "hash": hashes,
        "address": rows["address"],
        "path": pa.array(paths, pa.string()),
    }
    return pa.table(columns | {"size": rows["size"]})


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
        wanted = pa.Table.from_batches(
            (
                each
                for part in self.hits
                for each in read_part(self.work.artifacts, self.place, part, ["range_id", "hash"])
            ),
            pa.schema([HITS_SCHEMA.field("range_id"), HITS_SCHEMA.field("hash")]),
        )
        ids = pc.unique(wanted["range_id"])
        writer = PartWriter(self.work.artifacts, self.target, HOLDING_SCHEMA)
        for batch in batches:
            for found in self.work.metarange_rows(batch.column("metarange_id").to_pylist()):
                rows = found.filter(pc.is_in(found["range_id"], value_set=ids)).select(["metarange_id", "range_id"])
                pairs = rows.join(wanted, "range_id", join_type="inner").select(HOLDING_SCHEMA.names)
                for each in pairs.group_by(HOLDING_SCHEMA.names).aggregate([]).to_batches():
                    writer.write(each)
        yield from part_results(HOLDING, writer.close())


def records_of(spark: SparkSession, context: MarkContext, own: Layer, addresses: Sequence[str]) -> list[Json]:
    """What a mark and the sweeps of all marks have on record of some addresses: rows with `dataset`, and of sweeps with
    `mark_id`."""
    named = (
        ("staged", own.sources(uncommitted_addresses.STAGE)),
        ("held", own.sources(STAGE, HELD)),
        ("neighbour", own.sources(EXPIRED, NEIGHBOURS)),
        ("expired", own.sources(EXPIRED)),
        ("kept", own.sources(EXPIRED, KEPT)),
    )
    work = [(name, source) for name, sources in named for source in sources]
    for mark_id, folder, parts in journals(context, 0.0):
        work += [("swept", source) for source in sources_of(context.workspace, folder, parts, mark_id)]
    wanted = pa.array(sorted(set(addresses)), pa.string())

    def task(each: tuple[str, Source]) -> Iterator[Json]:
        name, source = each
        for batch in read_part(source.config, source.folder, source.part):
            for row in batch.filter(pc.is_in(batch["address"], value_set=wanted)).to_pylist():
                yield {"dataset": name, "mark_id": source.layer, **{key: _plain(value) for key, value in row.items()}}

    return run_tasks(spark, work, task) if addresses else []


def _plain(value: Any) -> Any:
    """A value as JSON has it; times as unix seconds."""
    return value.timestamp() if hasattr(value, "timestamp") else value


def stored(context: MarkContext, address: str) -> Json | None:
    """Size, and when it was written (unix seconds), of an object; None if it is not there."""
    try:
        info = connect(context.data).head(address)
    except ObjectNotFoundError:
        return None
    return {"size": info.size, "last_modified": info.last_modified.timestamp()}
