"""swept_report: deletes what a mark found expired and a fresh look confirmed, and says what became of every object.

Look, plan, delete in waves with a glance at the refs before each, look again: an object found referenced before its
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

from lakegc_core import clock
from lakegc_core.copies.backup import backup_facts
from lakegc_core.errors import RefusedError, StoreError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.lease import Lease
from lakegc_core.marks.neighbours import facts_of, neighbours_of, sightings
from lakegc_core.policy import guards
from lakegc_core.policy.guards import Evidence, Verdict
from lakegc_core.policy.namespace import xid_times
from lakegc_core.policy.safety import LOOKS
from lakegc_core.spark.session import clear_errors, many
from lakegc_core.stages.expired_addresses import since as findings
from lakegc_core.stages.expired_addresses.classes import PLANNED
from lakegc_core.stages.expired_addresses.heads import heads_of_mark
from lakegc_core.stages.expired_addresses.neighbour_references import NEIGHBOURS
from lakegc_core.stages.expired_addresses.proofs import DIGESTS, Known
from lakegc_core.stages.expired_addresses.reasons import MinimumAge, Names
from lakegc_core.stages.expired_addresses.reuploads import WAITING, Candidates, Reuploads, find_reuploads
from lakegc_core.stages.swept_report import lakefs_report, rescues
from lakegc_core.stages.swept_report import other_tools as foreign_mark
from lakegc_core.stages.swept_report.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA, Deletion, Piece, run_wave
from lakegc_core.stages.swept_report.look import Glance, Look, take_look
from lakegc_core.stages.swept_report.lost import LOST, absent, told_apart
from lakegc_core.stages.swept_report.other_tools import ForeignMark
from lakegc_core.stages.swept_report.read_sample import Sample, read_again, take_sample
from lakegc_core.stages.swept_report.record import SweepRecord
from lakegc_core.stages.swept_report.rescues import RESCUED, UNCONFIRMED
from lakegc_core.stages.swept_report.result import SweepResult
from lakegc_core.stages.swept_report.spinning import Spinning
from lakegc_core.stages.swept_report.what_counts import (
    as_swept,
    check_min_age,
    effective_level,
    stricter_than_mark,
)
from lakegc_core.store.base import ALREADY_GONE, DELETED, Store, StoreConfig, connect
from lakegc_core.store.parts import Part, read, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGE = "swept_report"
_PLANNED = "planned"
_UNIT = "substring_index(address, '/', 2)"  # a slice, or a shard
_SHARE = "pmod(xxhash64(address), 16)"  # a unit holds up to 50,000 objects: more than one task's share
_ROWS_A_PART = 10_000
_MOST_PARTS = 1_000


def judge(
    context: MarkContext,
    accepted: Mapping[str, str] | None = None,
    sample: Sample | None = None,
    skew: float | None = None,
    neighbours: Mapping[str, Any] | None = None,
) -> list[Verdict]:
    """The guards over a complete mark, evaluated now, at the stricter of its level and the policy's.

    `sample`: what reading some paths has shown, when it was tried. `skew`: seconds by which the store's clock is ahead
    now, when it was asked. `neighbours`: what is known of other repositories now, when it was asked.
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
        neighbours=neighbours,
        neighbours_strict=context.settings.neighbours.strict,
        backup_required=context.policy.backup,
        backup=backup_facts(context) if context.policy.backup else None,
    )
    return guards.evaluate(evidence, accepted)


def unknown_names(context: MarkContext) -> bool:
    """Whether a sweep deletes what lies below data/ under names that lakeFS never gives: if the mark was made so, and
    lakegc.yaml still says so."""
    return context.header.collect_unknown_names and context.policy.collect_unknown_names


def listed_long_enough_at(context: MarkContext) -> float:
    """Unix seconds from which a look may confirm anything at all: uploads of the time of the listing are staged."""
    delay = effective_level(context).look_delay
    return context.mark.require("namespace_listing").finished_at + delay.total_seconds()


