"""Objects that a mark lists although the ledger calls them gone: a delete was not carried out, or they came back.

Such objects are candidates like any other. They are named, and what sweeps had counted of them is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.clock import APART
from lakegc_core.inventory.carried import OBJECTS_SCHEMA, find
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.last_known import GONE, gone, readable_records, taken_back
from lakegc_core.marks.layers import Layer
from lakegc_core.marks.ledger import CAME_BACK, Kind, records_of
from lakegc_core.names import Stage
from lakegc_core.policy.facts import NOTHING, Amount, TakenBack
from lakegc_core.spark.tasks import collected, many, moment
from lakegc_core.store.base import StoreConfig, connect, heads
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.joins import among
from lakegc_core.tables.key_scan import MOST
from lakegc_core.tables.parts import bytes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([*GONE, pa.field("size", pa.int64(), nullable=False)])
"""Rows of GONE that are there: `at` is when the mark saw them, `size` what the store says now (bytes)."""
_NONE = Dataset(SCHEMA)
_RECORDED = "recorded_gone"
_EXAMPLES = 5


@dataclass(frozen=True)
class CameBack:
    """Objects that came back (SCHEMA), their amount, some addresses, and what sweeps had counted of them."""

    objects: Dataset = _NONE
    amount: Amount = NOTHING
    examples: tuple[str, ...] = ()
    taken_back: tuple[TakenBack, ...] = ()


def find_came_back(spark: SparkSession, context: MarkContext, own: Layer, learnt: Dataset) -> CameBack:
    """Find the objects that records call gone and that lie there all the same. Only objects that this mark listed, or
    asked the store for (`learnt`), are found. Records that cannot be read are passed over."""
    records = records_of(context)
    if not any(record.kind == Kind.SWEPT and record.rows.parts for record in records.found):
        return CameBack()
    out = context.mark.out(Stage.EXPIRED_ADDRESSES)
    lying = own.dataset(Stage.NAMESPACE_LISTING, OBJECTS_SCHEMA) + learnt
    sought = lying.keys()
    # If a worker cannot hold the keys, Spark joins them.
    known = gone(spark, readable_records(spark, records), sought if lying.rows <= MOST else None)
    recorded = out.put(_RECORDED, among(spark, known, sought), GONE)
    if not recorded.parts:
        return CameBack()
    there = find(spark, (own,), recorded.keys(), gone=False).as_frame().select("address", "size")
    if learnt.parts:
        there = there.unionByName(learnt.frame(spark, "address", "size"))
    known = recorded.frame(spark)
    rows = _seen(there.dropDuplicates(["address"]).join(many(known), "address"), own, context.data)
    objects = out.put(CAME_BACK, rows, SCHEMA, bytes_of)
    if not objects.parts:
        return CameBack()
    found = objects.frame(spark)
    some = [row["address"] for row in collected(found.select("address").limit(_EXAMPLES))]
    amount = Amount(objects.rows, objects.sum("bytes"))
    return CameBack(objects, amount, tuple(sorted(some)), tuple(TakenBack(**each) for each in taken_back(found)))


def _seen(rows: DataFrame, own: Layer, config: StoreConfig) -> DataFrame:
    """The rows whose object was there after it was called gone. Clocks may differ by an hour. So a delete that is not
    an hour older than the listing may have come after it; then the store is asked once more."""
    from pyspark.sql import functions as F

    listed_at = own.manifests[Stage.NAMESPACE_LISTING].started_at
    shape = rows.select(*SCHEMA.names)
    sure = F.col("at") < moment(listed_at - APART)
    asked = shape.where(~sure).mapInArrow(partial(_there, config), shape.schema)
    after = F.greatest(F.col("at") + F.expr("INTERVAL 1 MICROSECOND"), moment(listed_at))
    return shape.where(sure).unionByName(asked).withColumn("at", after)


def _there(config: StoreConfig, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Let through what a store holds."""
    for batch in batches:
        found = heads(connect(config), batch["address"].to_pylist())
        yield batch.filter(pa.array([each is not None for each in found], pa.bool_()))
