"""swept_report: deletes what a mark found expired and a fresh look confirmed, and says what became of every object.

Look, plan, delete in waves with a glance at the refs between them, look again: an object found referenced before its
delete is rescued, one found so afterwards is `lost`, loudly. A sweep that broke off is taken up where its
journal ends; one that left failures is followed by another. How a batch is deleted is the store's business.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock, guards, safety
from lakegc_core.backup import backup_facts
from lakegc_core.context import MarkContext
from lakegc_core.errors import RefusedError, StoreError
from lakegc_core.guards import Evidence, Verdict
from lakegc_core.lease import Lease
from lakegc_core.safety import Level
from lakegc_core.spark import Mapped, clear_errors, many
from lakegc_core.stages import findings, foreign_mark, lakefs_report, rescues
from lakegc_core.stages.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA, Deletion, Piece, run_wave
from lakegc_core.stages.foreign_mark import ForeignMark
from lakegc_core.stages.look import Glance, Look, take_look
from lakegc_core.stages.lost import LOST, absent, told_apart
from lakegc_core.stages.sample import Sample, read_again, take_sample
from lakegc_core.stages.suspects import PLANNED, RESCUED, UNCONFIRMED, find_suspects, heads_of_mark
from lakegc_core.stages.sweep_record import SweepRecord
from lakegc_core.stages.sweep_result import SweepResult
from lakegc_core.store.base import ALREADY_GONE, DELETED, Store, StoreConfig, connect
from lakegc_core.store.parquet import Part, read, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGE = "swept_report"
_PLANNED = "planned"
_UNIT = "substring_index(address, '/', 2)"
_SHARE = "pmod(xxhash64(address), 16)"  # a unit holds up to 50,000 objects: more than one task's share
_ROWS_A_PART = 10_000
_MOST_PARTS = 1_000


def judge(
    context: MarkContext,
    accepted: Mapping[str, str] | None = None,
    sample: Sample | None = None,
    skew: float | None = None,
) -> list[Verdict]:
    """The guards over a complete mark, evaluated now, at the stricter of its level and the policy's.

    `sample`: what reading some paths has shown, when it was tried. `skew`: seconds by which the store's clock is ahead
    now, when it was asked.
    """
    evidence = Evidence(
        header=context.header,
        manifests=context.mark.chain(),
        level=effective_level(context),
        now=clock.now().timestamp(),
        previous=context.mark.require("expired_addresses").facts["previous"],
        unreadable=sample.unreadable if sample else None,
        sampled=sample.asked if sample else 0,
        skew_now=skew,
        backup_required=context.policy.backup,
        backup=backup_facts(context) if context.policy.backup else None,
    )
    return guards.evaluate(evidence, accepted)


def effective_level(context: MarkContext) -> Level:
    """The level a mark is swept by: its own or that of lakegc.yaml, the stricter."""
    policy = context.policy.safety
    return safety.stricter(context.level, safety.level(policy)) if policy else context.level


def listed_long_enough_at(context: MarkContext) -> float:
    """Unix seconds from which a look may confirm anything at all: uploads of the time of the listing are staged."""
    delay = effective_level(context).look_delay
    return context.mark.require("namespace_listing").finished_at + delay.total_seconds()


def confirmed_at(context: MarkContext) -> float:
    """Unix seconds from which a look may confirm this mark's newest findings."""
    read = context.mark.require("retention_commits").finished_at + effective_level(context).gap.total_seconds()
    return max(listed_long_enough_at(context), read)


def ready_at(context: MarkContext) -> float:
    """Unix seconds from which a sweep of this mark can delete anything at all."""
    expired = context.mark.require("expired_addresses").facts
    some = expired["confirmed"]["objects"] or not expired["expired"]["objects"]
    return listed_long_enough_at(context) if some else confirmed_at(context)


