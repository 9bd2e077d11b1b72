"""Datasets give the rows that were put down, from one folder or from several."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.spark.tasks import Mapped, clear_errors, many
from lakegc_core.spark.versions import frame_of
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables import dataset as module
from lakegc_core.tables import gather as gathering
from lakegc_core.tables.dataset import Dataset, DatasetFolder, readable
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.key_scan import filter_of
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OBJECTS = pa.schema([pa.field("address", pa.string(), nullable=False), pa.field("size", pa.int64(), nullable=False)])
ROWS = [{"address": f"data/{number}", "size": number} for number in range(7)]


@pytest.fixture
def folder(tmp_path: Path) -> DatasetFolder:
    return DatasetFolder(LocalConfig(str(tmp_path)), "marks/m1/stage", "m1")


def rows_of(spark: SparkSession, rows: list[dict[str, object]]) -> Mapped:
    return Mapped(frame_of(spark, pa.Table.from_pylist(rows, schema=OBJECTS)), OBJECTS)


def for_workers() -> tuple[Callable[[pa.Table], dict[str, int]], Callable[[pa.Table], dict[str, pa.Table]]]:
    """The total of sizes, and a division by them. Inside of a function: workers cannot import this file."""

    def sizes(table: pa.Table) -> dict[str, int]:
        return {"bytes": sum(table["size"].to_pylist())}

    def by_parity(table: pa.Table) -> dict[str, pa.Table]:
        odd = pa.array([size % 2 == 1 for size in table["size"].to_pylist()])
        return {"odd": table.filter(odd), "even": table.filter(pc.invert(odd))}

    return sizes, by_parity


SIZES, BY_PARITY = for_workers()


def read(dataset: Dataset, *columns: str) -> list[dict[str, object]]:
    found = [row for batch in dataset.batches(*columns) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: str(row["address"]))


def test_what_was_put_down_is_read_back_here_and_by_spark(spark: SparkSession, folder: DatasetFolder) -> None:
    found = folder.put("objects", rows_of(spark, ROWS), OBJECTS, SIZES)
    assert (found.rows, found.sum("bytes"), found.sum("unknown")) == (7, 21, 0)
    assert read(found) == ROWS
    assert read(found, "address") == [{"address": row["address"]} for row in ROWS]
    assert sorted((row["address"], row["size"]) for row in found.frame(spark).collect()) == [
        tuple(row.values()) for row in ROWS
    ]
    assert {source.layer for source in found.sources} == {"m1"}


def test_spark_joins_few_rows_where_they_are_and_shuffles_many(
    spark: SparkSession, folder: DatasetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_ROWS_PER_TASK", 2)
    one, other = (rows_of(spark, rows).as_frame().coalesce(1) for rows in (ROWS[:4], ROWS[4:]))  # a part each
    dataset = folder.put("a", one, OBJECTS) + folder.put("b", other, OBJECTS)

    def joined() -> tuple[int, bool]:
        frame = dataset.frame(spark).join(many(dataset.frame(spark, "address")), "address", "left_semi")
        assert sorted(row["size"] for row in frame.collect()) == list(range(7))
        plan = frame._jdf.queryExecution().executedPlan().toString()
        return dataset.frame(spark).rdd.getNumPartitions(), "Exchange" in plan

    assert joined() == (1, False)
    monkeypatch.setattr(gathering, "FEW", 0)
    assert joined() == (1, False)
    monkeypatch.setattr(gathering, "_FEW_FEEDS", 1)
    assert joined() == (2, True), "many parts are read side by side"
    monkeypatch.setattr(gathering, "_FEW_FEEDS", 32)
    monkeypatch.setattr(gathering, "_FEW_ROWS", 6)
    assert joined() == (2, True)


def test_the_dataset_that_is_named_like_its_folder_lies_in_it_and_others_below(folder: DatasetFolder) -> None:
    assert [folder.at(name) for name in ("", "stage", "kept")] == [folder.path, folder.path, f"{folder.path}/kept"]
    assert folder.below("attempt-1").at("look") == f"{folder.path}/attempt-1/look"


def test_rows_are_divided_among_datasets_in_one_pass(spark: SparkSession, folder: DatasetFolder) -> None:
    found = folder.divide(rows_of(spark, ROWS), {"odd": OBJECTS, "even": OBJECTS}, BY_PARITY, SIZES)
    assert {name: (each.rows, each.sum("bytes")) for name, each in found.items()} == {"odd": (3, 9), "even": (4, 12)}
    together = found["odd"] + found["even"]
    assert read(together) == ROWS
    assert together.frame(spark, "size").count() == 7
    asked = hash_strings(pa.array(["data/3", "data/9", "data/4"]))
    assert filter_of(together.keys()).rows(asked).tolist() == [0, 2]


def test_datasets_of_other_columns_are_not_put_together(folder: DatasetFolder) -> None:
    with pytest.raises(ValueError, match="one dataset has the columns"):
        Dataset(OBJECTS) + Dataset(pa.schema([OBJECTS.field("size")]))


def test_an_empty_dataset_has_no_rows_wherever_it_is_read(spark: SparkSession) -> None:
    nothing = Dataset(OBJECTS)
    assert (nothing.rows, list(nothing.batches()), nothing.frame(spark).count(), nothing.keys().rows) == (0, [], 0, 0)


def test_of_several_journals_those_parts_are_left_that_read(
    spark: SparkSession, folder: DatasetFolder, tmp_path: Path
) -> None:
    one, other = folder.below("one"), folder.below("other")
    _, torn = (one.put("", rows_of(spark, rows), OBJECTS) for rows in (ROWS[:3], ROWS[3:]))
    other.put("", rows_of(spark, ROWS), OBJECTS)
    connect(folder.config).write(f"{one.path}/notes.txt", b"x")
    short, gone = (tmp_path / one.path / part.name for part in torn.parts)
    short.write_bytes(short.read_bytes()[:-9])
    journals = [one.listed(OBJECTS), other.listed(OBJECTS)]
    gone.unlink()
    with pytest.raises(ObjectNotFoundError), clear_errors():
        readable(spark, journals)  # a store that does not answer says nothing of bytes
    some, whole = readable(spark, journals, (CorruptFileError, ObjectNotFoundError))
    assert len(journals[0].parts) - len(some.parts) == 3, "a file of another name is none either"
    assert read(some) == ROWS[:3] and whole == journals[1] and read(whole) == ROWS


def test_many_parts_are_read_through_by_few_tasks(
    spark: SparkSession, folder: DatasetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task is sent all parts: as many tasks as parts would take quadratic time."""
    monkeypatch.setattr(module, "is_little", lambda feeds: False)
    parts = [
        part for row in ROWS for part in folder.written("", pa.RecordBatch.from_pylist([row], OBJECTS), OBJECTS).parts
    ]
    spark.sparkContext.setJobGroup("many parts", "")
    (whole,) = readable(spark, [folder.dataset("", parts, OBJECTS)])
    spark.sparkContext.setJobGroup("", "")
    told = spark.sparkContext.statusTracker()
    jobs = [told.getJobInfo(number) for number in told.getJobIdsForGroup("many parts")]
    stages = [told.getStageInfo(number) for job in jobs if job for number in job.stageIds]
    assert [stage and stage.numTasks for stage in stages] == [4 * spark_width(spark)] and len(parts) == 7
    assert read(whole) == ROWS


def test_a_column_that_a_part_lacks_is_an_error_and_no_column_of_nulls(
    spark: SparkSession, folder: DatasetFolder
) -> None:
    found = folder.put("objects", rows_of(spark, ROWS), OBJECTS)
    more = pa.schema([*OBJECTS, pa.field("etag", pa.string())])
    with pytest.raises(CorruptFileError, match="lacks the column etag"), clear_errors():
        Dataset(more, found.sources).frame(spark).collect()
