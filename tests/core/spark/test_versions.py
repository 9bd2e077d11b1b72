"""Which versions of Spark lakegc runs on, and that they decide alike."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
import pytest

from lakegc_core.errors import SettingsError
from lakegc_core.spark import versions
from lakegc_core.spark.session import prepare_environment, session
from lakegc_core.spark.versions import check, check_home, frame_of, last_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64()),
        pa.field("at", pa.timestamp("us", "UTC")),
    ]
)


@pytest.mark.parametrize(
    "version", ["3.5.0", "3.5.6", "3.5.4-amzn-0", "3.5.0+amzn.1", "4.0.1", "4.1.0", pyspark.__version__]
)
def test_spark_3_5_and_4_are_taken_as_platforms_call_them(version: str) -> None:
    check(version)


@pytest.mark.parametrize("version", ["3.4.4", "2.4.8", "5.0.0", "5.0.0.dev1", "10.1"])
def test_other_versions_are_refused_by_name(version: str) -> None:
    with pytest.raises(SettingsError, match=rf"This is Spark {version}\. lakegc runs on Spark 3\.5 and 4"):
        check(version)


def test_a_version_that_is_no_number_is_refused() -> None:
    with pytest.raises(SettingsError, match="'client-2', which is none that lakegc knows"):
        check("client-2")


def test_spark_3_5_is_refused_where_a_module_is_missing_on_which_it_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "find_spec", lambda name: None if name == "distutils" else find_spec(name))
    with pytest.raises(SettingsError, match=r"Spark 3\.5\.6 imports distutils.* Install setuptools"):
        check("3.5.6")
    check("4.0.1")


@pytest.mark.parametrize(
    ("jar", "says"),
    [
        (None, "holds no Spark"),
        ("spark-core_2.12-3.3.2.jar", r"is Spark 3\.3\.2; PySpark here is"),
        ("spark-core_2.12-3.4.1-amzn-0.jar", r"is Spark 3\.4\.1-amzn-0; PySpark here is"),
    ],
)
def test_a_spark_home_of_another_version_is_refused_by_its_name(
    tmp_path: Path, jar: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark would start it, and fail in words that blame lakegc."""
    (tmp_path / "jars").mkdir()
    if jar:
        (tmp_path / "jars" / jar).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SettingsError, match=rf"SPARK_HOME is {tmp_path}, which {says}.*Unset SPARK_HOME"):
        prepare_environment()


def test_a_spark_home_of_this_version_is_taken(tmp_path: Path) -> None:
    numbers = ".".join(pyspark.__version__.split(".")[:2])
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"spark-core_2.13-{numbers}.9-vendor-1.jar").touch()
    (tmp_path / "jars" / "spark-core_2.13-tests.txt").touch()
    for home in (str(tmp_path), str(Path(pyspark.__file__).parent), "", None):
        check_home(home)


def test_older_versions_of_spark_have_a_newest_java() -> None:
    assert [last_java(version) for version in ("3.5.6", "4.0.1", "4.1.4", "4.3.0")] == [17, 21, 21, None]


def test_a_session_starts_on_no_version_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.4.4")
    with pytest.raises(SettingsError, match=r"This is Spark 3\.4\.4"):
        session("local[1]", {"spark.python.daemon.module": "pyspark.daemon"})


def test_sums_that_overflow_and_texts_that_are_no_numbers_stop_a_job_on_every_version(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"(?i)overflow"):
        spark.sql("SELECT sum(size) FROM VALUES (9223372036854775807L), (1L) AS rows(size)").collect()
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        spark.sql("SELECT CAST(name AS BIGINT) FROM VALUES ('a') AS rows(name)").collect()


def test_no_setting_makes_versions_decide_differently(spark: SparkSession) -> None:
    found = session("local[2]", dict.fromkeys(versions.ALIKE, "false"))
    assert found is spark
    assert {name: found.conf.get(name) for name in versions.ALIKE} == versions.ALIKE


def test_a_frame_of_rows_holds_what_they_hold(spark: SparkSession) -> None:
    rows = [
        {"address": "data/a", "size": 2**62, "at": datetime(2025, 3, 31, 12, 0, 0, 123456, UTC)},
        {"address": "data/b", "size": None, "at": None},
    ]
    frame = frame_of(spark, pa.Table.from_pylist(rows, ROWS))
    found = frame.selectExpr("address", "size", "unix_micros(at)").collect()
    assert [tuple(row) for row in found] == [("data/a", 2**62, 1743422400123456), ("data/b", None, None)]
    assert frame.schema["address"].nullable is False


def test_a_frame_has_the_rows_of_all_batches_also_after_an_empty_one(spark: SparkSession) -> None:
    batches = [
        pa.RecordBatch.from_pylist([{"address": name, "size": 1} for name in names], ROWS) for names in ("a", "", "b")
    ]
    found = frame_of(spark, pa.Table.from_batches(batches, ROWS)).select("address").collect()
    assert sorted(row["address"] for row in found) == ["a", "b"]


def test_of_a_frame_without_rows_spark_knows_that_it_has_none(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    none = frame_of(spark, ROWS.empty_table())
    spark.range(9).selectExpr("'data/a' AS address").join(none, "address").explain()
    plan = capsys.readouterr().out
    assert "LocalTableScan <empty>" in plan and "Join" not in plan


def test_a_frame_has_all_rows_of_a_table_in_many_chunks_of_which_some_are_empty(spark: SparkSession) -> None:
    chunks = [pa.table({"name": pa.array(names, pa.string())}) for names in ([], ["a", "b"], [], ["c"], [])]
    rows = frame_of(spark, pa.concat_tables(chunks)).collect()
    assert sorted(row["name"] for row in rows) == ["a", "b", "c"]
