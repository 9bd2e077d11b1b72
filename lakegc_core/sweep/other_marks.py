"""The sweeps of other marks, as far as a sweep of this one must know: they may have deleted what this mark names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.marks.artifacts import FORMAT
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import instant
from lakegc_core.marks.last_known import gone, readable_records, taken_back
from lakegc_core.marks.ledger import Kind, Records, records_of
from lakegc_core.marks.shelf import Shelf
from lakegc_core.marks.sweeps import is_open
from lakegc_core.names import SEEN_AGAIN, Stage
from lakegc_core.spark.tasks import Mapped, count_of, many
from lakegc_core.store.base import connect
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADDRESS = pa.schema([OUTCOMES_SCHEMA.field("address")])


class OtherMarks:
    """What sweeps of all marks but one deleted, by their records."""

    def __init__(self, spark: SparkSession, context: MarkContext) -> None:
        self._spark, self._context = spark, context

    def deleted(self, *, ever: bool = False) -> Mapped | None:
        """Addresses that sweeps of other marks deleted after this mark began to list, by the last event of each. The
        mark may still name them. `ever`: also addresses at which objects are back; those may be others than the mark
        listed. Damaged records are passed over; then two sweeps may count one object.

        None if there was no such sweep, or if another version made this mark, which need not say when it listed.
        """
        if self._records_since is None:
            return None
        found = gone(self._spark, self._records_since, but=self._context.header.mark_id, ever=ever)
        # By the clock of another machine, so that the store is asked before this is believed.
        return found.then(_ADDRESS, partial(_counted_since, instant(self._listed_at - clock.APART)))

    @cached_property
    def _records_since(self) -> Records | None:
        """The records from which `deleted` follows; None where it is None. They are read once: the sweep holds the
        lease, so that no other mark is swept meanwhile."""
        if self._context.header.format != FORMAT:
            return None
        own, records = self._context.header.mark_id, records_of(self._context, self._listed_at)
        if not any(each.kind == Kind.SWEPT and each.mark_id != own and each.rows.parts for each in records.found):
            return None
        return readable_records(self._spark, records)

    @property
    def _listed_at(self) -> float:
        return self._context.mark.require(Stage.NAMESPACE_LISTING).started_at

    @property
    def were_swept(self) -> bool:
        """True where `deleted` is not None."""
        return self._records_since is not None

    def taken_back(self, journal: Mapped, number: int) -> list[dict[str, Any]]:
        """Objects and bytes, by sweep, that it recorded as deleted and that sweep `number` of this mark, with the
        `journal` (address, outcome), found there."""
        rows = journal.then(_ADDRESS, _seen_again)
        if rows.few(0):
            return []
        seen = rows.as_frame().distinct()
        if not count_of(seen.limit(1)):
            return []
        own = (Kind.SWEPT, self._context.header.mark_id, number)
        records = records_of(self._context)
        others = tuple(each for each in records.found if (each.kind, each.mark_id, each.number) != own)
        records = readable_records(self._spark, Records(others))
        return taken_back(gone(self._spark, records).as_frame().join(many(seen), "address"))

    def are_open(self) -> bool:
        """True if sweeps of other marks broke off: they may have deleted what no journal names."""
        folders = {each.mark.folder for each in Shelf.of(self._context)} - {self._context.mark.folder}
        return any(is_open(connect(self._context.workspace), folder) for folder in folders)


def _counted_since(moment: pa.Scalar, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in batches:
        is_counted = pc.and_(pc.is_valid(rows["mark_id"]), pc.greater_equal(rows["at"], moment))
        yield rows.filter(is_counted).select(_ADDRESS.names)


def _seen_again(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (rows.filter(pc.equal(rows["outcome"], SEEN_AGAIN)).select(_ADDRESS.names) for rows in batches)
