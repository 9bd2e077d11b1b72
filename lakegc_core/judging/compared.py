"""Measures by which guards compare a mark with the mark before: its sums, and what became of objects staged then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakegc_core.errors import CorruptFileError, MarkError, ObjectNotFoundError
from lakegc_core.judging.summary import Findings
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT
from lakegc_core.marks.previous import previous_mark
from lakegc_core.marks.sweeps import report_of, sweeps_of, without_drills
from lakegc_core.names import Outcome, Reason, Stage
from lakegc_core.policy.facts import NOTHING, Amount, Compared, ExpiredFacts, Previous
from lakegc_core.policy.judgements import shrunk
from lakegc_core.spark.session import clear_errors, many

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = ("address", "reason")
_GUARD = "blast-radius"
_GONE = (Outcome.DELETED, Outcome.ALREADY_GONE, Outcome.LOST)
"""Outcomes after which an object is not there any more."""


def previous_of(context: MarkContext) -> Previous | None:
    """The mark before, or what that one was compared with in vain.

    A mark that had shrunk and that nobody accepted must not become the measure of the next one.
    """
    before = previous_mark(context)
    if before is None:
        return None
    facts = before.facts(ExpiredFacts)
    earlier = facts.previous
    lost = earlier and shrunk(earlier.expired_addresses, facts, context.level, facts.staged_lost)
    if lost and not _was_swept(before):
        return earlier
    return Previous(before.mark_id, facts.compared)


def _was_swept(mark: MarkArtifacts) -> bool:
    return bool(without_drills(mark.store, mark.folder))


def accepted_before(context: MarkContext, expired: Amount) -> Amount:
    """The part of these expired objects, at most, that a person accepted under the guard blast-radius for an earlier
    mark, and that no sweep has deleted since. So a budget may spread what was accepted over many marks.

    Counts only: garbage that is new takes the place of nothing but what went without a sweep between two marks. Where a
    sweep of the mark before broke off, or its record does not read, nothing counts as accepted.
    """
    before = previous_mark(context)
    if before is None:
        return NOTHING
    facts = before.facts(ExpiredFacts)
    left = facts.accepted
    try:
        reports = [report_of(before.store, before.folder, each) for each in sweeps_of(before.store, before.folder)]
    except MarkError:
        return NOTHING
    for report in reports:
        if report is None:
            return NOTHING
        guards = report.get("guards", [])
        if any(each["name"] == _GUARD and each.get("accepted_because") for each in guards):
            left = facts.expired
    gone = sum(int(report["outcomes"].get(each, 0)) for report in reports if report for each in _GONE)
    size = sum(int(report["bytes_deleted"]) for report in reports if report)
    return Amount(max(0, min(left.objects - gone, expired.objects)), max(0, min(left.bytes - size, expired.bytes)))


def staged_lost(
    spark: SparkSession,
    context: MarkContext,
    previous: Previous | None,
    now: Compared,
    findings: Findings,
) -> int | None:
    """The number of objects that were staged at the mark before, and are neither staged nor in a commit now.

    Counted only if, by the sums, too many staged objects may have vanished. The sums alone exaggerate: if other commits
    expired in the same night, they hide that staged objects were committed. None if it was not counted, or if the mark
    before cannot be read.
    """
    if previous is None or not shrunk(previous.expired_addresses, now, context.level):
        return None
    before = context.artifacts(previous.mark_id)
    try:
        then = before.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA, KEPT).frame(spark, *_COLUMNS)
        left = (findings.expired + findings.kept).frame(spark, *_COLUMNS).where(f"reason != '{Reason.STAGED}'")
        then = then.where(f"reason = '{Reason.STAGED}'")
        with clear_errors():
            return int(then.join(many(left), "address", "left_semi").count())
    except (CorruptFileError, MarkError, ObjectNotFoundError) as error:
        context.say(f"{Stage.EXPIRED_ADDRESSES}: mark {previous.mark_id} does not say what was staged then ({error})")
        return None
