"""swept_report: deletes what a mark found expired and a fresh look confirmed, and says what became of every object.

A sweep is a plan, durable before the first delete, and a journal of outcomes, written batch by batch. A sweep that broke
off is taken up where its journal ends; one that left failures is followed by another. How a batch is deleted is the
store's business; which objects are live is the look's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakegc_core import clock, guards, safety
from lakegc_core.context import MarkContext
from lakegc_core.errors import IncompleteError, RefusedError
from lakegc_core.guards import Evidence, Verdict
from lakegc_core.mark import decode, encode
from lakegc_core.safety import Level
from lakegc_core.spark import clear_errors, run_tasks
from lakegc_core.stages import expired_addresses, lakefs_report
from lakegc_core.stages.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA, Deletion
from lakegc_core.stages.look import Look, take_look
from lakegc_core.store.base import ALREADY_GONE, DELETED, FAILED, connect
from lakegc_core.store.parquet import Part, list_parts, read, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGE = "swept_report"
RESCUED = "rescued"
UNCONFIRMED = "unconfirmed"
FINAL = (DELETED, ALREADY_GONE, RESCUED)
"""Outcomes after which a mark never asks for an object again: gone, or found live since."""


@dataclass(frozen=True)
class SweepResult:
    """What became of the objects of one sweep. `outcomes` counts objects by final outcome, failures by code."""

    repository: str
    mark_id: str
    sweep: int
    outcomes: Mapping[str, int]
    bytes_deleted: int
    planned: int
    seconds: float
    report: str | None  # URI of report.json; None when nothing was begun
    dry_run: bool = False

    @property
    def failed(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome.startswith(FAILED))


def judge(context: MarkContext, accepted: Mapping[str, str] | None = None) -> list[Verdict]:
    """The guards over a complete mark, evaluated now, at the stricter of its level and the policy's."""
    evidence = Evidence(
        header=context.header,
        manifests=context.mark.chain(),
        level=effective_level(context),
        now=clock.now().timestamp(),
    )
    return guards.evaluate(evidence, accepted)


def effective_level(context: MarkContext) -> Level:
    """The level a mark is swept by: its own or that of lakegc.yaml, the stricter."""
    policy = context.policy.safety
    return safety.stricter(context.level, safety.level(policy)) if policy else context.level


def confirmed_at(context: MarkContext) -> float:
    """Unix seconds from which a look may confirm this mark's newest findings."""
    level = effective_level(context)
    listed = context.mark.require("namespace_listing").finished_at + level.look_delay.total_seconds()
    read = context.mark.require("retention_commits").started_at + level.gap.total_seconds()
    return max(listed, read)


def swept_report(
    spark: SparkSession,
    context: MarkContext,
    *,
    dry_run: bool = False,
    accepted: Mapping[str, str] | None = None,
) -> SweepResult:
    """Sweep a mark. Deletes nothing when a guard refuses (RefusedError) or with `dry_run`.

    Each object of the plan gets exactly one outcome; those that fail stay for the next call.
    """
    started = time.monotonic()
    verdicts = judge(context, accepted)
    if not guards.authorized(verdicts):
        raise RefusedError(refusal(context, verdicts))
    if not dry_run:
        _check_look_delay(context)
    return _Sweep(spark, context, verdicts, dry_run, started).run()


def refusal(context: MarkContext, verdicts: Sequence[Verdict]) -> str:
    """Why a mark is not swept, one line a guard."""
    found = "\n".join(f"  {verdict.name}: {verdict.description}" for verdict in verdicts if verdict.stops)
    return f"Mark {context.header.mark_id} of {context.header.repository} is not swept. Nothing was deleted.\n{found}"


def _check_look_delay(context: MarkContext) -> None:
    listed = context.mark.require("namespace_listing").finished_at
    wait = timedelta(seconds=listed) + effective_level(context).look_delay - timedelta(seconds=clock.now().timestamp())
    if wait > timedelta(0):
        raise RefusedError(
            f"Mark {context.header.mark_id} was listed too short a time ago: an upload that was under way then may "
            f"not be staged yet. Nothing was deleted. Sweep it in {wait.total_seconds() / 60:.0f} minutes or later."
        )


