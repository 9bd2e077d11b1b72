"""Brings rows of many datasets together by a hash, so that one task sees all that concerns a key.

Each dataset is read by the tasks, part by part, and made into rows of one schema with a column `hash`; what is
decided about them is plain Python over one table. Spark's planning of a join costs more than most of these take.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.spark.tasks import FEW, Few, Mapped, begin_task
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.key_scan import Source, dealt
from lakegc_core.tables.parts import read_part, spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KIND = pa.field("kind", pa.int8(), nullable=False)
HASH = pa.field("hash", pa.int64(), nullable=False)

_BATCH = 65_536
_ROWS_PER_PARTITION = 250_000
_ROWS_PER_TASK = 10_000
_FEW_ROWS, _FEW_FEEDS = 500_000, 32  # which every worker reads for itself
_ROWS_TOGETHER = 1_000_000  # in memory at once
BY_TASKS = FEW + 1
"""What to pass as `holding` where tasks have to read the rows, however few: rows that name files to be read."""


Make = Callable[[pa.RecordBatch], Mapping[str, Any]]


@dataclass(frozen=True)
class Feed:
    """A part to be read. `make` turns its rows into columns of the schema by name; those that are not named are null.
    `columns`: those of the part that are read; `repeated`, and the result of `within`: see `read_part`.

    `once`: drop most repetitions of rows that are equal in these columns of the schema; empty: none. An address lies in
    every version of its range, however many there are.
    """

    source: Source
    columns: tuple[str, ...]
    make: Make
    repeated: tuple[str, ...] = ()
    within: Callable[[], tuple[str, Sequence[str]]] | None = None
    once: tuple[str, ...] = ()

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows of the part."""
        source = self.source
        within = self.within() if self.within else None
        return read_part(source.config, source.folder, source.part, self.columns, within, self.repeated)


def rows_in(feeds: Sequence[Feed]) -> int:
    """The number of rows that the parts have together."""
    return sum(feed.source.part.rows for feed in feeds)


def few(rows: int) -> bool:
    """True if all workers can read so many rows."""
    return rows <= _FEW_ROWS


def _few(feeds: Sequence[Feed]) -> bool:
    return few(rows_in(feeds)) and len(feeds) <= _FEW_FEEDS


def is_little(feeds: Sequence[Feed], holding: int = 0, *, here: bool = False) -> bool:
    """True if this process may read the feeds. `here`: also more of them, because it goes on with the rows itself."""
    return not feeds or (_few(feeds) and rows_in(feeds) + holding <= (_FEW_ROWS if here else FEW))


def partitions_for(rows: int) -> int:
    """The number of tables that so many rows make, each of which a task can hold."""
    return 1 + rows // _ROWS_PER_PARTITION


def columns_of(rows: pa.RecordBatch | pa.Table) -> dict[str, Any]:
    """The columns by name."""
    return dict(zip(rows.schema.names, rows.columns, strict=True))


def with_hash(rows: pa.RecordBatch, of: str = "address", **more: Any) -> dict[str, Any]:
    """The columns by name, HASH of the column `of`, and more columns."""
    return columns_of(rows) | {HASH.name: hash_strings(rows[of])} | more


