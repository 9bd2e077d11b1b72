"""How Spark is told what it cannot know of frames that Python reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakegc_core.spark.session import many
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.parts import Part, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("how", ["left", "left_anti", "left_semi"])
def test_a_side_that_may_be_large_is_not_collected_on_the_driver(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """However many rows the parts say they have, Spark takes them for as many as there are parts."""
    from pyspark.sql import functions as F

    parts = [Part(f"part-{number}", 10_000_000, 1, "") for number in range(3)]
    rows = read(spark, LocalConfig("/nowhere"), "x", parts, pa.schema([pa.field("address", pa.string())]))
    seen = rows.distinct().withColumn("seen", F.lit(True))
    rows.join(many(seen), "address", how).explain()
    assert "Broadcast" not in (plan := capsys.readouterr().out) and "ShuffledHashJoin" in plan
    rows.join(seen, "address", how).explain()
    assert "BroadcastExchange" in capsys.readouterr().out, "Spark has learnt better: `many` is needed no more"