class _Sweep:
    """One call of `swept_report` that was authorised."""

    def __init__(
        self,
        spark: SparkSession,
        context: MarkContext,
        verdicts: list[Verdict],
        dry_run: bool,
        started: float,
    ) -> None:
        self.spark, self.context, self.verdicts, self.dry_run = spark, context, verdicts, dry_run
        self.started = started
        self.config = context.workspace
        self.store = connect(context.workspace)

    def run(self) -> SweepResult:
        number, resumed = self._number()
        self.folder = f"{self.context.mark.folder}/sweeps/{number}"
        if self.dry_run:
            self.folder = f"{self.context.mark.folder}/dry-runs/{clock.now():%Y%m%dT%H%M%S%f}"
        self.journal = f"{self.folder}/outcomes"
        candidates = self._resumed_plan() if resumed else self._fresh_plan(number)
        with clear_errors():
            waiting = candidates.count()
        if waiting == 0 and not resumed:
            return self._nothing_left(number)
        begun = resumed
        while True:
            attempt = self._attempts()
            here = f"{self.folder}/attempt-{attempt}"
            look = take_look(self.spark, self.context, f"{here}/look")
            plan = self._plan(candidates, look, here, attempt)
            if self.dry_run:
                return self._result(number, sum(part.rows for part in plan))
            if not begun:
                self.store.write(f"{self.folder}/plan.json", encode(self._plan_record(number, plan, look, here)))
                lakefs_report.write(self.spark, self.context, f"{here}/plan", plan)
                begun = True
            if self._delete(plan, here, attempt, look):
                return self._finish(number, look)
            self.context.say(f"{STAGE}: the look has run out; looking again")
            candidates = self._resumed_plan()

    def _number(self) -> tuple[int, bool]:
        """The sweep to run, and whether it was begun before: the last one, until its report stands."""
        prefix = f"{self.context.mark.folder}/sweeps/"
        numbers = [
            int(name)
            for level in self.store.list_level(prefix)
            for name in (each.rstrip("/").rpartition("/")[2] for each in level.prefixes)
            if name.isdecimal()
        ]
        last = max(numbers, default=0)
        if last == 0:
            return 1, False
        names = {
            key.rpartition("/")[2]
            for level in self.store.list_level(f"{prefix}{last}/")
            for key in level.objects["address"].to_pylist()
        }
        if "report.json" in names or self.dry_run:
            return last + 1, False
        return last, "plan.json" in names

    def _attempts(self) -> int:
        return 1 + sum(
            each.rstrip("/").rpartition("/")[2].startswith("attempt-")
            for level in self.store.list_level(f"{self.folder}/")
            for each in level.prefixes
        )

    def _expired(self) -> DataFrame:
        stage = expired_addresses.STAGE
        parts = self.context.mark.require(stage).datasets[stage]
        folder = self.context.mark.stage_folder(stage)
        return read(self.spark, self.config, folder, parts, expired_addresses.SCHEMA)

    def _fresh_plan(self, number: int) -> DataFrame:
        """Everything expired that no earlier sweep of this mark has finished with."""
        expired = self._expired()
        for earlier in range(1, number):
            expired = self._without_finished(expired, f"{self.context.mark.folder}/sweeps/{earlier}/outcomes")
        return expired

    def _resumed_plan(self) -> DataFrame:
        """What the plan of the broken sweep held and its journal does not call done."""
        record = decode(self.store.read(f"{self.folder}/plan.json"), f"{self.folder}/plan.json")
        parts = [Part.from_json(part) for part in record["parts"]]
        planned = read(self.spark, self.config, record["folder"], parts, PLAN_SCHEMA)
        return self._without_finished(planned, self.journal)

    def _without_finished(self, frame: DataFrame, journal: str) -> DataFrame:
        done = self._outcomes(journal).where(f"outcome in {FINAL}").select("address").distinct()
        return frame.join(done, "address", "left_anti")

    def _outcomes(self, journal: str) -> DataFrame:
        return read(self.spark, self.config, journal, list_parts(self.config, journal), OUTCOMES_SCHEMA)

    def _plan(self, candidates: DataFrame, look: Look, here: str, attempt: int) -> list[Part]:
        """Write what may be deleted as plan parts; journal what the look took out."""
        from pyspark.sql import functions as F

        ready = look.began_at - effective_level(self.context).gap.total_seconds()
        live = look.live(self.spark, self.context).withColumn("live", F.lit(True))
        judged = (
            candidates.withColumn("h", F.xxhash64("address"))
            .join(live, "h", "left")
            .withColumn(
                "outcome",
                F.when(F.col("live").isNotNull(), RESCUED)
                .when(F.col("since") > expired_addresses.moment(ready), UNCONFIRMED)
                .otherwise("planned"),
            )
            .withColumn("attempt", F.lit(attempt))
        )
        width = spark_width(self.spark)
        ordered = (
            judged.repartitionByRange(4 * width, "address")
            .sortWithinPartitions("address")
            .select(*OUTCOMES_SCHEMA.names, "last_modified", "etag", "since")
        )
        parts = write(
            ordered,
            self.config,
            {"plan": f"{here}/plan", "outcomes": self.journal},
            PLAN_SCHEMA,
            split=_split_plan,
            schemas={"outcomes": OUTCOMES_SCHEMA},
        )
        return parts["plan"]

    def _delete(self, plan: Sequence[Part], here: str, attempt: int, look: Look) -> bool:
        """Delete the parts of a plan. False if the look ran out before all were done."""
        level = effective_level(self.context)
        work = Deletion(
            data=self.context.data,
            artifacts=self.config,
            plan_folder=f"{here}/plan",
            journal=self.journal,
            attempt=attempt,
            namespace=self.context.namespace,
            cutoff=self.context.header.cutoff,
            until=look.began_at + level.look_validity.total_seconds(),
        )
        self.context.say(f"{STAGE}: deleting {sum(part.rows for part in plan):,} objects")
        swept = run_tasks(self.spark, list(plan), work.run)
        return len(swept) == len(plan)

    def _finish(self, number: int, look: Look) -> SweepResult:
        result = self._result(number, None)
        record = asdict(result) | {
            "guards": [asdict(verdict) for verdict in self.verdicts],
            "look": look.facts | {"began_at": look.began_at, "finished_at": look.finished_at},
            "finished_at": clock.now().timestamp(),
        }
        self.store.write(f"{self.folder}/report.json", encode(record))
        return result

    def _result(self, number: int, planned: int | None) -> SweepResult:
        from pyspark.sql import functions as F

        with clear_errors():
            rows = (
                self._outcomes(self.journal)
                .groupBy("address")
                .agg(F.max_by("outcome", "attempt").alias("outcome"), F.max("size").alias("size"))
                .groupBy("outcome")
                .agg(F.count("*").alias("objects"), F.sum("size").alias("bytes"))
                .collect()
            )
        outcomes = {DELETED: 0, ALREADY_GONE: 0, RESCUED: 0, UNCONFIRMED: 0}
        outcomes |= {row["outcome"]: row["objects"] for row in rows}
        if planned is None:
            planned = self._check_sums(outcomes)
        return SweepResult(
            repository=self.context.header.repository,
            mark_id=self.context.header.mark_id,
            sweep=number,
            outcomes=outcomes,
            bytes_deleted=sum(row["bytes"] for row in rows if row["outcome"] == DELETED),
            planned=planned,
            seconds=time.monotonic() - self.started,
            report=None if self.dry_run else f"{self.config.root}/{self.folder}/report.json",
            dry_run=self.dry_run,
        )

    def _check_sums(self, outcomes: Mapping[str, int]) -> int:
        """The objects of the first plan, after checking that each one has an outcome: nothing is left over."""
        record = decode(self.store.read(f"{self.folder}/plan.json"), f"{self.folder}/plan.json")
        planned = sum(part["rows"] for part in record["parts"])
        counted = sum(outcomes.values())
        if counted < planned:
            raise IncompleteError(
                f"{planned - counted:,} of {planned:,} planned objects have no outcome in the journal at "
                f"{self.config.root}/{self.journal}. Run the same sweep again; it goes on where it stopped."
            )
        return planned

    def _plan_record(self, number: int, plan: Sequence[Part], look: Look, here: str) -> dict[str, Any]:
        return {
            "repository": self.context.header.repository,
            "mark_id": self.context.header.mark_id,
            "sweep": number,
            "planned_at": clock.now().timestamp(),
            "mark_digest": self.context.mark.require(expired_addresses.STAGE).digest,
            "folder": f"{here}/plan",
            "parts": [asdict(part) for part in plan],
            "guards": [asdict(verdict) for verdict in self.verdicts],
            "look_began_at": look.began_at,
        }

    def _nothing_left(self, number: int) -> SweepResult:
        return SweepResult(
            repository=self.context.header.repository,
            mark_id=self.context.header.mark_id,
            sweep=number - 1,
            outcomes={DELETED: 0, ALREADY_GONE: 0, RESCUED: 0, UNCONFIRMED: 0},
            bytes_deleted=0,
            planned=0,
            seconds=time.monotonic() - self.started,
            report=None,
            dry_run=self.dry_run,
        )


def _split_plan(table: Any) -> dict[str, Any]:
    import pyarrow.compute as pc

    planned = pc.equal(table["outcome"], "planned")
    return {"plan": table.filter(planned), "outcomes": table.filter(pc.invert(planned))}
