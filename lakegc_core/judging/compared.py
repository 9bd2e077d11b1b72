"""Measures by which guards compare a mark with the mark before: its sums, what became of objects staged then, and what
a person has accepted since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakegc_core.errors import CorruptFileError, MarkError, ObjectNotFoundError, SettingsError
from lakegc_core.judging.summary import Findings
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT, MISSING
from lakegc_core.marks.json_files import read_sealed
from lakegc_core.marks.previous import previous_mark
from lakegc_core.marks.shelf import Shelf
from lakegc_core.marks.sweeps import files_of, is_accepted, over_at, plan_of, report_of, sweeps_of
from lakegc_core.names import Json, Outcome, Reason, Stage
from lakegc_core.policy.facts import NOTHING, Amount, Compared, ExpiredFacts, Previous
from lakegc_core.policy.judgements import shrunk
from lakegc_core.policy.safety import level_to_read
from lakegc_core.policy.too_much import next_sweep, ready_at
from lakegc_core.spark.tasks import count_of, many
from lakegc_core.tables.dataset import readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = ("address", "reason")
_BLAST_RADIUS = "blast-radius"
_GONE = (Outcome.DELETED, Outcome.LOST)
"""Outcomes after which an object is not there any more."""


def previous_of(context: MarkContext) -> Previous | None:
    """The mark to compare with: the one before, unless it had shrunk and nobody accepted that; then the one that it was
    compared with.

    Otherwise a mark that had shrunk would become the measure of the next one.
    """
    before = previous_mark(context)
    if before is None:
        return None
    facts = before.facts(ExpiredFacts)
    earlier = facts.previous
    has_shrunk = earlier and shrunk(earlier.expired_addresses, facts, context.level, facts.staged_lost)
    if has_shrunk and not _is_measure(before):
        return earlier
    return Previous(before.mark_id, facts.compared)


def _is_measure(mark: MarkArtifacts) -> bool:
    """True if a person accepted for a mark that it had shrunk, or a sweep of all that it found had a plan."""
    plans = (plan_of(mark.store, mark.folder, number) for number in _sweeps_with_plan(mark))
    return is_accepted(mark, "shrink") or any(not plan.get("only") for plan in plans)


def accepted_before(context: MarkContext, expired: Amount, unconfirmed: Sequence[tuple[float, Amount]] = ()) -> Amount:
    """The part of these expired objects, at most, that a person accepted under the guard blast-radius for an earlier
    mark, and that no sweep has deleted since. So a budget may spread what was accepted over many marks.

    `unconfirmed`: some of them by `since`, unix seconds. Those that the mark before did not find are new: they use up
    nothing that was accepted. What was accepted for a drill, or for another tool's list, counts for nothing else.
    NOTHING if nobody can tell: a sweep of the mark before broke off, its record cannot be read, or another mark was
    swept since.
    """
    before = previous_mark(context)
    try:
        left = NOTHING if before is None else _accepted_left(before)
    except (MarkError, SettingsError, KeyError, TypeError, ValueError):  # anybody may replace a report
        return NOTHING
    if before is None or left.objects <= 0 or _another_was_swept_since(context, before):
        return NOTHING
    found_until = before.require(Stage.EXPIRED_ADDRESSES).finished_at
    old = expired - sum((amount for since, amount in unconfirmed if since > found_until), NOTHING)
    return Amount(max(0, min(left.objects, old.objects)), max(0, min(left.bytes, old.bytes)))


def _accepted_left(mark: MarkArtifacts) -> Amount:
    """What was accepted of a mark's garbage, without what its sweeps deleted. An acceptance counts for what the guard
    judged: what was ready then, or will be first."""
    facts = mark.facts(ExpiredFacts)
    left, gone = facts.accepted, NOTHING
    for number in _sweeps_with_plan(mark):
        report = report_of(mark.store, mark.folder, number)
        if report is None or report["outcomes"].get(Outcome.ALREADY_GONE):  # of these nobody knows the bytes
            return NOTHING
        # Where a sweep was closed, nobody asked the guards again.
        told = _as_begun(mark, number) if report.get("closed") else report
        if _accepts_blast_radius(told):
            gap = level_to_read(told["counted"]["safety"]).gap
            left = ready_at(facts, next_sweep(facts, told["judged_at"], gap), gap)
        gone += Amount(sum(int(report["outcomes"].get(each, 0)) for each in _GONE), int(report["bytes_deleted"]))
    return left - gone


def _as_begun(mark: MarkArtifacts, number: int) -> Json:
    """The plan of a sweep, as it was sealed. MarkError if it was changed since."""
    key, expired = f"{mark.folder}/sweeps/{number}/plan.json", mark.require(Stage.EXPIRED_ADDRESSES)
    return read_sealed(mark.store, key, f"{key} was changed", mark_digest=expired.digest) or {}


def _accepts_blast_radius(told: Mapping[str, Any]) -> bool:
    """True if a person accepted blast-radius for a sweep of its mark, by the report or the plan of that sweep."""
    guards = () if told.get("only") else told["guards"]
    return any(each["name"] == _BLAST_RADIUS and each.get("accepted_because") for each in guards)


def given_up(spark: SparkSession, context: MarkContext) -> DataFrame | None:
    """The addresses that the mark before missed and that a person has given up: by accepting the guard live-in-listing
    for a sweep of that mark, or of an earlier one. None if there are none, or if that cannot be told."""
    before = previous_mark(context)
    try:
        reasons = [] if before is None else _reasons_given_up(before)
    except (MarkError, KeyError, TypeError, ValueError):  # anybody may replace a report
        return None
    if before is None or not reasons:
        return None
    missing = before.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA, MISSING)
    (whole,) = readable(spark, [missing], (CorruptFileError, ObjectNotFoundError))
    if whole != missing:
        context.say(f"{Stage.EXPIRED_ADDRESSES}: mark {before.mark_id} does not say what was missing; all of it counts")
        return None
    rows = missing.frame(spark, *_COLUMNS)
    return rows.where(rows["reason"].isin(reasons)).select("address")


def _reasons_given_up(mark: MarkArtifacts) -> list[str]:
    """The reasons of what a mark missed that say that a person has given it up."""
    facts = mark.facts(ExpiredFacts)
    reasons = [Reason.GIVEN_UP.value] if facts.given_up else []
    if facts.missing > facts.given_up and is_accepted(mark, "live-in-listing"):
        reasons.append(Reason.MISSING.value)
    return reasons


def _another_was_swept_since(context: MarkContext, mark: MarkArtifacts) -> bool:
    """True if, when `mark` began, a sweep of another mark was not over: it may have deleted what `mark` found."""
    header = mark.header()
    others = [each.mark for each in Shelf.of(context) if each.mark_id != mark.mark_id]
    return header is None or any(
        over_at(each.store, each.folder, number) >= header.started_at
        for each in others
        for number in _sweeps_with_plan(each)
    )


def _sweeps_with_plan(mark: MarkArtifacts) -> list[int]:
    """The sweeps of a mark that had a plan. A sweep whose look failed leaves a folder without one."""
    told = {number: files_of(mark.store, mark.folder, number) for number in sweeps_of(mark.store, mark.folder)}
    return [number for number, names in told.items() if not names.isdisjoint({"plan.json", "report.json"})]


def staged_lost(
    spark: SparkSession,
    context: MarkContext,
    previous: Previous | None,
    now: Compared,
    findings: Findings,
) -> int | None:
    """The number of objects staged at the mark before that this mark lists, and finds neither staged nor in a commit.

    Counted only if the sums suggest that too many are. Sums mislead: commits that expired meanwhile can outweigh staged
    objects that were committed. None if it was not counted, or if the mark before cannot be read.
    """
    if previous is None or not shrunk(previous.expired_addresses, now, context.level):
        return None
    before = context.artifacts(previous.mark_id)
    try:
        then = before.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA, KEPT).frame(spark, *_COLUMNS)
        left = (findings.expired + findings.kept).frame(spark, *_COLUMNS).where(f"reason != '{Reason.STAGED}'")
        then = then.where(f"reason = '{Reason.STAGED}'")
        return count_of(then.join(many(left), "address", "left_semi"))
    except (CorruptFileError, MarkError, ObjectNotFoundError) as error:
        context.say(f"{Stage.EXPIRED_ADDRESSES}: mark {previous.mark_id} does not say what was staged then ({error})")
        return None
