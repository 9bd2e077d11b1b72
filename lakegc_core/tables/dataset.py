"""Datasets: rows of one schema in parts, which lie in one folder or in several.

`parts` says how a part is written and checked, `key_scan` and `joins` how keys are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lakegc_core.errors import CorruptFileError
from lakegc_core.names import Json
from lakegc_core.spark.tasks import Mapped, run_tasks
from lakegc_core.store.base import StoreConfig
from lakegc_core.tables.gather import Feed, Make, columns_of, is_little, rows_of_feeds
from lakegc_core.tables.key_scan import Keys, Source, Wanted, by_address, read_all
from lakegc_core.tables.parts import Part, PartWriter, list_parts, part_results, read_part, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Summarise = Callable[[pa.Table], Mapping[str, int]]
"""Totals of rows, which the record of a part keeps."""
Rows: TypeAlias = pa.RecordBatch | pa.Table | Iterable[pa.RecordBatch | pa.Table]


@dataclass(frozen=True)
class Dataset:
    """Rows of one schema.

    `schema`: of all rows. `sources`: its parts, each with its store, its folder, and the mark that it belongs to.
    """

    schema: pa.Schema
    sources: tuple[Source, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(source.part for source in self.sources)

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def sum(self, name: str) -> int:
        """The sum of one total (`Part.sums`) over all parts; 0 where no part has it."""
        return sum(part.sums.get(name, 0) for part in self.parts)

    def __add__(self, other: Dataset) -> Dataset:
        """The rows of both. ValueError if their schemas differ."""
        if self.schema != other.schema:
            raise ValueError(f"one dataset has the columns {self.schema.names}, the other {other.schema.names}")
        return Dataset(self.schema, self.sources + other.sources)

    def frame(self, spark: SparkSession, *columns: str) -> DataFrame:
        """The rows, or these columns of them, for Spark; few rows in one partition. Each part is checked by the task
        that reads it."""
        return self._read(spark, columns, together=True).as_frame()

    def mapped(self, spark: SparkSession, *columns: str, here: bool = False) -> Mapped:
        """The same for tasks that go on with the rows in Python: one worker reads them and goes on. `here`: this
        process goes on with them, if there are few."""
        return self._read(spark, columns, together=False, here=here)

    def _read(self, spark: SparkSession, columns: Sequence[str], *, together: bool, here: bool = False) -> Mapped:
        wanted = pa.schema([self.schema.field(name) for name in columns]) if columns else self.schema
        feeds = self.feeds(*wanted.names, make=partial(_whole, tuple(wanted.names)))
        return rows_of_feeds(spark, feeds, wanted, together=together, here=here)

    def feeds(
        self,
        *columns: str,
        make: Make = columns_of,
        repeated: Sequence[str] = (),
        within: Callable[[], tuple[str, Sequence[str]]] | None = None,
        once: tuple[str, ...] = (),
    ) -> list[Feed]:
        """The parts to be read for `gather` and `joins`; see `Feed`. No columns: all."""
        names = columns or tuple(self.schema.names)
        return [Feed(source, names, make, tuple(repeated), within, once) for source in self.sources]

    def keys(self, *columns: str, by: Keys = by_address) -> Wanted:
        """The keys of the rows, to be looked up; `by` makes them of these columns (the address)."""
        return Wanted(self.sources, columns or ("address",), by)

    def batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        """The rows in this process, part by part: for datasets that are small, or in a task."""
        return read_all(self.sources, columns or None)

    def dicts(self, *columns: str) -> Iterator[Json]:
        """The same rows, each with its values by name."""
        return (row for batch in self.batches(*columns) for row in batch.to_pylist())

    def values(self, column: str) -> Iterator[Any]:
        """The values of one column, as `batches` reads them."""
        return (value for batch in self.batches(column) for value in batch.column(0).to_pylist())


def readable(
    spark: SparkSession, datasets: Sequence[Dataset], damage: tuple[type[Exception], ...] = (CorruptFileError,)
) -> list[Dataset]:
    """The same datasets without the parts whose bytes are not those that were written, or that meet another kind of
    `damage`. Each part is read through for this, by executors if there is much to read."""

    def task(place: tuple[int, int]) -> Iterator[Json]:
        number, source = place[0], datasets[place[0]].sources[place[1]]
        with suppress(*damage):
            for _ in read_part(source.config, source.folder, source.part):
                pass
            yield {"dataset": number, "source": place[1]}

    places = [(number, each) for number, dataset in enumerate(datasets) for each in range(len(dataset.sources))]
    feeds = [feed for dataset in datasets for feed in dataset.feeds()]
    results: Iterable[Json]
    if is_little(feeds):  # the session may not stand yet
        results = chain.from_iterable(map(task, places))
    else:  # each task is sent all parts, of which a ledger has ever more
        results = run_tasks(spark, places, task, width=4 * spark_width(spark))
    good = {(result["dataset"], result["source"]) for result in results}
    return [
        replace(dataset, sources=tuple(source for each, source in enumerate(dataset.sources) if (number, each) in good))
        for number, dataset in enumerate(datasets)
    ]


def _whole(names: tuple[str, ...], rows: pa.RecordBatch) -> Mapping[str, Any]:
    """The columns by name. CorruptFileError if one is missing: it must not pass for a column of nulls."""
    if missing := set(names) - set(rows.schema.names):
        raise CorruptFileError(f"A file of the mark lacks the column {min(missing)}. Make a new mark.")
    return columns_of(rows)


@dataclass(frozen=True)
class DatasetFolder:
    """A folder to which datasets are written. `layer`: the mark that they belong to."""

    config: StoreConfig
    path: str
    layer: str = ""

    def below(self, name: str) -> DatasetFolder:
        """A folder in this one."""
        return replace(self, path=f"{self.path}/{name}")

    def at(self, name: str) -> str:
        """The folder of a dataset: `<path>/<name>`, or `path` itself if `name` is empty, or `path` ends in it."""
        return self.path if name in ("", self.path.rpartition("/")[2]) else f"{self.path}/{name}"

    def dataset(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> Dataset:
        """A dataset that was written here in these parts."""
        return Dataset(schema, tuple(Source(self.config, self.at(name), part, self.layer) for part in parts))

    def writer(self, name: str, schema: pa.Schema, summarise: Summarise | None = None) -> PartWriter:
        """Writes the parts of a dataset here, in a task."""
        return PartWriter(self.config, self.at(name), schema, summarise)

    def written(self, name: str, rows: Rows, schema: pa.Schema, summarise: Summarise | None = None) -> Dataset:
        """Write rows as one dataset, in this process or in a task of its own."""
        writer = self.writer(name, schema, summarise)
        for each in (rows,) if isinstance(rows, pa.RecordBatch | pa.Table) else rows:
            writer.write(each)
        return self.dataset(name, writer.close(), schema)

    def results(self, name: str, rows: Rows, schema: pa.Schema, summarise: Summarise | None = None) -> Iterator[Json]:
        """The same in one of several tasks; yields the records of the parts for the driver."""
        yield from part_results(name, self.written(name, rows, schema, summarise).parts)

    def listed(self, schema: pa.Schema) -> Dataset:
        """The parts that lie in this folder now: in a journal each counts as soon as it is there, see `list_parts`."""
        return self.dataset("", list_parts(self.config, self.path), schema)

    def put(
        self, name: str, rows: DataFrame | Mapped, schema: pa.Schema, summarise: Summarise | None = None
    ) -> Dataset:
        """Write rows as one dataset."""
        return self.divide(rows, {name: schema}, None, summarise)[name]

    def divide(
        self,
        rows: DataFrame | Mapped,
        schemas: Mapping[str, pa.Schema],
        split: Callable[[pa.Table], Mapping[str, pa.Table]] | None,
        summarise: Summarise | None = None,
    ) -> dict[str, Dataset]:
        """Write rows as several datasets in one pass; `split` divides a table among them (None: there is one)."""
        folders = {name: self.at(name) for name in schemas}
        found = write(rows, self.config, folders, schemas, split=split, summarise=summarise)
        return {name: self.dataset(name, found[name], schema) for name, schema in schemas.items()}
