"""swept_report: deletes what a mark found expired and a fresh look confirmed, and says what became of every object.

Here: who may begin, or close, a sweep. The sweep itself is in `call`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lakegc_core import clock
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.neighbours import neighbours_of, sightings, what_is_known
from lakegc_core.names import Stage
from lakegc_core.policy import guards
from lakegc_core.store.clock import ahead
from lakegc_core.sweep.authorize import check_look_delay, judge, refusal
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.call import SweepCall
from lakegc_core.sweep.chosen import Chosen
from lakegc_core.sweep.other_tools import OtherMark
from lakegc_core.sweep.read_sample import Sample, take_sample
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.sweep.result import SweepResult
from lakegc_core.sweep.what_counts import as_swept, check_level, check_min_age, effective_level, stricter_than_mark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    spark: SparkSession,
    context: MarkContext,
    *,
    dry_run: bool = False,
    accepted: Mapping[str, str] | None = None,
    only: OtherMark | Chosen | None = None,
    budget: Budget | None = None,
) -> SweepResult:
    """Sweep a mark. Deletes nothing when a guard refuses (RefusedError) or with `dry_run`.

    A dry run goes on past guards that a person may accept, and names them in its result (`refused_by`).
    `only`: another tool's mark; addresses of it that this mark found expired are swept, the others refused. Or what a
    drill has chosen of this mark.
    `budget`: the most that this call does; None: as lakegc.yaml says.
    Each object of the plan gets exactly one outcome; those that fail, or are over the budget, stay for the next call.
    """
    started = time.monotonic()
    budget = Budget.of(context.policy.budget, clock.now()) if budget is None else budget
    check_level(context)
    strict = as_swept(context)
    with strict.lease("sweep") as lease:
        check_min_age(context)
        if stricter := stricter_than_mark(context):
            context.say(
                f"{Stage.SWEPT_REPORT}: lakegc.yaml is stricter than the mark, and counts: {'; '.join(stricter)}"
            )
        sample = take_sample(spark, context, effective_level(context).samples)
        # This may be another machine than the one that marked, and the gap is waited for by its clock.
        skew = ahead(context.data)
        now = clock.now().timestamp()
        around = what_is_known(sightings(spark, neighbours_of(context), now), context.settings.neighbours, now)
        at_most = only.amount if isinstance(only, Chosen) else None
        verdicts = judge(context, accepted, sample, skew, around, at_most=at_most)
        stopping = {verdict.name: verdict.description for verdict in verdicts if verdict.stops}
        if not all(dry_run and guards.BY_NAME[name].may_be_accepted for name in stopping):
            begun = SweepRecord(spark, context, dry_run=dry_run).is_begun
            raise RefusedError(refusal(context, verdicts, begun=begun))
        if not dry_run:
            check_look_delay(context)
        told = {**(accepted or {}), **stopping}
        sweep = SweepCall(spark, strict, verdicts, now, sample, lease, dry_run, started, only, told, budget)
        return replace(sweep.run(), refused_by=stopping)


def close_sweep(spark: SparkSession, context: MarkContext) -> SweepResult:
    """Close a sweep that broke off without deleting anything more, however old its mark is; no guard is asked.

    What is gone of its plan counts as deleted by it, the rest is `left`; what is gone and live is `lost`. Files of its
    plan and its journal that cannot be read are passed over, and named. Where another version made the mark, or the
    look fails, nobody looks for what is live: the next mark names what is live and missing. MarkError if no sweep of
    the mark broke off.
    """
    started = time.monotonic()
    strict = as_swept(context)
    with strict.lease("sweep") as lease:
        now = clock.now().timestamp()
        return SweepCall(
            spark, strict, [], now, Sample(), lease, False, started, None, {}, Budget(), closing=True
        ).close()
