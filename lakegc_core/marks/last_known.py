"""The last known event of each object in the ledger: which objects are gone, and which sweep deleted each of them.

Rows of all records are brought together by the hash of the address, and told apart by the address itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.marks.backups import SAVED
from lakegc_core.marks.findings import instant
from lakegc_core.marks.ledger import Kind, Record, Records
from lakegc_core.names import NO_ANSWER, SEEN_AGAIN, STILL_THERE, Json, Outcome
from lakegc_core.spark.tasks import Mapped, collected
from lakegc_core.tables.dataset import readable
from lakegc_core.tables.gather import HASH, gather, only, partitions_for, rows_in, since_last
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.key_scan import Wanted, filter_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AT = pa.timestamp("us", tz="UTC")
_FLAGS = ("deleted", "gone", "asked", "lost", "back")
_OUTCOMES: Mapping[str, Sequence[str]] = {
    "deleted": [Outcome.DELETED],
    "gone": [Outcome.DELETED, Outcome.ALREADY_GONE],
    "asked": [NO_ANSWER],
    "lost": [Outcome.LOST],
    "back": [STILL_THERE, SEEN_AGAIN, Outcome.CHANGED],
}
"""The outcomes of a sweep that raise each flag."""
EVENTS = pa.schema(
    [
        HASH,
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64()),
        pa.field("at", _AT, nullable=False),
        pa.field("mark_id", pa.string(), nullable=False),
        pa.field("sweep", pa.int64(), nullable=False),
        *(pa.field(name, pa.bool_(), nullable=False) for name in _FLAGS),
    ]
)
GONE = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("at", _AT, nullable=False),  # of the last record that calls it gone
        pa.field("lost", pa.bool_(), nullable=False),  # a sweep found afterwards that it should have stayed
        pa.field("mark_id", pa.string()),  # whose sweep counted it as deleted; null: none did
        pa.field("sweep", pa.int64()),
        pa.field("bytes", pa.int64(), nullable=False),  # which that sweep counted
    ]
)
"""An object whose last known event is that it was deleted, or gone when a sweep asked for it."""


def readable_records(spark: SparkSession, records: Records) -> Records:
    """The records without the parts that cannot be read. `whole` says whether all of them read."""
    rows = readable(spark, [record.rows for record in records.found])
    found = tuple(replace(record, rows=good) for record, good in zip(records.found, rows, strict=True))
    return Records(found, records.whole and found == records.found)


def gone(
    spark: SparkSession, records: Records, sought: Wanted | None = None, *, but: str = "", ever: bool = False
) -> Mapped:
    """Rows of GONE, of all objects or of those that may be sought (by the hash of the address, so that others are among
    them). `records` must read: see `readable_records`. `but`: a mark whose own deletes do not count. `ever`: also of
    objects that were brought back or seen again since."""
    feeds = [feed for record in records.found for feed in record.rows.feeds(make=Events(record, sought, but, ever))]
    holding = sought.rows if sought else 0
    return gather(spark, feeds, EVENTS, last_known, GONE, partitions_for(rows_in(feeds)), holding=holding)


@dataclass(frozen=True)
class Events:
    """Makes events of the rows of a record."""

    record: Record
    sought: Wanted | None = None
    but: str = ""
    ever: bool = False

    def __call__(self, rows: pa.RecordBatch) -> Mapping[str, Any]:
        if self.sought is not None:
            rows = rows.take(pa.array(filter_of(self.sought).rows(hash_strings(rows["address"]))))
        record, names = self.record, rows.schema.names
        outcomes = rows["outcome"] if "outcome" in names else pa.repeat("", rows.num_rows)
        at = rows["at"] if "at" in names else pa.repeat(instant(record.at), rows.num_rows)
        flags = dict.fromkeys(_FLAGS, pa.repeat(False, rows.num_rows))
        if record.kind == Kind.SWEPT:
            counted = _FLAGS if record.mark_id != self.but else ("back",)
            flags |= {name: _is_in(outcomes, _OUTCOMES[name]) for name in counted}
        elif record.kind == Kind.RESTORED:
            flags["back"] = _is_in(outcomes, SAVED)
        else:
            flags["back"] = pa.repeat(True, rows.num_rows)
        if self.ever:
            flags["back"] = pa.repeat(False, rows.num_rows)
        found = {
            "hash": hash_strings(rows["address"]),
            "address": rows["address"],
            "size": rows["size"] if "size" in names else pa.nulls(rows.num_rows, pa.int64()),
            "at": at.cast(_AT),
            "mark_id": record.mark_id,
            "sweep": record.number,
            **flags,
        }
        says = pa.array([False] * rows.num_rows, pa.bool_())
        for name in _FLAGS:
            says = pc.or_(says, flags[name])
        return only(found, says.to_numpy(zero_copy_only=False))


def _is_in(outcomes: pa.Array, values: Sequence[str]) -> pa.Array:
    return pc.is_in(outcomes, pa.array([str(each) for each in values], pa.string()))


def last_known(events: pa.Table) -> Iterator[pa.Table]:
    """Rows of GONE for all events (EVENTS) of some addresses. Pure.

    Whatever comes after the last time that an object was seen, or brought back, counts. Of several sweeps that call it
    gone since then one has counted it: one that the store told so, else one whose own delete had no answer.
    """
    events = since_last(events, "back", "address")
    asked = events.group_by(["address", "mark_id"]).aggregate([("asked", "any")])
    events = events.join(asked, ["address", "mark_id"])
    gone = events.filter(events["gone"])
    if not gone.num_rows:
        return
    counts = gone.filter(pc.or_(gone["deleted"], gone["asked_any"]))
    counts = counts.sort_by([("deleted", "descending"), ("at", "descending")])
    counts = counts.group_by("address", use_threads=False).aggregate(
        [("mark_id", "first"), ("sweep", "first"), ("size", "first")]
    )
    lost = events.group_by("address").aggregate([("lost", "any")])
    found = gone.group_by("address").aggregate([("at", "max")]).join(lost, "address").join(counts, "address")
    yield pa.table(
        {
            "address": found["address"],
            "at": found["at_max"],
            "lost": found["lost_any"],
            "mark_id": found["mark_id_first"],
            "sweep": found["sweep_first"],
            "bytes": pc.fill_null(found["size_first"], 0),
        }
    )


def taken_back(found: DataFrame) -> list[Json]:
    """Objects that are there again (rows of GONE) as sweeps counted them, added up by sweep. Lost objects are not among
    the deleted objects of a sweep, but their bytes are."""
    from pyspark.sql import functions as F

    sums = (
        found.where("mark_id is not null")
        .groupBy("mark_id", "sweep")
        .agg(F.sum(F.when(F.col("lost"), 0).otherwise(1)).alias("objects"), F.sum("bytes").alias("bytes"))
        .orderBy("mark_id", "sweep")
    )
    return [row.asDict() for row in collected(sums)]
