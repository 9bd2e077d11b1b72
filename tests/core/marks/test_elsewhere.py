"""What a mark notes of entries that point outside of their own namespace."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakegc_core.marks.elsewhere import (
    ANYWHERE,
    ELSEWHERE_SCHEMA,
    elsewhere_rows,
    may_refer,
    merged,
    sum_authorities,
)
from lakegc_core.policy.namespace import Namespace
from lakegc_core.tables.parts import read_part
from tests.support.lake import Lake
from tests.support.neighbourhood import mark, neighbourhood

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    with neighbourhood(tmp_path) as found:
        yield found


def test_entries_elsewhere_are_noted_by_their_range_and_counted_by_bucket(quick: SparkSession, served: Lake) -> None:
    far = served.sandbox.repository("far")
    far.upload("main", "own", b"own", age=timedelta(days=50))
    far.commit("main", "own")
    far.import_objects("main", {"x": ("s3://bucket/lake/data/1", 1), "y": ("s3://elsewhere/y", 1)})
    mark(quick, served, "far", "f1")
    artifacts = served.open("far").artifacts("f1")
    manifest = artifacts.require("committed_addresses")
    rows = [
        row["address"]
        for part in manifest.datasets["elsewhere"]
        for batch in read_part(artifacts.config, artifacts.stage_folder("committed_addresses", "elsewhere"), part)
        for row in batch.to_pylist()
    ]
    assert sorted(rows) == ["s3://bucket/lake/data/1", "s3://elsewhere/y"]
    assert artifacts.require("expired_addresses").facts["refers_elsewhere"] == {"bucket": 1, "elsewhere": 1}


def test_too_many_buckets_are_counted_together_and_may_be_any() -> None:
    some = merged([{"a": 1, "b": 2}, {"a": 3}])
    assert some == {"a": 4, "b": 2}
    namespace = Namespace("s3://c/lake")
    assert not may_refer(namespace, some)
    assert may_refer(namespace, merged([{f"bucket-{number}": 2 for number in range(51)}]))
    assert merged([{f"bucket-{number}": 2 for number in range(51)}]) == {ANYWHERE: 102}


HERE, FULL = 1, 2


def entries(*rows: tuple[str, int, int]) -> pa.Table:
    """Entries: address, type, size."""
    return pa.table(
        {
            "address": pa.array([row[0] for row in rows], pa.string()),
            "address_type": pa.array([row[1] for row in rows], pa.int8()),
            "size": pa.array([row[2] for row in rows], pa.int64()),
        }
    )


def test_of_entries_those_elsewhere_are_noted_each_with_its_own_range_and_size() -> None:
    namespace = Namespace("s3://bucket/lake")
    found = elsewhere_rows(
        namespace,
        ["one", "none", "two"],
        [2, 0, 3],
        entries(
            ("data/a", HERE, 1),
            ("s3://far/data/b", FULL, 2),
            ("s3://bucket/lake/data/c", FULL, 3),
            ("s3://bucket/lake2/data/d", FULL, 4),
            ("s3://far/e", FULL, 5),
        ),
    )
    assert found.schema == ELSEWHERE_SCHEMA
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("one", "s3://far/data/b", 2),
        ("two", "s3://bucket/lake2/data/d", 4),
        ("two", "s3://far/e", 5),
    ]
    assert sum_authorities(found) == {"far": 2, "bucket": 1}


def test_entries_of_ones_own_namespace_are_not_noted() -> None:
    namespace = Namespace("s3://bucket/lake")
    assert elsewhere_rows(namespace, ["one"], [1], entries(("data/a", HERE, 1))).num_rows == 0
    assert elsewhere_rows(namespace, ["one"], [0], entries()).num_rows == 0
