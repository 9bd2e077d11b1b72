"""How Spark is told what it cannot know of frames that Python reads, and how errors of tasks are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakegc_core.errors import LakegcError, ServerError
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.names import Json
from lakegc_core.spark.tasks import clear_errors, many, run_tasks
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.parts import Part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("how", ["left", "left_anti", "left_semi"])
def test_a_side_that_may_be_large_is_not_collected_on_the_driver(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """However many rows the parts say they have, Spark takes them for as many as there are parts."""
    from pyspark.sql import functions as F

    parts = [Part(f"part-{number}", 10_000_000, 1, "") for number in range(3)]
    schema = pa.schema([pa.field("address", pa.string())])
    rows = DatasetFolder(LocalConfig("/nowhere"), "x").dataset("", parts, schema).frame(spark)
    seen = rows.distinct().withColumn("seen", F.lit(True))
    rows.join(many(seen), "address", how).explain()
    assert "Broadcast" not in (plan := capsys.readouterr().out) and "ShuffledHashJoin" in plan
    rows.join(seen, "address", how).explain()
    assert "BroadcastExchange" in capsys.readouterr().out, "Spark has learnt better: `many` is needed no more"


def test_an_answer_of_lakefs_that_stops_a_task_is_told_in_lakefs_own_words(spark: SparkSession) -> None:
    """Its error is not one of `lakegc_core.errors`, and yet nobody is to be shown a trace of Spark instead."""

    def refused(path: str) -> Iterator[Json]:
        raise LakeFSError(f'GET {path} was answered with 500 "bad path traversal blocked"', 500)

    with pytest.raises(LakegcError, match=r'^GET /objects/ls was answered with 500 "bad path traversal blocked"$'):
        run_tasks(spark, ["/objects/ls"], refused)


def test_an_error_of_lakefs_in_a_task_is_said_as_it_is() -> None:
    said = 'GET /repositories/lake/refs/main/objects/ls was answered with 403 "no"; forbidden'
    trace = f"An exception was thrown from the Python worker:\n  File\nlakegc_core.lakefs.http.LakeFSError: {said}\n"
    with pytest.raises(ServerError, match="answered with 403"), clear_errors():
        raise RuntimeError(trace)
