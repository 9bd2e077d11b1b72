"""Rows of many parts that have a hash in common meet in one table, once each, whatever part and task they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakegc_core.errors import CorruptFileError
from lakegc_core.spark.tasks import Few
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables import gather as gathering
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.gather import BY_TASKS, HASH, KIND, Feed, gather, once, only, rows_of_feeds
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import PartWriter
from tests.support.lake import NO_SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Decide = Callable[[pa.Table], Iterator[pa.Table]]

NAMES = pa.schema([pa.field("name", pa.string(), nullable=False)])
ROWS = pa.schema([KIND, HASH, *NAMES, pa.field("size", pa.int64())])
TOLD = pa.schema([*NAMES, pa.field("kinds", pa.string()), pa.field("rows", pa.int64())])


def named(kind: int) -> Callable[[pa.RecordBatch], Mapping[str, Any]]:
    def make(rows: pa.RecordBatch) -> Mapping[str, Any]:
        return {"kind": kind, "hash": hash_strings(rows["name"]), "name": rows["name"]}

    return make  # workers cannot import this file: what is defined in a function travels as it is


def feeds(config: LocalConfig, sets: list[list[str]]) -> list[Feed]:
    found = []
    for kind, names in enumerate(sets):
        writer = PartWriter(config, f"set-{kind}", NAMES)
        writer.write(pa.RecordBatch.from_pydict({"name": names}, schema=NAMES))
        found += [Feed(Source(config, f"set-{kind}", part, "m"), ("name",), named(kind)) for part in writer.close()]
    return found


@pytest.fixture
def tell() -> Decide:
    """Says of each name which kinds of rows it has, and how many rows are in its table."""
    shape = TOLD

    def told(rows: pa.Table) -> Iterator[pa.Table]:
        assert not any(rows["size"].is_valid().to_pylist()), "what a feed does not name is null"
        for name in rows["name"].unique().to_pylist():
            own = rows.filter(pc.equal(rows["name"], name))
            kinds = "".join(map(str, sorted(own["kind"].to_pylist())))
            yield pa.table({"name": [name], "kinds": [kinds], "rows": [len(rows)]}, schema=shape)

    return told


WAYS = pytest.mark.parametrize(
    ("here", "few"),
    [(1_000_000, 1_000_000), (0, 1_000_000), (0, 0)],
    ids=["this process reads them", "each worker reads them", "Spark shuffles them"],
)


@WAYS
@pytest.mark.parametrize("partitions", [1, 7])
def test_rows_of_one_hash_meet_whatever_part_they_come_from(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tell: Decide,
    partitions: int,
    here: int,
    few: int,
) -> None:
    monkeypatch.setattr(gathering, "FEW", here)
    monkeypatch.setattr(gathering, "_FEW_ROWS", few)
    sets = [[f"n{number}" for number in range(0, 300, step)] for step in (1, 2, 3)] + [["n6", "n6", "other"]]
    found = gather(spark, feeds(LocalConfig(str(tmp_path)), sets), ROWS, tell, TOLD, partitions).as_frame().collect()
    kinds = Counter((name, kind) for kind, names in enumerate(sets) for name in names)
    names = {name for name, _ in kinds}
    right = {name: "".join(str(kind) * kinds[name, kind] for kind in range(len(sets))) for name in names}
    assert {row["name"]: row["kinds"] for row in found} == right
    assert len(found) == len(names)
    assert len({row["rows"] for row in found}) > 1 or partitions == 1 or here, "several tables"


@pytest.mark.parametrize("together", [50, 1_000])
def test_of_rows_that_are_equal_in_some_columns_few_are_passed_on_and_at_least_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(gathering, "_ROWS_TOGETHER", together)
    schema = pa.schema([*ROWS, pa.field("asks", pa.bool_())])
    told = [(name, asks, size) for name in "abcab" * 4 for asks in (None, True, False) for size in (None, 1, 2)]
    batches = [
        pa.RecordBatch.from_pylist(
            [{"kind": 0, "hash": ord(name), "name": name, "size": size, "asks": asks}], schema=schema
        )
        for name, asks, size in told
    ]
    for columns in (("hash",), ("hash", "asks"), ("hash", "asks", "size")):
        rows = [row for batch in once(iter(batches), schema, columns) for row in batch.to_pylist()]
        found = [tuple(row[each] for each in columns) for row in rows]
        assert set(found) == {tuple(row[each] for each in columns) for batch in batches for row in batch.to_pylist()}
        assert len(found) < len(told) and (together < 1_000 or len(found) == len(set(found)))


def test_nothing_to_read_gives_no_rows(spark: SparkSession, tell: Decide) -> None:
    assert gather(spark, [], ROWS, tell, TOLD, 3).as_frame().collect() == []


def test_gatherings_of_the_same_parts_do_not_see_one_anothers_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Decide
) -> None:
    """Workers live on, and keep what they have read for the other tasks of one gathering."""
    monkeypatch.setattr(gathering, "FEW", 0)
    (feed,) = feeds(LocalConfig(str(tmp_path)), [["a", "b"]])
    for kind in (3, 4):
        rows = gather(spark, [replace(feed, make=named(kind))], ROWS, tell, TOLD, 4).as_frame().collect()
        assert {(row["name"], row["kinds"]) for row in rows} == {("a", str(kind)), ("b", str(kind))}


@WAYS
def test_a_damaged_part_is_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Decide, here: int, few: int
) -> None:
    monkeypatch.setattr(gathering, "FEW", here)
    monkeypatch.setattr(gathering, "_FEW_ROWS", few)
    (feed,) = feeds(LocalConfig(str(tmp_path)), [["a"]])
    file = tmp_path / "set-0" / feed.source.part.name
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    found = gather(spark, [feed], ROWS, tell, TOLD, 1)
    with pytest.raises(CorruptFileError, match="not the file that its manifest names"):
        DatasetFolder(LocalConfig(str(tmp_path)), "told").put("told", found, TOLD)


def test_no_job_of_spark_begins_for_few_rows(tmp_path: Path, tell: Decide) -> None:
    config = LocalConfig(str(tmp_path))
    found = gather(NO_SPARK, feeds(config, [["a", "b"], ["b"]]), ROWS, tell, TOLD, 3)
    written = DatasetFolder(config, "told").put("told", found, TOLD)
    told = {(row["name"], row["kinds"]) for batch in written.batches() for row in batch.to_pylist()}
    assert told == {("a", "0"), ("b", "01")}


@pytest.mark.parametrize("holding", [0, BY_TASKS])
def test_what_holds_much_or_reads_files_is_left_to_tasks_however_few_rows_there_are(
    spark: SparkSession, tmp_path: Path, tell: Decide, holding: int
) -> None:
    own = feeds(LocalConfig(str(tmp_path)), [["a", "b"]])
    found = gather(spark, own, ROWS, tell, TOLD, 1, holding=holding)
    rows = rows_of_feeds(spark, own, ROWS, holding=holding)
    more = rows_of_feeds(spark, own, ROWS).then(ROWS, lambda batches: batches, holding=holding)
    assert [isinstance(each.of, Few) for each in (found, rows, more)] == [not holding] * 3
    assert {row["name"] for each in (found, rows, more) for row in each.as_frame().collect()} == {"a", "b"}


def test_only_takes_rows_of_every_column_and_leaves_single_values() -> None:
    columns = {"kind": 3, "hash": np.arange(3), "name": pa.array(["a", "b", "c"])}
    found = only(columns, np.array([True, False, True]))
    assert (found["kind"], found["hash"].tolist(), found["name"].to_pylist()) == (3, [0, 2], ["a", "c"])
