"""A process that does with Spark the least that a mark must do, and ends: what no mark can be quicker than.

Run by `mark.py`: `python -m benchmarks.floor FOLDER`. Lakegc's session, one job over batches in Python, two small
datasets written, and one anti-join of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

from lakegc_core.spark.session import session
from lakegc_core.spark.tasks import many
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import DatasetFolder

_ROWS = 1000
_SCHEMA = pa.schema([pa.field("id", pa.int64())])


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main(path: str) -> None:
    """Do it in a folder. RuntimeError if Spark does not find what it should."""
    spark, folder = session(), DatasetFolder(LocalConfig(path), "floor")
    numbers = spark.range(_ROWS).mapInArrow(_as_they_are, "id long")
    if numbers.count() != _ROWS:
        raise RuntimeError("rows were lost")
    frames = {"all": numbers, "few": numbers.where("id < 10")}
    found = [folder.put(name, frame, _SCHEMA).frame(spark) for name, frame in frames.items()]
    if found[0].join(many(found[1]), "id", "left_anti").count() != _ROWS - 10:
        raise RuntimeError("an anti-join found other rows")


if __name__ == "__main__":
    main(sys.argv[1])
