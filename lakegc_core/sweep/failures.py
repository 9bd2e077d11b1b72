"""Objects that earlier sweeps failed to delete: a sweep with a budget tries them last, and does not hide why they stay.

A failure counts only if another night may repeat it: no lost answer, no throttling, no bad credentials. Other codes may
mean the object (a lock) or the role (a missing right). So a failure counts for a week after the delete was sent; then
the object has its turn again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.last_known import readable_records
from lakegc_core.marks.ledger import COLUMNS, Kind, Record, Records, journals
from lakegc_core.marks.sweeps import report_of
from lakegc_core.names import FAILED, NO_ANSWER, Outcome
from lakegc_core.spark.tasks import Mapped, many, moment
from lakegc_core.store.base import connect
from lakegc_core.store.delete_results import REPEATED_CODES, THROTTLED_CODES
from lakegc_core.sweep.candidates import batch_of
from lakegc_core.sweep.lost import absent, settled, spread
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.tables.gather import columns_of, rows_of_feeds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAILURE = "failure"
"""Column of objects: the outcome of the last delete of the object that failed; null if none did."""
FAILED_AT = "failed_at"
"""Column of objects: when that delete was sent."""
_COUNTS_FOR = timedelta(days=7)
# Codes of S3 and Azure, and errors of Google's SDK. Not AccessDenied, by which S3 speaks of locks, too.
_CREDENTIALS = {"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"} | {
    "SignatureDoesNotMatch",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "RefreshError",
    "TransportError",
    "401",
}
_TRANSIENT = [NO_ANSWER, *sorted(FAILED + code for code in THROTTLED_CODES | REPEATED_CODES | _CREDENTIALS)]


def failed_before(spark: SparkSession, context: MarkContext) -> DataFrame | None:
    """The objects that sweeps of the marks that stand failed to delete within a week, also of this sweep: columns
    address, FAILURE and FAILED_AT. None if there are none. Parts of journals that cannot be read are passed over."""
    from pyspark.sql import functions as F

    since = clock.now().timestamp() - _COUNTS_FOR.total_seconds()
    found = tuple(each for each in journals(context, since) if _may_tell_of_failures(context, each))
    if not found:
        return None
    records = readable_records(spark, Records(found)).found
    feeds = [feed for each in records for feed in each.rows.feeds(*COLUMNS[Kind.SWEPT].names, make=_failures)]
    rows = rows_of_feeds(spark, feeds, COLUMNS[Kind.SWEPT]).as_frame()
    rows = rows.where(rows["at"] >= moment(since))
    return rows.groupBy("address").agg(F.max_by("outcome", "at").alias(FAILURE), F.max("at").alias(FAILED_AT))


def _may_tell_of_failures(context: MarkContext, record: Record) -> bool:
    """False if the report of the sweep names no failure that counts."""
    try:
        report = report_of(connect(context.workspace), context.artifacts(record.mark_id).folder, record.number)
    except MarkError:
        return True
    outcomes = {} if report is None else report.get("outcomes", {})
    failed = {name for name, count in outcomes.items() if count and name.startswith(FAILED)}
    return report is None or not failed <= set(_TRANSIENT)


def _failures(rows: pa.RecordBatch) -> Mapping[str, Any]:
    """The rows of a journal whose delete failed, by their columns."""
    transient = pc.is_in(rows["outcome"], pa.array(_TRANSIENT, pa.string()))
    rows = rows.filter(pc.and_not(pc.starts_with(rows["outcome"], FAILED), transient))
    return {name: rows[name] for name in COLUMNS[Kind.SWEPT].names}


def with_failures(rows: Mapped, failed: DataFrame | None) -> Mapped:
    """The rows with FAILURE. `failed`: as `failed_before` tells."""
    shape = pa.schema([*rows.schema, pa.field(FAILURE, pa.string())])
    if failed is None:
        return rows.then(shape, partial(_no_failure, shape))
    return Mapped(rows.as_frame().join(many(failed), "address", "left").select(*shape.names), shape)


def _no_failure(shape: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch_of(shape, columns_of(rows) | {FAILURE: pa.nulls(rows.num_rows, pa.string())}) for rows in batches)


def left_over(
    spark: SparkSession, context: MarkContext, record: SweepRecord, attempt: int, outcome: Outcome, *, is_unsure: bool
) -> Iterator[DataFrame]:
    """The outcomes (address, size, outcome; at, if not now) of the planned objects that have none when a sweep ends
    before all is done: `outcome`, or a more exact one. The second frame reads the journal: put the first one into it as
    of `attempt` before you take the second. `is_unsure`: a delete can lack its record: the store is asked.
    """
    from pyspark.sql import functions as F

    rest = record.without_outcome()
    if is_unsure:
        yield settled(spread(rest), context.data, outcome)
    else:
        yield rest.select("address", "size").withColumn("outcome", F.lit(str(outcome)))
    more = told_of_the_rest(context, record, attempt, failed_before(spark, context), outcome)
    if more is not None:
        yield more


def told_of_the_rest(
    context: MarkContext,
    record: SweepRecord,
    attempt: int,
    failed: DataFrame | None,
    outcome: Outcome = Outcome.OVER_BUDGET,
) -> DataFrame | None:
    """More exact outcomes of objects that an attempt journalled as left (by `outcome`): columns address, size, outcome,
    at.

    Those of `failed` keep their failure and its time, because nothing was sent for them now; those that earlier sweeps
    of the mark deleted without an answer, and that the store lacks, are `already_gone`. None if there can be none.
    """
    from pyspark.sql import functions as F

    unanswered = list(record.unanswered_before())
    if failed is None and not unanswered:
        return None
    outcomes = record.outcomes()
    rest = outcomes.where((F.col("attempt") == attempt) & (F.col("outcome") == outcome))
    rest, found = rest.select("address", "size", "at"), []
    if failed is not None:
        known = failed.select("address", F.col(FAILURE).alias("outcome"), F.col(FAILED_AT).alias("at"))
        found.append(rest.drop("at").join(many(known), "address"))
    if unanswered:
        asked = rest.join(many(reduce(_union, unanswered).select("address")), "address", "left_semi")
        found.append(absent(asked, context.data).withColumn("outcome", F.lit(str(Outcome.ALREADY_GONE))))
    return reduce(_union, found)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other)
