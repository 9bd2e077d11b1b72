"""Rows as rooms hand them on: few, which this process reads, or those of a frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.names import Json
from lakegc_core.spark.tasks import Few, Mapped
from lakegc_core.spark.versions import frame_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Callable[["SparkSession", Sequence[Json], pa.Schema], Mapped]


def few(spark: SparkSession, rows: Sequence[Json], schema: pa.Schema) -> Mapped:
    table = pa.Table.from_pylist(list(rows), schema=schema)
    return Mapped(Few(spark, lambda: iter(table.to_batches())), schema)


def many(spark: SparkSession, rows: Sequence[Json], schema: pa.Schema) -> Mapped:
    return Mapped(frame_of(spark, pa.Table.from_pylist(list(rows), schema=schema)), schema)


BOTH: tuple[Rows, ...] = (few, many)


def told(rows: Mapped) -> list[Json]:
    """All rows, in no order."""
    return [row.asDict() for row in rows.as_frame().collect()]