def gather(
    spark: SparkSession,
    feeds: Sequence[Feed],
    schema: pa.Schema,
    decide: Callable[[pa.Table], Iterator[pa.Table]],
    result: pa.Schema,
    partitions: int,
    *,
    holding: int = 0,
) -> Mapped:
    """The rows that `decide` makes of the feeds' rows. All rows with the same hash are in one table; there are so many
    `partitions`, each a table; few rows are one. `schema` holds HASH, `result` is the schema of the rows made.
    `holding`: see `rows_of_feeds`."""
    clocks, name = clock.ambient(), uuid.uuid4().hex

    def decided(table: pa.Table) -> Iterator[pa.RecordBatch]:
        for found in decide(table.combine_chunks()) if table.num_rows else ():
            yield from found.select(result.names).cast(result).to_batches(max_chunksize=_BATCH)

    def share(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(clocks)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                own = _whole(name, feeds, schema)
                if partitions > 1:
                    own = own.filter(pa.array(own["hash"].to_numpy() % partitions == number))
                yield from decided(own)

    if is_little(feeds, holding):

        def here() -> Iterator[pa.RecordBatch]:
            return decided(pa.Table.from_batches(_rows(feeds, schema), schema))

        return Mapped(Few(spark, here, none=not feeds), result)

    if _few(feeds):  # a shuffle costs more than that all workers read them
        return Mapped(spark.range(0, partitions, 1, partitions), result, share)

    def group(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(clocks)
        every = list(batches)
        if every:  # cast: Spark gives times in the session's zone
            yield from decided(pa.Table.from_batches(every).cast(schema))

    return Mapped(rows_of_feeds(spark, feeds, schema).as_frame().repartition(partitions, "hash"), result, group)


def rows_of_feeds(
    spark: SparkSession,
    feeds: Sequence[Feed],
    schema: pa.Schema,
    *,
    together: bool = False,
    holding: int = 0,
    here: bool = False,
) -> Mapped:
    """The rows that feeds make of their parts, each part read by one task. `together`: few rows all by the same one.
    Spark joins and groups rows of one partition where they are; a shuffle of few rows takes longer than that.

    This process reads few rows itself. `holding`: the number of rows that the feeds keep in memory meanwhile, which
    count as well; BY_TASKS where what is made of few rows is much work. `here`: see `is_little`."""
    if is_little(feeds, holding, here=here):
        return Mapped(Few(spark, lambda: _rows(feeds, schema), none=not feeds), schema)
    rows, clocks = rows_in(feeds), clock.ambient()
    slices = min(len(feeds), max(1, min(2 * spark_width(spark), 1 + rows // _ROWS_PER_TASK)))
    if together and _few(feeds):
        slices = 1
    shares = dealt(feeds, slices, lambda feed: feed.source.part.rows)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(clocks)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _rows(shares[number], schema)

    return Mapped(spark.range(0, slices, 1, slices), schema, read)


def _rows(feeds: Sequence[Feed], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for feed in feeds:
        rows = (_shaped(feed.make(found), schema) for found in feed.read())
        yield from once(rows, schema, feed.once) if feed.once else rows


_held: dict[str, pa.Table] = {}  # a cache: all rows of one gathering at a time, by its name


def _whole(name: str, feeds: Sequence[Feed], schema: pa.Schema) -> pa.Table:
    """All rows of a gathering, read once by each worker process."""
    if name not in _held:
        _held.clear()
        _held[name] = pa.Table.from_batches(_rows(feeds, schema), schema).combine_chunks()
    return _held[name]


def since_last(rows: pa.Table, flag: str, key: str) -> pa.Table:
    """The rows that came (`at`) after the last one with the same `key` for which the column `flag` is true."""
    last = rows.filter(rows[flag]).group_by(key).aggregate([("at", "max")])
    places = pc.index_in(rows[key].combine_chunks(), value_set=last[key].combine_chunks())
    is_later = pc.greater(rows["at"].combine_chunks(), last["at_max"].combine_chunks().take(places))
    return rows.filter(pc.and_not(pc.fill_null(is_later, True), rows[flag].combine_chunks()))


def once(batches: Iterator[pa.RecordBatch], schema: pa.Schema, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows without most of those that are equal in these columns: they are found among some batches at a time."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS_TOGETHER:
            yield from _distinct(pa.Table.from_batches(waiting, schema), columns)
            waiting, rows = [], 0
    yield from _distinct(pa.Table.from_batches(waiting, schema), columns)


def _distinct(table: pa.Table, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    numbered = table.select(columns).append_column("number", pa.array(np.arange(len(table))))
    first = numbered.group_by(list(columns), use_threads=False).aggregate([("number", "min")])["number_min"]
    yield from table.take(first).to_batches(max_chunksize=_BATCH)


def _shaped(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    rows = next(len(value) for value in columns.values() if isinstance(value, pa.Array | np.ndarray))
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
