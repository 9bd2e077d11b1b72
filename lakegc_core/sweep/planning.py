"""The plan of a sweep: objects that a mark found expired, less what a fresh look finds referenced or cannot confirm.

What is planned is written as parts; everything else gets its outcome in the journal. Nothing is deleted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.errors import RefusedError
from lakegc_core.judging.reasons import MinimumAge, Names
from lakegc_core.judging.since import brought_back, with_later_findings
from lakegc_core.marks import rescues
from lakegc_core.marks.backups import backed_up, backup_facts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import NEIGHBOURS
from lakegc_core.names import SEEN_AGAIN, Outcome, Stage, see
from lakegc_core.policy.facts import NOTHING, Amount, ExpiredFacts
from lakegc_core.policy.known_neighbours import forgotten, well_known
from lakegc_core.policy.safety import LOOKS
from lakegc_core.policy.xids import xid_times
from lakegc_core.references.shown.classes import SIZES
from lakegc_core.references.shown.remembered import Known, known
from lakegc_core.references.shown.reuploads import WAITING, find_reuploads
from lakegc_core.spark.tasks import Mapped, both, many, run_on_rows
from lakegc_core.store.base import StoreConfig
from lakegc_core.sweep import other_tools
from lakegc_core.sweep.budget import Budget, Cut, largest_first
from lakegc_core.sweep.canaries import Canaries, choose
from lakegc_core.sweep.candidates import (
    JUDGED,
    PLANNED,
    WITH_RANK,
    answered,
    as_judged,
    by_rank,
    gone,
    live,
    looked_at,
    not_shown,
    of_mark,
    shown_of,
    sides_of,
    stamped,
    there,
    with_rank,
)
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA
from lakegc_core.sweep.failures import FAILURE, failed_before, told_of_the_rest, with_failures
from lakegc_core.sweep.look import Look, Reads, take_look
from lakegc_core.sweep.lost import mark_gone, mark_lost, seen_again
from lakegc_core.sweep.record import PLAN, SweepRecord
from lakegc_core.sweep.what_counts import unknown_names
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.joins import also_in, beside, flagged
from lakegc_core.tables.key_scan import MOST
from lakegc_core.tables.parts import bytes_of, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LAST = "last"  # part of a plan with a budget: what earlier sweeps failed to delete
_CANDIDATES, _DECIDED = "candidates", "told"  # datasets of a look
_BY_OTHER_MARKS = "elsewhere"  # dataset: the objects that sweeps of other marks deleted
_UNIT = "substring_index(address, '/', 2)"  # a slice, or a shard
_BUCKET = "pmod(hash(address), 16)"  # of a unit, which holds up to 50,000 objects: too many for one task
_ROWS_A_PART = 10_000
_MOST_PARTS = 1_000


@dataclass(frozen=True)
class Plan:
    """Objects that may be deleted (PLAN_SCHEMA), as `look` confirmed them. `not_asked`: objects and bytes for which the
    requests to lakeFS did not suffice, or that compaction may hide; None if nothing had to be asked. `canaries`: those
    that were tried, none of which is planned."""

    objects: Dataset
    look: Look
    not_asked: Amount | None
    canaries: Canaries


@dataclass
class Planner:
    """Plans the attempts of one sweep.

    - `accepted`: guards that the operator accepted, with the reasons
    - `judged_at`: when the guards judged, unix seconds; they did not count what was not ready then
    - `resumed`: the sweep was begun by a call that broke off
    - `budget`: what does not fit into it is not planned
    - `paths`: (branch, path) of objects on heads, for canaries
    """

    spark: SparkSession
    context: MarkContext
    record: SweepRecord
    reads: Reads
    accepted: Mapping[str, str]
    judged_at: float
    resumed: bool
    budget: Budget = field(default_factory=Budget)
    paths: Sequence[tuple[str, str]] = ()

    def plan(self, candidates: Mapped, attempt: int, to_sweep: int) -> Plan:
        """Look until no head moves meanwhile, at most LOOKS times: a head that moved may have hidden from the dump what
        it shows now. An object that any look finds referenced is rescued.

        Writes the objects that may be deleted as plan parts, and journals the others. `to_sweep`: number of objects
        that are left to sweep.
        """
        if self.context.level.gap:
            candidates = with_later_findings(self.spark, self.context, candidates)
        here = self.record.attempt(attempt)
        doubtful, judged = self._doubtful(candidates), candidates
        if doubtful is not None:
            judged = beside(candidates, self._gone_by_other_marks(doubtful, here, attempt), "outcome")
        judged = self._backed_up(judged.then(JUDGED, partial(as_judged, is_canary=False)))
        canaries = choose(self.context, self.paths) if self.context.level.samples else Canaries(self.context)
        smuggled = canaries.smuggled(self.spark)
        as_canaries = partial(as_judged, is_canary=True)
        sides = [judged] if smuggled is None else sides_of(judged, smuggled.then(JUDGED, as_canaries))
        not_asked: Amount | None = None
        for number in range(1, LOOKS + 1):
            folder = here.below("look" if number == 1 else f"look-{number}")
            look = take_look(self.spark, self.context, folder.path, self.reads)
            judged, more = self._judged(sides, look, folder.below("reuploads"))
            sides = [judged]
            not_asked = more if not_asked is None else not_asked + (more or NOTHING)
            if number == LOOKS or not look.heads_moved(self.context):
                break
            self.context.say(f"{Stage.SWEPT_REPORT}: heads of branches moved meanwhile; looking again")
        judged = self._without_canaries(judged, canaries, look)
        may_be_gone = self.record.may_have_deleted or doubtful is not None
        objects = self._write_plan(judged, here, attempt, _parts(to_sweep), may_be_gone=may_be_gone)
        return Plan(objects, look, not_asked, canaries)

    def _backed_up(self, judged: Mapped) -> Mapped:
        """The candidates, of which those stay that the mark's backup lacks, if lakegc.yaml asks for one."""
        from pyspark.sql import functions as F

        facts = backup_facts(self.context) if self.context.policy.backup else None
        has_all = facts and facts.objects == self.context.mark.facts(ExpiredFacts).expired.objects
        if has_all or not self.context.policy.backup:
            return judged
        saved = backed_up(self.spark, self.context).withColumn("saved", F.lit(True))
        rows = judged.as_frame().join(many(saved), "address", "left")
        lacks = (F.col("outcome") == PLANNED) & F.col("saved").isNull()
        outcome = F.when(lacks, Outcome.NOT_IN_BACKUP).otherwise(F.col("outcome"))
        return Mapped(rows.withColumn("outcome", outcome).select(*JUDGED.names), JUDGED)

    def _without_canaries(self, judged: Mapped, canaries: Canaries, look: Look) -> Mapped:
        """The judged candidates alone, of which none is planned that lakeFS has just shown. RefusedError if a canary
        would be deleted that lakeFS still shows."""
        if not canaries.found:
            return judged
        shown = pa.array(sorted(canaries.addresses), pa.string())
        passed = run_on_rows(judged, partial(shown_of, shown))
        smuggled = {each["address"] for each in passed if each["canary"]}
        canaries.check({each["address"] for each in passed if not each["canary"]}, smuggled, look)
        return judged.then(JUDGED, partial(not_shown, shown))

    def _doubtful(self, candidates: Mapped) -> Mapped | None:
        """The candidates of which the mark's listing may say too little: sweeps of other marks deleted them since, or
        restores brought them back. None if there can be none."""
        deleted = self.record.other_marks.deleted(ever=True)
        # Where there is a gap, it begins anew for what was brought back.
        back = None if self.context.level.gap else brought_back(self.spark, self.context, candidates)
        found = [each for each in (deleted, back) if each is not None]
        return also_in(candidates, *found) if found else None

    def _gone_by_other_marks(self, doubtful: Mapped, here: DatasetFolder, attempt: int) -> Mapped:
        """Address and outcome of `doubtful` candidates: `already_gone` where nothing lies, `unconfirmed` where another
        object lies than the mark listed. What is unchanged has no row, stays a candidate, and is journalled. What this
        sweep itself may have deleted, without a record, stays one, too."""
        asked = stamped(seen_again(doubtful, self.context.data), attempt)
        folders = {_BY_OTHER_MARKS: here.at(_BY_OTHER_MARKS), "outcomes": self.record.journal.path}
        schemas = dict.fromkeys(folders, OUTCOMES_SCHEMA)
        parts = write(asked, here.config, folders, schemas, split=_split_seen)[_BY_OTHER_MARKS]
        found = here.dataset(_BY_OTHER_MARKS, parts, OUTCOMES_SCHEMA).mapped(self.spark, "address", "outcome")
        if not self.resumed:
            return found
        # By the last event of each: what came back after another mark's sweep can have gone by this one.
        others, lying = self.record.other_marks.deleted(), found.then(found.schema, there)
        return lying if others is None else both(lying, also_in(found.then(found.schema, gone), others))

    def _judged(self, sides: Sequence[Mapped], look: Look, out: DatasetFolder) -> tuple[Mapped, Amount | None]:
        """The candidates, with their `outcome` after a look and after asking what branches show; and the amount for
        which lakeFS could not be asked (None: nothing had to be). What is live goes on record as soon as it is known:
        the sweep may be refused, or die, before there is a plan. `sides`: see `sides_of`."""
        if max(look.referred_to().rows, look.kept_by_holds().rows) > MOST:  # or the job of each side would shuffle them
            sides = [reduce(both, sides)]
        looked = [self._looked_at(each, look, out) for each in sides]
        candidates, told = (reduce(add, (each[name] for each in looked)) for name in (_CANDIDATES, _DECIDED))
        if told.rows:
            rescues.rescue(self.context, told.mapped(self.spark).then(JUDGED, live))
        self._check_neighbours(look)
        heads = look.branch_heads(self.context)
        waited = self.context.mark.dataset(Stage.EXPIRED_ADDRESSES, SIZES, WAITING, may_lack=True)
        asked = find_reuploads(self.spark, self.context, heads, candidates, out, waited, self._known)
        every = (candidates + told).mapped(self.spark)  # as one dataset: a union passes through the JVM
        if asked is None:
            return every, None
        if asked.shown.rows:
            own = candidates.mapped(self.spark).then(JUDGED, of_mark)
            rescues.rescue(self.context, also_in(own, asked.shown.mapped(self.spark)))
        return beside(every, asked.verdicts, "verdict").then(JUDGED, answered), asked.left

    def _looked_at(self, judged: Mapped, look: Look, out: DatasetFolder) -> Mapping[str, Dataset]:
        """The rows, with their `outcome` after a look: those that are planned, and the others."""
        ready = min(look.began_at, self.judged_at) - self.context.level.gap.total_seconds()
        rows = flagged(self.spark, judged, "referred", look.referred_to())
        rows = flagged(self.spark, rows, "held", look.kept_by_holds()).then(JUDGED, partial(looked_at, ready))
        return out.divide(rows, dict.fromkeys((_CANDIDATES, _DECIDED), JUDGED), _split_planned)

    def _known(self) -> Known:
        """Proofs of contents, by earlier marks."""
        return known(self.context, self.context.mark.facts(ExpiredFacts).prices)

    def _write_plan(
        self, judged: Mapped, here: DatasetFolder, attempt: int, partitions: int, *, may_be_gone: bool
    ) -> Dataset:
        from pyspark.sql import functions as F

        at = clock.now().timestamp()
        failed = failed_before(self.spark, self.context) if self.budget.is_limited else None
        rows = stamped(judged.then(WITH_RANK, with_rank), attempt, at)
        parts = write(
            self._ordered(with_failures(rows, failed), partitions),
            here.config,
            {PLAN: here.at(PLAN), _LAST: here.at(PLAN), "outcomes": self.record.journal.path},
            {PLAN: PLAN_SCHEMA, _LAST: PLAN_SCHEMA, "outcomes": OUTCOMES_SCHEMA},
            split=_SplitPlan(
                self.context.data if may_be_gone else None,
                MinimumAge.of(self.context, xid_times),
                None if unknown_names(self.context) else self.context.namespace.unknown,
                self.resumed,
                self.budget.most_bytes,
            ),
            summarise=bytes_of,
        )
        first, last = (here.dataset(PLAN, parts[name], PLAN_SCHEMA) for name in (PLAN, _LAST))
        if not self.budget.is_limited:
            return first
        planned = Dataset(PLAN_SCHEMA, (*largest_first(first.sources), *largest_first(last.sources)))
        if not self.budget.limits_plans:
            return planned
        store = self.context.data if self.resumed else None
        cut = Cut(here.below(PLAN), self.record.journal, attempt, datetime.fromtimestamp(at, UTC), store)
        kept = cut.within(self.spark, planned, self.budget)
        told = told_of_the_rest(self.context, self.record, attempt, failed)
        if told is not None:
            self.record.journal.put("", told.withColumn("attempt", F.lit(attempt)), OUTCOMES_SCHEMA)
        return kept

    def _ordered(self, rows: Mapped, partitions: int) -> Mapped:
        """The rows in partitions, enough of them to keep all tasks busy; each partition is sorted by rank."""
        from pyspark.sql import functions as F

        if partitions == 1 and rows.few(_ROWS_A_PART):
            return rows.then(rows.schema, partial(by_rank, rows.schema))
        frame = rows.as_frame()
        if self.budget.is_limited:  # the largest objects first
            spread = frame.repartitionByRange(partitions, F.desc("size"), "address")
        else:  # by unit, so that a batch stays within few prefixes of the store
            spread = frame.repartition(partitions, F.expr(_UNIT), F.expr(_BUCKET))
        return Mapped(spread.sortWithinPartitions("rank", "address"), rows.schema)

    def _check_neighbours(self, look: Look) -> None:
        """Judge what the look read of neighbours, which no guard does. RefusedError if a neighbour must be known and is
        not."""
        facts, of_mark = look.facts.neighbours, self.context.mark.facts(ExpiredFacts).neighbours
        strict = self.context.settings.neighbours.strict
        is_known, said = well_known(facts, of_mark, strict=strict)
        if not is_known and (strict or forgotten(facts, of_mark)) and NEIGHBOURS not in self.accepted:
            raise RefusedError(f"{said} Nothing more was deleted. {see(NEIGHBOURS)}")


