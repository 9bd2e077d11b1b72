"""Joins and choices: what this process does for few rows and Spark for others is the same, nulls included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakegc_core.spark.tasks import Few, Mapped
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables import relations
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.relations import counted, distinct, joined, limited, ordered, same, selected, summed
from tests.support.crowded import crowded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OBJECTS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        ("etag", pa.string()),
    ]
)
TAGS = pa.schema([pa.field("size", pa.int64(), nullable=False), ("etag", pa.string()), ("note", pa.string())])
ROWS = [
    {"address": "a", "size": 1, "etag": "x"},
    {"address": "a", "size": 1, "etag": "x"},
    {"address": "b", "size": 1, "etag": None},
    {"address": "c", "size": 2, "etag": "x"},
    {"address": "d", "size": 3, "etag": ""},
]
OTHERS = [
    {"size": 1, "etag": "x", "note": "one"},
    {"size": 1, "etag": "x", "note": "two"},
    {"size": 1, "etag": None, "note": "null"},
    {"size": 3, "etag": "", "note": None},
    {"size": 9, "etag": "x", "note": "none"},
]
Read = Callable[[pa.Schema, list[dict[str, Any]]], Mapped]


@pytest.fixture(params=[False, True], ids=["by this process", "by Spark"])
def read(request: pytest.FixtureRequest, quick: SparkSession, tmp_path: Path) -> Iterator[Read]:
    """Rows that are few, or not."""
    out = DatasetFolder(LocalConfig(str(tmp_path)), "here")
    with crowded(request.param):

        def rows_of(schema: pa.Schema, rows: list[dict[str, Any]]) -> Mapped:
            dataset = out.written(f"d{len(list(tmp_path.glob('here/*')))}", pa.Table.from_pylist(rows, schema), schema)
            found = dataset.mapped(quick, here=True)
            assert isinstance(found.of, Few) is not (request.param and bool(rows))
            return found

        yield rows_of


def values(rows: Mapped) -> Counter[tuple[Any, ...]]:
    """The rows, in no order, as tasks and this process read them."""
    table = pa.Table.from_batches(rows.here(), rows.schema) if isinstance(rows.of, Few) else None
    frame = rows.as_frame().collect()
    found = Counter(tuple(row[name] for name in rows.schema.names) for row in frame)
    if table is not None:
        assert Counter(tuple(row.values()) for row in table.to_pylist()) == found, "a task reads the same"
    return found


A, B, C, D = ("a", 1, "x"), ("b", 1, None), ("c", 2, "x"), ("d", 3, "")


@pytest.mark.parametrize(
    ("how", "right"),
    [
        ("inner", {(*A, "one"): 2, (*A, "two"): 2, (*D, None): 1}),
        ("left", {(*A, "one"): 2, (*A, "two"): 2, (*B, None): 1, (*C, None): 1, (*D, None): 1}),
        ("left_semi", {A: 2, D: 1}),
        ("left_anti", {B: 1, C: 1}),
    ],
)
def test_joins_compare_values_as_they_are_and_nulls_equal_nothing(read: Read, how: str, right: dict[Any, int]) -> None:
    assert values(joined(read(OBJECTS, ROWS), read(TAGS, OTHERS), ["size", "etag"], how)) == right


@pytest.mark.parametrize("how", ["inner", "left", "left_semi", "left_anti"])
def test_a_side_without_rows_is_one_without_rows(read: Read, how: str) -> None:
    none = joined(read(OBJECTS, ROWS), read(TAGS, []), ["size", "etag"], how)
    assert sum(values(none).values()) == (len(ROWS) if how in ("left", "left_anti") else 0)
    assert not values(joined(read(OBJECTS, []), read(TAGS, OTHERS), ["size", "etag"], how))


def test_a_join_of_rows_that_this_process_read_with_others_is_sparks(quick: SparkSession, tmp_path: Path) -> None:
    out = DatasetFolder(LocalConfig(str(tmp_path)), "here")
    objects = out.written("objects", pa.Table.from_pylist(ROWS, OBJECTS), OBJECTS).mapped(quick, here=True)
    tags = out.written("tags", pa.Table.from_pylist(OTHERS, TAGS), TAGS)
    here = distinct(joined(objects, tags.mapped(quick, here=True), ["size", "etag"], "left_semi"))
    with crowded():
        others = tags.mapped(quick)
    assert isinstance(here.of, Few) and not isinstance(others.of, Few)
    assert values(joined(here, others, ["size"], "left_semi")) == {A: 1, D: 1}
    assert values(joined(others, here, ["size"], "left_anti")) == {(9, "x", "none"): 1}


def test_selected_rows_have_the_columns_of_their_schema(read: Read) -> None:
    schema = pa.schema([pa.field("kind", pa.int8()), OBJECTS.field("address"), pa.field("tag", pa.string())])
    found = selected(
        read(OBJECTS, ROWS),
        schema,
        lambda rows: pc.greater(rows["size"], 1),
        kind=lambda rows: same(7, rows),
        tag=lambda rows: rows["etag"],
    )
    assert found.schema == schema
    assert values(found) == {(7, "c", "x"): 1, (7, "d", ""): 1}


def test_distinct_rows_are_there_once_and_nulls_are_a_value(read: Read) -> None:
    assert values(distinct(read(OBJECTS, ROWS))) == {A: 1, B: 1, C: 1, D: 1}
    assert values(distinct(read(OBJECTS, ROWS), "size", "etag")) == {(1, "x"): 1, (1, None): 1, (2, "x"): 1, (3, ""): 1}


def test_rows_are_limited_counted_summed_and_ordered(read: Read) -> None:
    rows = read(OBJECTS, ROWS)
    assert [sum(values(limited(rows, most)).values()) for most in (0, 2, 9)] == [0, 2, 5]
    assert values(limited(rows, 2)) <= values(rows)
    assert counted(rows, "size", "etag") == {(1, "x"): 2, (1, None): 1, (2, "x"): 1, (3, ""): 1}
    assert summed(rows, "size", "address") == {"a": 2, "b": 1, "c": 2, "d": 3}
    found = ordered(rows, "size", "address", width=2).as_frame().collect()
    assert [row["address"] for row in found] == ["a", "a", "b", "c", "d"]


def test_few_others_are_sent_to_all_tasks_and_many_are_not(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = DatasetFolder(LocalConfig(str(tmp_path)), "here")
    tags = out.written("tags", pa.Table.from_pylist(OTHERS, TAGS), TAGS)
    with crowded():
        rows = tags.mapped(quick)
    few = distinct(tags.mapped(quick, here=True), "size")

    def plan() -> str:
        return str(joined(rows, few, ["size"], "left_semi").as_frame()._jdf.queryExecution().toString())  # type: ignore[operator,union-attr]

    assert "BroadcastHashJoin" in plan()
    monkeypatch.setattr(relations, "FEW", 0)
    assert "ShuffledHashJoin" in plan()