def swept_report(
    spark: SparkSession,
    context: MarkContext,
    *,
    dry_run: bool = False,
    accepted: Mapping[str, str] | None = None,
    only: ForeignMark | None = None,
) -> SweepResult:
    """Sweep a mark. Deletes nothing when a guard refuses (RefusedError) or with `dry_run`.

    `only`: another tool's mark; of its addresses those are swept that this mark found expired, the others refused.
    Each object of the plan gets exactly one outcome; those that fail stay for the next call.
    """
    started = time.monotonic()
    with context.lease("sweep") as lease:
        sample = take_sample(spark, context, effective_level(context).samples)
        # This may be another machine than the one that marked, and the gap is waited for by its clock.
        skew = (connect(context.data).probe().clock - clock.now()).total_seconds()
        verdicts = judge(context, accepted, sample, skew)
        if not guards.authorized(verdicts):
            begun = SweepRecord(spark, context, dry_run=dry_run).is_begun
            raise RefusedError(refusal(context, verdicts, begun=begun))
        if not dry_run:
            _check_look_delay(context)
        return _Sweep(spark, context, verdicts, sample, lease, dry_run, started, only).run()


def refusal(context: MarkContext, verdicts: Sequence[Verdict], *, begun: bool = False) -> str:
    """Why a mark is not swept, one line a guard. `begun`: an earlier call has begun to, and broke off."""
    found = "\n".join(f"  {verdict.name}: {verdict.description}" for verdict in verdicts if verdict.stops)
    mark = f"Mark {context.header.mark_id} of {context.header.repository}"
    if begun:
        return f"{mark} is not swept to its end: a sweep of it broke off. Nothing more was deleted.\n{found}"
    return f"{mark} is not swept. Nothing was deleted.\n{found}"


def _check_look_delay(context: MarkContext) -> None:
    wait = listed_long_enough_at(context) - clock.now().timestamp()
    if wait > 0:
        raise RefusedError(
            f"Mark {context.header.mark_id} was listed too short a time ago: an upload that was under way then may "
            f"not be staged yet. Nothing was deleted. Sweep it in {max(1, round(wait / 60))} minutes or later."
        )


