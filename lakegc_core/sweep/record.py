"""The record of the sweeps of a mark: numbers, sealed plans, the journal of outcomes.

`sweeps/<n>/plan.json` is written once, before the first delete; `outcomes/` grows batch by batch; `report.json` closes
the sweep. Other modules decide what is planned and what is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakegc_core import clock
from lakegc_core.errors import IncompleteError, MarkError, ObjectNotFoundError, PreconditionFailedError, RefusedError
from lakegc_core.marks.backups import SAVED
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.marks.json_files import decode, encode, sealed, unsealed
from lakegc_core.marks.last_known import readable_records
from lakegc_core.marks.ledger import COLUMNS, Kind, Records, restored
from lakegc_core.marks.quarantine import copying
from lakegc_core.marks.sweeps import files_of, first_planned_at, open_sweep, report_of, sweeps_of
from lakegc_core.names import NO_ANSWER, SEEN_AGAIN, STILL_THERE, Outcome, Stage
from lakegc_core.spark.tasks import Mapped, many
from lakegc_core.store.base import connect
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA
from lakegc_core.sweep.other_marks import OtherMarks
from lakegc_core.sweep.totals import ALWAYS_SHOWN, Totals, totals_of, with_since, with_unswept
from lakegc_core.tables.dataset import Dataset, DatasetFolder, readable
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAN = "plan"
"""The folder of an attempt for its plan."""

FINAL = (Outcome.DELETED, Outcome.ALREADY_GONE, Outcome.RESCUED, Outcome.HELD, Outcome.LOST, Outcome.CHANGED)
"""Outcomes after which no sweep of the mark deletes the object again: it is gone, live, or another one."""


class SweepRecord:
    """The record of one sweep of a mark: the first one that was broken off, else a new one."""

    def __init__(self, spark: SparkSession, context: MarkContext, *, dry_run: bool, lenient: bool = False) -> None:
        """`lenient`: files that cannot be read are passed over, and named in `unread`."""
        self._spark, self._context, self._lenient = spark, context, lenient
        self._is_readable: dict[str, bool] = {}  # by the key of a file that was looked through
        self._store = connect(context.workspace)
        self.other_marks = OtherMarks(spark, context)
        last = max(sweeps_of(self._store, context.mark.folder), default=0)
        number = open_sweep(self._store, context.mark.folder) or last
        names = files_of(self._store, context.mark.folder, number) if number else set()
        open_still = bool(names) and "report.json" not in names and not dry_run
        self._is_taken_up = open_still
        self.number = number if open_still else last + 1
        self.is_begun = open_still and "plan.json" in names
        self.folder = f"{context.mark.folder}/sweeps/{self.number}"
        if dry_run:
            self.folder = f"{context.mark.folder}/dry-runs/{clock.now():%Y%m%dT%H%M%S%f}"

    @property
    def journal(self) -> DatasetFolder:
        """The folder of the outcomes of this sweep."""
        return self._out.below("outcomes")

    def attempt(self, number: int) -> DatasetFolder:
        """The folder of an attempt of this sweep."""
        return self._out.below(f"attempt-{number}")

    @property
    def _out(self) -> DatasetFolder:
        return DatasetFolder(self._context.workspace, self.folder, self._context.header.mark_id)

    @property
    def location(self) -> str:
        """URI of the report, for people."""
        return f"{self._context.workspace.root}/{self.folder}/report.json"

    def next_attempt(self) -> int:
        """Number of the attempt that begins now; each resumption and each new look is one."""
        return 1 + sum(
            each.rstrip("/").rpartition("/")[2].startswith("attempt-")
            for level in self._store.list_level(f"{self.folder}/")
            for each in level.prefixes
        )

    def unfinished(self, expired: Mapped) -> Mapped:
        """The expired rows that no sweep of this mark has finished with, and that no restore brought back."""
        numbers, back = self._numbers_before, self.brought_back
        if not numbers and back is None:
            return expired
        rows = expired.as_frame()
        for number in numbers:
            rows = self._without_finished(rows, self._sealed_outcomes(number))
        rows = rows if back is None else rows.join(many(back), "address", "left_anti")
        return Mapped(rows, expired.schema)

    @cached_property
    def brought_back(self) -> DataFrame | None:
        """Addresses that restores of this mark brought back after its first plan was sealed; None if there was no such
        restore. No sweep of the mark deletes them again. Damaged records are passed over."""
        records = tuple(restored(self._context.mark)) if self.may_have_deleted else ()
        planned = first_planned_at(self._store, self._context.mark.folder) if records else None
        records = tuple(each for each in records if each.at >= (planned or 0.0))
        if not records:
            return None
        found = readable_records(self._spark, Records(records)).found
        sources = tuple(source for each in found for source in each.rows.sources)
        rows = Dataset(COLUMNS[Kind.RESTORED], sources).frame(self._spark)
        return rows.where(rows["outcome"].isin(*SAVED)).select("address")

    @property
    def _numbers_before(self) -> list[int]:
        """The sweeps of this mark before this one, as far as the store shows them."""
        return [number for number in sweeps_of(self._store, self._context.mark.folder) if number < self.number]

    def left(self) -> DataFrame:
        """Objects of this sweep's first plan that its journal does not call finished, without

        - those over the budget of a call: the next sweep takes them
        - those that this journal has rows of, and a later sweep has finished with: they count for that one
        """
        final = (*FINAL, Outcome.OVER_BUDGET)
        left = self._without_finished(self.planned().frame(self._spark), self.outcomes(), final)
        later = [number for number in sweeps_of(self._store, self._context.mark.folder) if number > self.number]
        if not later:
            return left
        rest = left
        for number in later:
            rest = self._without_finished(rest, self._sealed_outcomes(number))
        unknown = left.join(many(self.without_outcome().select("address")), "address", "left_semi")
        return rest.unionByName(unknown).dropDuplicates(["address"])

    def without_outcome(self) -> DataFrame:
        """Objects of this sweep's first plan of which its journal says nothing."""
        return self.planned().frame(self._spark).join(many(self.outcomes().select("address")), "address", "left_anti")

    def planned(self) -> Dataset:
        """The first plan of this sweep. Later plans, and so all of its deletes, are among these objects."""
        record = self.plan()
        folder = DatasetFolder(self._context.workspace, record["folder"], self._context.header.mark_id)
        parts = [Part.from_json(part) for part in record["parts"]]
        return self._readable(folder.dataset("", parts, PLAN_SCHEMA))

    @property
    def unread(self) -> list[str]:
        """The files of this sweep, and of those before it, that were passed over because they cannot be read."""
        return sorted(key for key, is_readable in self._is_readable.items() if not is_readable)

    def _readable(self, rows: Dataset) -> Dataset:
        if not self._lenient:
            return rows
        new = replace(rows, sources=tuple(source for source in rows.sources if _key(source) not in self._is_readable))
        (good,) = readable(self._spark, [new])
        self._is_readable |= {_key(source): source in good.sources for source in new.sources}
        return replace(rows, sources=tuple(source for source in rows.sources if self._is_readable[_key(source)]))

    def taken_back(self) -> list[dict[str, Any]]:
        """Objects and bytes, by earlier sweep, that it recorded as deleted and that this sweep found there."""
        if not self._is_taken_up and not self.other_marks.were_swept:
            return []  # nobody looked for such objects
        return self.other_marks.taken_back(self.journalled().mapped(self._spark, "address", "outcome"), self.number)

    @property
    def may_have_deleted(self) -> bool:
        """True when objects may be gone of which no journal knows: a delete's record or answer can have been lost."""
        return self.is_begun or self.number > 1

    def lost_before(self) -> int:
        """The number of objects that earlier sweeps of this mark report as lost."""
        lost = 0
        for number in self._numbers_before:
            report = report_of(self._store, self._context.mark.folder, number) or {}  # none yet, for a dry run
            lost += report.get("outcomes", {}).get(Outcome.LOST, 0)
        return lost

    def nothing_to_do(self) -> dict[str, int]:
        """The outcomes of a sweep that finds nothing left. A retry must not turn green what was lost before."""
        lost = self.lost_before()
        return {each.value: 0 for each in ALWAYS_SHOWN} | ({Outcome.LOST.value: lost} if lost else {})

    def plan(self) -> dict[str, Any]:
        """plan.json, after checking that nobody changed it and that it belongs to this mark."""
        return self._plan(self.folder)

    def _plan(self, folder: str) -> dict[str, Any]:
        key = f"{folder}/plan.json"
        try:
            record, mark = decode(self._store.read(key), key), self._context.mark.require("expired_addresses")
            changed = f"{key} was changed after it was written. {self._instead(folder)}"
            return unsealed(record, changed, mark_digest=mark.digest)
        except MarkError:
            if not self._lenient:
                raise
            self._is_readable[key] = False
            return {"folder": folder, "parts": []}

    def _instead(self, folder: str) -> str:
        """What to do where the plan of the sweep in a folder was changed."""
        mark_id = self._context.header.mark_id
        if folder != self.folder:
            return f"What that sweep deleted is not known, so mark {mark_id} is not swept again: make a new mark."
        name = f"{self._context.header.repository} {mark_id}"
        return f"Nothing more is deleted by it: close the sweep (lakegc sweep {name} --close), and make a new mark."

    def begin(self, plan: Dataset, attempt: int, more: Mapping[str, Any]) -> None:
        """Seal the plan of an attempt. From here on objects may be deleted. RefusedError if somebody else has sealed
        one. `more`: further fields of plan.json."""
        record = {
            "repository": self._context.header.repository,
            "mark_id": self._context.header.mark_id,
            "sweep": self.number,
            "planned_at": clock.now().timestamp(),
            "mark_digest": self._context.mark.require("expired_addresses").digest,
            "attempt": attempt,
            "folder": self.attempt(attempt).at(PLAN),
            "parts": [asdict(part) for part in plan.parts],
            **more,
        }
        self._write_once("plan.json", sealed(record))
        self.is_begun = True

    def check_open(self) -> None:
        """RefusedError if another collector closed this sweep meanwhile."""
        if report_of(self._store, self._context.mark.folder, self.number) is not None:
            raise self._by_another("report.json")

    def close(self, report: Mapping[str, Any]) -> None:
        """Write the report: the sweep is over."""
        self._write_once("report.json", report)

    def journalled(self, folder: str = "") -> Dataset:
        """All rows of the journal of this sweep, or of the one in a folder."""
        return self._readable(replace(self._out, path=f"{folder or self.folder}/outcomes").listed(OUTCOMES_SCHEMA))

    def _write_once(self, name: str, value: Mapping[str, Any]) -> None:
        try:
            self._store.write(f"{self.folder}/{name}", encode(value), if_absent=True)
        except PreconditionFailedError:
            raise self._by_another(name) from None

    def _by_another(self, name: str) -> RefusedError:
        return RefusedError(
            f"{self.folder}/{name} was written by somebody else meanwhile: another collector sweeps mark "
            f"{self._context.header.mark_id}. Let it finish."
        )

    def outcomes(self) -> DataFrame:
        """The journal of this sweep: every outcome of every attempt since its plan was sealed."""
        return self._sealed_outcomes(self.number) if self.is_begun else self._outcomes(self.folder)

    def totals(self) -> Totals:
        """Final outcomes, see `totals_of`. Before the plan is sealed nothing is planned, and no `since` is known."""
        from pyspark.sql import functions as F

        outcomes = self.outcomes().withColumn("own", F.lit(True))
        for before in self.unanswered_before():
            outcomes = outcomes.unionByName(before.withColumn("own", F.lit(False)))
        outcomes, planned, expired = self._beside_others(outcomes), Dataset(PLAN_SCHEMA), Dataset(FINDINGS_SCHEMA)
        if self.is_begun:
            planned = self.planned()
            if not self._lenient:  # else the mark need not be readable
                expired = self._context.mark.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA)
            if self._is_taken_up:  # `since` is only for waiting times: no reason to end without a report
                (expired,) = readable(self._spark, [expired])
        copies = copying(self._context, self._context.header.mark_id, self.number)
        plan = self.plan() if self.is_begun else {}
        found = totals_of(with_since(self._spark, outcomes, planned, expired), copies, plan.get("attempt", 1))
        if not plan.get("only"):
            return found
        others = self.unfinished(expired.mapped(self._spark, "address", "since")).as_frame()
        return with_unswept(found, others.join(many(self.outcomes().select("address")), "address", "left_anti"))

    def _beside_others(self, outcomes: DataFrame) -> DataFrame:
        """The outcomes, with column `by_other_marks`: true if the sweep of another mark recorded that it deleted the
        object."""
        from pyspark.sql import functions as F

        by_other_marks = self.other_marks.deleted()
        if by_other_marks is None:
            return outcomes.withColumn("by_other_marks", F.lit(False))
        others = by_other_marks.as_frame().withColumn("by_other_marks", F.lit(True))
        joined = outcomes.join(many(others), "address", "left")
        return joined.withColumn("by_other_marks", F.coalesce("by_other_marks", F.lit(False)))

    def check_sums(self, totals: Totals) -> int:
        """The number of planned objects, after checking that each has an outcome: nothing is left over."""
        planned = sum(int(part["rows"]) for part in self.plan()["parts"])
        if totals.untold:
            raise IncompleteError(
                f"{totals.untold:,} of {planned:,} planned objects have no outcome in the journal at "
                f"{self._context.workspace.root}/{self.journal.path}. Run the same sweep again; it goes on where it "
                "stopped."
            )
        return planned

    def _without_finished(self, frame: DataFrame, outcomes: DataFrame, final: Sequence[Outcome] = FINAL) -> DataFrame:
        from pyspark.sql import functions as F

        attempt = F.col("attempt")
        last = outcomes.groupBy("address").agg(
            F.max(F.when(F.col("outcome").isin(*final), attempt)).alias("done"),
            F.max(F.when(F.col("outcome") == STILL_THERE, attempt)).alias("there"),
        )
        done = last.where("done IS NOT NULL AND (there IS NULL OR done > there)").select("address")
        return frame.join(many(done), "address", "left_anti")

    def unanswered_before(self) -> Iterator[DataFrame]:
        """Deletes of each earlier sweep of this mark that had no answer; before any attempt of this one."""
        from pyspark.sql import functions as F

        for number in range(1, self.number):
            outcomes = self._sealed_outcomes(number)
            yield outcomes.where(outcomes["outcome"] == NO_ANSWER).withColumn("attempt", F.lit(0))

    def _sealed_outcomes(self, number: int) -> DataFrame:
        """Outcomes that a sweep journalled since its plan was sealed. Attempts that broke off before that planned other
        objects, by other rules, and deleted nothing: they count for nobody."""
        folder = f"{self._context.mark.folder}/sweeps/{number}"
        try:
            first = self._plan(folder).get("attempt", 1)
        except ObjectNotFoundError:
            return self._outcomes(folder).limit(0)
        outcomes = self._outcomes(folder)
        return outcomes.where(outcomes["attempt"] >= first)

    def _outcomes(self, folder: str) -> DataFrame:
        rows = self.journalled(folder).frame(self._spark)
        return rows.where(rows["outcome"] != SEEN_AGAIN)  # no outcome: another row has it


def _key(source: Source) -> str:
    return f"{source.folder}/{source.part.name}"
