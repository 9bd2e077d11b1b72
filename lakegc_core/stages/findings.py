"""The rows in which a mark says what it found, and since when each object has been unreferenced without interruption.

Column `since` is carried from mark to mark. Whatever finds the object staged, held or live starts the clock anew: a
mark in between, a look, and also a mark or a look that came after the mark that is swept.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.context import MarkContext
from lakegc_core.mark import MarkArtifacts
from lakegc_core.spark import many
from lakegc_core.stages.previous_mark import later_marks, previous_findings
from lakegc_core.stages.rescues import last_rescues
from lakegc_core.store.parquet import read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STAGE = "expired_addresses"
KEPT = "kept"

SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("etag", pa.string(), nullable=True),
        pa.field("reason", pa.string(), nullable=False),  # expired: unreferenced; kept: foreign, staged, young
        pa.field("since", pa.timestamp("us", tz="UTC"), nullable=False),  # unreferenced at least since then
    ]
)
UNREFERENCED = "unreferenced"
CARRIED = (STAGE,)
"""Datasets that begin or go on with a series: what is kept interrupts it. A young object does not begin one: an upload
may still be linked, as most are, and what refers to it then may be hidden from the next mark and its look by one
commit."""


def moment(seconds: float) -> Column:
    """A column that holds this moment (unix seconds) as a timestamp."""
    from pyspark.sql import functions as F

    return F.lit(datetime.fromtimestamp(seconds, UTC))


def instant(seconds: float) -> pa.Scalar:
    """The same moment as a value of Arrow."""
    return pa.scalar(datetime.fromtimestamp(seconds, UTC), pa.timestamp("us", tz="UTC"))


def with_since(spark: SparkSession, context: MarkContext, rows: DataFrame, read_commits_at: float) -> DataFrame:
    """Add column `since`: when the first mark of an unbroken series that found the object unreferenced had read its
    commits (this mark: `read_commits_at`, unix seconds).

    Joined by the address itself: a hash that collides would make an object look older than it is.
    """
    from pyspark.sql import functions as F

    now = moment(read_commits_at)
    before = previous_findings(context)
    if before is None:
        return rows.withColumn("since", now)
    carried = (
        _unreferenced(spark, context, before, "before")
        .join(many(last_rescues(spark, context)), "address", "left")
        .where(F.col("rescued_at").isNull() | (F.col("rescued_at") < F.col("before")))
        .select("address", "before")
    )
    most = sum(part.rows for name in CARRIED for part in before.require(STAGE).datasets[name])
    return rows.join(many(carried, most), "address", "left").withColumn(
        "since", F.coalesce(F.least("before", now), now)
    )


def with_later_findings(spark: SparkSession, context: MarkContext, candidates: DataFrame) -> DataFrame:
    """The candidates of a mark, with `since` set to now where a look or a mark that came later found them live.

    A later mark that was not finished, or that does not read, may have found any of them live. When such an object
    ceased to be live nobody knows: the gap cannot begin before a mark finds it unreferenced again.
    """
    from pyspark.sql import functions as F

    now = moment(clock.now().timestamp())
    later = later_marks(context)
    if later.unfinished:
        return candidates.withColumn("since", now)
    rescued = F.coalesce(F.col("rescued_at") >= F.col("since"), F.lit(False))
    found = candidates.join(many(last_rescues(spark, context)), "address", "left").withColumn(
        "since", F.when(rescued, now).otherwise(F.col("since"))
    )
    if later.finished is not None:
        theirs = many(_unreferenced(spark, context, later.finished, "later"))
        found = found.join(theirs, "address", "left").withColumn("since", F.greatest("since", F.coalesce("later", now)))
    return found.select(*candidates.columns)


def _unreferenced(spark: SparkSession, context: MarkContext, mark: MarkArtifacts, since: str) -> DataFrame:
    """What a mark found unreferenced: address, and its `since` under another name."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    datasets: Mapping[str, Any] = mark.require(STAGE).datasets
    parts = [read(spark, context.workspace, mark.stage_folder(STAGE, name), datasets[name], SCHEMA) for name in CARRIED]
    return reduce(DataFrame.unionByName, parts).select("address", F.col("since").alias(since))
