"""What any look found live again: one small journal a repository, from which the clock of `since` starts anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.marks.context import MarkContext
from lakegc_core.store.parts import list_parts, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESCUED = "rescued"
"""Outcome of what was found live again."""
UNCONFIRMED = "unconfirmed"
"""Outcome of what is not deleted yet: no two askings a gap apart have found it unreferenced."""

SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)


def folder(context: MarkContext) -> str:
    """Where the journal lies."""
    return f"{context.home}/rescues"


def last_rescues(spark: SparkSession, context: MarkContext) -> DataFrame:
    """Each address that was ever rescued, with the last time (column rescued_at)."""
    from pyspark.sql import functions as F

    rows = read(spark, context.workspace, folder(context), list_parts(context.workspace, folder(context)), SCHEMA)
    return rows.groupBy("address").agg(F.max("at").alias("rescued_at"))
