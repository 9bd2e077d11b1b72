"""Since when each object has been unreferenced without interruption.

Column `since` is carried from mark to mark. Whatever finds the object staged, held or live starts the clock anew: a
mark in between, a look or a glance, and also one that came after the mark that is swept. A restore does so, too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.marks import rescues
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, instant
from lakegc_core.marks.previous import began_to_read_at, later_marks, previous_findings
from lakegc_core.names import Stage
from lakegc_core.spark.tasks import Mapped, many, moment
from lakegc_core.tables.dataset import Dataset, readable
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.joins import beside
from lakegc_core.tables.key_scan import Source, Wanted, read_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_CARRIED = 200_000
"""Rows of what the mark before found that a worker may hold: some 25 MB. Spark joins more."""
_ROWS, _RESCUES = ("address", "since"), ("address", "at")


def in_series(mark: MarkArtifacts) -> Dataset:
    """The objects whose series a mark begins or continues: its expired ones. A kept object's series ends. A young
    object begins none: most are uploads that a client will still link, and one commit that hides the link from the
    next mark and its look would lose them."""
    return mark.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA)


def with_since(spark: SparkSession, context: MarkContext, rows: Mapped, commits_read_at: float) -> Mapped:
    """Add column `since`: when the first mark of the object's unbroken series had read its commits. In a series, each
    mark found the object unreferenced. For this mark that is `commits_read_at`, unix seconds.

    Every series begins anew if the findings of the mark before cannot be read. Looked up by the address itself: a hash
    that collides would make an object look older than it is.
    """
    from pyspark.sql import functions as F

    shape = pa.schema([*rows.schema, FINDINGS_SCHEMA.field("since")])
    before, journal = previous_findings(context), rescues.journal(spark, context)
    if before is None or _was_laxer(before, context) or began_to_read_at(before) <= journal.unread_until:
        return rows.then(shape, _Since(commits_read_at))
    found, read_at = in_series(before), began_to_read_at(before)
    (whole,) = readable(spark, [found], (CorruptFileError, ObjectNotFoundError))
    if whole != found:
        context.say(f"{Stage.EXPIRED_ADDRESSES}: what mark {before.mark_id} found cannot be read; all gaps begin anew")
        return rows.then(shape, _Since(commits_read_at))
    sources = (found.keys(*_ROWS), journal.rows.keys(*_RESCUES))
    known = sum(each.rows for each in sources)
    if known <= MOST_CARRIED:
        return rows.then(shape, _Since(commits_read_at, read_at, *sources), holding=known)
    now = moment(commits_read_at)
    frame = (
        found.frame(spark, "address", "since")
        .withColumnRenamed("since", "before")
        .join(many(rescues.last(spark, journal.rows).as_frame()), "address", "left")
        .where(F.col("rescued_at").isNull() | (F.col("rescued_at") < F.least("before", moment(read_at))))
        .select("address", "before")
    )
    joined = rows.as_frame().join(many(frame), "address", "left")
    return Mapped(joined.withColumn("since", F.coalesce(F.least("before", now), now)).drop("before"), shape)


def _was_laxer(before: MarkArtifacts, context: MarkContext) -> bool:
    """True if a series of the mark before may have begun with an object that is young by this mark's minimum age."""
    header = before.header()
    return header is None or header.min_age < context.header.min_age


@dataclass(frozen=True)
class _Since:
    """Adds the column `since` to rows with an address: `now` (unix seconds), or since when the mark before knows it.
    `before`: what that mark found unreferenced; `read_at`: when it began to read; `rescued`: the journal of rescues."""

    now: float
    read_at: float = 0.0
    before: Wanted | None = None
    rescued: Wanted | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        field = FINDINGS_SCHEMA.field("since")
        now = instant(self.now).cast(pa.int64()).as_py()
        for batch in batches:
            since = np.full(batch.num_rows, now)
            if self.before is not None and self.rescued is not None:
                rows, known = _series_of(self.before.sources, self.rescued.sources, self.read_at).find(batch["address"])
                since[rows] = np.minimum(known, now)
            yield batch.append_column(field, pa.array(since).cast(field.type))


