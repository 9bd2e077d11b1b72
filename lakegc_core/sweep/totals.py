"""Totals of a sweep: the final outcomes of its objects, added up. An object may have several rows in the journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from lakegc_core.names import NO_ANSWER, UNSWEPT, Outcome
from lakegc_core.spark.tasks import collected
from lakegc_core.tables.dataset import Dataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

ALWAYS_SHOWN = (Outcome.DELETED, Outcome.ALREADY_GONE, Outcome.RESCUED, Outcome.UNCONFIRMED)
"""Outcomes that totals name even where no object has them."""

_WEIGHT = (
    *(Outcome.LOST, Outcome.RESCUED, Outcome.HELD, Outcome.DELETED),
    *(Outcome.ALREADY_GONE, Outcome.CHANGED, Outcome.UNCONFIRMED),
)
"""If an object has two outcomes in one attempt, the first one in this list counts. Spark may run a task twice: the
second run finds gone what the first run deleted. Outcomes that are not listed count less, `over_budget` and `left`
least of all: whatever else is known of the object says more."""

_SENT = f"outcome = '{Outcome.DELETED}' OR (outcome = '{NO_ANSWER}' AND NOT by_other_marks)"
_NOT_WAITING = (Outcome.DELETED, Outcome.ALREADY_GONE, Outcome.LOST, Outcome.RESCUED, Outcome.CHANGED)
"""Outcomes of objects that do not wait for a delete: they are gone, live, or others than the mark listed."""
_DATED = "since IS NOT NULL"
_DELAY = "greatest(0, unix_micros(at) - unix_micros(since)) / 1e6"
_QUANTILES = {"p50": 0.5, "p99": 0.99}
_OURS = f"sent AND outcome = '{Outcome.ALREADY_GONE}'"
"""The object is gone, and this sweep sent a delete before: that delete did it."""


@dataclass(frozen=True)
class Totals:
    """Objects by final outcome, and the bytes of those that the store said this sweep deleted. `gone_by_sweeps`: number
    of objects that were `already_gone` because sweeps of other marks had deleted them. `untold`: number of planned
    objects without an outcome. `bytes_over_budget`: of the objects that are `over_budget`. `delay` and `oldest`: see
    `SweepResult`. `copied`: objects and bytes that are `deleted` or `lost` and have a copy in quarantine; empty if no
    attempt copied."""

    outcomes: Mapping[str, int]
    bytes_deleted: int
    gone_by_sweeps: int = 0
    untold: int = 0
    bytes_over_budget: int = 0
    delay: Mapping[str, float] = field(default_factory=dict)
    oldest: Mapping[str, Any] = field(default_factory=dict)
    copied: Mapping[str, int] = field(default_factory=dict)

    @property
    def over_budget(self) -> dict[str, int]:
        """Objects and bytes that the budget kept back; nothing if there are none."""
        objects = self.outcomes.get(Outcome.OVER_BUDGET, 0)
        return {"objects": objects, "bytes": self.bytes_over_budget} if objects else {}


def with_since(spark: SparkSession, outcomes: DataFrame, planned: Dataset, expired: Dataset) -> DataFrame:
    """Outcomes of a journal with the rows that tell since when their objects are unreferenced, for `totals_of`: those
    of the plan, and of the mark where it found more than was planned."""
    from pyspark.sql import functions as F

    found = outcomes.withColumn("planned", F.lit(False)).withColumn("since", F.lit(None).cast("timestamp"))
    for rows, least in ((planned, 0), (expired, planned.rows)):
        if rows.rows > least:
            told = rows.frame(spark, "address", "since").withColumn("own", F.lit(False))
            told = told.withColumn("planned", F.lit(rows is planned))
            found = found.unionByName(told, allowMissingColumns=True)
    return found


def totals_of(outcomes: DataFrame, copying: Collection[int] | None = (), first: int = 1) -> Totals:
    """Add up final outcomes: of several outcomes of an object, that of the last attempt counts.

    An object that is gone after a delete without an answer, in this sweep or one before it, is `deleted`: that delete
    did it, unless the sweep of another mark recorded that it did.

    `outcomes`: OUTCOMES_SCHEMA, and `own` (a row of this sweep's journal), `by_other_marks` (the sweep of another mark
    recorded that it deleted the object), `planned` (a row of this sweep's plan, which has no outcome), `since` (null
    where a row does not tell it; of several, the latest counts). `copying`: the attempts that copied into quarantine
    what they deleted; None: all. `first`: the first attempt that may have deleted.
    """
    from pyspark.sql import functions as F

    rows = collected(
        _final(outcomes, _copied_sql(copying, first))
        # What was deleted and is lost now has freed its bytes all the same; what is still there has not.
        .withColumn(
            "bytes",
            F.when(F.col("outcome") == Outcome.DELETED, F.col("size")).when(
                F.col("outcome") == Outcome.LOST, F.col("freed")
            ),
        )
        .withColumn("gone_by_sweeps", F.expr(f"outcome = '{Outcome.ALREADY_GONE}' AND by_other_marks"))
        .withColumn("delay", F.expr(f"CASE WHEN {_DATED} THEN {_DELAY} END"))
        .withColumn("waiting", F.expr(f"CASE WHEN {_DATED} THEN struct(unix_micros(since) AS since, address) END"))
        .groupBy("outcome")
        .agg(
            F.count("*").alias("objects"),
            F.sum("bytes").alias("bytes"),
            F.sum("size").alias("size"),
            F.count_if("gone_by_sweeps").alias("gone_by_sweeps"),
            F.count("delay").alias("dated"),
            F.percentile_approx("delay", [*_QUANTILES.values()]).alias("delays"),
            F.min("waiting").alias("oldest"),
            F.count_if("copied").alias("copied"),
            F.sum(F.when(F.col("copied"), F.col("bytes"))).alias("bytes_copied"),
        )
    )
    counts = {row["outcome"]: row["objects"] for row in rows}
    untold = counts.pop(None, 0)
    found = {each.value: 0 for each in ALWAYS_SHOWN} | counts
    over = sum(row["size"] or 0 for row in rows if row["outcome"] == Outcome.OVER_BUDGET)
    return Totals(
        outcomes=found,
        bytes_deleted=sum(row["bytes"] or 0 for row in rows),
        gone_by_sweeps=sum(row["gone_by_sweeps"] for row in rows),
        untold=untold,
        bytes_over_budget=over,
        delay=_delay(rows),
        oldest=_oldest(rows),
        copied=_copied(rows),
    )


def _copied(rows: Sequence[Row]) -> dict[str, int]:
    """Objects and bytes of which copies lie in quarantine."""
    gone = [row for row in rows if row["outcome"] in (Outcome.DELETED, Outcome.LOST)]
    found = {"objects": sum(row["copied"] for row in gone), "bytes": sum(row["bytes_copied"] or 0 for row in gone)}
    return found if found["objects"] else {}


def with_unswept(found: Totals, rest: DataFrame) -> Totals:
    """The totals of a sweep that was to delete a part of what its mark found. `rest`: the other objects that no sweep
    of the mark has finished with (address, since): the oldest may be among them."""
    from pyspark.sql import functions as F

    waiting = F.struct(F.expr("unix_micros(since)").alias("since"), "address")
    (row,) = collected(rest.agg(F.min(waiting).alias("oldest")))
    if row["oldest"] is None:
        return found
    told = {"since": row["oldest"]["since"] / 1e6, "address": row["oldest"]["address"], "outcome": UNSWEPT}
    is_older = not found.oldest or told["since"] < found.oldest["since"]
    return replace(found, oldest=told) if is_older else found


def _delay(rows: Sequence[Row]) -> dict[str, float]:
    """The delays of deleted objects."""
    for row in rows:
        if row["outcome"] == Outcome.DELETED and row["dated"]:
            return {"objects": row["dated"], **dict(zip(_QUANTILES, row["delays"], strict=True))}
    return {}


def _oldest(rows: Sequence[Row]) -> dict[str, Any]:
    """The object that has waited longest."""
    waiting = (row for row in rows if row["oldest"] and row["outcome"] not in (None, *_NOT_WAITING))
    row = min(waiting, key=lambda row: tuple(row["oldest"]), default=None)
    if row is None:
        return {}
    since, address = row["oldest"]
    return {"since": since / 1e6, "address": address, "outcome": row["outcome"]}


def _copied_sql(copying: Collection[int] | None, first: int) -> str:
    """SQL: true for the record of a delete whose object has a copy. A delete without an answer may be of any attempt so
    far: its object has a copy only if all of these copied. For `copying` and `first` see `totals_of`."""
    if copying is None:
        return f"own AND outcome IN ('{Outcome.DELETED}', '{NO_ANSWER}')"
    sure = [*takewhile(lambda attempt: attempt in copying, count(first))]
    told = ((Outcome.DELETED, copying), (NO_ANSWER, sure))
    each = (f"outcome = '{outcome}' AND attempt IN ({', '.join(map(str, some))})" for outcome, some in told if some)
    return f"own AND ({' OR '.join((*each, 'false'))})"


def _final(outcomes: DataFrame, copied: str) -> DataFrame:
    """A row for each object of this sweep, with its final outcome, null where it has none."""
    from pyspark.sql import functions as F

    weight = F.coalesce(
        *(F.when(F.col("outcome") == name, len(_WEIGHT) - n) for n, name in enumerate(_WEIGHT)),
        F.when(F.col("outcome").isin(Outcome.OVER_BUDGET, Outcome.LEFT), -1),
        F.lit(0),
    )
    return (
        outcomes.groupBy("address")
        .agg(
            F.max_by(F.struct("outcome", "at"), F.struct("attempt", weight)).alias("last"),
            F.max("since").alias("since"),
            F.max(F.expr(_SENT)).alias("sent"),
            F.max(F.expr(copied)).alias("copied"),
            F.max(F.when(F.col("outcome") == Outcome.DELETED, F.col("size"))).alias("freed"),
            F.max("size").alias("size"),
            F.max("own").alias("own"),
            F.max("by_other_marks").alias("by_other_marks"),
            F.max("planned").alias("planned"),
        )
        .where("own OR planned")
        .select("*", "last.*")
        .withColumn("outcome", F.expr(f"CASE WHEN {_OURS} THEN '{Outcome.DELETED}' WHEN own THEN outcome END"))
    )
