"""Workers that an answer is made by: Spark's tasks, or this process where there is too little to start Spark for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import LakegcError
from lakegc_core.names import Json
from lakegc_core.spark.shipping import runs_here
from lakegc_core.spark.tasks import many, run_on_rows, run_tasks
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.parts import spark_width, tasks_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Item = TypeVar("Item")
OnBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[Json]]
_BATCH = 256  # values


@dataclass(frozen=True)
class Column:
    """A column of strings of a dataset."""

    dataset: Dataset
    name: str


@dataclass(frozen=True)
class Few:
    """A column of numbers, and how many values each of these has at most."""

    by: str
    most: int


@dataclass(frozen=True)
class Values:
    """The distinct values of some columns, without the empty one. `among`: only those that this column has too;
    `apart`: only those that it has not. `few`: of each number in a second column of `of`, only the first so many values
    in order; a value then comes with the list of its numbers."""

    of: tuple[Column, ...]
    among: Column | None = None
    apart: Column | None = None
    few: Few | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows in which they stand."""
        numbers = [pa.field(self.few.by, pa.int64(), nullable=False)] if self.few else []
        return pa.schema([pa.field(self.of[0].name, pa.string(), nullable=False), *numbers])


class Workers(Protocol):
    """Runs tasks that each read some files, and yield few and small results."""

    @property
    def here(self) -> bool:
        """True if they run on this machine."""

    def run(self, items: Sequence[Item], task: Callable[[Item], Iterator[Json]], /) -> list[Json]:
        """Run a task on every item; all that the tasks yield, in no order."""

    def run_on_values(self, values: Values, task: OnBatches, /) -> list[Json]:
        """Run a task over the values, each of which names a file; all that the tasks yield, in no order."""


class MoreThanLittleError(LakegcError):
    """There is more to read than one process should read."""


@dataclass(frozen=True)
class Little:
    """Limits of what this process reads without Spark, whose start takes some seconds, in which as much can be read."""

    rows: int = 5_000_000  # of artifacts, a part at a time
    commits: int = 50_000  # which are held together
    files: int = 5_000  # of lakeFS's metadata; each is some kilobytes


@dataclass
class InThisProcess:
    """Works here, one task after another. MoreThanLittleError where the values would be more files than `files`."""

    files: int
    here: bool = field(default=True, init=False)

    def run(self, items: Sequence[Item], task: Callable[[Item], Iterator[Json]], /) -> list[Json]:
        return [result for item in items for result in task(item)]

    def run_on_values(self, values: Values, task: OnBatches, /) -> list[Json]:
        table = _values(values)
        self.files -= len(table)
        if self.files < 0:
            raise MoreThanLittleError(f"{len(table):,} files are more than one process should read.")
        return list(task(iter(table.to_batches(max_chunksize=_BATCH))))


@dataclass(frozen=True)
class SparkTasks:
    """Works on Spark's executors."""

    spark: SparkSession

    @property
    def here(self) -> bool:
        return runs_here(self.spark)

    def run(self, items: Sequence[Item], task: Callable[[Item], Iterator[Json]], /) -> list[Json]:
        return run_tasks(self.spark, items, task, width=4 * spark_width(self.spark))

    def run_on_values(self, values: Values, task: OnBatches, /) -> list[Json]:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        name, few = values.of[0].name, values.few
        frames = [self._frame(column, *values.schema.names) for column in values.of]
        found = reduce(lambda one, other: one.unionByName(other), frames).where(f"{name} != ''").distinct()
        if values.among is not None:
            found = found.join(many(self._frame(values.among)), name, "left_semi")
        if values.apart is not None:
            found = found.join(many(self._frame(values.apart)), name, "left_anti")
        if few is not None:
            place = F.row_number().over(Window.partitionBy(few.by).orderBy(name))
            found = found.withColumn("place", place).where(f"place <= {few.most}")
            found = found.groupBy(name).agg(F.collect_list(few.by).alias(few.by))
        count = sum(column.dataset.rows for column in values.of)
        return run_on_rows(found.repartition(tasks_for(count, 64, 4 * spark_width(self.spark))), task)

    def _frame(self, column: Column, *names: str) -> DataFrame:
        return column.dataset.frame(self.spark, *(names or (column.name,)))


def _values(values: Values) -> pa.Table:
    """Each value once, in order."""
    name, few = values.of[0].name, values.few
    rows = pa.concat_tables([_distinct(column, values.schema) for column in values.of])
    rows = rows.filter(pc.not_equal(rows[name], ""))
    if values.among is not None:
        rows = rows.filter(_is_in(rows[name], values.among))
    if values.apart is not None:
        rows = rows.filter(pc.invert(_is_in(rows[name], values.apart)))
    rows = rows.group_by(values.schema.names).aggregate([])
    if few is not None:
        rows = rows.sort_by([(few.by, "ascending"), (name, "ascending")])
        _, starts, counts = np.unique(rows[few.by].to_numpy(), return_index=True, return_counts=True)
        places = np.arange(len(rows)) - np.repeat(starts, counts)
        rows = rows.filter(pa.array(places < few.most))
        rows = rows.group_by(name).aggregate([(few.by, "list")]).rename_columns([name, few.by])
    return rows.sort_by(name)


def _distinct(column: Column, schema: pa.Schema) -> pa.Table:
    """The rows of a column, with those beside it that the schema names; fewer of those that repeat one another."""
    found = [schema.empty_table()]
    for feed in column.dataset.feeds(*schema.names):  # a part at a time
        rows = pa.Table.from_batches(feed.read(), schema)
        found.append(rows.group_by(schema.names).aggregate([]).cast(schema))
    return pa.concat_tables(found)


def _is_in(names: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    own = _distinct(column, pa.schema([pa.field(column.name, pa.string(), nullable=False)]))
    return pc.is_in(names, value_set=pc.unique(own[column.name]))
