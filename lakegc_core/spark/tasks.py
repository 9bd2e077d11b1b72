"""Python in tasks of Spark: rows that it makes, and work that it does beside them, here where there are few.

Results that come to the driver are few and small: names of parts, counts, never objects.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lakegc_core import clock, errors
from lakegc_core.errors import LakegcError
from lakegc_core.names import Json
from lakegc_core.spark import versions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

Item = TypeVar("Item")
Make = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

FEW = 20_000
"""Rows that may pass through the driver to every task: some megabytes at most."""

_RESULT = "result string"


def run_tasks(
    spark: SparkSession,
    items: Sequence[Item],
    task: Callable[[Item], Iterator[Json]],
    *,
    width: int | None = None,
) -> list[Json]:
    """Run `task` on every item on the executors; return all that the tasks yield, in no order.

    Results are collected to the driver, so a task yields few and small ones: names of parts, counts, never objects.
    `width` limits how many tasks there are, and so how many run side by side. Each is sent all items: give it where
    they may be thousands.
    """
    if not items:
        return []
    slices = min(len(items), width) if width else len(items)
    numbers = spark.range(0, len(items), 1, slices)
    ready, clocks = tuple(items), clock.ambient()

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(clocks)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for result in task(ready[number]):
                    yield _row(result)

    return collect_results(numbers.mapInArrow(body, _RESULT))


def run_here(items: Sequence[Item], task: Callable[[Item], Iterator[Json]], threads: int) -> list[Json]:
    """What `run_tasks` does, in so many threads of this process: for little work, for which Spark need not stand."""
    with ThreadPoolExecutor(threads) as pool:
        return [_as_told(result) for results in pool.map(lambda item: list(task(item)), items) for result in results]


def begin_task(clocks: dict[str, str]) -> None:
    """First thing in a task: take over the driver's clock, and spare Python's garbage collector what is imported.

    Spark runs it after every task, which takes longer than many a task if it walks all modules each time.
    """
    gc.freeze()
    clock.adopt(clocks)


def run_on_rows(rows: DataFrame | Mapped, task: Callable[[Iterator[pa.RecordBatch]], Iterator[Json]]) -> list[Json]:
    """Run `task` over the batches of every partition of `rows`; return the few small results that it yields. `Few` rows
    are one partition, and no job begins."""
    clocks, make = clock.ambient(), None
    if isinstance(rows, Mapped):
        if isinstance(rows.of, Few):
            return [_as_told(result) for result in task(rows.here())]
        rows, make = rows.of, rows.make

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(clocks)
        for result in task(make(batches) if make else batches):
            yield _row(result)

    return collect_results(rows.mapInArrow(body, _RESULT))


@dataclass(frozen=True)
class Few:
    """At most FEW rows, which this process reads: a job of Spark takes longer than most of what is done with them. As a
    frame they are read by a task. `none`: there is nothing to read, and Spark knows it."""

    spark: SparkSession
    read: Callable[[], Iterator[pa.RecordBatch]]
    none: bool = False


@dataclass(frozen=True)
class Mapped:
    """Rows of a schema that Python makes of those of a frame, in its tasks; without `make` they are the frame's own.
    Of a `Few` it makes them in this process, by the same functions.

    Their writer does both in one worker; as a frame they pass through the JVM, to a worker more for each task.
    """

    of: DataFrame | Few
    schema: pa.Schema
    make: Make | None = None

    def then(self, schema: pa.Schema, more: Make, *, holding: int = 0) -> Mapped:
        """The rows that `more` makes of these rows, in the same tasks. `holding`: the number of rows that it keeps in
        memory meanwhile: tasks may hold more of them than this process."""
        source = self if holding <= FEW else self.in_tasks()
        first = source.make
        return Mapped(source.of, schema, more if first is None else lambda batches: more(first(batches)))

    def here(self) -> Iterator[pa.RecordBatch]:
        """`Few` rows, in this process."""
        return self.reader()()

    def reader(self) -> Callable[[], Iterator[pa.RecordBatch]]:
        """What reads `Few` rows, also where there is no session: tasks may be given it."""
        assert isinstance(self.of, Few), "these rows are read by tasks"
        read, make = self.of.read, self.make
        return (lambda: make(read())) if make else read

    def few(self, most: int) -> bool:
        """True if this process can read the rows, and finds at most so many."""
        return isinstance(self.of, Few) and sum(batch.num_rows for batch in self.here()) <= most

    def in_tasks(self) -> Mapped:
        """The same rows, also few ones in a task of Spark."""
        if not isinstance(self.of, Few):
            return self
        read, clocks = self.reader(), clock.ambient()

        def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            begin_task(clocks)
            for _ in batches:
                yield from read()

        return Mapped(self.of.spark.range(0, 1, 1, 1), self.schema, body)

    def as_frame(self) -> DataFrame:
        """The rows, for Spark to go on with."""
        from pyspark.sql.pandas.types import from_arrow_schema

        if isinstance(self.of, Few):
            if self.of.none:
                return versions.frame_of(self.of.spark, self.schema.empty_table())
            return self.in_tasks().as_frame()
        return self.of.mapInArrow(self.make, from_arrow_schema(self.schema)) if self.make else self.of


def both(one: Mapped, other: Mapped) -> Mapped:
    """The rows of two that have the same columns."""
    here, there = one.of, other.of
    if isinstance(here, Few) and isinstance(there, Few):
        readers = (one.reader(), other.reader())

        def read() -> Iterator[pa.RecordBatch]:
            for each in readers:
                yield from each()

        return Mapped(Few(here.spark, read, none=here.none and there.none), one.schema)
    return Mapped(one.as_frame().unionByName(other.as_frame()), one.schema)


def many(frame: DataFrame, rows: int | None = None) -> DataFrame:
    """The right side of a join, which may be large; `rows`: how many there are at most, where that is known.

    Spark takes what Python reads for a few rows, whatever its size, and would collect it on the driver to send it to
    every task. lakegc lets it do so only with few rows, where it saves the shuffle of both sides.
    """
    return frame.hint("broadcast" if rows is not None and rows <= FEW else "shuffle_hash")


def moment(seconds: float) -> Column:
    """A column that holds this moment (unix seconds) as a timestamp."""
    from pyspark.sql import functions as F

    return F.lit(datetime.fromtimestamp(seconds, UTC))


def collect_results(frame: DataFrame) -> list[Json]:
    """Collect a frame of JSON results; an error of lakegc raised in a task is raised here as itself."""
    return [json.loads(row[0]) for row in collected(frame)]


def collected(frame: DataFrame) -> list[Row]:
    """The rows of a frame, of which there are few; errors as with `collect_results`."""
    with clear_errors():
        return list(frame.collect())


def count_of(frame: DataFrame) -> int:
    """The number of rows of a frame; errors as with `collect_results`."""
    with clear_errors():
        return int(frame.count())


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn the long trace of a failed Spark job back into the lakegc error that a task raised, where there is one."""
    try:
        yield
    except LakegcError:
        raise
    except Exception as error:
        for name, message in reversed(re.findall(r"lakegc_core(?:\.\w+)*\.(\w+): (.*)", str(error))):
            kind = errors.ServerError if name == "LakeFSError" else getattr(errors, name, None)
            if isinstance(kind, type) and issubclass(kind, LakegcError):
                raise kind(message) from None
        raise


def _as_told(result: Json) -> Json:
    """A result as tasks elsewhere would tell it."""
    told: Json = json.loads(json.dumps(result))
    return told


def _row(result: Json) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"result": [json.dumps(result)]})
