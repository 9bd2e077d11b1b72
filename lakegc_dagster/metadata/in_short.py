"""The findings of a stage in one sentence: the first that a person reads of a materialisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakegc_core import clock
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.drills import last_drill
from lakegc_core.names import counted
from lakegc_core.pipeline import Review
from lakegc_core.policy.drilled import passed
from lakegc_core.policy.facts import (
    CommitsFacts,
    CommittedFacts,
    ExpiredFacts,
    ListingFacts,
    StagedFacts,
    StageFacts,
)
from lakegc_core.policy.guards import Verdict
from lakegc_core.sweep.authorize import ready_at
from lakegc_core.views.words import human_bytes, monthly
from lakegc_dagster.config import OVER_BACKUPS, LakegcConfig


def refusing(options: LakegcConfig, mark: MarkContext, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The guards that will refuse a sweep of a mark. The one over backups does not where the run of the sweep makes
    the backup first, and a drill has passed if one is asked for."""
    policy, within = mark.policy, mark.policy.drill_within
    comes = {OVER_BACKUPS} if options.backup and policy.backup_to else set()
    if comes and within is not None:
        name, now = mark.header.repository, clock.now().timestamp()
        comes = comes if passed(name, last_drill(mark), within.total_seconds(), now)[0] else set()
    return [each for each in verdicts if each.stops and each.name not in comes]


def in_short(options: LakegcConfig, facts: StageFacts, mark: MarkContext, review: Review | None) -> str:
    """One sentence about what a stage found. `review`: of the complete mark, for the stage that completes it."""
    match facts:
        case ListingFacts():
            listed = "" if facts.units == facts.units_listed else f" {facts.units_listed:,} of {facts.units:,} units"
            how = f" Only{listed} were listed anew." if listed else ""
            return f"{human_bytes(facts.bytes)} in {facts.objects:,} objects lie in the namespace.{how}"
        case StagedFacts():
            return f"{facts.rows + facts.rows_of_branch_listings:,} addresses are named as staged."
        case CommitsFacts():
            refs = f"{counted(facts.branches, 'branch', 'branches')} and {counted(facts.tags, 'tag')}"
            return f"{facts.retained:,} of {facts.known:,} commits are retained. The repository has {refs}."
        case CommittedFacts():
            entries, ranges = counted(facts.entries, "entry", "entries"), counted(facts.ranges, "range")
            changed = f"{facts.ranges_added:,} new, {facts.ranges_dropped:,} no longer retained"
            return f"The retained commits refer to {entries} in {ranges} ({changed})."
        case ExpiredFacts():
            return _garbage(options, facts, mark, review)
        case _:
            return ""


def _garbage(options: LakegcConfig, facts: ExpiredFacts, mark: MarkContext, review: Review | None) -> str:
    if not facts.expired.objects:
        return "There is no garbage."
    price: Any = review.report["price"] if review else None
    cost = monthly(facts.expired.bytes, price)
    said = f"{human_bytes(facts.expired.bytes)} in {facts.expired.objects:,} objects are garbage{cost and f', {cost}'}."
    if review is None:
        return said
    stopping = [verdict.name for verdict in refusing(options, mark, review.verdicts)]
    if stopping:
        guards = "Guard" if len(stopping) == 1 else "Guards"
        return f"{said} {guards} {', '.join(stopping)} will refuse a sweep."
    when = ready_at(mark)
    if when > clock.now().timestamp():
        return f"{said} A sweep can delete them from {clock.from_minute(when)} on."
    now = human_bytes(facts.confirmed.bytes) if facts.confirmed.objects else "some"
    return f"{said} A sweep can delete {now} of it now."
