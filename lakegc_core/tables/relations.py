"""What SQL has for rows: joins by equal columns, choices, each row once. This process does it for few rows, which it
has read itself (see `gather.is_little`), Spark for all others. Values are compared as they are; nulls equal nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakegc_core.spark.tasks import FEW, Few, Mapped, collected, many

_ARROW = {"inner": "inner", "left": "left outer", "left_semi": "left semi", "left_anti": "left anti"}


def joined(one: Mapped, other: Mapped, on: Sequence[str], how: str = "inner") -> Mapped:
    """The join by columns of these names. `how`: inner, left, left_semi or left_anti."""
    schema = one.schema
    if how in ("inner", "left"):
        more = (field for field in other.schema if field.name not in on)
        schema = pa.schema([*schema, *(field.with_nullable(True) if how == "left" else field for field in more)])
    left, right = one.of, other.of
    if isinstance(left, Few) and isinstance(right, Few):
        table, known, keys = _table(one), _table(other), list(on)
        return _few(one, schema, lambda: table().join(known(), keys, join_type=_ARROW[how]))
    frame = one.as_frame().join(many(other.as_frame(), FEW if other.few(FEW) else None), list(on), how)
    return Mapped(frame.select(*schema.names), schema)


def selected(
    rows: Mapped,
    schema: pa.Schema,
    where: Callable[[pa.RecordBatch], pa.BooleanArray] | None = None,
    **computed: Callable[[pa.RecordBatch], pa.Array],
) -> Mapped:
    """The rows for which `where` holds (None: all), with the columns of `schema`. `computed`: columns that the rows do
    not have, or that change."""

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            own = batch.filter(where(batch)) if where else batch
            columns = [computed[f.name](own).cast(f.type) if f.name in computed else own[f.name] for f in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return rows.then(schema, each)


def same(value: str | bool | int | None, rows: pa.RecordBatch) -> pa.Array:
    """A column, for `selected`, that has one value in all rows."""
    return pa.repeat(value, rows.num_rows)


def distinct(rows: Mapped, *columns: str) -> Mapped:
    """These columns of the rows (none: all), each row once."""
    schema = pa.schema([rows.schema.field(name) for name in columns]) if columns else rows.schema
    if isinstance(rows.of, Few):
        table = _table(rows)
        return _few(rows, schema, lambda: table().group_by(schema.names).aggregate([]))
    return Mapped(rows.as_frame().select(*schema.names).distinct(), schema)


def limited(rows: Mapped, most: int) -> Mapped:
    """Some of the rows, at most so many."""
    if isinstance(rows.of, Few):
        table = _table(rows)
        return _few(rows, rows.schema, lambda: table().slice(0, most))
    return Mapped(rows.as_frame().limit(most), rows.schema)


def ordered(rows: Mapped, *columns: str, width: int) -> Mapped:
    """The rows in the order of these columns, in at most so many partitions, one behind the other."""
    if isinstance(rows.of, Few):
        table = _table(rows)
        return _few(rows, rows.schema, lambda: table().sort_by([(name, "ascending") for name in columns]))
    frame = rows.as_frame().repartitionByRange(width, *columns).sortWithinPartitions(*columns)
    return Mapped(frame, rows.schema)


def summed(rows: Mapped, column: str, by: str) -> dict[Any, int]:
    """The sum of a column for each of few values of another."""
    if isinstance(rows.of, Few):
        found = _table(rows)().group_by(by).aggregate([(column, "sum")])
        return {row[by]: row[f"{column}_sum"] for row in found.to_pylist()}
    answers = collected(rows.as_frame().groupBy(by).agg({column: "sum"}))
    return {row[by]: int(row[f"sum({column})"]) for row in answers}


def counted(rows: Mapped, *columns: str) -> dict[tuple[Any, ...], int]:
    """The number of rows of each combination of values of these columns, of which there are few."""
    if isinstance(rows.of, Few):
        found = _table(rows)().group_by(list(columns)).aggregate([([], "count_all")])
        return {tuple(row[name] for name in columns): row["count_all"] for row in found.to_pylist()}
    answers = collected(rows.as_frame().groupBy(*columns).count())
    return {tuple(row[name] for name in columns): int(row["count"]) for row in answers}


def _table(rows: Mapped) -> Callable[[], pa.Table]:
    read, schema = rows.reader(), rows.schema
    return lambda: pa.Table.from_batches(read(), schema)


def _few(rows: Mapped, schema: pa.Schema, make: Callable[[], pa.Table]) -> Mapped:
    """What is made of few rows, when it is read."""
    assert isinstance(rows.of, Few)
    return Mapped(
        Few(rows.of.spark, lambda: iter(make().select(schema.names).cast(schema).to_batches()), none=rows.of.none),
        schema,
    )