class _Sweep:
    """One call of `swept_report` that was authorised."""

    def __init__(
        self,
        spark: SparkSession,
        context: MarkContext,
        verdicts: list[Verdict],
        sample: Sample,
        lease: Lease | None,
        dry_run: bool,
        started: float,
        only: ForeignMark | None,
    ) -> None:
        self.spark, self.context, self.verdicts, self.lease = spark, context, verdicts, lease
        self.sample, self.dry_run, self.started, self.only = sample, dry_run, started, only
        self.level = effective_level(context)
        self.record = SweepRecord(spark, context, dry_run=dry_run)

    def run(self) -> SweepResult:
        candidates = self.record.left() if self.record.is_begun else self.record.unfinished(self._expired())
        if self.only is not None:
            if self.record.is_begun:
                self._check_same_list(self.only)
            else:
                candidates = self._restricted(candidates, self.only)
        waiting = _count(candidates)
        if waiting == 0 and self.only is None and not self.record.is_begun:
            none = {DELETED: 0, ALREADY_GONE: 0, RESCUED: 0, UNCONFIRMED: 0}
            lost = self.record.lost_before()  # a retry must not turn green what was lost
            return self._result(none | ({LOST: lost} if lost else {}), 0, 0)
        while True:
            attempt = self.record.next_attempt()
            here = f"{self.record.folder}/attempt-{attempt}"
            look = take_look(self.spark, self.context, f"{here}/look")
            plan = self._plan(candidates, look, here, attempt, waiting)
            if self.dry_run:
                totals = self.record.totals()
                return self._result(totals.outcomes, 0, sum(part.rows for part in plan))
            if not self.record.is_begun:
                self._check_lease()
                lakefs_report.write(self.spark, self.context, f"{here}/plan", plan, self.record.parts_before())
                more = {
                    "guards": [asdict(each) for each in self.verdicts],
                    "look_began_at": look.began_at,
                    "only": self.only.name if self.only else None,
                }
                self.record.begin(plan, f"{here}/plan", more)
            if self._delete(plan, here, attempt, look):
                return self._finish(attempt + 1)
            candidates = self.record.left()
            waiting = _count(candidates)

    def _check_same_list(self, only: ForeignMark) -> None:
        """To go on with a sweep of more than was asked for would delete what nobody meant now."""
        if self.record.plan().get("only") != only.name:
            raise RefusedError(
                f"A sweep of mark {self.context.header.mark_id} broke off that was not one of {only.name}. Nothing "
                f"more was deleted. Finish it first: lakegc sweep {self.context.header.repository} "
                f"{self.context.header.mark_id}."
            )

    def _restricted(self, candidates: DataFrame, only: ForeignMark) -> DataFrame:
        """The candidates that another tool's mark lists; the rest of its list is journalled as refused."""
        from pyspark.sql import functions as F

        listed = foreign_mark.addresses(self.spark, self.context, only)
        refused = (
            foreign_mark.refused(self.spark, self.context, listed)
            .withColumn("attempt", F.lit(1))
            .withColumn("at", findings.moment(clock.now().timestamp()))
            .select(*OUTCOMES_SCHEMA.names)
        )
        write(refused, self.context.workspace, {"outcomes": self.record.journal}, OUTCOMES_SCHEMA)
        return candidates.join(many(listed), "address", "left_semi")

    def _expired(self) -> DataFrame:
        stage = findings.STAGE
        parts = self.context.mark.require(stage).datasets[stage]
        folder = self.context.mark.stage_folder(stage)
        return read(self.spark, self.context.workspace, folder, parts, findings.SCHEMA)

    def _plan(self, candidates: DataFrame, look: Look, here: str, attempt: int, waiting: int) -> list[Part]:
        """Write what may be deleted as plan parts; journal what the look took out."""
        from pyspark.sql import functions as F

        ready = look.began_at - self.level.gap.total_seconds()
        live = look.live(self.spark, self.context).withColumn("live", F.lit(True))
        if self.level.gap:
            candidates = findings.with_later_findings(self.spark, self.context, candidates)
        judged = (
            candidates.withColumn("h", F.xxhash64("address"))
            .join(many(live), "h", "left")
            .withColumn(
                "outcome",
                F.when(F.col("live").isNotNull(), RESCUED)
                .when(F.col("since") > findings.moment(ready), UNCONFIRMED)
                .otherwise(_PLANNED),
            )
        )
        heads = heads_of_mark(self.spark, self.context, f"{here}/suspects", look)
        planned = Mapped(judged.where(f"outcome = '{_PLANNED}'").select(*PLANNED.names), PLANNED)
        suspects = find_suspects(self.spark, self.context, heads, planned, self.level)
        if suspects is not None:
            judged = (
                judged.join(many(suspects), "address", "left")
                .withColumn("outcome", F.coalesce("verdict", "outcome"))
                .drop("verdict")
            )
        return self._write_plan(judged, here, attempt, waiting)

    def _write_plan(self, judged: DataFrame, here: str, attempt: int, waiting: int) -> list[Part]:
        from pyspark.sql import functions as F

        self._check_lease()
        stamped = judged.withColumn("attempt", F.lit(attempt)).withColumn(
            "at", findings.moment(clock.now().timestamp())
        )
        ordered = (
            # By unit, so that a batch stays within few prefixes of the store; enough parts to keep all tasks busy.
            stamped.repartition(self._parts(waiting), F.expr(_UNIT), F.expr(_SHARE))
            .sortWithinPartitions("address")
            .select(*OUTCOMES_SCHEMA.names, "last_modified", "etag", "since")
        )
        parts = write(
            ordered,
            self.context.workspace,
            {"plan": f"{here}/plan", "outcomes": self.record.journal, "rescues": rescues.folder(self.context)},
            PLAN_SCHEMA,
            split=_SplitPlan(self.context.data if self.record.may_have_deleted else None),
            schemas={"outcomes": OUTCOMES_SCHEMA, "rescues": rescues.SCHEMA},
        )
        return parts["plan"]

    def _parts(self, rows: int) -> int:
        return max(1, min(_MOST_PARTS, -(-rows // _ROWS_A_PART)))

    def _delete(self, plan: Sequence[Part], here: str, attempt: int, look: Look) -> bool:
        """Delete a plan in waves. False when a whole look is due before all is done."""
        pieces = [Piece(part) for part in plan]
        glance = Glance(self.spark, self.context, look)
        expires = look.began_at + self.level.look_validity.total_seconds()
        number = 0
        scale = self.context.settings.scale
        # A ceiling is shared by the tasks that run side by side, so there are no more than are told.
        tasks = scale.delete_parallelism or (spark_width(self.spark) if scale.delete_rate else None)
        self.context.say(f"{STAGE}: deleting {sum(part.rows for part in plan):,} objects")
        while pieces:
            self._check_lease()
            now = clock.now().timestamp()
            if now >= expires:
                self.context.say(f"{STAGE}: the look is too old; looking again")
                return False
            work = Deletion(
                data=self.context.data,
                artifacts=self.context.workspace,
                plan_folder=f"{here}/plan",
                journal=self.record.journal,
                attempt=attempt,
                namespace=self.context.namespace,
                cutoff=self.context.header.cutoff,
                until=min(expires, now + self.level.watch_interval.total_seconds()),
                lease=self.lease.proof if self.lease else None,
                rate=scale.delete_rate / min(tasks or 1, len(pieces)),
            )
            pieces = run_wave(self.spark, pieces, work, tasks)
            if not pieces:
                return True
            number += 1
            if self._came_back(glance, plan, here, number):
                self.context.say(f"{STAGE}: refs or rules have changed; looking again")
                return False
        return True

    def _check_lease(self) -> None:
        if self.lease is not None:
            self.lease.check()

    def _came_back(self, glance: Glance, plan: Sequence[Part], here: str, number: int) -> bool:
        """Between two waves: does any object of the plan belong to a head or tag that appeared since the look?"""
        if glance.rules_changed():
            return True
        metaranges = glance.new_metaranges()
        if not metaranges:
            return False
        seen = glance.read(metaranges, f"{here}/glance-{number}")
        planned = read(self.spark, self.context.workspace, f"{here}/plan", plan, PLAN_SCHEMA, ["address"])
        with clear_errors():
            return bool(_among(planned, seen.live(self.spark, self.context)).limit(1).count())

    def _finish(self, attempt: int) -> SweepResult:
        """Look once more: what is gone and is found referenced now is lost, and says so."""
        here = f"{self.record.folder}/attempt-{attempt}"
        look = take_look(self.spark, self.context, f"{here}/look")
        self._record_lost(look, attempt)
        unreadable = read_again(self.context, self.sample)
        totals = self.record.totals()
        planned = self.record.check_sums()
        result = self._result(totals.outcomes, totals.bytes_deleted, planned, unreadable)
        result = replace(result, **_keeps(connect(self.context.data)))
        self.record.close(
            asdict(result)
            | {
                "guards": [asdict(verdict) for verdict in self.verdicts],
                "look": look.facts | {"began_at": look.began_at, "finished_at": look.finished_at},
                "finished_at": clock.now().timestamp(),
            }
        )
        return result

    def _record_lost(self, look: Look, attempt: int) -> None:
        from pyspark.sql import functions as F

        planned = self.record.planned().select("address", "size")
        lost = (
            absent(_among(planned, look.live(self.spark, self.context)), self.context.data)
            .withColumn("outcome", F.lit(LOST))
            .withColumn("attempt", F.lit(attempt))
            .withColumn("at", findings.moment(clock.now().timestamp()))
            .select(*OUTCOMES_SCHEMA.names)
        )
        write(lost, self.context.workspace, {"outcomes": self.record.journal}, OUTCOMES_SCHEMA)

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
            unreadable=dict(unreadable or {}),
            price=self.context.settings.price,
        )


def _count(rows: DataFrame) -> int:
    with clear_errors():
        return int(rows.count())


def _keeps(store: Store) -> dict[str, Any]:
    """What the store says of the deleted: does it keep them, and until when?"""
    try:
        probe = store.probe()
    except StoreError:
        return {}  # the sweep is done all the same
    until = clock.now() + probe.soft_delete if probe.soft_delete else None
    return {"versioned": bool(probe.versioning), "recoverable_until": until.timestamp() if until else None}


def _among(rows: DataFrame, live: DataFrame) -> DataFrame:
    """The rows whose address is among the live hashes."""
    from pyspark.sql import functions as F

    return rows.withColumn("h", F.xxhash64("address")).join(many(live), "h", "left_semi").drop("h")


@dataclass(frozen=True)
class _SplitPlan:
    """Divides judged rows among plan, journal and rescues. Where something may have been deleted already, what is
    rescued must be in `store`, or else it is lost."""

    store: StoreConfig | None

    def __call__(self, table: pa.Table) -> dict[str, pa.Table]:
        if self.store is not None:
            table = told_apart(table, self.store)
        planned, rescued = pc.equal(table["outcome"], _PLANNED), pc.equal(table["outcome"], RESCUED)
        return {
            "plan": table.filter(planned),
            "outcomes": table.filter(pc.invert(planned)),
            "rescues": table.filter(rescued),
        }
