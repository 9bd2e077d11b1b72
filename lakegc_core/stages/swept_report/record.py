"""What is on record of the sweeps of a mark: numbers, sealed plans, the journal of outcomes, totals.

`sweeps/<n>/plan.json` is written once, before the first delete; `outcomes/` grows batch by batch; `report.json` closes
the sweep. What is planned and what is deleted is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lakegc_core import clock
from lakegc_core.errors import IncompleteError, MarkError, PreconditionFailedError, RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import decode, digest, encode
from lakegc_core.marks.sweeps import files_of, report_of, sweeps_of
from lakegc_core.names import Outcome
from lakegc_core.spark.session import clear_errors, many
from lakegc_core.stages.swept_report.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA
from lakegc_core.store.base import connect
from lakegc_core.tables.parts import Part, list_parts, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FINAL = (Outcome.DELETED, Outcome.ALREADY_GONE, Outcome.RESCUED, Outcome.LOST)
"""Outcomes after which a mark never asks for an object again: gone, or found live since."""

_ALWAYS_SHOWN = (Outcome.DELETED, Outcome.ALREADY_GONE, Outcome.RESCUED, Outcome.UNCONFIRMED)
_WEIGHT = (Outcome.LOST, Outcome.RESCUED, Outcome.DELETED, Outcome.ALREADY_GONE, Outcome.UNCONFIRMED)
"""Of two outcomes of one attempt the first here counts: a task that ran twice finds gone what it deleted itself."""


@dataclass(frozen=True)
class Totals:
    """Objects by final outcome, and the bytes of those that the store said this sweep deleted."""

    outcomes: Mapping[str, int]
    bytes_deleted: int


class SweepRecord:
    """The record of one sweep of a mark: the last one if it was broken off, else a new one."""

    def __init__(self, spark: SparkSession, context: MarkContext, *, dry_run: bool) -> None:
        self._spark, self._context = spark, context
        self._store = connect(context.workspace)
        last, names = self._last()
        open_still = bool(names) and "report.json" not in names and not dry_run
        self.number = last if open_still else last + 1
        self.is_begun = open_still and "plan.json" in names
        self.folder = f"{context.mark.folder}/sweeps/{self.number}"
        if dry_run:
            self.folder = f"{context.mark.folder}/dry-runs/{clock.now():%Y%m%dT%H%M%S%f}"
        self.journal = f"{self.folder}/outcomes"

    @property
    def location(self) -> str:
        """URI of the report, for people."""
        return f"{self._context.workspace.root}/{self.folder}/report.json"

    def _last(self) -> tuple[int, set[str]]:
        last = max(sweeps_of(self._store, self._context.mark.folder), default=0)
        return last, files_of(self._store, self._context.mark.folder, last)

    def next_attempt(self) -> int:
        """Number of the attempt that begins now; each resumption and each new look is one."""
        return 1 + sum(
            each.rstrip("/").rpartition("/")[2].startswith("attempt-")
            for level in self._store.list_level(f"{self.folder}/")
            for each in level.prefixes
        )

    def unfinished(self, expired: DataFrame) -> DataFrame:
        """The expired rows that no sweep of this mark has finished with."""
        for number in range(1, self.number):
            expired = self._without_finished(expired, f"{self._context.mark.folder}/sweeps/{number}/outcomes")
        return expired

    def left(self) -> DataFrame:
        """What this sweep planned at first and its journal does not call finished."""
        return self._without_finished(self.planned(), self.journal)

    def planned(self) -> DataFrame:
        """All that this sweep planned at first; whatever it asks for, then or later, is among it."""
        record = self.plan()
        parts = [Part.from_json(part) for part in record["parts"]]
        return read(self._spark, self._context.workspace, record["folder"], parts, PLAN_SCHEMA)

    @property
    def may_have_deleted(self) -> bool:
        """True when objects may be gone of which no journal knows: a delete's record or answer can have been lost."""
        return self.is_begun or self.number > 1

    def parts_before(self) -> set[str]:
        """Names of the parts that earlier sweeps of this mark have planned."""
        folders = (f"{self._context.mark.folder}/sweeps/{number}" for number in range(1, self.number))
        return {part["name"] for folder in folders for part in self._plan(folder)["parts"]}

    def lost_before(self) -> int:
        """How many objects earlier sweeps of this mark report as lost."""
        lost = 0
        for number in range(1, self.number):
            # A sweep that broke off has none: a dry run passes it over.
            report = report_of(self._store, self._context.mark.folder, number) or {}
            lost += report.get("outcomes", {}).get(Outcome.LOST, 0)
        return lost

    def nothing_to_do(self) -> dict[str, int]:
        """The outcomes of a sweep that finds nothing left. A retry must not turn green what was lost before."""
        lost = self.lost_before()
        return {each.value: 0 for each in _ALWAYS_SHOWN} | ({Outcome.LOST.value: lost} if lost else {})

    def plan(self) -> dict[str, Any]:
        """plan.json, after checking that nobody changed it and that it belongs to this mark."""
        return self._plan(self.folder)

    def _plan(self, folder: str) -> dict[str, Any]:
        key = f"{folder}/plan.json"
        record = decode(self._store.read(key), key)
        stated = record.pop("digest", None)
        if (
            stated != digest(record)
            or record.get("mark_digest") != self._context.mark.require("expired_addresses").digest
        ):
            raise MarkError(f"{key} was changed after it was written. Nothing more is deleted by it: make a new mark.")
        return record

    def begin(self, parts: Sequence[Part], folder: str, more: Mapping[str, Any]) -> None:
        """Seal the plan. From here on objects may be deleted. RefusedError if somebody else has sealed one."""
        record = {
            "repository": self._context.header.repository,
            "mark_id": self._context.header.mark_id,
            "sweep": self.number,
            "planned_at": clock.now().timestamp(),
            "mark_digest": self._context.mark.require("expired_addresses").digest,
            "folder": folder,
            "parts": [asdict(part) for part in parts],
            **more,
        }
        # A record of numbers and names only, so that what is read back has the digest of what was written.
        record = decode(encode(record), "plan")
        self._write_once("plan.json", record | {"digest": digest(record)})
        self.is_begun = True

    def close(self, report: Mapping[str, Any]) -> None:
        """Write the report: the sweep is over."""
        self._write_once("report.json", report)

    def _write_once(self, name: str, value: Mapping[str, Any]) -> None:
        try:
            self._store.write(f"{self.folder}/{name}", encode(value), if_absent=True)
        except PreconditionFailedError:
            raise RefusedError(
                f"{self.folder}/{name} was written by somebody else meanwhile: another collector sweeps mark "
                f"{self._context.header.mark_id}. Let it finish."
            ) from None

    def outcomes(self) -> DataFrame:
        """The journal of this sweep: every outcome of every attempt."""
        return self._outcomes(self.journal)

    def totals(self) -> Totals:
        """Final outcomes: of several outcomes of an object, that of the last attempt counts."""
        from pyspark.sql import functions as F

        weight = F.coalesce(*(F.when(F.col("outcome") == name, len(_WEIGHT) - n) for n, name in enumerate(_WEIGHT)))
        deleted = F.when(F.col("outcome") == Outcome.DELETED, F.col("size"))
        with clear_errors():
            rows = (
                self.outcomes()
                .groupBy("address")
                .agg(
                    F.max_by("outcome", F.struct("attempt", F.coalesce(weight, F.lit(0)))).alias("outcome"),
                    F.max(deleted).alias("deleted"),
                )
                .groupBy("outcome")
                .agg(F.count("*").alias("objects"), F.sum("deleted").alias("bytes"))
                .collect()
            )
        found = {each.value: 0 for each in _ALWAYS_SHOWN} | {row["outcome"]: row["objects"] for row in rows}
        return Totals(found, sum(row["bytes"] or 0 for row in rows))

    def check_sums(self) -> int:
        """How many objects were planned, after checking that each has an outcome: nothing is left over."""
        with clear_errors():
            told = self.outcomes().select("address").distinct()
            without = self.planned().join(many(told), "address", "left_anti").count()
        planned = sum(int(part["rows"]) for part in self.plan()["parts"])
        if without:
            raise IncompleteError(
                f"{without:,} of {planned:,} planned objects have no outcome in the journal at "
                f"{self._context.workspace.root}/{self.journal}. Run the same sweep again; it goes on where it stopped."
            )
        return planned

    def _without_finished(self, frame: DataFrame, journal: str) -> DataFrame:
        from pyspark.sql import functions as F

        done = self._outcomes(journal).where(F.col("outcome").isin(*FINAL)).select("address").distinct()
        return frame.join(many(done), "address", "left_anti")

    def _outcomes(self, journal: str) -> DataFrame:
        parts = list_parts(self._context.workspace, journal)
        return read(self._spark, self._context.workspace, journal, parts, OUTCOMES_SCHEMA)
