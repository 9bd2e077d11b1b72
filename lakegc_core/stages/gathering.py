"""Brings rows of many datasets together by a hash, so that one task sees all that concerns a key, in a single shuffle.

Each dataset is read by the tasks, part by part, and made into rows of one schema, with columns `kind` and `hash`; what
is decided about them is plain Python over one table. Spark's planning of a join costs more than most of these take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakegc_core import clock
from lakegc_core.spark import begin_task, empty
from lakegc_core.stages.hash_scan import Source
from lakegc_core.store.parquet import read_part, spark_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KIND = pa.field("kind", pa.int8(), nullable=False)
HASH = pa.field("hash", pa.int64(), nullable=False)

_BATCH = 65_536
_ROWS_PER_TASK = 10_000


@dataclass(frozen=True)
class Feed:
    """A part to be read, and what becomes of its rows: columns of the schema by name; those that are not named are
    null. `columns`: those of the part that it takes; `repeated`: see `read_part`."""

    source: Source
    columns: tuple[str, ...]
    make: Callable[[pa.RecordBatch], Mapping[str, Any]]
    repeated: tuple[str, ...] = ()

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows of the part."""
        source = self.source
        return read_part(source.config, source.folder, source.part, self.columns, repeated=self.repeated)


def gather(
    spark: SparkSession,
    feeds: Sequence[Feed],
    schema: pa.Schema,
    decide: Callable[[pa.Table], Iterator[pa.Table]],
    result: pa.Schema,
    partitions: int,
) -> DataFrame:
    """The rows that `decide` makes of the feeds' rows. Those that have their hash in common are in one table, all of
    them, and there are so many `partitions`, each a table. `schema` holds KIND and HASH, `result` is what is made."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if not feeds:
        return empty(spark, result)
    rows = sum(feed.source.part.rows for feed in feeds)
    slices = min(len(feeds), max(1, min(2 * spark_width(spark), 1 + rows // _ROWS_PER_TASK)))
    largest = sorted(feeds, key=lambda feed: -feed.source.part.rows)
    shares = tuple(tuple(largest[number::slices]) for number in range(slices))
    clocks = clock.ambient()

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(clocks)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for feed in shares[number]:
                    for found in feed.read():
                        yield _shaped(feed.make(found), schema)

    def group(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(clocks)
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        if table.num_rows:
            for found in decide(table):
                yield from found.select(result.names).cast(result).to_batches(max_chunksize=_BATCH)

    frame = spark.range(0, slices, 1, slices).mapInArrow(read, from_arrow_schema(schema))
    return frame.repartition(partitions, "hash").mapInArrow(group, from_arrow_schema(result))


def _shaped(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    rows = len(columns["hash"])
    ready = []
    for field in schema:
        value = columns.get(field.name)
        if value is None:
            ready.append(pa.nulls(rows, field.type))
        elif isinstance(value, pa.Array):
            ready.append(value.cast(field.type))
        elif isinstance(value, np.ndarray):
            ready.append(pa.array(value, field.type))
        else:
            ready.append(pa.repeat(pa.scalar(value, field.type), rows))
    return pa.RecordBatch.from_arrays(ready, schema=schema)


def only(columns: Mapping[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """The same columns with these rows only (a mask)."""
    chosen = pa.array(rows)
    return {
        name: value.filter(chosen)
        if isinstance(value, pa.Array)
        else value[rows]
        if isinstance(value, np.ndarray)
        else value
        for name, value in columns.items()
    }
