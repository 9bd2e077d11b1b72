"""What a mark lists although the ledger says that it is gone: a delete that was not carried out, or that came back.

Such objects are candidates like any other. They are named, and what sweeps had counted of them is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.clock import APART
from lakegc_core.inventory.carried import LEARNT, OBJECTS_SCHEMA, find
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.last_known import GONE, gone, readable_records, taken_back
from lakegc_core.marks.layers import Layer
from lakegc_core.marks.ledger import CAME_BACK, Kind, records_of
from lakegc_core.names import Stage
from lakegc_core.policy.facts import NOTHING, Amount, TakenBack
from lakegc_core.spark.session import clear_errors, many, moment
from lakegc_core.store.base import StoreConfig, connect, heads
from lakegc_core.tables.key_scan import Wanted
from lakegc_core.tables.parts import Part, read, rows_of, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([*GONE, pa.field("size", pa.int64(), nullable=False)])
"""Rows of GONE that are there: `at` is when the mark saw them, `size` what the store says now (bytes)."""
_RECORDED = "recorded_gone"
_EXAMPLES = 5


@dataclass(frozen=True)
class CameBack:
    """What came back: parts of SCHEMA, how much, some addresses, and what sweeps had counted of it."""

    parts: Sequence[Part] = ()
    amount: Amount = NOTHING
    examples: tuple[str, ...] = ()
    taken_back: tuple[TakenBack, ...] = ()


def find_came_back(spark: SparkSession, context: MarkContext, own: Layer, learnt: Sequence[Part]) -> CameBack:
    """What lies there of all that records call gone, as far as this mark has listed it, or asked for it (`learnt`). A
    record that does not read says nothing here."""
    records = records_of(context)
    if not any(record.kind == Kind.SWEPT and record.parts for record in records.found):
        return CameBack()
    records = readable_records(spark, context.workspace, records)
    config, folder = context.workspace, context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, _RECORDED)
    recorded = write(gone(spark, context, records), config, {_RECORDED: folder}, GONE)[_RECORDED]
    if not recorded:
        return CameBack()
    listed = find(spark, (own,), Wanted.at(config, ((folder, recorded),)), gone=False).as_frame()
    there = listed.select("address", "size")
    if learnt:
        asked = own.read(spark, Stage.EXPIRED_ADDRESSES, LEARNT, learnt, OBJECTS_SCHEMA)
        there = there.unionByName(asked.select("address", "size"))
    known = read(spark, config, folder, recorded, GONE)
    rows = _seen(there.dropDuplicates(["address"]).join(many(known), "address"), own, context.data)
    target = context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, CAME_BACK)
    parts = write(rows, config, {CAME_BACK: target}, SCHEMA, summarise=_bytes)[CAME_BACK]
    if not parts:
        return CameBack()
    found = read(spark, config, target, parts, SCHEMA)
    with clear_errors():
        some = [row["address"] for row in found.select("address").limit(_EXAMPLES).collect()]
    amount = Amount(rows_of(parts), sum(part.sums["bytes"] for part in parts))
    return CameBack(parts, amount, tuple(sorted(some)), tuple(TakenBack(**each) for each in taken_back(found)))


def _seen(rows: DataFrame, own: Layer, config: StoreConfig) -> DataFrame:
    """The rows whose object was there after it was called gone. A delete of the hour before the listing, or a later
    one, may have come after the listing, since clocks differ: then the store is asked once more."""
    from pyspark.sql import functions as F

    listed_at = own.manifests[Stage.NAMESPACE_LISTING].started_at
    shape = rows.select(*SCHEMA.names)
    sure = F.col("at") < moment(listed_at - APART)
    asked = shape.where(~sure).mapInArrow(_There(config), shape.schema)
    after = F.greatest(F.col("at") + F.expr("INTERVAL 1 MICROSECOND"), moment(listed_at))
    return shape.where(sure).unionByName(asked).withColumn("at", after)


@dataclass(frozen=True)
class _There:
    """Lets through what a store holds; a picklable value that tasks carry."""

    config: StoreConfig

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = heads(connect(self.config), batch["address"].to_pylist())
            yield batch.filter(pa.array([each is not None for each in found], pa.bool_()))


def _bytes(table: pa.Table) -> dict[str, int]:
    return {"bytes": sum(table["size"].to_pylist())}
