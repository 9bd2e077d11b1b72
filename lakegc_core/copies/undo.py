"""Brings back what the sweeps of a mark deleted: out of quarantine, or out of what the store itself keeps of it.

The journals of the sweeps say which objects, and until when they can have been deleted. What lies in quarantine is
copied back. For the rest the store takes its delete back (old versions, soft delete), which is the store's business.
Not here: what is recorded of a restore (`backup`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakegc_core.copies.transfer import Copied, carry_out
from lakegc_core.errors import LakegcError, MarkError, ObjectNotFoundError, PreconditionFailedError, SettingsError
from lakegc_core.marks.artifacts import FORMAT
from lakegc_core.marks.backups import ALREADY_THERE, COPIED, SAVED
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.last_known import readable_records
from lakegc_core.marks.ledger import COLUMNS, Kind, Records, records_of
from lakegc_core.marks.one_copy import DIFFERENT, FAILED, MISSING, OneCopy, is_another
from lakegc_core.marks.quarantine import place_of, quarantined
from lakegc_core.marks.shelf import Shelf
from lakegc_core.marks.sweeps import first_planned_at, planned_before, sweeps_of
from lakegc_core.names import FAILED as FAILED_DELETE
from lakegc_core.names import Json, Outcome
from lakegc_core.policy.safety import FULL
from lakegc_core.spark.tasks import clear_errors, many, moment
from lakegc_core.store.base import Deleted, ObjectInfo, StoreConfig, connect, head_if_there
from lakegc_core.store.clock import earliest
from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep.conditions import NO_ETAG
from lakegc_core.sweep.deletion import JOURNAL_EVERY
from lakegc_core.sweep.keeping import COPY_DIFFERS, NOT_COPIED
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.tables.dataset import Dataset, DatasetFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAY_BE_GONE = (Outcome.DELETED, Outcome.LOST)
"""Outcomes of a sweep after which an object may be gone by that sweep. The same is true of every failure of a
delete that was sent: a store that answers with an error may have deleted all the same."""

_NOT_SENT = (NO_ETAG, NOT_COPIED, COPY_DIFFERS)
"""Failures of objects of which no delete was sent."""

_NAMED = 3  # in an error


def check_keeps(context: MarkContext) -> None:
    """Say so if nothing lies in quarantine, and the store keeps nothing of what is deleted now: it may have kept what a
    sweep deleted before. SettingsError if it is a folder, which never keeps anything."""
    if context.header.mark_id in quarantined(context):
        return
    told, root = connect(context.data).settings(), context.data.root
    if told.undeletes is False:
        nothing = f"lakegc brings nothing back out of the soft delete of {root}, which has a hierarchical namespace"
    elif told.versioning is not False or told.soft_delete != timedelta(0):
        return
    else:
        nothing = f"{root} keeps nothing of what a sweep deletes: neither old versions nor soft delete"
    nothing += ", and nothing of this mark lies in quarantine."
    if isinstance(context.data, LocalConfig):
        name = f"{context.header.repository} {context.header.mark_id}"
        raise SettingsError(
            f"{nothing} Only a backup brings objects back: lakegc restore {name} SRC, where SRC is the place of the "
            "backup. With `backup: required` in lakegc.yaml, no sweep deletes what has no backup; with `quarantine: "
            "7d`, each sweep keeps a copy for a week."
        )
    if is_swept(context):
        context.say(
            f"restore: {nothing} It is asked for each object all the same: it may have kept what it was told to delete "
            "before."
        )


def deleted_objects(spark: SparkSession, context: MarkContext) -> DataFrame:
    """The objects that sweeps of the mark deleted, or may have deleted: columns address, size, at. `at`: the last
    moment at which they can have done so, by the collector's clock, or by the store's where nothing else tells."""
    told = _journalled(spark, context)
    if context.mark.header(any_version=True) is None:  # retired
        return told
    record = SweepRecord(spark, context, dry_run=False, lenient=context.header.format != FORMAT)
    if not record.is_begun:
        return told
    # A sweep that broke off: the store tells of which objects of its plan the journal does not know that they are gone.
    left = record.left().select("address", "size").join(many(told), "address", "left_anti")
    for key in record.unread:  # of another version
        context.say(f"restore: {key} cannot be read; what it alone told is left out")
    others = record.other_marks.deleted()
    if others is not None:
        theirs = many(others.as_frame())
        _say_theirs(context, left.join(theirs, "address", "left_semi"))
        left = left.join(theirs, "address", "left_anti")
    return told.unionByName(left.withColumn("at", moment(_last_seen_at(context, record))))


def _say_theirs(context: MarkContext, theirs: DataFrame) -> None:
    """Name the number of objects of a sweep that broke off which are brought back by other marks."""
    with clear_errors():
        count = theirs.count()
    if count:
        context.say(
            f"{count:,} objects of the sweep of mark {context.header.mark_id} that broke off are left out: by their "
            "records, sweeps of other marks deleted them. A restore of those marks brings them back."
        )


def _last_seen_at(context: MarkContext, record: SweepRecord) -> float:
    """The last moment at which a sweep that broke off can have deleted, unix seconds by the clock of the data's store:
    nothing is sent in a wave that lasts longer, and none begins without a sign of the wave before. The signs are dated
    by the store of the workspace, which may have another clock."""
    written: float = max(
        each.as_py().timestamp()
        for batch in connect(context.workspace).list(f"{record.folder}/")
        for each in batch["last_modified"]
    )
    there = earliest(context.workspace)  # asked first, so that time that passes in between makes it later
    written += earliest(context.data) - there
    return written + context.level.watch_interval.total_seconds() + JOURNAL_EVERY


def _records(spark: SparkSession, context: MarkContext, sweep: int | None = None) -> Records:
    """The journals of the mark's sweeps, or of one of them by its number, as far as they read."""
    of = (Kind.SWEPT, context.header.mark_id)
    mine = (each for each in records_of(context).found if (each.kind, each.mark_id) == of)
    return readable_records(spark, Records(tuple(each for each in mine if sweep in (None, each.number))))