def confirmed_at(context: MarkContext) -> float:
    """Unix seconds from which a look may confirm this mark's newest findings."""
    found = context.mark.require("expired_addresses").facts["asked_at"]
    found = found or context.mark.require("retention_commits").finished_at
    return max(listed_long_enough_at(context), found + effective_level(context).gap.total_seconds())


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
    strict = as_swept(context)
    with strict.lease("sweep") as lease:
        check_min_age(context)
        if stricter := stricter_than_mark(context):
            context.say(f"{STAGE}: lakegc.yaml is stricter than the mark, and counts: {'; '.join(stricter)}")
        sample = take_sample(spark, context, effective_level(context).samples)
        # This may be another machine than the one that marked, and the gap is waited for by its clock.
        skew = (connect(context.data).probe().clock - clock.now()).total_seconds()
        around = facts_of(
            sightings(spark, neighbours_of(context)), context.settings.neighbours, clock.now().timestamp()
        )
        verdicts = judge(context, accepted, sample, skew, around)
        if not guards.authorized(verdicts):
            begun = SweepRecord(spark, context, dry_run=dry_run).is_begun
            raise RefusedError(refusal(context, verdicts, begun=begun))
        if not dry_run:
            _check_look_delay(context)
        return _Sweep(spark, strict, verdicts, sample, lease, dry_run, started, only, accepted or {}).run()


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
    """One call of `swept_report` that was authorised. `context`: the mark as `as_swept` gives it."""

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
        accepted: Mapping[str, str],
    ) -> None:
        self.accepted = accepted
        self.spark, self.context, self.verdicts, self.lease = spark, context, verdicts, lease
        self.sample, self.dry_run, self.started, self.only = sample, dry_run, started, only
        self.level = context.level
        self.spinning = Spinning(context)
        self.record = SweepRecord(spark, context, dry_run=dry_run)
        self.asked: Reuploads | None = None  # what the newest look asked lakeFS
        self.waiting: Mapping[str, int] = {}  # objects and bytes for which the requests did not suffice

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
            look, plan = self._plan(candidates, here, attempt, waiting)
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
            candidates, before = self.record.left(), waiting
            waiting = _count(candidates)
            self.spinning.look(before, waiting)

    def _check_neighbours(self, look: Look) -> None:
        """The look reads what neighbours noted, which no guard does. RefusedError where all of it must read."""
        is_known, said = guards.well_known(look.facts[NEIGHBOURS])
        if not is_known and self.context.settings.neighbours.strict and NEIGHBOURS not in self.accepted:
            raise RefusedError(f"{said} Nothing more was deleted.")

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

    def _plan(self, candidates: DataFrame, here: str, attempt: int, waiting: int) -> tuple[Look, list[Part]]:
        """Look until no head moves meanwhile; write what may be deleted as plan parts, and journal what may not.

        A head that moved may have hidden from the dump what it shows now. What any of the looks found referenced is
        rescued; after LOOKS of them the last one counts.
        """
        from pyspark.sql import functions as F

        if self.level.gap:
            candidates = findings.with_later_findings(self.spark, self.context, candidates)
        judged = candidates.withColumn("h", F.xxhash64("address")).withColumn("outcome", F.lit(_PLANNED))
        for number in range(1, LOOKS + 1):
            folder = f"{here}/look" if number == 1 else f"{here}/look-{number}"
            look = take_look(self.spark, self.context, folder)
            self._check_neighbours(look)
            judged = self._judged(judged, look, f"{folder}/reuploads")
            if number == LOOKS or not look.heads_moved(self.context):
                break
            self.context.say(f"{STAGE}: heads of branches moved meanwhile; looking again")
        if self.asked is not None and not self.record.is_begun:
            self.waiting = self.asked.left
        return look, self._write_plan(judged.drop("h"), here, attempt, waiting)

    def _judged(self, judged: DataFrame, look: Look, folder: str) -> DataFrame:
        """The candidates (with `h` and `outcome`), after what a look saw and what branches showed then."""
        from pyspark.sql import functions as F

        ready = look.began_at - self.level.gap.total_seconds()
        live = look.live(self.spark, self.context).withColumn("live", F.lit(True))
        judged = (
            judged.join(many(live), "h", "left")
            .withColumn(
                "outcome",
                F.when(F.col("live").isNotNull(), RESCUED)
                .when((F.col("outcome") == _PLANNED) & (F.col("since") > findings.moment(ready)), UNCONFIRMED)
                .otherwise(F.col("outcome")),
            )
            .drop("live")
        )
        planned = f"{folder}/candidates"
        parts = write(
            judged.where(f"outcome = '{_PLANNED}'").select(*PLANNED.names),
            self.context.workspace,
            {"planned": planned},
            PLANNED,
        )["planned"]
        heads = heads_of_mark(self.spark, self.context, folder, look)
        waiting = self.context.mark.require(findings.STAGE).datasets.get(WAITING, ())
        waited = (self.context.mark.stage_folder(findings.STAGE, WAITING), waiting)
        candidates = Candidates(planned, parts)
        self.asked = find_reuploads(self.spark, self.context, heads, candidates, waited, self._known())
        if self.asked is None:
            return judged
        return (
            judged.join(many(self.asked.verdicts), "address", "left")
            .withColumn(
                "outcome",
                F.when(F.col("outcome") == _PLANNED, F.coalesce("verdict", "outcome")).otherwise(F.col("outcome")),
            )
            .drop("verdict")
        )

    def _known(self) -> Known:
        """What the mark proved of contents. A look makes no HEADs: what is new is asked for by pages."""
        stage, mark = findings.STAGE, self.context.mark
        return Known(mark.stage_folder(stage, DIGESTS), mark.require(stage).datasets.get(DIGESTS, ()), 0)

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
            split=_SplitPlan(
                self.context.data if self.record.may_have_deleted else None,
                MinimumAge.of(self.context, xid_times),
                None if unknown_names(self.context) else self.context.namespace.unknown,
            ),
            schemas={"outcomes": OUTCOMES_SCHEMA, "rescues": rescues.SCHEMA},
        )
        return parts["plan"]

    def _parts(self, rows: int) -> int:
        return max(1, min(_MOST_PARTS, -(-rows // _ROWS_A_PART)))

    def _delete(self, plan: Sequence[Part], here: str, attempt: int, look: Look) -> bool:
        """Delete a plan in waves, each right after a glance. False when a whole look is due before all is done.

        After the last wave there is no glance: the look that follows it (`_finish`) asks for refs and rules anew, and
        for all else that may have changed.
        """
        pieces = [Piece(part) for part in plan]
        glance = Glance(self.spark, self.context, look)
        expires = look.began_at + self.level.look_validity.total_seconds()
        number = 0
        scale = self.context.settings.scale
        # A ceiling is shared by the tasks that run side by side, so there are no more than are told.
        tasks = scale.delete_parallelism or (spark_width(self.spark) if scale.delete_rate else None)
        self.context.say(f"{STAGE}: deleting {sum(part.rows for part in plan):,} objects")
        while pieces:
            if self._came_back(glance, plan, here, number):
                self.context.say(f"{STAGE}: refs or rules have changed; looking again")
                return False
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
                unknown_names=unknown_names(self.context),
            )
            before = sum(piece.rows for piece in pieces)
            pieces = run_wave(self.spark, pieces, work, tasks)
            self.spinning.wave(before, sum(piece.rows for piece in pieces))
            number += 1
        return True

    def _check_lease(self) -> None:
        if self.lease is not None:
            self.lease.check()

    def _came_back(self, glance: Glance, plan: Sequence[Part], here: str, number: int) -> bool:
        """Right before a wave: does any object of the plan belong to a head or tag that appeared since the look?"""
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
        """Look once more: what is gone and is found referenced now is lost, and says so.

        Staged entries, rules, branches, tags and all that they retain: whatever came back since the last look is seen.
        """
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
                "counted": self.context.header.choices(),
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
            waiting=self.waiting,
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
    """Divides judged rows among plan, journal and rescues. What is too young by `age` is not planned: lakegc.yaml may
    ask for more than the mark did. Where something may have been deleted already, what is rescued must be in `store`,
    or else it is lost. `unknown`: which addresses bear a name that is refused; None where none is."""

    store: StoreConfig | None
    age: MinimumAge
    unknown: Names | None

    def __call__(self, table: pa.Table) -> dict[str, pa.Table]:
        table = self._without_young(table)
        if self.unknown is not None:
            refused = pc.and_(pc.equal(table["outcome"], _PLANNED), self.unknown(table["address"]))
            outcomes = pc.if_else(refused, foreign_mark.FOREIGN, table["outcome"])
            table = table.set_column(table.schema.get_field_index("outcome"), "outcome", outcomes)
        if self.store is not None:
            table = told_apart(table, self.store)
        planned, rescued = pc.equal(table["outcome"], _PLANNED), pc.equal(table["outcome"], RESCUED)
        return {
            "plan": table.filter(planned),
            "outcomes": table.filter(pc.invert(planned)),
            "rescues": table.filter(rescued),
        }

    def _without_young(self, table: pa.Table) -> pa.Table:
        young = self.age.young(table["address"].combine_chunks(), table["last_modified"].combine_chunks())
        waits = pc.and_(young, pc.equal(table["outcome"].combine_chunks(), _PLANNED))
        outcomes = pc.if_else(waits, UNCONFIRMED, table["outcome"].combine_chunks())
        return table.set_column(table.schema.get_field_index("outcome"), "outcome", outcomes)
