"""Semi- and anti-joins by key: rows whose key is wanted, rows whose key is not, or both told apart.

The number of wanted keys decides how. Up to MOST of them every worker reads for itself, and rows are told apart where
they are read: no shuffle, a few bytes a row. Of more Spark shuffles both sides by the key, the wanted one as 8 bytes a
row. Either way all keys are those of `hashing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.spark.tasks import Few, Mapped, many
from lakegc_core.tables.gather import Feed, Make, rows_of_feeds
from lakegc_core.tables.key_scan import MOST, Wanted, filter_of
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEY = pa.field("key", pa.int64(), nullable=False)
_KEYS_PER_PARTITION = 1_000_000  # of the wanted side, which a join holds in memory


def scan(
    spark: SparkSession,
    feeds: Sequence[Feed],
    schema: pa.Schema,
    wanted: Wanted,
    *,
    found: bool = True,
    partitions: int = 0,
    together: bool = False,
    holding: int = 0,
    here: bool = False,
) -> Mapped:
    """The rows of the feeds whose key is wanted, or with `found=False` all the others. The columns of the key must be
    among the columns that a feed reads, and among those that it makes. `partitions`: of a join, as the operator wishes;
    0: as many as it takes. `together`, `here`: see `rows_of_feeds`; `holding`: likewise, besides the wanted keys."""
    if found and not wanted.rows:
        return rows_of_feeds(spark, [], schema)
    if wanted.rows > MOST:
        return among(spark, rows_of_feeds(spark, feeds, schema), wanted, found=found, partitions=partitions)
    chosen = [replace(each, make=partial(_made_of_chosen, each.make, wanted, found)) for each in feeds]
    return rows_of_feeds(spark, chosen, schema, together=together, holding=holding + wanted.rows, here=here)


def among(spark: SparkSession, rows: Mapped, wanted: Wanted, *, found: bool = True, partitions: int = 0) -> Mapped:
    """The same as `scan`, for any rows."""
    if wanted.rows <= MOST:
        return rows.then(rows.schema, _each(partial(_chosen, wanted, found)), holding=wanted.rows)
    sides = _keyed(spark, rows, wanted, partitions)
    joined = sides[0].join(many(sides[1]), _KEY.name, "left_semi" if found else "left_anti")
    return Mapped(joined.select(*rows.schema.names), rows.schema)


def flagged(spark: SparkSession, rows: Mapped, name: str, wanted: Wanted, *, partitions: int = 0) -> Mapped:
    """All rows, with a column of this name: true if their key is wanted."""
    from pyspark.sql import functions as F

    field = pa.field(name, pa.bool_(), nullable=False)
    shape = pa.schema([*rows.schema, field])
    if wanted.rows <= MOST:
        return rows.then(shape, _each(partial(_flagged, wanted, field)), holding=wanted.rows)
    own, keys = _keyed(spark, rows, wanted, partitions)
    joined = own.join(many(keys.distinct().withColumn(name, F.lit(True))), _KEY.name, "left")
    return Mapped(joined.withColumn(name, F.coalesce(name, F.lit(False))).select(*shape.names), shape)


def beside(rows: Mapped, others: Mapped, *columns: str) -> Mapped:
    """All rows, with these columns of that row of `others` which has the same address: null where none has. `others`
    has each address at most once. Addresses are compared as they are. Few others are sent to all tasks."""
    shape = pa.schema([*rows.schema, *(others.schema.field(name).with_nullable(True) for name in columns)])
    if isinstance(others.of, Few):
        known = pa.Table.from_batches(others.here(), others.schema)
        wanted = ["address", *columns]
        one = pa.RecordBatch.from_arrays([known[name].combine_chunks() for name in wanted], wanted)
        return rows.then(shape, _each(partial(_beside, one)))
    joined = rows.as_frame().join(many(others.as_frame().select("address", *columns)), "address", "left")
    return Mapped(joined.select(*shape.names), shape)


def _beside(known: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
    places = pc.index_in(rows["address"], value_set=known["address"])
    for field in list(known.schema)[1:]:
        rows = rows.append_column(field.with_nullable(True), known[field.name].take(places))
    return rows


def also_in(rows: Mapped, *others: Mapped) -> Mapped:
    """The rows whose address is one of others. Addresses are compared as they are. Few others are sent to all tasks."""
    if all(isinstance(each.of, Few) for each in others):
        known = pa.concat_tables(pa.Table.from_batches(each.here(), each.schema).select(["address"]) for each in others)
        return rows.then(rows.schema, _each(partial(_known, known["address"].combine_chunks())))
    found = reduce(lambda one, other: one.union(other), (each.as_frame().select("address") for each in others))
    return Mapped(rows.as_frame().join(many(found), "address", "left_semi").select(*rows.schema.names), rows.schema)


def _known(known: pa.Array, rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pc.is_in(rows["address"], value_set=known))


def _keyed(spark: SparkSession, rows: Mapped, wanted: Wanted, partitions: int) -> tuple[DataFrame, DataFrame]:
    """The rows with their keys, and the wanted keys alone, both in as many partitions as a join takes."""
    width = partitions or max(2 * spark_width(spark), -(-wanted.rows // _KEYS_PER_PARTITION))
    own = rows.then(pa.schema([*rows.schema, _KEY]), _each(partial(_with_key, wanted)))
    feeds = [Feed(source, wanted.columns, partial(_keys_alone, wanted)) for source in wanted.sources]
    keys = rows_of_feeds(spark, feeds, pa.schema([_KEY]))
    return own.as_frame().repartition(width, _KEY.name), keys.as_frame().repartition(width, _KEY.name)


def _chosen(wanted: Wanted, found: bool, rows: pa.RecordBatch) -> pa.RecordBatch:
    numbers = filter_of(wanted).rows(wanted.keys(rows))
    return rows.take(pa.array(numbers if found else np.delete(np.arange(rows.num_rows), numbers)))


def _each(
    one: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What tasks do to their batches: `one` to each. Spark takes no `partial(map, one)`."""
    return lambda batches: map(one, batches)


def _made_of_chosen(make: Make, wanted: Wanted, found: bool, rows: pa.RecordBatch) -> Mapping[str, Any]:
    return make(_chosen(wanted, found, rows))


def _flagged(wanted: Wanted, field: pa.Field, rows: pa.RecordBatch) -> pa.RecordBatch:
    known = np.zeros(rows.num_rows, np.bool_)
    known[filter_of(wanted).rows(wanted.keys(rows))] = True
    return rows.append_column(field, pa.array(known))


def _with_key(wanted: Wanted, rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column(_KEY, pa.array(wanted.keys(rows)))


def _keys_alone(wanted: Wanted, rows: pa.RecordBatch) -> Mapping[str, Any]:
    return {_KEY.name: np.unique(wanted.keys(rows))}  # as far as a batch shows: versions of a range have much in common