def is_swept(context: MarkContext) -> bool:
    """True if a sweep of the mark is on record, whatever it did."""
    if context.mark.header(any_version=True) is None:
        return bool((context.mark.retired() or {}).get("sweeps"))
    return bool(sweeps_of(connect(context.workspace), context.mark.folder))


def check_swept(context: MarkContext) -> None:
    """MarkError if no sweep of the mark was begun: then it deleted nothing."""
    if not is_swept(context):
        header, store = context.header, connect(context.workspace)
        others = [each.mark_id for each in Shelf.of(context) if sweeps_of(store, each.mark.folder)]
        told = f" Marks that were: {', '.join(others[:_NAMED])}." if others else ""
        raise MarkError(
            f"Mark {header.mark_id} of {header.repository} was never swept: there is nothing to bring back.{told}"
        )


def all_read(spark: SparkSession, context: MarkContext) -> bool:
    """True if the journals of the mark's sweeps name all that these deleted."""
    return _records(spark, context).whole


def journals_of(spark: SparkSession, context: MarkContext, sweep: int | None = None) -> DataFrame:
    """The rows of the journals of the mark's sweeps, or of one of them (`ledger.COLUMNS`), also of a mark that was
    retired or that another version made."""
    records = _records(spark, context, sweep)
    if not records.whole:
        context.say(
            f"Some files of the journals of mark {context.header.mark_id} cannot be read: what they tell is left out"
        )
    sources = tuple(source for each in records.found for source in each.rows.sources)
    return Dataset(COLUMNS[Kind.SWEPT], sources).frame(spark)


def may_be_gone(outcome: str) -> bool:
    """True if an object may be gone by a sweep whose journal has this outcome of it: `_journalled` has these rows."""
    return outcome in _MAY_BE_GONE or (outcome.startswith(FAILED_DELETE) and outcome not in _NOT_SENT)


def _journalled(spark: SparkSession, context: MarkContext) -> DataFrame:
    """The objects that these journals call deleted, or that may be."""
    from pyspark.sql import functions as F

    rows = journals_of(spark, context)
    failed = rows["outcome"].startswith(FAILED_DELETE) & ~rows["outcome"].isin(*_NOT_SENT)
    rows = rows.where(rows["outcome"].isin(*_MAY_BE_GONE) | failed)
    return rows.groupBy("address").agg(F.max("size").alias("size"), F.max("at").alias("at"))


