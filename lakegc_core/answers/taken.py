"""Of objects that are gone: which sweeps took them, by the records of all sweeps that read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakegc_core.answers.in_quarantine import quarantine_of
from lakegc_core.clock import instant
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.last_known import gone, readable_records
from lakegc_core.marks.ledger import Records, records_of
from lakegc_core.marks.sweeps import report_of, statement_of
from lakegc_core.names import Json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def last_records(spark: SparkSession, context: MarkContext) -> tuple[DataFrame, tuple[str, ...]]:
    """The last record of each object that is gone: `address`, `at`, `lost`, `mark_id`, `sweep`. And the files of
    records that cannot be read: what only they tell is missing."""
    written = Records(tuple(each for each in records_of(context).found if each.rows.parts))
    records = readable_records(spark, written)
    unread = _files(written) - _files(records)
    return gone(spark, records).as_frame().select("address", "at", "lost", "mark_id", "sweep"), tuple(sorted(unread))


def _files(records: Records) -> set[str]:
    return {f"{each.folder}/{each.part.name}" for record in records.found for each in record.rows.sources}


def vanished(row: Any) -> Json:
    """An object that is gone, by a row of `last_records` with its `path`, and with `copied` and `saved`: the mark in
    whose quarantine a copy lies, and the place of a backup that has one; null where there is none."""
    names = ("address", "path", "mark_id", "sweep", "lost")
    at = instant(row["at"].timestamp()) if row["at"] else None
    copies = {name: row[name] is not None for name in ("copied", "saved")}
    return {name: row[name] for name in names} | {"at": at} | copies


def sweep_that_took(context: MarkContext, mark_id: str, number: int, objects: int) -> Json:
    """A sweep that took some of the objects: when, and by which statement. Fields that cannot be read are None."""
    mark = context.artifacts(mark_id)
    try:
        record = mark.retired() or {}
        report = record.get("sweeps", {}).get(str(number)) or report_of(mark.store, mark.folder, number) or {}
        statement = record.get("statements", {}).get(str(number)) or statement_of(mark.store, mark.folder, number) or {}
    except MarkError:
        report, statement = {}, {}
    finished, until = report.get("finished_at"), report.get("recoverable_until")
    return {
        "mark_id": mark_id,
        "sweep": number,
        "objects": objects,
        "finished_at": instant(finished) if finished else None,
        "statement": statement.get("digest"),
        "versioned": report.get("versioned"),
        "recoverable_until": instant(until) if until else None,
        "quarantine": quarantine_of(context, mark.mark_id, number),
    }