def _split_planned(table: pa.Table) -> dict[str, pa.Table]:
    planned = pc.equal(table["outcome"], PLANNED)
    return {_CANDIDATES: table.filter(planned), _DECIDED: table.filter(pc.invert(planned))}


def _split_seen(table: pa.Table) -> dict[str, pa.Table]:
    seen = pc.equal(table["outcome"], SEEN_AGAIN)
    return {_BY_OTHER_MARKS: table.filter(pc.invert(seen)), "outcomes": table.filter(seen)}


def _parts(rows: int) -> int:
    return max(1, min(_MOST_PARTS, -(-rows // _ROWS_A_PART)))


@dataclass(frozen=True)
class _SplitPlan:
    """Divides judged rows among plan and journal; what failed before (FAILURE) has parts of its own.

    Objects that are too young by `age` are not planned: lakegc.yaml may ask for more than the mark did. `store`: given
    if objects may have been deleted already; a rescued object that it lacks is lost, an unconfirmed one is gone.
    `unknown`: finds addresses with unknown names, which are refused, and counted as foreign; None if none is refused.
    `resumed`: a call that broke off had planned all rows, and not all that it did is on record. `most_bytes`: an object
    of more is over the budget by itself.
    """

    store: StoreConfig | None
    age: MinimumAge
    unknown: Names | None
    resumed: bool = False
    most_bytes: int | None = None

    def __call__(self, table: pa.Table) -> dict[str, pa.Table]:
        table = self._without_young(table)
        if self.unknown is not None:
            table = _instead(table, self.unknown(table["address"].combine_chunks()), other_tools.FOREIGN)
        if self.most_bytes is not None:
            table = _instead(table, pc.greater(table["size"].combine_chunks(), self.most_bytes), Outcome.OVER_BUDGET)
        if self.store is not None:
            table = mark_gone(mark_lost(table, self.store), self.store, asked=self.resumed)
        planned, failed = pc.equal(table["outcome"], PLANNED), pc.is_valid(table[FAILURE])
        return {
            PLAN: table.filter(pc.and_not(planned, failed)),
            _LAST: table.filter(pc.and_(planned, failed)),
            "outcomes": table.filter(pc.invert(planned)),
        }

    def _without_young(self, table: pa.Table) -> pa.Table:
        young = self.age.young(table["address"].combine_chunks(), table["last_modified"].combine_chunks())
        return _instead(table, young, Outcome.UNCONFIRMED)


def _instead(table: pa.Table, chosen: pa.Array, outcome: str) -> pa.Table:
    """The rows, in which those that are planned and chosen have this outcome instead."""
    told = table["outcome"].combine_chunks()
    told = pc.if_else(pc.and_(chosen, pc.equal(told, PLANNED)), str(outcome), told)
    return table.set_column(table.schema.get_field_index("outcome"), "outcome", told)
