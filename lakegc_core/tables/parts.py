"""Spark and parquet on any store: parts are written and read by Python in the tasks, never through Hadoop.

A part of a stage exists only once a manifest names it, with its rows and the SHA-256 of its bytes; whatever else lies
beside it is the rest of a failed attempt. A part of a journal exists as soon as it lies there (`list_parts`). The
meaning of parts is not known here.
"""

from __future__ import annotations

import bisect
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakegc_core.errors import CorruptFileError, MarkError
from lakegc_core.names import Json
from lakegc_core.spark.tasks import Mapped, run_on_rows
from lakegc_core.store.base import StoreConfig, connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_PER_PART = 2_000_000  # bounds the memory of a task, whatever the size of its partition
_ROWS_PER_GROUP = 131_072
_READ_BATCH = 65_536
_ROWS_PER_TASK = 50_000
_SHUFFLE = 200  # Spark's own default of partitions, for platforms that say `auto`


@dataclass(frozen=True)
class Part:
    """One parquet file of a dataset. `name` is relative to the dataset's folder; `sums` are totals over its rows."""

    name: str
    rows: int
    bytes: int
    sha256: str
    sums: Mapping[str, int] = field(default_factory=dict, hash=False)

    @classmethod
    def from_json(cls, value: Json) -> Part:
        try:
            return cls(**value)
        except TypeError:
            raise MarkError(f"A manifest describes a part in a form that is not known: {sorted(value)}.") from None


class PartWriter:
    """Writes batches into parts of one dataset, a new part whenever one is full. Use `close` to get their records.

    `summarise` turns a table into totals to be added up over the rows of a part.
    """

    def __init__(
        self,
        config: StoreConfig,
        folder: str,
        schema: pa.Schema,
        summarise: Callable[[pa.Table], Mapping[str, int]] | None = None,
    ) -> None:
        self._config, self._folder, self._schema = config, folder, schema
        self._summarise = summarise
        self._parts: list[Part] = []
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._start()

    def _start(self) -> None:
        self._sink: pa.BufferOutputStream | None = None
        self._file: pq.ParquetWriter | None = None
        self._rows = 0
        self._sums: Counter[str] = Counter()

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows; their columns are taken by name and cast to the dataset's schema."""
        if isinstance(rows, pa.Table):
            for batch in rows.to_batches():
                self.write(batch)
            return
        if rows.num_rows == 0:
            return
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        if self._waiting_rows >= _ROWS_PER_GROUP:
            self._flush()
        if self._rows >= _ROWS_PER_PART:
            self._finish()

    def close(self) -> list[Part]:
        """Finish the last part and return the records of all."""
        self._flush()
        self._finish()
        return self._parts

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting).select(self._schema.names).cast(self._schema)
        self._waiting, self._waiting_rows = [], 0
        if self._file is None:
            self._sink = pa.BufferOutputStream()
            self._file = pq.ParquetWriter(self._sink, self._schema, compression="zstd")
        self._file.write_table(table, row_group_size=_ROWS_PER_GROUP)
        self._rows += table.num_rows
        if self._summarise:
            self._sums.update(self._summarise(table))

    def _finish(self) -> None:
        if self._file is None or self._sink is None:
            return
        self._file.close()
        data = self._sink.getvalue().to_pybytes()
        sha256 = hashlib.sha256(data).hexdigest()
        name = f"part-{self._rows}-{sha256}.parquet"  # says what it holds: a retried task writes the same or another
        connect(self._config).write(f"{self._folder}/{name}", data)
        self._parts.append(Part(name, self._rows, len(data), sha256, dict(self._sums)))
        self._start()


def write(
    rows: DataFrame | Mapped,
    config: StoreConfig,
    folders: Mapping[str, str],
    schemas: Mapping[str, pa.Schema],
    *,
    split: Callable[[pa.Table], Mapping[str, pa.Table]] | None = None,
    summarise: Callable[[pa.Table], Mapping[str, int]] | None = None,
) -> dict[str, list[Part]]:
    """Write rows as one or several datasets in one pass and return the parts of each.

    `folders` maps the name of a dataset to its folder, `schemas` to its schema; datasets take their columns by name
    from the rows. `split` divides a table among the datasets; without it there is one.
    """

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        writers = {name: PartWriter(config, folder, schemas[name], summarise) for name, folder in folders.items()}
        for batch in batches:
            table = pa.Table.from_batches([batch])
            for name, share in (split(table) if split else dict.fromkeys(folders, table)).items():
                writers[name].write(share)
        for name, writer in writers.items():
            yield from part_results(name, writer.close())

    return parts_of(run_on_rows(rows, task), folders)


