"""The subtraction of an optimized mark: all that may have changed since the mark below, brought together by address.

That is what the mark below found unreferenced, what was listed anew, and the addresses of ranges that were dropped.
One shuffle by hash shows which of these a retained range holds. Objects of which no row says that they lie there are
looked up in the layers' listings, and last of all in the store. The rows are those of `subtraction.against_all`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.inventory.carried import GONE, GONE_SCHEMA, LEARNT, OBJECTS_SCHEMA, Units, find, unit_of
from lakegc_core.judging.address_rows import (
    ANEW,
    ASKED,
    BEFORE,
    CANARY,
    CANDIDATES,
    COLUMNS,
    COUNTED_SCHEMA,
    DECIDED,
    DROPPED_SINCE,
    FREED,
    GONE_SINCE,
    IN_RANGE,
    IN_RANGE_BEFORE,
    MISSED,
    NEW,
    OBJECT_FIELDS,
    ONCE,
    ROWS,
    SOUGHT_SCHEMA,
    STAGED,
    SWEPT,
    VERDICTS,
    address_rows,
    decide,
    index_rows,
)
from lakegc_core.judging.subtraction import ABSENT, Unreferenced
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT, MISSING, MISSTATED, MISSTATED_SCHEMA
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Stage
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.ranges.range_files import (
    ADDRESSES_SCHEMA,
    DROPPED,
    INDEX,
    INDEX_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    by_range_and_mark,
)
from lakegc_core.references.staged import STAGED_SCHEMA
from lakegc_core.spark.tasks import Mapped
from lakegc_core.store.base import StoreConfig, connect, heads
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import Feed, few, gather, partitions_for, rows_in, rows_of_feeds
from lakegc_core.tables.joins import among, flagged
from lakegc_core.tables.key_scan import Sieve, Wanted
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Datasets: FOUND, asked for, and in a listing. LEFT, freed, and in a listing. LOOSE, in the store, held by no range.
# RETURNED, in the store although a sweep had deleted it: a listing of a layer has it.
_FOUND, _LEFT, _LOOSE, _RETURNED, _INDEXED = "found", "left", "loose", "returned", "indexed"
_ASKED_PER_TASK = 200
_INDEX_ROWS = 250_000  # of more index rows, a pass of its own picks those that matter

_ANSWER = pa.schema([*OBJECT_FIELDS, ROWS.field("range_id"), SOUGHT_SCHEMA.field("live")])
_ABSENT_SCHEMA = SOUGHT_SCHEMA.remove(1)
_ANSWERS = {**dict.fromkeys((LEARNT, _RETURNED, _LOOSE), OBJECTS_SCHEMA), ABSENT: _ABSENT_SCHEMA}
"""Datasets of answers: objects that are there, LEARNT if no listing had them, else RETURNED; those of both that no
range holds (_LOOSE); addresses without an object (ABSENT)."""


@dataclass(frozen=True)
class ChangedAddresses:
    """Finds what the mark `own`, which rests on `layers`, has to judge. `listed_from`: when its listing began, unix
    seconds. An address that was given out later need not be in the listing, so it does not count as missing.
    `canaries`: OBJECTS_SCHEMA."""

    spark: SparkSession
    context: MarkContext
    own: Layer
    layers: Sequence[Layer]
    listed_from: float
    canaries: Dataset

    def run(self) -> Unreferenced:
        decided = self._decide()
        found, left = self._lying(decided)
        asked = {name: Dataset(schema) for name, schema in _ANSWERS.items()}
        if decided[ASKED].rows or decided[SWEPT].rows:
            asked = self._ask(decided[ASKED], decided[SWEPT], found)
        absent = asked[ABSENT].frame(self.spark)
        return Unreferenced(
            objects=(decided[CANDIDATES] + left + asked[_LOOSE]).mapped(self.spark),
            missing=absent.where("live").select("address") if asked[ABSENT].rows else None,
            holding=lambda: absent.where("range_id is not null").select("address", "range_id"),
            learnt=asked[LEARNT],
            returned=asked[_RETURNED],
            misstated=decided[MISSTATED],
        )

    def _lying(self, decided: Mapping[str, Dataset]) -> tuple[Dataset, Dataset]:
        """Objects that lie in the listings: of the addresses that are asked for, and of those that were freed."""
        both = decided[FREED] + decided[ASKED]
        if not both.rows:
            return Dataset(OBJECTS_SCHEMA), Dataset(OBJECTS_SCHEMA)
        lying = find(self.spark, (self.own, *self.layers), both.keys("hash"), gone=False)
        for name in (FREED, ASKED):
            lying = flagged(self.spark, lying, name, decided[name].keys("hash"))
        found = self._out.divide(lying, dict.fromkeys((_FOUND, _LEFT), OBJECTS_SCHEMA), _split_lying, _sizes)
        return found[_FOUND], found[_LEFT]

    def _decide(self) -> dict[str, Dataset]:
        """Everything that may have changed, by what has to be done about it."""
        changes, every = self._changes(), (self.own, *self.layers)
        units = Units.of_top(every)
        feeds = [
            feed
            for kind, dataset in changes
            for feed in dataset.feeds(
                *COLUMNS[kind], make=partial(address_rows, kind, units, self.listed_from), once=ONCE.get(kind, ())
            )
        ]
        sought = Wanted(tuple(source for _, dataset in changes for source in dataset.sources))
        held = self.own.dataset(Stage.COMMITTED_ADDRESSES, RANGES_SCHEMA, RANGES).keys(
            "range_id", "read_in", by=by_range_and_mark
        )
        index: list[Feed] = []
        for layer in every:
            kind = IN_RANGE if layer is self.own else IN_RANGE_BEFORE
            make = partial(index_rows, kind, layer.mark_id, held, sought)
            hashes = layer.dataset(Stage.COMMITTED_ADDRESSES, INDEX_SCHEMA, INDEX)
            index += hashes.feeds("range_id", "hash", make=make, repeated=("range_id",), once=("hash",))
        # An estimate: each sought row meets about one index row, and the sieve lets a share of the others through.
        rows = 2 * sought.rows + int(rows_in(index) * Sieve.share(sought.rows))
        if rows_in(index) > _INDEX_ROWS and few(rows):  # the few rows that count, in parts that all workers can read
            index = self._out.put(_INDEXED, rows_of_feeds(self.spark, index, COUNTED_SCHEMA), COUNTED_SCHEMA).feeds()
        feeds += index
        partitions = self.context.settings.scale.address_num_partitions or partitions_for(rows)
        decided = gather(self.spark, feeds, ROWS, decide, DECIDED, partitions, holding=units.rows + held.rows)
        schemas = {CANDIDATES: OBJECTS_SCHEMA, **dict.fromkeys((FREED, ASKED, SWEPT), SOUGHT_SCHEMA)}
        return self._out.divide(decided, schemas | {MISSTATED: MISSTATED_SCHEMA}, _by_verdict, _sizes)

    def _changes(self) -> list[tuple[int, Dataset]]:
        """All datasets with addresses that may have changed, by kind."""
        base, own = self.layers[0], self.own
        return [
            (BEFORE, base.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA)),
            (BEFORE, base.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA, KEPT)),
            (MISSED, base.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA, MISSING)),
            (MISSED, base.dataset(Stage.EXPIRED_ADDRESSES, MISSTATED_SCHEMA, MISSTATED)),
            (ANEW, own.dataset(Stage.NAMESPACE_LISTING, OBJECTS_SCHEMA)),
            (CANARY, self.canaries),
            (GONE_SINCE, own.dataset(Stage.NAMESPACE_LISTING, GONE_SCHEMA, GONE)),
            (DROPPED_SINCE, own.dataset(Stage.COMMITTED_ADDRESSES, ADDRESSES_SCHEMA, DROPPED)),
            (NEW, own.dataset(Stage.COMMITTED_ADDRESSES, ENTRIES_SCHEMA)),
            (STAGED, own.dataset(Stage.UNCOMMITTED_ADDRESSES, STAGED_SCHEMA)),
        ]

    def _ask(self, asked: Dataset, swept: Dataset, found: Dataset) -> dict[str, Dataset]:
        """Ask the store for addresses that no listing has, and for those that sweeps deleted: _ANSWERS."""
        every = asked + swept
        width = min(4 * spark_width(self.spark), 1 + every.rows // _ASKED_PER_TASK)
        rows = Mapped(every.frame(self.spark).repartition(width), SOUGHT_SCHEMA)
        unknown = among(self.spark, rows, found.keys(), found=False)
        answers = unknown.then(_ANSWER, partial(_ask, self.context.data, self.context.namespace))
        answers = flagged(self.spark, answers, SWEPT, swept.keys("hash"))
        return self._out.divide(answers, _ANSWERS, _by_answer, _sizes)

    @property
    def _out(self) -> DatasetFolder:
        return self.context.mark.out(Stage.EXPIRED_ADDRESSES)


def _by_verdict(table: pa.Table) -> dict[str, pa.Table]:
    return {name: table.filter(pc.equal(table["verdict"], name)) for name in VERDICTS}


def _split_lying(table: pa.Table) -> dict[str, pa.Table]:
    """The objects that were freed, and those that were asked for; some are both."""
    return {_LEFT: table.filter(table[FREED]), _FOUND: table.filter(table[ASKED])}


def _ask(data: StoreConfig, namespace: Namespace, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Asks a store for objects."""
    for batch in batches:
        told = heads(connect(data), batch["address"].to_pylist())
        units = unit_of(batch["address"]).to_pylist()
        foreign = pc.invert(namespace.collectable(batch["address"])).to_pylist()
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
    lying = table.filter(there)
    return {
        LEARNT: lying.filter(pc.invert(lying[SWEPT])),
        _RETURNED: lying.filter(lying[SWEPT]),
        _LOOSE: lying.filter(pc.is_null(lying["range_id"])),
        ABSENT: table.filter(pc.invert(there)),
    }


def _sizes(table: pa.Table) -> dict[str, int]:
    return {"bytes": pc.sum(table["size"]).as_py() or 0} if "size" in table.column_names else {}
