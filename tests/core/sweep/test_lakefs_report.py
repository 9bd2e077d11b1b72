"""lakeFS's own report of what is about to be deleted: the plan, and nothing that a former attempt has left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from lakegc_core.errors import CorruptFileError
from lakegc_core.marks.context import MarkContext
from lakegc_core.sweep import lakefs_report
from lakegc_core.sweep.deletion import PLAN_SCHEMA
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from tests.support.lake import NO_SPARK, NOW, Lake
from tests.support.marks import parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def planned(context: MarkContext, folder: str, *addresses: str) -> Dataset:
    rows = [{"address": each, "size": 1, "last_modified": NOW, "etag": None, "since": NOW} for each in addresses]
    found = parts(context, folder, PLAN_SCHEMA, rows)
    return DatasetFolder(context.workspace, folder).dataset("", found, PLAN_SCHEMA)


def listed(folder: Path) -> tuple[set[str], set[str], int]:
    """The addresses in parquet, those in text, and how many the summary counts."""
    tables = [pq.read_table(file)["address"].to_pylist() for file in (folder / "deleted").glob("*.parquet")]
    lines = [file.read_text().splitlines() for file in (folder / "deleted.text").glob("*.txt")]
    assert (folder / "deleted/_SUCCESS").exists() and (folder / "deleted.text/_SUCCESS").exists()
    count = json.loads((folder / "summary.json").read_text())["num_deleted_objects"]
    return set().union(*tables), set().union(*lines), count


def test_all_three_forms_tell_the_plan_and_what_a_broken_off_attempt_left_is_removed(
    quick: SparkSession, served: Lake
) -> None:
    context = served.begin("lake", "m1")
    folder = served.files("lake") / lakefs_report.HOME / "m1"
    never_sealed = planned(context, "one", "data/rescued since")
    lakefs_report.write(quick, context, never_sealed, ())
    assert listed(folder) == ({"data/rescued since"},) * 2 + (1,)
    plan = planned(context, "two", "data/a", "data/b, c")
    lakefs_report.write(quick, context, plan, ())
    assert listed(folder) == ({"data/a", "data/b, c"},) * 2 + (2,)
    more = planned(context, "three", "data/d")
    lakefs_report.write(quick, context, more, {part.name for part in plan.parts})
    assert listed(folder) == ({"data/a", "data/b, c", "data/d"},) * 2 + (1,), "what was swept before stays on record"


def test_an_empty_plan_is_a_report_of_nothing_that_reads(served: Lake) -> None:
    context = served.begin("lake", "m1")
    lakefs_report.write(NO_SPARK, context, Dataset(PLAN_SCHEMA), ())
    folder = served.files("lake") / lakefs_report.HOME / "m1"
    assert listed(folder) == (set(), set(), 0)
    assert len(list((folder / "deleted").glob("*.parquet"))) == 1, "Spark reads no folder without a file"
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["run_id"], summary["success"], summary["start_time"][:10]) == ("m1", True, "2025-03-31")


def test_a_damaged_plan_ends_without_a_summary(quick: SparkSession, served: Lake) -> None:
    context = served.begin("lake", "m1")
    plan = planned(context, "plan", "data/a")
    (file,) = served.files("lake").joinpath("plan").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match="not the file that its manifest names"):
        lakefs_report.write(quick, context, plan, ())
    assert not (served.files("lake") / lakefs_report.HOME / "m1" / "summary.json").exists()