def rows_of(parts: Iterable[Part]) -> int:
    """The number of rows that some parts have together."""
    return sum(part.rows for part in parts)


def bytes_of(table: pa.Table) -> dict[str, int]:
    """The sum of a table's column `size`, for `summarise`."""
    return {"bytes": pc.sum(table["size"]).as_py() or 0}


def list_parts(config: StoreConfig, folder: str) -> list[Part]:
    """The parts of a journal: a folder in which every part counts as soon as it is there, without a manifest.

    A file of another name counts as a part that cannot be read: it may be one that somebody renamed. Only empty files,
    the markers by which tools show folders, are passed over.
    """
    found: list[Part] = []
    for level in connect(config).list_level(f"{folder}/"):
        for key, size in zip(level.objects["address"].to_pylist(), level.objects["size"].to_pylist(), strict=True):
            part = part_named(key, size)
            if part is not None:
                found.append(part)
            elif size:
                found.append(Part(key.rpartition("/")[2], 0, size, ""))
    return sorted(found, key=lambda part: part.name)


def part_named(key: str, size: int) -> Part | None:
    """The part that a key names, `size` bytes long; None if lakegc wrote no such part."""
    name = key.rpartition("/")[2]
    told = re.fullmatch(r"part-([0-9]+)-([0-9a-f]{64})\.parquet", name)
    return None if told is None else Part(name, int(told[1]), size, told[2])


def part_results(dataset: str, parts: Sequence[Part]) -> Iterator[Json]:
    """The records of parts as a task yields them to the driver."""
    for part in parts:
        yield {"dataset": dataset, "part": asdict(part)}


def parts_of(results: Sequence[Json], datasets: Mapping[str, Any] | Sequence[str]) -> dict[str, list[Part]]:
    """Sort the part records among the results of tasks by dataset; other results are passed over."""
    found: dict[str, list[Part]] = {name: [] for name in datasets}
    for result in results:
        if "part" in result:
            found[result["dataset"]].append(Part.from_json(result["part"]))
    return {name: sorted(parts, key=lambda part: part.name) for name, parts in found.items()}


def read_part(
    config: StoreConfig,
    folder: str,
    part: Part,
    columns: Sequence[str] | None = None,
    within: tuple[str, Sequence[str]] | None = None,
    repeated: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """The rows of one part, after its bytes were compared with its record. CorruptFileError if they differ.

    `within`: a column and values of it in ascending order; rows that lie in blocks without any of these are left out.
    `repeated`: columns of few values, which come as dictionaries: much quicker where few rows are looked at.
    """
    key = f"{folder}/{part.name}"
    data = connect(config).read_there(key)
    if len(data) != part.bytes or hashlib.sha256(data).hexdigest() != part.sha256:
        raise CorruptFileError(
            f"{key} is not the file that its manifest names (another length or SHA-256). "
            "The mark cannot be trusted any more: make a new one."
        )
    file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(repeated))
    groups = [number for number in range(file.num_row_groups) if not within or _may_hold(file, number, *within)]
    # Rows of groups that are skipped count as they are stated; the others as they are read.
    rows = file.metadata.num_rows - sum(file.metadata.row_group(number).num_rows for number in groups)
    for batch in file.iter_batches(_READ_BATCH, groups, columns):
        rows += batch.num_rows
        yield batch
    if rows != part.rows:
        raise CorruptFileError(f"{key} holds {rows:,} rows, its manifest says {part.rows:,}. Make a new mark.")


def _may_hold(file: pq.ParquetFile, group: int, column: str, values: Sequence[str]) -> bool:
    """True if a block may hold one of the values, by its own record of its least and its greatest."""
    told = file.metadata.row_group(group).column(file.schema_arrow.get_field_index(column)).statistics
    if told is None or not told.has_min_max:
        return True
    place = bisect.bisect_left(values, told.min)
    return place < len(values) and values[place] <= told.max


def spark_width(spark: SparkSession) -> int:
    """The number of tasks that run side by side, as far as the session tells."""
    shuffle = str(spark.conf.get("spark.sql.shuffle.partitions", ""))
    return max(1, (int(shuffle) if shuffle.isdecimal() else _SHUFFLE) // 2)


def tasks_for(files: int, each: int, most: int) -> int:
    """Number of tasks that share the reading of files: the work is in the files, not in the few rows that name them."""
    return max(1, min(most, -(-files // each)))
