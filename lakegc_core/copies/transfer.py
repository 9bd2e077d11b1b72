"""Does something to each of many objects on the executors, such as a copy, and journals what came of it.

`backup` and `undo` decide what is done to which objects, and why; `marks.one_copy` copies one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.marks.one_copy import FAILED
from lakegc_core.names import Json
from lakegc_core.spark.tasks import run_on_rows
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import PartWriter, part_results, parts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("etag", pa.string(), nullable=True),  # of the source
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("problem", pa.string(), nullable=True),
    ]
)
_PROBLEMS_A_TASK = 5


@dataclass(frozen=True)
class Limits:
    """Limits of a copy: copies at a time a task, and bytes a second a task between stores (0: no limit)."""

    parallel: int = 8
    bandwidth: int = 0

    @property
    def bandwidth_of_each(self) -> float:
        """The share of one copy."""
        return self.bandwidth / self.parallel


@dataclass(frozen=True)
class Copied:
    """The result of a copy: its journal (SCHEMA), objects and bytes by outcome, and some of the problems."""

    journal: Dataset
    objects: dict[str, int]
    bytes: dict[str, int]
    problems: list[Json]


def carry_out(objects: DataFrame, one: Callable[[Json], Json], journal: DatasetFolder, parallel: int) -> Copied:
    """Do `one` to each row of `objects` on the executors, `parallel` at a time in each task. It returns the row's
    outcome (SCHEMA), which goes to the folder `journal`."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        writer, told = PartWriter(journal.config, journal.path, SCHEMA, _count), 0
        with ThreadPoolExecutor(parallel) as pool:
            for batch in batches:
                rows = list(pool.map(one, batch.to_pylist()))
                writer.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
                for row in rows:
                    if row["problem"] and told < _PROBLEMS_A_TASK:
                        told += 1
                        yield {"problem": {name: row[name] for name in ("address", "outcome", "problem")}}
        yield from part_results(FAILED, writer.close())

    results = run_on_rows(objects, task)
    parts = parts_of(results, [FAILED])[FAILED]
    counted: dict[str, Counter[str]] = {"objects": Counter(), "bytes": Counter()}
    for part in parts:
        for name, value in part.sums.items():
            outcome, _, kind = name.partition(":")
            counted[kind][outcome] += value
    problems = [each["problem"] for each in results if "problem" in each]
    return Copied(journal.dataset("", parts, SCHEMA), dict(counted["objects"]), dict(counted["bytes"]), problems[:20])


def _count(table: pa.Table) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in table.group_by("outcome").aggregate([("size", "sum"), ("size", "count")]).to_pylist():
        found[f"{row['outcome']}:objects"] = row["size_count"]
        found[f"{row['outcome']}:bytes"] = row["size_sum"]
    return found
