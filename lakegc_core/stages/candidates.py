"""What no retained commit refers to: all that lies in the namespace against all that is referred to, or what changed.

A clean mark joins the two by hash. An optimized one judges what may have changed: what the mark below found
unreferenced, what was listed anew, and what ranges held that nothing holds any more. Both give the same rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.context import MarkContext
from lakegc_core.errors import MarkError, ObjectNotFoundError
from lakegc_core.hashing import hash_strings
from lakegc_core.namespace import Namespace
from lakegc_core.spark import many
from lakegc_core.stages import inventory, range_reading, uncommitted_addresses
from lakegc_core.stages.findings import KEPT
from lakegc_core.stages.findings import SCHEMA as FINDINGS_SCHEMA
from lakegc_core.stages.findings import STAGE as FINDINGS
from lakegc_core.stages.hash_scan import MOST, Wanted, by_address, scan
from lakegc_core.stages.inventory import GONE, GONE_SCHEMA, LEARNT, UNITS, UNITS_SCHEMA, unit_of
from lakegc_core.stages.layers import Layer
from lakegc_core.stages.range_reading import DROPPED, INDEX, RANGES, RANGES_SCHEMA
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.parquet import Part, read, rows_of, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Old = Callable[[DataFrame], DataFrame]

MISSING = "missing"
_ROWS_PER_PARTITION = 1_000_000  # of a join: one side of a partition is held in memory
_SOUGHT, _FOUND, _CANDIDATES, _ABSENT, _LIVE = "sought", "found", "candidates", "absent", "live"

_HASH = pa.field("hash", pa.int64(), nullable=False)
_ADDRESS = pa.schema([inventory.SCHEMA.field("address")])
_SOUGHT_SCHEMA = pa.schema([inventory.SCHEMA.field("address"), inventory.SCHEMA.field("unit"), _HASH])
_CANDIDATES_SCHEMA = pa.schema([*inventory.SCHEMA, _HASH])
_LIVE_SCHEMA = pa.schema([_HASH, range_reading.SCHEMA.field("range_id")])


@dataclass(frozen=True)
class Unreferenced:
    """What a mark has to judge.

    `objects`: address, size, last_modified, etag, foreign, of what no retained commit refers to. `missing`: address of
    live objects that do not lie there. `holding`: address and range_id of entries, for any that are missing.
    `learnt`: parts of objects that turned out to lie in units that were taken over.
    """

    objects: DataFrame
    missing: DataFrame
    holding: DataFrame
    learnt: Sequence[Part] = ()


def against_all(spark: SparkSession, context: MarkContext, own: Layer, old: Old) -> Unreferenced:
    """All that the mark listed, without all that it read. `old`: picks addresses that may be missing."""
    references, objects = own.rows(range_reading.STAGE), own.rows(inventory.STAGE)
    committed = own.frame(spark, range_reading.STAGE, "", range_reading.SCHEMA)
    subtract = _by_scan if max(references, objects) <= MOST else _by_join
    unreferenced, absent = subtract(spark, context, own)
    missing = write(old(absent), context.workspace, {_ABSENT: context.mark.stage_folder(FINDINGS, _ABSENT)}, _ADDRESS)
    return Unreferenced(
        objects=unreferenced,
        missing=own.read(spark, FINDINGS, _ABSENT, missing[_ABSENT], _ADDRESS).distinct(),
        holding=committed.select("address", "range_id"),
    )


def _by_scan(spark: SparkSession, context: MarkContext, own: Layer) -> tuple[DataFrame, DataFrame]:
    """What lies there and nothing refers to, and addresses that are referred to and do not lie there: each side is
    read through once, by workers that hold the hashes of the other one."""

    if own.rows(range_reading.STAGE, INDEX) != own.rows(range_reading.STAGE):
        raise MarkError(f"The index of mark {own.mark_id} does not hold every address that was read. Make a new mark.")
    live = own.wanted(range_reading.STAGE, INDEX)
    listed = own.sources(inventory.STAGE)
    unreferenced = scan(spark, listed, inventory.SCHEMA, live, by_address, found=False)
    lying = own.wanted(inventory.STAGE, columns=("address",), keys=by_address)
    named = own.sources(range_reading.STAGE) + own.sources(uncommitted_addresses.STAGE)
    absent = scan(spark, named, uncommitted_addresses.SCHEMA, lying, by_address, found=False)
    return unreferenced, absent.where("exact")


def _by_join(spark: SparkSession, context: MarkContext, own: Layer) -> tuple[DataFrame, DataFrame]:
    """The same, for more hashes than a worker can hold."""
    from pyspark.sql import functions as F

    listing = inventory.everything(spark, [own])
    committed = own.frame(spark, range_reading.STAGE, "", range_reading.SCHEMA)
    staged = own.frame(spark, uncommitted_addresses.STAGE, "", uncommitted_addresses.SCHEMA)
    told = context.settings.scale.address_num_partitions
    larger = max(own.rows(range_reading.STAGE), own.rows(inventory.STAGE))
    partitions = told or max(2 * spark_width(spark), -(-larger // _ROWS_PER_PARTITION))

    def spread(rows: DataFrame) -> DataFrame:
        return rows.repartition(partitions, "h")

    hashed = spread(listing.withColumn("h", F.xxhash64("address")))
    live = spread(committed.select(F.xxhash64("address").alias("h")))
    listed = spread(listing.select(F.xxhash64("address").alias("h")))
    exact = committed.where("exact").select("address").unionByName(staged.where("exact").select("address"))
    named = spread(exact.withColumn("h", F.xxhash64("address")))
    return hashed.join(many(live), "h", "left_anti"), named.join(many(listed), "h", "left_anti")


def against_changes(
    spark: SparkSession, context: MarkContext, own: Layer, layers: Sequence[Layer], old: Old
) -> Unreferenced:
    """The same as `against_all`, from what may have changed since the mark below."""
    return _Changes(spark, context, own, tuple(layers), old).run()


@dataclass(frozen=True)
class _Changes:
    spark: SparkSession
    context: MarkContext
    own: Layer
    layers: tuple[Layer, ...]
    old: Old

    def run(self) -> Unreferenced:
        base, mark = self.layers[0], self.own
        carried = many(
            self._of(mark, inventory.STAGE, UNITS, UNITS_SCHEMA).where(f"listed_in != '{mark.mark_id}'").select("unit"),
            mark.rows(inventory.STAGE, UNITS),
        )
        anew = self._of(mark, inventory.STAGE, "", inventory.SCHEMA)
        committed = self._of(mark, range_reading.STAGE, "", range_reading.SCHEMA)
        staged = self._of(mark, uncommitted_addresses.STAGE, "", uncommitted_addresses.SCHEMA)
        dropped = self._of(mark, range_reading.STAGE, DROPPED, range_reading.ADDRESSES_SCHEMA).select("address")
        was_missing = self._of(base, FINDINGS, MISSING, FINDINGS_SCHEMA).select("address")
        new = committed.where("exact").select("address").unionByName(staged.where("exact").select("address"))
        asked = self.old(new.unionByName(was_missing).distinct())

        sought = self._write(
            self._with_unit(asked.unionByName(dropped).distinct()).join(carried, "unit", "left_semi"),
            _SOUGHT,
            _SOUGHT_SCHEMA,
        )
        lying = self._write(
            inventory.find(self.spark, (mark, *self.layers), self._wanted((_SOUGHT, sought))),
            _FOUND,
            _CANDIDATES_SCHEMA,
        )
        found = self._read(_FOUND, lying, _CANDIDATES_SCHEMA)
        learnt, absent = self._ask(
            asked.join(many(anew.select("address"), mark.rows(inventory.STAGE)), "address", "left_anti").join(
                many(found.select("address"), rows_of(lying)), "address", "left_anti"
            )
        )

        before = [self._of(base, FINDINGS, name, FINDINGS_SCHEMA) for name in (FINDINGS, KEPT)]
        gone = many(
            self._of(mark, inventory.STAGE, GONE, GONE_SCHEMA).select("address"), mark.rows(inventory.STAGE, GONE)
        )
        kept = (
            self._with_unit(before[0].unionByName(before[1]))
            .join(carried, "unit", "left_semi")
            .join(gone, "address", "left_anti")
            .selectExpr("address", "size", "last_modified", "etag", "unit", "reason = 'foreign' as foreign")
        )
        dropped = many(dropped, mark.rows(range_reading.STAGE, DROPPED))
        freed = found.join(dropped, "address", "left_semi").drop("hash")
        candidates = self._write(
            kept.unionByName(anew)
            .unionByName(freed)
            .unionByName(self._read(LEARNT, learnt, inventory.SCHEMA))
            .dropDuplicates(["address"]),
            _CANDIDATES,
            _CANDIDATES_SCHEMA,
        )
        live = self._live((_CANDIDATES, candidates), (_ABSENT, absent))
        missing = self._read(_ABSENT, absent, _SOUGHT_SCHEMA)
        shown = missing.join(live, "hash").select("address", "range_id")
        at_stage = many(staged.select("address"), mark.rows(uncommitted_addresses.STAGE))
        return Unreferenced(
            objects=self._read(_CANDIDATES, candidates, _CANDIDATES_SCHEMA)
            .join(live, "hash", "left_anti")
            .drop("hash"),
            missing=shown.select("address")
            .unionByName(missing.select("address").join(at_stage, "address", "left_semi"))
            .distinct(),
            holding=shown,
            learnt=learnt,
        )

    def _of(self, layer: Layer, stage: str, dataset: str, schema: pa.Schema) -> DataFrame:
        return layer.frame(self.spark, stage, dataset, schema)

    def _live(self, *looked_for: tuple[str, list[Part]]) -> DataFrame:
        """Of the hashes that are looked for those that a retained range holds, each with one such range."""
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as F

        every = (self.own, *self.layers)
        ranges = self.own.frame(self.spark, range_reading.STAGE, RANGES, RANGES_SCHEMA)
        held = many(
            ranges.select("range_id", F.col("read_in").alias("layer")), self.own.rows(range_reading.STAGE, RANGES)
        )
        wanted = self._wanted(*looked_for)
        if wanted.rows > MOST:
            indexes = [
                layer.frame(self.spark, range_reading.STAGE, INDEX, range_reading.INDEX_SCHEMA)
                .select("range_id", "hash")
                .withColumn("layer", F.lit(layer.mark_id))
                for layer in every
            ]
            rows = functools.reduce(DataFrame.unionByName, indexes)
        else:
            sources = [source for layer in every for source in layer.sources(range_reading.STAGE, INDEX)]
            rows = scan(self.spark, sources, _LIVE_SCHEMA, wanted)
        live = (
            rows.join(held, ["range_id", "layer"], "left_semi").groupBy("hash").agg(F.min("range_id").alias("range_id"))
        )
        folder = self._folder(_LIVE)
        parts = write(live, self.context.workspace, {_LIVE: folder}, _LIVE_SCHEMA)[_LIVE]
        return many(read(self.spark, self.context.workspace, folder, parts, _LIVE_SCHEMA), rows_of(parts))

    def _ask(self, unknown: DataFrame) -> tuple[list[Part], list[Part]]:
        """Ask the store for addresses that nobody has listed: rows of those that are there, and the others."""
        work = _Asking(self.context.data, self.context.namespace)
        from pyspark.sql.pandas.types import from_arrow_schema

        answered = self._with_unit(unknown).mapInArrow(work.ask, from_arrow_schema(_ANSWER_SCHEMA))
        names = (LEARNT, _ABSENT)
        parts = write(
            answered,
            self.context.workspace,
            {name: self._folder(name) for name in names},
            inventory.SCHEMA,
            split=_split_answers,
            schemas={_ABSENT: _SOUGHT_SCHEMA},
            summarise=_sizes,
        )
        return parts[LEARNT], parts[_ABSENT]

    def _with_unit(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return rows.withColumn("unit", unit_of(F.col("address")))

    def _write(self, rows: DataFrame, name: str, schema: pa.Schema) -> list[Part]:
        """Write rows with the hash of their address."""
        from pyspark.sql.pandas.types import from_arrow_schema

        plain = [column for column in schema.names if column != "hash"]

        def hashed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                columns = [*batch.columns, pa.array(hash_strings(batch["address"]))]
                yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, "hash"])

        ready = rows.select(*plain).mapInArrow(hashed, from_arrow_schema(schema))
        return write(ready, self.context.workspace, {name: self._folder(name)}, schema)[name]

    def _read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> DataFrame:
        return read(self.spark, self.context.workspace, self._folder(name), parts, schema)

    def _wanted(self, *places: tuple[str, Sequence[Part]]) -> Wanted:
        return Wanted(self.context.workspace, tuple((self._folder(name), parts) for name, parts in places))

    def _folder(self, name: str) -> str:
        return self.context.mark.stage_folder(FINDINGS, name)


_ANSWER_SCHEMA = pa.schema([*(field.with_nullable(True) for field in inventory.SCHEMA), _HASH])


@dataclass(frozen=True)
class _Asking:
    """Asks a store for objects one by one; a picklable value that tasks carry."""

    data: StoreConfig
    namespace: Namespace

    def ask(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For each address (and unit) a row: what the store says of the object, or nulls if it is not there."""
        store = connect(self.data)
        for batch in batches:
            foreign = pc.invert(self.namespace.collectable(batch["address"])).to_pylist()
            hashes = hash_strings(batch["address"]).tolist()
            rows = []
            for number, row in enumerate(batch.to_pylist()):
                try:
                    found = store.head(row["address"])
                except ObjectNotFoundError:
                    rows.append(row | {"hash": hashes[number]})
                    continue
                said = {"size": found.size, "last_modified": found.last_modified, "etag": found.etag}
                rows.append(row | said | {"foreign": foreign[number], "hash": hashes[number]})
            yield pa.RecordBatch.from_pylist(rows, schema=_ANSWER_SCHEMA)


def _sizes(table: pa.Table) -> dict[str, int]:
    return {"bytes": pc.sum(table["size"]).as_py() or 0} if "size" in table.column_names else {}


def _split_answers(table: pa.Table) -> dict[str, pa.Table]:
    there = pc.is_valid(table["size"])
    return {LEARNT: table.filter(there), _ABSENT: table.filter(pc.invert(there))}
