"""Ages and sizes of what is expired, counted part by part."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.stages import shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def table(*rows: tuple[float, int]) -> pa.Table:
    """Rows of (age in days, size in bytes)."""
    return pa.table(
        {
            "last_modified": pa.array([NOW - timedelta(days=days) for days, _ in rows], pa.timestamp("us", tz="UTC")),
            "size": pa.array([size for _, size in rows], pa.int64()),
        }
    )


def test_each_object_is_in_one_class_of_age_and_one_of_size_and_parts_add_up() -> None:
    one = shape.sums(table((6.9, 999), (7, 1000), (800, 10**9)), NOW.timestamp())
    two = shape.sums(table((7.1, 5)), NOW.timestamp())
    found = shape.classes(Counter(one) + Counter(two))
    ages = {each["name"]: (each["objects"], each["bytes"]) for each in found["ages"] if each["objects"]}
    sizes = {each["name"]: (each["objects"], each["bytes"]) for each in found["sizes"] if each["objects"]}
    assert ages == {"under a week": (1, 999), "1–4 weeks": (2, 1005), "over 2 years": (1, 10**9)}
    assert sizes == {"under 1 kB": (2, 1004), "1–100 kB": (1, 1000), "1 GB and more": (1, 10**9)}


def test_no_objects_are_in_no_class() -> None:
    assert shape.sums(table(), NOW.timestamp()) == {}
    assert [each["objects"] for each in shape.classes({})["ages"]] == [0] * (len(shape.AGES) + 1)


def test_the_largest_prefixes_are_folders_by_bytes(quick: SparkSession) -> None:
    rows = [("data/a/1", 5), ("data/a/2", 6), ("data/b/1", 10), ("0123", 3)]
    found = shape.largest_prefixes(quick.createDataFrame(rows, "address string, size long"))
    assert found == [
        {"prefix": "data/a/", "objects": 2, "bytes": 11},
        {"prefix": "data/b/", "objects": 1, "bytes": 10},
        {"prefix": "", "objects": 1, "bytes": 3},
    ]