def bring_back(context: MarkContext, objects: DataFrame, journal: DatasetFolder, parallel: int) -> Copied:
    """Bring `objects` (as `deleted_objects` has them) back on the executors, and write the outcomes to `journal`."""
    # The guard `clocks` lets no sweep pass if the store's clock and the collector's differ by more; at level `none` it
    # allows any difference, and then every delete would pass for one of the sweep.
    skew = min(context.level.clock_skew, FULL.clock_skew)
    mark_id = context.header.mark_id
    copies = place_of(context, mark_id) if mark_id in quarantined(context) else None
    work = _Undo(context.data, _moment(context.header.cutoff), _moment(_first_sent_at(context)) - skew, skew, copies)
    return carry_out(objects, work.bring_back, journal, parallel)


def _first_sent_at(context: MarkContext) -> float:
    """The earliest moment, unix seconds, at which a delete can have been sent that the mark's sweeps met: one of their
    own, or of the sweep of another mark that was open by then and may have sent it without a record. On S3 both leave a
    delete marker."""
    store = connect(context.workspace)
    planned = first_planned_at(store, context.mark.folder)
    first = context.header.started_at if planned is None else planned
    others = (each.mark.folder for each in Shelf.of(context) if each.mark_id != context.header.mark_id)
    return min((at for each in others if (at := planned_before(store, each, first)) is not None), default=first)


@dataclass(frozen=True)
class _Undo:
    """Brings objects back, one at a time. `cutoff`: all that is deleted was written before. `since`: before the first
    delete. `skew`: by which the store's clock may be ahead of the times of journals. `copies`: the place of the mark's
    quarantine; None if nothing lies there."""

    data: StoreConfig
    cutoff: datetime
    since: datetime
    skew: timedelta
    copies: StoreConfig | None = None

    def bring_back(self, wanted: Json) -> Json:
        """Bring one object back, unless something lies under its key."""
        if self.copies is not None:
            row = OneCopy(self.copies, self.data, sized=True, may_be_gone=True, if_absent=True).copy(wanted)
            if row["outcome"] not in (MISSING, FAILED) and not is_another(wanted, row):
                return row
            undeleted = self._undelete(wanted)
            # Of what lies there after a failed copy nobody knows that it is whole, unless the store put it there.
            helps = {FAILED: (COPIED,), DIFFERENT: SAVED}.get(row["outcome"])
            return undeleted if helps is None or undeleted["outcome"] in helps else row
        return self._undelete(wanted)

    def _undelete(self, wanted: Json) -> Json:
        address, size = str(wanted["address"]), int(wanted["size"])
        row: Json = {"address": address, "size": size, "etag": None, "outcome": FAILED, "problem": None}
        store = connect(self.data)
        try:
            there, outcome = head_if_there(store, address), ALREADY_THERE
            if there is None:
                until = wanted["at"].astimezone(UTC) + self.skew
                try:
                    store.undelete(Deleted(address, size, self.cutoff, self.since, until))
                    outcome = COPIED
                except PreconditionFailedError as error:
                    row |= {"outcome": DIFFERENT, "problem": _short(error)}
                # Also then: a request whose answer was lost is refused when it is repeated.
                there = head_if_there(store, address)
                if there is None and outcome != COPIED:
                    return row
        except ObjectNotFoundError as error:
            return row | {"outcome": MISSING, "problem": _short(error)}
        except LakegcError as error:
            return row | {"problem": _short(error)}
        return row | _found(there, size, outcome)


def _found(there: ObjectInfo | None, size: int, outcome: str) -> Json:
    if there is None:
        return {"problem": "the store took its delete back, and does not show it: somebody deleted it meanwhile"}
    if there.size != size:
        problem = f"{there.size:,} bytes lie there, not the {size:,} that were deleted"
        return {"etag": there.etag, "outcome": DIFFERENT, "problem": problem}
    return {"etag": there.etag, "outcome": outcome, "problem": None}


def _short(error: LakegcError) -> str:
    return str(error)[:500]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
