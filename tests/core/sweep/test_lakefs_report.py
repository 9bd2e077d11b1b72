"""lakeFS's own report of what is about to be deleted: the sealed plan, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from lakegc_core.errors import CorruptFileError, StoreError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.sweeps import is_open
from lakegc_core.stages import swept_report
from lakegc_core.store.base import connect, head_if_there
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.sweep import lakefs_report
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.deletion import PLAN_SCHEMA
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from tests.support.lake import NO_SPARK, NOW, Lake
from tests.support.marks import parts
from tests.support.policies import role
from tests.support.swept import ACCEPTED, GARBAGE, Swept
from tests.support.towns import Crash

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


def test_all_three_forms_tell_the_plan_beside_those_of_earlier_sweeps(quick: SparkSession, served: Lake) -> None:
    context = served.begin("lake", "m1")
    folder = served.files("lake") / lakefs_report.HOME / "m1"
    plan = planned(context, "one", "data/a", "data/b, c")
    for _ in range(2):
        lakefs_report.write(quick, context, plan)
        assert listed(folder) == ({"data/a", "data/b, c"},) * 2 + (2,)
    lakefs_report.write(quick, context, planned(context, "two", "data/d"))
    assert listed(folder) == ({"data/a", "data/b, c", "data/d"},) * 2 + (1,), "what was swept before stays on record"


def test_an_empty_plan_is_a_report_of_nothing_that_reads(served: Lake) -> None:
    context = served.begin("lake", "m1")
    lakefs_report.write(NO_SPARK, context, Dataset(PLAN_SCHEMA))
    folder = served.files("lake") / lakefs_report.HOME / "m1"
    assert listed(folder) == (set(), set(), 0)
    assert len(list((folder / "deleted").glob("*.parquet"))) == 1, "Spark reads no folder without a file"
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["run_id"], summary["success"], summary["start_time"][:10]) == ("m1", True, "2025-03-31")


@dataclass(frozen=True)
class LockingConfig(LocalConfig):
    """A folder as a store that locks each new object: it refuses to write over it, condition or not."""

    def connect(self) -> LockingStore:
        return LockingStore(self)


class LockingStore(LocalStore):
    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        if head_if_there(self, key) is not None:
            raise StoreError(f"{self.root}: {key} is locked")
        return super().write(key, data, if_absent=if_absent, if_match=if_match)


def test_where_the_store_locks_new_objects_no_sweep_of_the_mark_stops_and_each_adds_its_lists(
    quick: SparkSession, served: Lake
) -> None:
    context = served.begin("lake", "m1")
    locking, folder = replace(context, data=LockingConfig(str(served.files("lake")))), f"{lakefs_report.HOME}/m1"
    with pytest.raises(StoreError, match="is locked"):
        for _ in range(2):
            connect(locking.data).write("data/a", b"")
    for key, listing in (("one", {"data/a"}), ("one", {"data/a"}), ("two", {"data/a", "data/b"})):
        plan = planned(context, key, *(["data/a"] if key == "one" else ["data/b"]))
        lakefs_report.prepare(locking)
        lakefs_report.write(quick, locking, plan)
        assert listed(served.files("lake") / folder) == (listing, listing, 1)


def test_a_damaged_plan_ends_without_a_summary(quick: SparkSession, served: Lake) -> None:
    context = served.begin("lake", "m1")
    plan = planned(context, "plan", "data/a")
    (file,) = served.files("lake").joinpath("plan").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match="not the file that its manifest names"):
        lakefs_report.write(quick, context, plan)
    assert not (served.files("lake") / lakefs_report.HOME / "m1" / "summary.json").exists()


def test_a_sweep_that_may_not_write_its_list_names_the_right_and_leaves_no_sweep_open(swept: Swept) -> None:
    barred = swept.lake.files("lake") / lakefs_report.HOME
    barred.write_text("a file, below which nothing can be written")
    for _ in range(2):
        with pytest.raises(StoreError, match=f"needs the right to write below .*/{lakefs_report.HOME}/"):
            swept.sweep()
        assert not is_open(connect(swept.context.workspace), swept.context.mark.folder)
        assert swept.left() == GARBAGE and swept.looks == 0
    barred.unlink()
    assert swept.sweep().outcomes["deleted"] == 3


# --- sweeps with the role that deploy/policies gives them ---


@pytest.fixture
def swept_by_role(swept: Swept) -> Iterator[Swept]:
    with role("s3-sweep.json"):
        yield swept


def reported(swept: Swept) -> tuple[set[str], set[str], int]:
    return listed(swept.lake.files("lake") / lakefs_report.HOME / "m1")


def test_the_role_of_a_sweep_suffices_for_all_sweeps_of_a_mark(swept_by_role: Swept) -> None:
    spark, context = swept_by_role.spark, swept_by_role.context
    first = swept_report(spark, context, accepted=ACCEPTED, budget=Budget(most_objects=1))
    assert (first.outcomes["deleted"], len(reported(swept_by_role)[0])) == (1, 1)
    assert swept_by_role.sweep().outcomes["deleted"] == 2 and swept_by_role.left() == []
    assert reported(swept_by_role) == ({*GARBAGE}, {*GARBAGE}, 2)


@pytest.mark.parametrize(
    ("at", "live"),
    [((SweepRecord, "begin"), 0), ((SweepRecord, "begin"), 1), ((lakefs_report, "_summary"), 0)],
    ids=["before its seal", "before its seal, and an object is live since", "within its report"],
)
def test_a_sweep_that_died_around_its_seal_is_run_again_and_reports_its_plan(
    swept_by_role: Swept, monkeypatch: pytest.MonkeyPatch, at: tuple[object, str], live: int
) -> None:
    def dies(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(*at, dies)
        with pytest.raises(Crash):
            swept_by_role.sweep()
    for key in GARBAGE[:live]:
        address = f"s3://bucket/lake/{key}"
        swept_by_role.lake.sandbox.repository("lake").stage("main", "again", address, size=11, checksum="x")
    assert swept_by_role.sweep().outcomes["deleted"] == 3 - live and swept_by_role.left() == GARBAGE[:live]
    assert reported(swept_by_role) == ({*GARBAGE[live:]}, {*GARBAGE[live:]}, 3 - live)
