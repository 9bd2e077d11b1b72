"""Missing objects that a sweep had deleted when nothing referred to them: old commits count again now.

A rule that is made longer brings such commits back, and so does a deleted branch whose rule was shorter than the
default one. Such an object does not fail the guard on missing objects: its last event in the ledger must be `deleted`
or `already_gone`. Objects that a sweep lost or only planned, and those that other collectors deleted, stay missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakegc_core.marks.address_lists import ADDRESSES
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.last_known import gone, readable_records
from lakegc_core.marks.ledger import records_of
from lakegc_core.names import Stage
from lakegc_core.spark.tasks import many

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SWEPT = "swept"
"""Column: true if the last that is known of the object is that it was swept."""
_NAMED = "named_missing"


def with_swept(spark: SparkSession, context: MarkContext, missing: DataFrame) -> DataFrame:
    """The missing objects (column address), with the column SWEPT."""
    from pyspark.sql import functions as F

    named = context.mark.out(Stage.EXPIRED_ADDRESSES).put(_NAMED, missing, ADDRESSES)
    rows = named.frame(spark)
    records = readable_records(spark, records_of(context)) if named.rows else None
    if records is None:
        return rows.withColumn(SWEPT, F.lit(False))
    if not records.whole:
        context.say(
            f"{Stage.EXPIRED_ADDRESSES}: not all records of sweeps read, so that every missing object counts "
            "as lost data, also those that a sweep deleted rightly"
        )
        return rows.withColumn(SWEPT, F.lit(False))
    swept = gone(spark, records, named.keys()).as_frame().where("NOT lost")
    # By the whole address: what is found here lets a guard pass.
    rows = rows.join(many(swept.select("address").withColumn(SWEPT, F.lit(True))), "address", "left")
    return rows.withColumn(SWEPT, F.coalesce(SWEPT, F.lit(False)))
