"""The journal of rescues of a repository: what looks found live again, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.clock import APART
from lakegc_core.marks.context import MarkContext
from lakegc_core.spark.tasks import Mapped
from lakegc_core.store.base import connect
from lakegc_core.tables.dataset import Dataset, DatasetFolder, readable
from lakegc_core.tables.gather import HASH, gather, partitions_for, rows_in, with_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""Journal of rescues: what a look found live again, or a restore was to bring back, and when. From then on the clock of
`since` starts anew."""

LAST = pa.schema([SCHEMA.field("address"), SCHEMA.field("at").with_name("rescued_at")])

_NONE = Dataset(SCHEMA)


def folder_of(context: MarkContext) -> str:
    """The folder of the journal of rescues of a repository."""
    return f"{context.home}/rescues"


def rescue(context: MarkContext, objects: Mapped) -> None:
    """Put objects (column address) into the journal of rescues, as of now."""
    rows = objects.then(SCHEMA, partial(_rescued, clock.now()))
    DatasetFolder(context.workspace, folder_of(context)).put("", rows, SCHEMA)


def _rescued(at: datetime, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        when = pa.repeat(pa.scalar(at, SCHEMA.field("at").type), batch.num_rows)
        yield pa.RecordBatch.from_arrays([batch["address"], when], schema=SCHEMA)


@dataclass(frozen=True)
class Rescues:
    """The journal of rescues, as far as it reads. Until `unread_until` (unix seconds; 0: all of it reads) nobody knows
    what was rescued: any object may have been."""

    rows: Dataset = _NONE
    unread_until: float = 0.0


def journal(spark: SparkSession, context: MarkContext) -> Rescues:
    """The journal of rescues. A part that cannot be read counts as a rescue of every object, once, and is told."""
    folder = folder_of(context)
    listed = DatasetFolder(context.workspace, folder).listed(SCHEMA)
    (rows,) = readable(spark, [listed])
    store, unread = connect(context.workspace), [part for part in listed.parts if part not in rows.parts]
    for part in unread:
        context.say(f"{folder}/{part.name} cannot be read: which objects it says were live again is not known")
    until = max((store.head(f"{folder}/{part.name}").last_modified.timestamp() for part in unread), default=0.0)
    return Rescues(rows, until + APART if unread else 0.0)


def last(spark: SparkSession, rows: Dataset) -> Mapped:
    """Each address that a look ever rescued, with the last time: LAST."""
    feeds = rows.feeds(make=with_hash)
    return gather(spark, feeds, pa.schema([HASH, *SCHEMA]), _last, LAST, partitions_for(rows_in(feeds)))


def _last(rows: pa.Table) -> Iterator[pa.Table]:
    yield rows.group_by("address").aggregate([("at", "max")]).rename_columns(LAST.names)
