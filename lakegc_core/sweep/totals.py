"""Totals of a sweep: the final outcome of each object, of all that its journal tells, added up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakegc_core.names import NO_ANSWER, Outcome
from lakegc_core.spark.session import clear_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALWAYS_SHOWN = (Outcome.DELETED, Outcome.ALREADY_GONE, Outcome.RESCUED, Outcome.UNCONFIRMED)
"""Outcomes that totals name even where no object has them."""

_WEIGHT = (Outcome.LOST, Outcome.RESCUED, Outcome.HELD, Outcome.DELETED, Outcome.ALREADY_GONE, Outcome.UNCONFIRMED)
"""Of two outcomes of one attempt the first here counts: a task that ran twice finds gone what it deleted itself."""

_ASKED = f"outcome = '{Outcome.DELETED}' OR outcome = '{NO_ANSWER}' AND NOT elsewhere"
_OURS = f"asked AND outcome = '{Outcome.ALREADY_GONE}'"
"""Gone when it was asked for once more: the delete that had no answer did it."""


@dataclass(frozen=True)
class Totals:
    """Objects by final outcome, and the bytes of those that the store said this sweep deleted. `gone_by_sweeps`: how
    many of those that were `already_gone` the sweeps of other marks had deleted. `untold`: how many objects of the plan
    have no outcome."""

    outcomes: Mapping[str, int]
    bytes_deleted: int
    gone_by_sweeps: int = 0
    untold: int = 0


def totals_of(outcomes: DataFrame) -> Totals:
    """Add up final outcomes: of several outcomes of an object, that of the last attempt counts.

    What is gone after a delete that had no answer, in this sweep or one before it, is `deleted`: that did it, unless
    the sweep of another mark says that it did.

    `outcomes`: OUTCOMES_SCHEMA, and `own` (a row of this sweep's journal), `elsewhere` (the sweep of another mark says
    that it deleted the object), `planned` (a row of this sweep's plan, which has no outcome).
    """
    from pyspark.sql import functions as F

    with clear_errors():
        rows = (
            _final(outcomes)
            # What was deleted and is lost now has freed its bytes all the same; what is still there has not.
            .withColumn(
                "bytes",
                F.when(F.col("outcome") == Outcome.DELETED, F.col("size")).when(
                    F.col("outcome") == Outcome.LOST, F.col("freed")
                ),
            )
            .withColumn("by_others", F.expr(f"outcome = '{Outcome.ALREADY_GONE}' AND elsewhere"))
            .groupBy("outcome")
            .agg(
                F.count("*").alias("objects"),
                F.sum("bytes").alias("bytes"),
                F.count_if("by_others").alias("by_others"),
            )
            .collect()
        )
    counts = {row["outcome"]: row["objects"] for row in rows}
    untold = counts.pop(None, 0)
    found = {each.value: 0 for each in ALWAYS_SHOWN} | counts
    return Totals(found, sum(row["bytes"] or 0 for row in rows), sum(row["by_others"] for row in rows), untold)


def _final(outcomes: DataFrame) -> DataFrame:
    """A row for each object of this sweep, with its final outcome; null where it has none."""
    from pyspark.sql import functions as F

    weight = F.coalesce(*(F.when(F.col("outcome") == name, len(_WEIGHT) - n) for n, name in enumerate(_WEIGHT)))
    return (
        outcomes.groupBy("address")
        .agg(
            F.max_by("outcome", F.struct("attempt", F.coalesce(weight, F.lit(0)))).alias("outcome"),
            F.max(F.expr(_ASKED)).alias("asked"),
            F.max(F.when(F.col("outcome") == Outcome.DELETED, F.col("size"))).alias("freed"),
            F.max("size").alias("size"),
            F.max("own").alias("own"),
            F.max("elsewhere").alias("elsewhere"),
            F.max("planned").alias("planned"),
        )
        .where("own OR planned")
        .withColumn("outcome", F.expr(f"CASE WHEN {_OURS} THEN '{Outcome.DELETED}' WHEN own THEN outcome END"))
    )
