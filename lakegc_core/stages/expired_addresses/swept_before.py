"""Which of the missing objects a sweep had deleted when nothing referred to them: old commits count again now.

A rule that is made longer brings such commits back, and so does a deleted branch whose rule was shorter than the
default one. The lists that lakegc writes before each sweep, in lakeFS's form, tell it: nobody removes them. What a
sweep lost is not among this, nor what another collector deleted: nothing excuses that.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakegc_core.errors import ObjectNotFoundError
from lakegc_core.marks.artifacts import marks, retired_marks
from lakegc_core.marks.catalogue import FOLDERS
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Outcome
from lakegc_core.spark.session import Mapped
from lakegc_core.stages.expired_addresses.since import STAGE
from lakegc_core.stages.namespace_listing.stage import journals
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.joins import flagged
from lakegc_core.tables.key_scan import Wanted, by_address, filter_of
from lakegc_core.tables.parts import Part, read, readable, tasks_for, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])
SWEPT, LOST = "swept", "lost"
"""Columns: a sweep had the object on its list; a sweep found afterwards that it should have stayed."""
_NAMED, _LISTED = "named_missing", "listed_before"
_FILES_PER_TASK = 16
_UNIFIED = FOLDERS["unified"]


def told_apart(spark: SparkSession, context: MarkContext, missing: DataFrame) -> DataFrame:
    """The missing objects (column address), with the columns SWEPT and LOST."""
    config, folder = context.workspace, context.mark.stage_folder(STAGE, _NAMED)
    named = write(missing, config, {_NAMED: folder}, ADDRESSES)[_NAMED]
    listed = _listed(spark, context, Wanted(config, ((folder, named),)))
    rows = Mapped(read(spark, config, folder, named, ADDRESSES), ADDRESSES)
    swept = flagged(spark, rows, SWEPT, Wanted(config, ((context.mark.stage_folder(STAGE, _LISTED), listed),)))
    lost = Wanted(config, _journals(spark, context) if listed else (), ("address", "outcome"), _lost)
    return flagged(spark, swept, LOST, lost).as_frame()


def _listed(spark: SparkSession, context: MarkContext, missing: Wanted) -> Sequence[Part]:
    """Those of the missing that some list of deleted objects has, in parts."""
    files = tuple(_lists(context)) if missing.rows else ()
    if not files:
        return ()
    tasks = tasks_for(len(files), _FILES_PER_TASK, 64)
    work = _Lists(context.data, files, missing)
    found = spark.range(0, len(files), 1, tasks).mapInArrow(work, "address string").distinct()
    return write(found, context.workspace, {_LISTED: context.mark.stage_folder(STAGE, _LISTED)}, ADDRESSES)[_LISTED]


def _lists(context: MarkContext) -> Iterator[str]:
    """The files of the lists of lakegc's own marks, those that are retired too."""
    store, (folder, _, _) = connect(context.data), _UNIFIED.partition("{}")
    own = {*marks(context.workspace, context.home), *retired_marks(context.workspace, context.home)}
    for level in store.list_level(folder):
        for run in level.prefixes:
            if run.removeprefix(folder).rstrip("/") not in own:
                continue
            for below in store.list_level(f"{run}deleted/"):
                yield from (key for key in below.objects["address"].to_pylist() if key.endswith(".parquet"))


@dataclass(frozen=True)
class _Lists:
    """Reads lists for what is missing; a picklable value that tasks carry. A file that is no list of addresses, or
    that is gone, says nothing: what it would name stays missing."""

    data: StoreConfig
    files: tuple[str, ...]
    missing: Wanted

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._named(self.files[number])

    def _named(self, key: str) -> Iterator[pa.RecordBatch]:
        try:
            table = pq.read_table(io.BytesIO(connect(self.data).read(key)), columns=["address"])
            table = table.select(["address"]).drop_null().cast(ADDRESSES)
        except (ObjectNotFoundError, pa.ArrowException, KeyError):
            return
        for rows in table.to_batches():
            yield rows.take(pa.array(filter_of(self.missing).rows(by_address(rows))))


def _journals(spark: SparkSession, context: MarkContext) -> tuple[tuple[str, Sequence[Part]], ...]:
    """The journals of all sweeps, as far as they read. A mark whose sweep lost objects is not retired."""
    return tuple(
        (folder, readable(spark, context.workspace, folder, parts)) for _, folder, parts in journals(context, 0.0)
    )


def _lost(rows: pa.RecordBatch) -> np.ndarray:
    """The keys of a journal's rows that are of lost objects, and of all rows of anything else."""
    if "outcome" in rows.schema.names:
        rows = rows.filter(pc.equal(rows["outcome"], Outcome.LOST))
    return by_address(rows)
