"""One authorised call of a sweep: look, plan, delete in waves with a glance at the refs before each, look again.

An object found referenced before its delete is rescued, one found so afterwards is `lost`, loudly. A sweep that broke
off is taken up where its journal ends; one that left failures is followed by another. How a batch is deleted is the
store's business.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lakegc_core import clock
from lakegc_core.errors import LakegcError, MarkError, RefusedError
from lakegc_core.marks.artifacts import FORMAT
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.marks.lease import Lease
from lakegc_core.marks.ledger import brought_back
from lakegc_core.marks.sweeps import is_drill
from lakegc_core.names import Outcome, Stage
from lakegc_core.policy.guards import Verdict
from lakegc_core.spark.tasks import Mapped, count_of, many, moment
from lakegc_core.sweep import lakefs_report, other_tools
from lakegc_core.sweep.authorize import more_confirmed_at, remember_accepted
from lakegc_core.sweep.budget import BYTES, Budget
from lakegc_core.sweep.chosen import Chosen
from lakegc_core.sweep.conditions import conditions_of
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA
from lakegc_core.sweep.failures import left_over
from lakegc_core.sweep.keeping import kept, promised
from lakegc_core.sweep.look import Look, Reads, take_look
from lakegc_core.sweep.lost import PREVIOUS_AT, absent, settled, spread, still_there
from lakegc_core.sweep.other_tools import OtherMark
from lakegc_core.sweep.planning import Plan, Planner
from lakegc_core.sweep.rates import estimate
from lakegc_core.sweep.read_sample import Sample, read_again
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.sweep.result import SweepResult
from lakegc_core.sweep.spinning import Spinning
from lakegc_core.sweep.statement import close_with_statement, operator
from lakegc_core.sweep.totals import Totals
from lakegc_core.sweep.waves import Waves
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.joins import among

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class SweepCall:
    """One call of `swept_report` that was authorised. `context`: the mark as `as_swept` gives it. `judged_at`: before
    the guards were asked, unix seconds; what was not ready then does not go. `started`: by the monotonic clock."""

    spark: SparkSession
    context: MarkContext
    verdicts: list[Verdict]
    judged_at: float
    sample: Sample
    lease: Lease | None
    dry_run: bool
    started: float
    only: OtherMark | Chosen | None
    accepted: Mapping[str, str]
    budget: Budget
    closing: bool = False

    def __post_init__(self) -> None:
        self.spinning = Spinning(self.context)
        self.record = SweepRecord(self.spark, self.context, dry_run=self.dry_run, lenient=self.closing)
        self.reads = Reads.below(self.context, f"{self.record.folder}/read")
        self.planner = Planner(
            self.spark,
            self.context,
            self.record,
            self.reads,
            accepted=self.accepted,
            judged_at=self.judged_at,
            resumed=self.record.is_begun,
            budget=self.budget,
            paths=self.sample.paths,
        )
        self.waves = Waves(
            self.spark, self.context, self.record, self.lease, self.spinning, self.record.is_begun, self.budget
        )
        self.not_asked: Mapping[str, int] = {}  # objects and bytes: see `SweepResult.waiting`
        self.canaries: Mapping[str, int] = {}  # see `SweepResult.canaries`

    def run(self) -> SweepResult:
        listed: DataFrame | None = None  # by another tool's mark
        candidates: Mapped
        if self.record.is_begun:
            self._check_same_list()
            self._remember_accepted()
            self._tell_lakefs()
            self._record_restored()
            candidates = self._left()
        else:
            candidates = self.record.unfinished(self._expired.mapped(self.spark))
            if isinstance(self.only, Chosen):
                candidates = Mapped(self.only.among(candidates.as_frame()), FINDINGS_SCHEMA)
            elif self.only is not None:
                listed = other_tools.addresses(self.spark, self.context, self.only)
                both = candidates.as_frame().join(many(listed), "address", "left_semi")
                candidates = Mapped(both, FINDINGS_SCHEMA)
        is_whole = self.only is None and not self.record.may_have_deleted
        to_sweep = self._expired.rows if is_whole else count_of(candidates.as_frame())
        if to_sweep == 0 and self.only is None and not self.record.is_begun:
            self._remember_accepted()
            return self._result(self.record.nothing_to_do(), 0, 0)
        if not self.dry_run:
            if not isinstance(self.only, Chosen):  # lakeFS is told of no drill
                lakefs_report.prepare(self.context)
            self.waves.conditions = conditions_of(self.context)
        while True:
            attempt = self.record.next_attempt()
            self.planner.resumed |= self.waves.is_unsure
            plan = self.planner.plan(candidates, attempt, to_sweep)
            if listed is not None and not self.record.is_begun:
                self._journal(other_tools.refused(self.spark, self.context, listed), attempt)
            self.canaries = plan.canaries.kinds
            if plan.not_asked is not None and not self.record.is_begun:
                self.not_asked = asdict(plan.not_asked)
            if self.dry_run:
                return self._preview(plan)
            if not self.record.is_begun:
                self._begin(plan, attempt)
            if self.waves.delete(plan, attempt):
                return self._conclude(self._look_again(attempt + 1))
            if self.waves.is_over:
                self._leave_the_rest(attempt)
                look = self._look_if_possible if self.waves.taken else self._look_again
                return self._conclude(look(attempt + 1))
            candidates, before = self._left(), to_sweep
            to_sweep = count_of(candidates.as_frame())
            self.spinning.look(before, to_sweep)

    def _left(self) -> Mapped:
        """The objects of the plan that are left to sweep."""
        return Mapped(self.record.left(), PLAN_SCHEMA)

    def close(self) -> SweepResult:
        if not self.record.is_begun:
            raise MarkError(f"No sweep of mark {self.context.header.mark_id} broke off: there is nothing to close.")
        attempt = self.record.next_attempt()
        self._journal(settled(spread(self.record.left()), self.context.data, Outcome.LEFT), attempt)
        if is_own := self.context.header.format == FORMAT:
            self.waves.read_last_ring()
        return self._conclude(self._look_if_possible(attempt + 1) if is_own else None, closed=True)

    def _preview(self, plan: Plan) -> SweepResult:
        """The result of a dry run: what would be deleted, and how long that would take."""
        totals, rows = self.record.totals(), plan.objects.rows
        result = replace(self._result(totals.outcomes, 0, rows), **promised(self.context, plan.objects.sum(BYTES)))
        found = estimate(self.context, rows, result.seconds, self.budget.until)
        return replace(result, estimate=found, over_budget=totals.over_budget)

    def _record_restored(self) -> None:
        """Record as `rescued` those objects of the plan that a restore brought back after the sweep broke off."""
        back = self.record.brought_back
        if back is not None:
            rows = spread(self.record.left().join(many(back), "address", "left_semi"))
            self._journal(settled(rows, self.context.data, Outcome.RESCUED), self.record.next_attempt())

    def _leave_the_rest(self, attempt: int) -> None:
        """Put on record that the other objects of the plan are not deleted now: the budget is spent, or a ring
        stopped the sweep."""
        outcome, is_unsure = Outcome.LEFT if self.waves.taken else Outcome.OVER_BUDGET, self.waves.is_unsure
        for told in left_over(self.spark, self.context, self.record, attempt, outcome, is_unsure=is_unsure):
            self._journal(told, attempt)

    def _begin(self, plan: Plan, attempt: int) -> None:
        """Seal the plan of an attempt, and publish it."""
        self._check_alone()
        self._remember_accepted()
        more = {
            "guards": [asdict(each) for each in self.verdicts],
            "judged_at": self.judged_at,
            "counted": self.context.header.choices(),
            "look_began_at": plan.look.began_at,
            "only": self.only.name if self.only else None,
            "budget": self.budget.as_json(),
            "by": operator(),
        }
        self.record.begin(plan.objects, attempt, more)
        self._tell_lakefs()

    def _remember_accepted(self) -> None:
        """Keep what a person accepted, once the sweep has looked or has nothing to look for. An acceptance for a
        drill counts for that drill alone."""
        if not (self.dry_run or isinstance(self.only, Chosen)):
            only = self.record.plan().get("only") if self.record.is_begun else self.only
            remember_accepted(self.context, self.verdicts, of_mark=only is None)

    def _tell_lakefs(self) -> None:
        """Write lakeFS's own report of what is about to go. What a drill deletes comes back, and is in none."""
        if not is_drill(self.record.plan()):
            lakefs_report.write(self.spark, self.context, self.record.planned())

    def _check_alone(self) -> None:
        if self.lease is not None:
            self.lease.check()

    def _check_same_list(self) -> None:
        """RefusedError if the sweep that broke off is one of another list than this call's: it would delete what nobody
        meant now. A call without a list finishes any but a drill, whose objects are to come back."""
        plan, only = self.record.plan(), self.only
        if is_drill(plan) and not isinstance(only, Chosen):
            what, finish = "is part of a drill", f"drill {self.context.header.repository}"
        elif only is not None and plan.get("only") != only.name:
            mark = f"{self.context.header.repository} {self.context.header.mark_id}"
            what, finish = f"was not one of {only.name}", f"sweep {mark}"
        else:
            return
        raise RefusedError(
            f"The unfinished sweep of mark {self.context.header.mark_id} {what}. Nothing more was deleted. Finish it "
            f"first: lakegc {finish}."
        )

    def _journal(self, told: DataFrame, attempt: int) -> None:
        """Put outcomes of objects (address, size, outcome; at, if not now) on record. What has PREVIOUS_AT is dated
        later than that, because tasks date a delete as late as it can have been."""
        from pyspark.sql import functions as F

        at = F.col("at") if "at" in told.columns else moment(clock.now().timestamp())
        if PREVIOUS_AT in told.columns:
            at = F.greatest(at, F.col(PREVIOUS_AT) + F.expr("INTERVAL 1 MICROSECOND"))
        rows = told.withColumn("attempt", F.lit(attempt)).withColumn("at", at).select(*OUTCOMES_SCHEMA.names)
        self._check_alone()
        self.record.journal.put("", rows, OUTCOMES_SCHEMA)

    @property
    def _expired(self) -> Dataset:
        return self.context.mark.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA)

    def _look_if_possible(self, attempt: int) -> Look | None:
        """Look once more; None if that fails, perhaps for ever: nothing more will be deleted."""
        try:
            return self._look_again(attempt)
        except LakegcError as error:
            self.context.say(
                f"{Stage.SWEPT_REPORT}: the last look failed, so that live objects may be unknown. {error}"
            )
            return None

    def _look_again(self, attempt: int) -> Look:
        """Look once more: at staged entries, rules, branches, tags and all that they retain. Expired objects that are
        live now wait anew. Objects of the plan that are live, and gone from the store, are recorded as lost."""
        look = take_look(self.spark, self.context, self.record.attempt(attempt).below("look").path, self.reads)
        self._record_lost(look, attempt)
        look.remember(self.spark, self.context, self._expired, lenient=self.waves.resumed or self.closing)
        return look

    def _conclude(self, look: Look | None, *, closed: bool = False) -> SweepResult:
        """Add all up and write the report. `look`: the last one; None where there was none. `closed`: by `close`."""
        self.context.say(f"{Stage.SWEPT_REPORT}: adding up what was deleted")
        unreadable = read_again(self.context, self.sample)
        self._check_deleted()
        totals = self.record.totals()
        self._check_alone()  # who slept must change nothing of a sweep that another collector has closed
        result = self._result(totals.outcomes, totals.bytes_deleted, self.record.check_sums(totals), unreadable)
        result = replace(result, over_budget=totals.over_budget, delay=totals.delay, oldest=totals.oldest)
        planned_at = self.record.plan().get("planned_at")
        result = replace(result, **kept(self.context, self.record.number, totals, planned_at), **self._gone_by(totals))
        for key in self.record.unread:
            self.context.say(f"{Stage.SWEPT_REPORT}: {key} cannot be read; the totals lack what it alone records")
        report = asdict(result) | {
            "guards": [asdict(verdict) for verdict in self.verdicts],
            "judged_at": self.judged_at,
            "by": operator(),
            "only": self.record.plan().get("only"),
            "counted": self.context.header.choices(),
            "look": look and asdict(look.facts) | {"began_at": look.began_at, "finished_at": look.finished_at},
            "finished_at": clock.now().timestamp(),
            "closed": closed,
            "sent": {"objects": self.waves.objects, "requests": self.waves.requests, "seconds": self.waves.seconds},
            "taken_back": self.record.taken_back(),
            "unread": self.record.unread,
        }
        self._check_alone()
        return replace(result, statement=close_with_statement(self.spark, self.context, self.record, report))

    def _check_deleted(self) -> None:
        """Put on record what the store said it had deleted and shows all the same. Not what a restore brought back."""
        from pyspark.sql import functions as F

        samples = self.context.level.samples
        if not samples:
            return
        deleted, back = self.record.outcomes().where(F.col("outcome") == Outcome.DELETED), self.record.brought_back
        deleted = deleted if back is None else deleted.join(many(back), "address", "left_anti")
        there = still_there(deleted, self.context.data, samples, self.record.folder)
        if there is not None:
            self._journal(there, self.record.next_attempt())

    def _gone_by(self, totals: Totals) -> dict[str, Any]:
        """Divide the objects that were `already_gone` into those that sweeps deleted and those that others did."""
        by_nobody = totals.outcomes.get(Outcome.ALREADY_GONE, 0) - totals.gone_by_sweeps
        is_known = not by_nobody or not self.record.other_marks.are_open()
        return {"gone_by_sweeps": totals.gone_by_sweeps, "gone_by_others": by_nobody if is_known else None}

    def _brought_back(self) -> dict[str, int]:
        """What restores and drills of the mark brought back."""
        found = brought_back(self.context.mark)
        return asdict(found) if found.objects else {}

    def _confirmed_from(self, outcomes: Mapping[str, int]) -> float | None:
        """From when a sweep may delete more of what is unconfirmed; a mark that is closed need not tell."""
        return more_confirmed_at(self.context) if outcomes.get(Outcome.UNCONFIRMED) and not self.closing else None

    def _record_lost(self, look: Look, attempt: int) -> None:
        from pyspark.sql import functions as F

        referred = among(self.spark, self.record.planned().mapped(self.spark), look.live())
        if referred.few(0):
            return
        lost = absent(referred.as_frame(), self.context.data)
        self._journal(lost.withColumn("outcome", F.lit(Outcome.LOST)), attempt)

    def _result(
        self,
        outcomes: Mapping[str, int],
        bytes_deleted: int,
        planned: int,
        unreadable: Mapping[str, int] | None = None,
    ) -> SweepResult:
        begun = self.record.is_begun
        return SweepResult(
            repository=self.context.header.repository,
            mark_id=self.context.header.mark_id,
            sweep=self.record.number if begun else self.record.number - 1,
            outcomes=outcomes,
            bytes_deleted=bytes_deleted,
            planned=planned,
            seconds=time.monotonic() - self.started,
            report=self.record.location if begun else None,
            dry_run=self.dry_run,
            planned_bytes=0 if self.dry_run else None,
            unreadable=dict(unreadable or {}),
            waiting=self.not_asked,
            canaries=self.canaries,
            delete_conditions=self.waves.conditions.as_json(),
            rings=self.waves.rings_told(),
            brought_back=self._brought_back(),
            confirmed_from=self._confirmed_from(outcomes),
            budget=self.budget.as_json() if self.budget.is_limited else {},
            price=self.context.settings.price,
        )
