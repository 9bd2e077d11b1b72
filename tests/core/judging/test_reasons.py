"""What keeps an object that no commit refers to, and which reason is named where there are several."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core.errors import CorruptFileError
from lakegc_core.judging.reasons import Judge, MinimumAge, divide
from lakegc_core.marks import findings
from lakegc_core.names import Reason, Stage
from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.xids import xid_times
from lakegc_core.spark.tasks import Mapped
from lakegc_core.spark.versions import frame_of
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables import joins
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.joins import flagged
from lakegc_core.tables.key_scan import Source, Wanted
from lakegc_core.tables.parts import PartWriter
from tests.support.lake import NO_SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CUTOFF = datetime(2026, 11, 20, tzinfo=UTC)
OLD, YOUNG = CUTOFF - timedelta(seconds=1), CUTOFF
ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])
KEPT = {
    Reason.STAGED: ["data/s/1", "data/s/2"],
    Reason.HELD: ["data/h/1", "data/s/2"],
    Reason.NEIGHBOUR: ["data/n/1", "data/h/1"],
}


def name_of(moment: datetime) -> str:
    """An object's name that lakeFS gave out at a moment."""
    value, digits = int(moment.timestamp()) << 3, ""
    for _ in range(7):
        value, digit = divmod(value, 32)
        digits = "0123456789abcdefghijklmnopqrstuv"[digit] + digits
    return f"{digits}{'0' * 13}"


def rows(*found: tuple[str, datetime, bool]) -> pa.Table:
    addresses, modified, foreign = zip(*found, strict=True)
    return pa.table(
        {
            "address": pa.array(addresses),
            "last_modified": pa.array(modified, pa.timestamp("us", tz="UTC")),
            "foreign": pa.array(foreign),
        }
    )


def looked_up(spark: SparkSession, folder: Path, rows: Mapped) -> Mapped:
    """The rows, with what is staged, held or referred to by neighbours."""
    config = LocalConfig(str(folder))
    for reason, addresses in KEPT.items():
        writer = PartWriter(config, reason, ADDRESSES)
        writer.write(pa.RecordBatch.from_arrays([pa.array(addresses)], schema=ADDRESSES))
        rows = flagged(spark, rows, reason, Wanted(tuple(Source(config, reason, part, "") for part in writer.close())))
    return rows


def judged(folder: Path, table: pa.Table, judge: Judge) -> pa.Table:
    """The rows with their reasons, looked up as workers do it."""
    make = looked_up(NO_SPARK, folder, Mapped(NO_SPARK, table.schema)).make
    assert make is not None
    return judge(pa.Table.from_batches(make(iter(table.to_batches()))))


LATEST = CUTOFF + timedelta(days=2)
AGE = MinimumAge(CUTOFF.timestamp(), (CUTOFF - timedelta(days=7)).timestamp(), LATEST.timestamp(), xid_times)
JUDGE = Judge(AGE, None)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("data/x/1", OLD, False), "unreferenced"),
        (("data/x/1", YOUNG, False), "young"),
        ((f"data/x/{name_of(OLD)}", OLD, False), "unreferenced"),
        ((f"data/x/{name_of(YOUNG)}", OLD, False), "young"),
        ((f"data/x/{name_of(OLD)}", YOUNG, False), "young"),
        ((f"data/x/{name_of(LATEST)}", OLD, False), "young"),
        ((f"data/x/{name_of(LATEST + timedelta(seconds=1))}", OLD, False), "unreferenced"),
        ((f"data/x/{name_of(LATEST + timedelta(seconds=1))}", YOUNG, False), "young"),
        (("data/x/1.part_00001", OLD, False), "young"),
        (("data/x/1.part_00001", CUTOFF - timedelta(days=8), False), "unreferenced"),
        (("data/h/1", OLD, False), "held"),
        (("data/h/1", YOUNG, False), "held"),
        (("data/n/1", OLD, False), "neighbour"),
        (("data/n/1", YOUNG, False), "neighbour"),
        (("data/s/1", OLD, False), "staged"),
        (("data/s/2", YOUNG, False), "staged"),
        (("data/s/2", YOUNG, True), "foreign"),
        (("else", OLD, True), "foreign"),
    ],
)
def test_the_first_reason_that_holds_is_named(tmp_path: Path, row: tuple[str, datetime, bool], reason: str) -> None:
    others = [("data/other/1", OLD, False), ("data/other/2", YOUNG, False)]
    found = judged(tmp_path, rows(others[0], row, others[1]), JUDGE)["reason"].to_pylist()
    assert found == ["unreferenced", reason, "young"]


def test_a_name_that_lakefs_never_gives_keeps_what_nothing_else_keeps(tmp_path: Path) -> None:
    strict = replace(JUDGE, unknown=Namespace("s3://b/ns").unknown)
    found = [("data/x/1", OLD, "unknown"), ("data/x/1", YOUNG, "young"), ("data/s/1", OLD, "staged")]
    found += [("else", OLD, "foreign"), (f"data/{name_of(OLD)}/{name_of(OLD)}", OLD, "unreferenced")]
    table = rows(*((address, modified, address == "else") for address, modified, _ in found))
    assert judged(tmp_path, table, strict)["reason"].to_pylist() == [reason for _, _, reason in found]


def test_reasons_are_the_same_where_spark_has_joined_what_no_worker_can_hold(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joins, "MOST", 1)
    names = ["data/s/1", "data/s/2", "data/h/1", "data/x/1"]
    table = rows(*((name, OLD, False) for name in names))
    objects = looked_up(quick, tmp_path, Mapped(frame_of(quick, table), table.schema))
    assert objects.make is None and objects.schema.names == objects.of.columns
    written = DatasetFolder(LocalConfig(str(tmp_path)), "joined").put("joined", objects, objects.schema)
    joined = JUDGE(pa.Table.from_batches(written.batches()))
    monkeypatch.undo()
    assert (
        reasons(joined)
        == reasons(judged(tmp_path, table, JUDGE))
        == dict(zip(names, ["staged"] * 2 + ["held", "unreferenced"], strict=True))
    )


def reasons(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table["address"].to_pylist(), table["reason"].to_pylist(), strict=True))


def test_a_row_that_does_not_say_when_it_was_written_is_no_garbage(tmp_path: Path) -> None:
    table = rows(("data/x/1", OLD, False))
    nowhen = table.set_column(1, "last_modified", pa.nulls(1, table["last_modified"].type))
    with pytest.raises(CorruptFileError, match="Make a new mark"):
        judged(tmp_path, nowhen, JUDGE)


def test_only_what_is_unreferenced_is_expired_and_no_row_is_left_out() -> None:
    rows = pa.table({"address": [*Reason], "reason": [*Reason]})
    parts = divide(lambda table: table, rows)
    assert parts[Stage.EXPIRED_ADDRESSES]["address"].to_pylist() == [Reason.UNREFERENCED]
    assert sorted(parts[findings.KEPT]["address"].to_pylist()) == sorted(set(Reason) - {Reason.UNREFERENCED})
