"""Both kinds of workers find the same values and give them to the same tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core.answers.workers import Column, Few, InThisProcess, MoreThanLittleError, SparkTasks, Values, Workers
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import PartWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([pa.field("name", pa.string(), nullable=False), pa.field("other", pa.int64(), nullable=False)])


@pytest.fixture(params=["here", "spark"])
def workers(request: pytest.FixtureRequest, spark: SparkSession) -> Workers:
    return InThisProcess(100) if request.param == "here" else SparkTasks(spark)


def column(folder: Path, name: str, *values: str) -> Column:
    """A column of these values. The number beside each is behind it, or 7."""
    out = DatasetFolder(LocalConfig(str(folder)), "columns")
    writer = PartWriter(out.config, out.at(name), SCHEMA)
    rows = [value.partition(" ") for value in values]
    columns = {"name": [value for value, _, _ in rows], "other": [int(number or 7) for _, _, number in rows]}
    writer.write(pa.RecordBatch.from_pydict(columns, schema=SCHEMA))
    return Column(out.dataset(name, writer.close(), SCHEMA), "name")


def told(workers: Workers, values: Values) -> list[str]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        for batch in batches:
            assert batch.schema.names == ["name"]
            yield from ({"value": value} for value in batch.column(0).to_pylist())

    return sorted(result["value"] for result in workers.run_on_values(values, task))


def test_each_value_of_all_columns_comes_once_and_the_empty_one_never(workers: Workers, tmp_path: Path) -> None:
    one, other = column(tmp_path, "one", "a", "b", "a", ""), column(tmp_path, "other", "b", "c")
    assert told(workers, Values((one, other))) == ["a", "b", "c"]


def test_values_may_be_those_that_another_column_has_or_has_not(workers: Workers, tmp_path: Path) -> None:
    one, other = column(tmp_path, "one", "a", "b", "d"), column(tmp_path, "other", "b", "c", "d")
    assert told(workers, Values((one,), among=other)) == ["b", "d"]
    assert told(workers, Values((one,), apart=other)) == ["a"]


def test_values_may_be_the_first_of_each_number_and_come_with_their_numbers(workers: Workers, tmp_path: Path) -> None:
    one = column(tmp_path, "one", "d 1", "b 1", "c 1", "d 2", "b 1", " 3", "a 4")
    other = column(tmp_path, "other", "c 2", "e 2", "a 5", "b 6")

    def told(values: Values) -> dict[str, list[int]]:
        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
            for batch in batches:
                yield from batch.to_pylist()

        results = workers.run_on_values(values, task)
        assert len({each["name"] for each in results}) == len(results), "each value comes once"
        return {each["name"]: sorted(each["other"]) for each in results}

    two = Values((one, other), few=Few("other", 2))
    assert told(two) == {"a": [4, 5], "b": [1, 6], "c": [1, 2], "d": [2]}
    among = column(tmp_path, "among", "c", "d", "e")
    assert told(replace(two, among=among)) == {"c": [1, 2], "d": [1, 2]}
    assert told(replace(two, of=(replace(one, dataset=Dataset(SCHEMA)),))) == {}


def test_columns_without_rows_have_no_values(workers: Workers, tmp_path: Path) -> None:
    nothing = Column(Dataset(SCHEMA), "name")
    assert told(workers, Values((nothing,))) == []
    assert told(workers, Values((column(tmp_path, "one", "a"),), among=nothing)) == []


def test_tasks_run_on_every_item(workers: Workers) -> None:
    def task(item: int) -> Iterator[dict[str, Any]]:
        yield from ({"item": item} for _ in range(item))

    assert sorted(result["item"] for result in workers.run([1, 2, 0], task)) == [1, 2, 2]


def test_this_process_reads_no_more_files_than_it_may_in_all(tmp_path: Path) -> None:
    here, values = InThisProcess(3), Values((column(tmp_path, "one", "a", "b"),))
    assert told(here, values) == ["a", "b"]
    with pytest.raises(MoreThanLittleError, match="2 files are more"):
        told(here, values)
