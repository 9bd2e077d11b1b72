"""What an optimized mark has to judge: what may have changed since the mark below, brought together by address.

That is what the mark below found unreferenced, what was listed anew, and what ranges held that nothing holds any more.
One shuffle by hash tells which of it a retained range holds. What then is not known to lie there is looked up in the
layers' listings, and last of all in the store. The rows are those of `candidates.against_all`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.inventory.carried import GONE, LEARNT, OBJECTS_SCHEMA, Units, find, unit_of
from lakegc_core.judging.address_rows import (
    ANEW,
    ASKED,
    BEFORE,
    CANDIDATES,
    COLUMNS,
    COUNTED_SCHEMA,
    DECIDED,
    DROPPED_SINCE,
    FREED,
    GONE_SINCE,
    HELD,
    HELD_BEFORE,
    MISSED,
    NEW,
    OBJECT_FIELDS,
    ROWS,
    SOUGHT_SCHEMA,
    STAGED,
    SWEPT,
    VERDICTS,
    AddressRows,
    IndexRows,
    decide,
)
from lakegc_core.judging.subtraction import ABSENT, MISSTATED_SCHEMA, Unreferenced
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import KEPT, MISSING, MISSTATED
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Stage
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.ranges.range_files import DROPPED, INDEX, RANGES, by_reading
from lakegc_core.spark.session import Mapped, empty
from lakegc_core.store.base import StoreConfig, connect, heads
from lakegc_core.tables.gather import Feed, columns_of, feeds_of, few, gather, partitions_for, rows_in, rows_of_feeds
from lakegc_core.tables.joins import among, flagged
from lakegc_core.tables.key_scan import Sieve, Wanted, sources_of
from lakegc_core.tables.parts import Part, read, rows_of, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FOUND, _LEFT, _LOOSE, _INDEXED = "found", "left", "loose", "indexed"
_ASKED_PER_TASK = 200
_INDEX_ROWS = 250_000  # of which those that count are sought out in a pass of its own

_ANSWER = pa.schema([*OBJECT_FIELDS, ROWS.field("range_id"), SOUGHT_SCHEMA.field("live")])
_ABSENT_SCHEMA = SOUGHT_SCHEMA.remove(1)


def against_changes(
    spark: SparkSession, context: MarkContext, own: Layer, layers: Sequence[Layer], listed_from: float
) -> Unreferenced:
    """What the mark `own`, which rests on `layers`, has to judge. What was named since `listed_from` (unix seconds) is
    not missing where it does not lie there, but new."""
    return _ChangedAddresses(spark, context, own, tuple(layers), listed_from).run()


@dataclass(frozen=True)
class _ChangedAddresses:
    spark: SparkSession
    context: MarkContext
    own: Layer
    layers: tuple[Layer, ...]
    listed_from: float

    def run(self) -> Unreferenced:
        decided = self._decide()
        found: dict[str, list[Part]] = {_FOUND: [], _LEFT: []}
        parts = {CANDIDATES: decided[CANDIDATES], _LEFT: [], LEARNT: [], _LOOSE: [], ABSENT: []}
        if decided[FREED] or decided[ASKED]:
            lying = find(self.spark, (self.own, *self.layers), self._wanted(decided, FREED, ASKED), gone=False)
            for name in (FREED, ASKED):
                lying = flagged(self.spark, lying, name, self._wanted(decided, name))
            found = self._write(lying, dict.fromkeys((_FOUND, _LEFT), OBJECTS_SCHEMA), _split_lying)
        if decided[ASKED] or decided[SWEPT]:
            parts |= self._ask(decided, found[_FOUND])
        parts[_LEFT] = found[_LEFT]
        config, own = self.context.workspace, self.own.mark_id
        objects = [
            source
            for name in (CANDIDATES, _LEFT, _LOOSE)
            for source in sources_of(config, self._folder(name), parts[name], own)
        ]

        def absent(which: str) -> DataFrame:
            return self._read(ABSENT, parts[ABSENT], _ABSENT_SCHEMA).where(which)

        return Unreferenced(
            objects=rows_of_feeds(self.spark, feeds_of(objects, OBJECTS_SCHEMA), OBJECTS_SCHEMA),
            missing=absent("live").select("address") if parts[ABSENT] else None,
            holding=lambda: absent("range_id is not null").select("address", "range_id"),
            learnt=parts[LEARNT],
            misstated=decided[MISSTATED],
        )

    def _decide(self) -> dict[str, list[Part]]:
        """Everything that may have changed, in parts by what has to be done about it."""
        base, every = self.layers[0], (self.own, *self.layers)
        units = Units.of_top(every)
        told = [
            (BEFORE, base, Stage.EXPIRED_ADDRESSES, ""),
            (BEFORE, base, Stage.EXPIRED_ADDRESSES, KEPT),
            (MISSED, base, Stage.EXPIRED_ADDRESSES, MISSING),
            (ANEW, self.own, Stage.NAMESPACE_LISTING, ""),
            (GONE_SINCE, self.own, Stage.NAMESPACE_LISTING, GONE),
            (DROPPED_SINCE, self.own, Stage.COMMITTED_ADDRESSES, DROPPED),
            (NEW, self.own, Stage.COMMITTED_ADDRESSES, ""),
            (STAGED, self.own, Stage.UNCOMMITTED_ADDRESSES, ""),
        ]
        feeds = [
            Feed(source, COLUMNS[kind], AddressRows(kind, units, self.listed_from), once=kind == NEW)
            for kind, layer, stage, dataset in told
            for source in layer.sources(stage, dataset)
        ]
        places = tuple(
            (layer.mark.stage_folder(stage, dataset), tuple(layer.parts(stage, dataset)))
            for _, layer, stage, dataset in told
        )
        sought = Wanted.at(self.context.workspace, places)
        held = self.own.wanted(Stage.COMMITTED_ADDRESSES, RANGES, columns=("range_id", "read_in"), keys=by_reading)
        index: list[Feed] = []
        for layer in every:
            make = IndexRows(HELD if layer is self.own else HELD_BEFORE, layer.mark_id, held, sought)
            sources = layer.sources(Stage.COMMITTED_ADDRESSES, INDEX)
            index += [Feed(source, ("range_id", "hash"), make, ("range_id",), once=True) for source in sources]
        # Of what is sought ranges hold about as much again, and some of the index comes along.
        rows = 2 * sought.rows + int(rows_in(index) * Sieve.share(sought.rows))
        if rows_in(index) > _INDEX_ROWS and few(rows):
            index = self._put_down(index)
        feeds += index
        partitions = self.context.settings.scale.address_num_partitions or partitions_for(rows)
        frame = gather(self.spark, feeds, ROWS, decide, DECIDED, partitions)
        schemas = {CANDIDATES: OBJECTS_SCHEMA, **dict.fromkeys((FREED, ASKED, SWEPT), SOUGHT_SCHEMA)}
        schemas[MISSTATED] = MISSTATED_SCHEMA
        return self._write(frame, schemas, _by_verdict)

    def _put_down(self, index: Sequence[Feed]) -> list[Feed]:
        """The few rows of a large index that count, in parts that all workers can read."""
        folder, own = self._folder(_INDEXED), self.own.mark_id
        rows = rows_of_feeds(self.spark, index, COUNTED_SCHEMA)
        parts = write(rows, self.context.workspace, {_INDEXED: folder}, COUNTED_SCHEMA)
        sources = sources_of(self.context.workspace, folder, parts[_INDEXED], own)
        return [Feed(source, tuple(COUNTED_SCHEMA.names), columns_of) for source in sources]

    def _ask(self, decided: Mapping[str, Sequence[Part]], found: Sequence[Part]) -> dict[str, list[Part]]:
        """Ask the store for what no listing knows: what is there, what of that nothing holds, and what is not there."""
        known = Wanted.at(self.context.workspace, ((self._folder(_FOUND), found),))
        rows = self._read(ASKED, decided[ASKED], SOUGHT_SCHEMA)
        rows = rows.unionByName(self._read(SWEPT, decided[SWEPT], SOUGHT_SCHEMA))
        asked = rows_of(decided[ASKED]) + rows_of(decided[SWEPT])
        width = min(4 * spark_width(self.spark), 1 + asked // _ASKED_PER_TASK)
        unknown = among(self.spark, Mapped(rows.repartition(width), SOUGHT_SCHEMA), known, found=False)
        answers = unknown.then(_ANSWER, _Asking(self.context.data, self.context.namespace).ask)
        schemas = {LEARNT: OBJECTS_SCHEMA, _LOOSE: OBJECTS_SCHEMA, ABSENT: _ABSENT_SCHEMA}
        return self._write(answers, schemas, _by_answer)

    def _write(self, rows: Mapped, schemas: Mapping[str, pa.Schema], split: Any) -> dict[str, list[Part]]:
        folders = {name: self._folder(name) for name in schemas}
        return write(rows, self.context.workspace, folders, schemas, split=split, summarise=_sizes)

    def _read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> DataFrame:
        if not parts:
            return empty(self.spark, schema)
        return read(self.spark, self.context.workspace, self._folder(name), parts, schema)

    def _wanted(self, parts: Mapping[str, Sequence[Part]], *names: str) -> Wanted:
        places = tuple((self._folder(name), parts[name]) for name in names)
        return Wanted.at(self.context.workspace, places, ("hash",))

    def _folder(self, name: str) -> str:
        return self.context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, name)


def _by_verdict(table: pa.Table) -> dict[str, pa.Table]:
    return {name: table.filter(pc.equal(table["verdict"], name)) for name in VERDICTS}


def _split_lying(table: pa.Table) -> dict[str, pa.Table]:
    """Tells objects that were freed from those that were asked for; some are both."""
    return {_LEFT: table.filter(table[FREED]), _FOUND: table.filter(table[ASKED])}


@dataclass(frozen=True)
class _Asking:
    """Asks a store for objects; a picklable value that tasks carry."""

    data: StoreConfig
    namespace: Namespace

    def ask(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For each address a row: what the store says of the object, or nulls if it is not there."""
        for batch in batches:
            told = heads(connect(self.data), batch["address"].to_pylist())
            units = unit_of(batch["address"]).to_pylist()
            foreign = pc.invert(self.namespace.collectable(batch["address"])).to_pylist()
            rows = []
            for number, (row, found) in enumerate(zip(batch.to_pylist(), told, strict=True)):
                if found is None:
                    rows.append(row)
                    continue
                said = {"size": found.size, "last_modified": found.last_modified, "etag": found.etag}
                rows.append(row | said | {"unit": units[number], "foreign": foreign[number]})
            yield pa.RecordBatch.from_pylist(rows, schema=_ANSWER)


def _by_answer(table: pa.Table) -> dict[str, pa.Table]:
    there = pc.is_valid(table["size"])
    learnt = table.filter(there)
    return {
        LEARNT: learnt,
        _LOOSE: learnt.filter(pc.is_null(learnt["range_id"])),
        ABSENT: table.filter(pc.invert(there)),
    }


def _sizes(table: pa.Table) -> dict[str, int]:
    return {"bytes": pc.sum(table["size"]).as_py() or 0} if "size" in table.column_names else {}
