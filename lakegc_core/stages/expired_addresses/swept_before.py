"""Which of the missing objects a sweep had deleted when nothing referred to them: old commits count again now.

A rule that is made longer brings such commits back, and so does a deleted branch whose rule was shorter than the
default one. The lists that lakegc writes before each sweep, in lakeFS's form, tell it: nobody removes them. What a
sweep lost is not among this, nor what another collector deleted: nothing excuses that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, MarkError, ObjectNotFoundError
from lakegc_core.marks.address_lists import ADDRESSES, read_list
from lakegc_core.marks.artifacts import marks, retired_marks
from lakegc_core.marks.catalogue import FOLDERS
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Outcome
from lakegc_core.spark.session import Mapped, many
from lakegc_core.stages.expired_addresses.since import STAGE
from lakegc_core.stages.namespace_listing.stage import journals
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.joins import flagged
from lakegc_core.tables.key_scan import Wanted, by_address, filter_of
from lakegc_core.tables.parts import Part, read, readable, tasks_for, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SWEPT, LOST = "swept", "lost"
"""Columns: a sweep had the object on its list; a sweep found afterwards that it should have stayed."""
_NAMED, _LISTED = "named_missing", "listed_before"
_FILES_PER_TASK = 16


def told_apart(spark: SparkSession, context: MarkContext, missing: DataFrame) -> DataFrame:
    """The missing objects (column address), with the columns SWEPT and LOST."""
    from pyspark.sql import functions as F

    config, folder = context.workspace, context.mark.stage_folder(STAGE, _NAMED)
    named = write(missing, config, {_NAMED: folder}, ADDRESSES)[_NAMED]
    listed = _listed(spark, context, Wanted(config, ((folder, named),)))
    losses = _journals(spark, context) if listed else ()
    if losses is None:
        context.say(
            f"{STAGE}: which objects sweeps have lost is not known, so that all that is missing counts as missing"
        )
        listed, losses = (), ()
    rows = Mapped(read(spark, config, folder, named, ADDRESSES), ADDRESSES)
    told = flagged(spark, rows, LOST, Wanted(config, losses, ("address", "outcome"), _lost)).as_frame()
    # By the whole address: what is found here lets a guard pass.
    swept = read(spark, config, context.mark.stage_folder(STAGE, _LISTED), listed, ADDRESSES)
    told = told.join(many(swept.withColumn(SWEPT, F.lit(True))), "address", "left")
    return told.withColumn(SWEPT, F.coalesce(SWEPT, F.lit(False)))


def _listed(spark: SparkSession, context: MarkContext, missing: Wanted) -> Sequence[Part]:
    """What lists of deleted objects have of the missing, in parts; by its hash, so that others may be among it."""
    files = tuple(_lists(context)) if missing.rows else ()
    if not files:
        return ()
    tasks = tasks_for(len(files), _FILES_PER_TASK, 64)
    work = _Lists(context.data, files, missing)
    found = spark.range(0, len(files), 1, tasks).mapInArrow(work, "address string").distinct()
    return write(found, context.workspace, {_LISTED: context.mark.stage_folder(STAGE, _LISTED)}, ADDRESSES)[_LISTED]


def _lists(context: MarkContext) -> Iterator[str]:
    """The files of the lists of lakegc's own marks, those that are retired too."""
    own = {*marks(context.workspace, context.home), *retired_marks(context.workspace, context.home)}
    folder, _, below = FOLDERS["unified"].partition("{}")
    for batch in connect(context.data).list(folder):
        for key in batch["address"].to_pylist():
            mark_id, inside, name = key.removeprefix(folder).partition(below)
            if mark_id in own and inside and name.endswith(".parquet"):
                yield key


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
                with suppress(CorruptFileError, ObjectNotFoundError):
                    for rows in read_list(self.data, self.files[number]):
                        yield rows.take(pa.array(filter_of(self.missing).rows(by_address(rows))))


def _journals(spark: SparkSession, context: MarkContext) -> tuple[tuple[str, Sequence[Part]], ...] | None:
    """The journals of all sweeps; None if one does not read: it may name lost objects. A mark whose sweep lost objects
    is not retired."""
    try:
        found = tuple((folder, parts) for _, folder, parts in journals(context, 0.0))
    except MarkError:
        return None
    whole = (len(readable(spark, context.workspace, folder, parts)) == len(parts) for folder, parts in found)
    return found if all(whole) else None


def _lost(rows: pa.RecordBatch) -> np.ndarray:
    """The keys of a journal's rows that are of lost objects, and of all rows of anything else."""
    if "outcome" in rows.schema.names:
        rows = rows.filter(pc.equal(rows["outcome"], Outcome.LOST))
    return by_address(rows)