class _Series:
    """Objects that were unreferenced without a break: rows of address and since, found by the address itself."""

    def __init__(self, rows: pa.Table) -> None:
        hashes, since = hash_strings(rows["address"]), rows["since"].cast(pa.int64()).to_numpy()
        order = np.lexsort((-since, hashes))  # of two rows of an address, the later `since` counts
        self._hashes, self._since = hashes[order], since[order]
        self._addresses = rows["address"].combine_chunks().take(pa.array(order))

    def find(self, addresses: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the addresses that are there, and their since (microseconds). Of two that collide one is found
        at most: the other one's clock starts anew."""
        if not len(self._hashes):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        hashes = hash_strings(addresses)
        places = np.searchsorted(self._hashes, hashes)
        places[places == len(self._hashes)] = 0
        rows = np.flatnonzero(self._hashes[places] == hashes)
        places = places[rows]
        asked = addresses.take(pa.array(rows)).cast(self._addresses.type)
        same = pc.equal(asked, self._addresses.take(pa.array(places)))
        exact = same.to_numpy(zero_copy_only=False)
        return rows[exact], self._since[places[exact]]


@functools.lru_cache(maxsize=1)
def _series_of(before: tuple[Source, ...], rescued: tuple[Source, ...], read_at: float) -> _Series:
    """Objects that the mark before found unreferenced and nobody rescued since: read once by each worker process."""
    known = pa.Table.from_batches(read_all(before, _ROWS), pa.schema([FINDINGS_SCHEMA.field(name) for name in _ROWS]))
    journal = pa.Table.from_batches(read_all(rescued, _RESCUES), rescues.SCHEMA)
    last = journal.group_by("address").aggregate([("at", "max")])
    at = last["at_max"].take(pc.index_in(known["address"], value_set=last["address"]))
    return _Series(known.filter(pc.fill_null(pc.less(at, _rescue_from(known["since"], read_at)), True)))


def _rescue_from(since: pa.Array | pa.ChunkedArray, read_at: float) -> pa.Array | pa.ChunkedArray:
    """A rescue at or after this time restarts an object's wait: its `since`, or when the mark began to read (`read_at`,
    unix seconds) if that is earlier. A resumed mark's dump is older than its commits, and `since` is the time of the
    commits."""
    began = instant(read_at).cast(since.type)
    return pc.if_else(pc.less(since, began), since, began)


def with_later_findings(spark: SparkSession, context: MarkContext, candidates: Mapped) -> Mapped:
    """The candidates of a mark, with `since` set to now where a look or a mark that came later found them live.

    Any of them may have been live if a later mark is unfinished, if two marks read at the same time, or if a mark or a
    journal cannot be read. When such an object ceased to be live nobody knows: the gap cannot begin before a mark
    finds it unreferenced again.
    """
    now, shape = clock.now(), candidates.schema
    later, journal = later_marks(context), rescues.journal(spark, context)
    read_at = began_to_read_at(context.mark)
    if later.others or read_at <= journal.unread_until:
        return candidates.then(shape, partial(_anew, now))
    rows = beside(candidates, rescues.last(spark, journal.rows), "rescued_at")
    rows = rows.then(shape, partial(_anew_if_rescued, now, read_at))
    if later.finished is None:
        return rows
    theirs = in_series(later.finished).mapped(spark, "address", "since").then(_LATER, _as_later)
    return beside(rows, theirs, "later").then(shape, partial(_anew_if_later, now))


_LATER = pa.schema([FINDINGS_SCHEMA.field("address"), FINDINGS_SCHEMA.field("since").with_name("later")])


def _as_later(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (rows.rename_columns(_LATER.names) for rows in batches)


def _anew(now: datetime, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows with `since` set to now."""
    return (_dated(rows, pa.repeat(pa.scalar(now, rows["since"].type), rows.num_rows)) for rows in batches)


def _anew_if_rescued(now: datetime, read_at: float, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with `since` set to now where column `rescued_at` is not before the time that `_rescue_from` tells."""
    for rows in batches:
        since = rows["since"]
        rescued = pc.greater_equal(rows["rescued_at"], _rescue_from(since, read_at))
        since = pc.if_else(pc.fill_null(rescued, False), pa.scalar(now, since.type), since)
        yield _dated(rows, since).drop_columns(["rescued_at"])


def _anew_if_later(now: datetime, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with the `since` that a later mark names in column `later`, if that is later; now if it names none."""
    for rows in batches:
        since = rows["since"]
        later = rows["later"].cast(since.type)  # frames have times in the session's zone
        later = pc.fill_null(later, pa.scalar(now, since.type))
        yield _dated(rows, pc.if_else(pc.greater(later, since), later, since)).drop_columns(["later"])


def _dated(rows: pa.RecordBatch, since: pa.Array) -> pa.RecordBatch:
    place = rows.schema.get_field_index("since")
    return rows.set_column(place, rows.schema.field(place), since)


def brought_back(spark: SparkSession, context: MarkContext, candidates: Mapped) -> Mapped | None:
    """Addresses that a look found live, or a restore was to bring back, after the mark of these candidates began to
    list: another object may lie there than the one that it listed. Those of all candidates if the journal does not
    read. None if there are none."""
    listed, journal = context.mark.require(Stage.NAMESPACE_LISTING).started_at, rescues.journal(spark, context)
    if listed <= journal.unread_until:
        return candidates.then(_ADDRESS, _addresses)
    if not journal.rows.parts:
        return None
    return journal.rows.mapped(spark).then(_ADDRESS, partial(_rescued_since, instant(listed - clock.APART)))


_ADDRESS = pa.schema([FINDINGS_SCHEMA.field("address")])


def _addresses(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (rows.select(_ADDRESS.names) for rows in batches)


def _rescued_since(moment: pa.Scalar, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _addresses(rows.filter(pc.greater_equal(rows["at"], moment)) for rows in batches)
