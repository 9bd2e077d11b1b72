"""The digest of all rows of a dataset: by its definition, however the rows lie in parts."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA
from lakegc_core.tables import merkle
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.merkle import leaves, tree_of
from lakegc_core.tables.parts import PartWriter
from tests.support.lake import NO_SPARK, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
AT = datetime(2025, 3, 31, 12, tzinfo=UTC)


def rows_of(count: int) -> list[Row]:
    names = [f"data/{number}" for number in range(count - 2)] + ["data/ü,3:x,", "data/3:1"][: min(count, 2)]
    return [
        {
            "address": name,
            "size": number,
            "outcome": "deleted" if number % 3 else "failed:503",
            "attempt": 1,
            "at": AT + timedelta(microseconds=number),
        }
        for number, name in enumerate(names)
    ]


def in_parts(folder: Path, rows: list[Row], count: int) -> Dataset:
    """The rows in so many parts, in any order."""
    random.Random(count).shuffle(rows)
    out = DatasetFolder(LocalConfig(str(folder)), f"in-{count}")
    for number in range(count):
        writer = PartWriter(out.config, out.path, OUTCOMES_SCHEMA)
        writer.write(pa.RecordBatch.from_pylist(rows[number::count], OUTCOMES_SCHEMA))
        writer.close()
    return out.listed(OUTCOMES_SCHEMA)


def root_by_definition(rows: list[Row]) -> str:
    """As docs/proof.md says it, another way: by splitting, as RFC 6962 does."""

    def over(digests: list[bytes]) -> bytes:
        if len(digests) < 2:
            return digests[0] if digests else hashlib.sha256(b"").digest()
        middle = 1 << (len(digests) - 1).bit_length() - 1
        return hashlib.sha256(b"\1" + over(digests[:middle]) + over(digests[middle:])).digest()

    branches: list[list[bytes]] = [[] for _ in range(256)]
    for row in rows:
        at = (row["at"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        values = [str(each).encode() for each in (row["address"], row["size"], row["outcome"], row["attempt"], at)]
        text = b"".join(b"%d:%b," % (len(each), each) for each in values)
        branches[hashlib.sha256(values[0]).digest()[0]].append(hashlib.sha256(b"\0" + text).digest())
    return over([over(sorted(each)) for each in branches]).hex()


@pytest.mark.parametrize("count", [0, 2, 3, 7, 700])
def test_the_root_is_that_of_the_definition_however_the_rows_lie_in_parts(tmp_path: Path, count: int) -> None:
    rows = rows_of(count)
    found = [tree_of(NO_SPARK, in_parts(tmp_path, rows, parts), "outcome") for parts in (1, 2, 5)]
    assert {each.root for each in found} == {root_by_definition(rows)} and found[0].rows == count
    assert sum(found[0].counts.values()) == count


def test_tasks_make_the_same_tree_as_one_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = in_parts(tmp_path, rows_of(500), 3)
    here = tree_of(NO_SPARK, rows, "outcome")
    monkeypatch.setattr(merkle, "FEW", 0)
    monkeypatch.setattr(merkle, "partitions_for", lambda _: 3)
    with quick(spark):
        assert tree_of(spark, rows, "outcome") == here


def test_leaves_of_one_branch_and_label_go_to_their_branch_in_one_row() -> None:
    """A shuffle of a row for each leaf took as long as all of the hashing."""
    rows = rows_of(40_000)
    packed = merkle._packed_leaves("outcome", pa.RecordBatch.from_pylist(rows, OUTCOMES_SCHEMA))
    assert len(packed["hash"]) == len(packed["leaves"]) == 2 * merkle.BRANCHES
    assert sum(len(each) for each in packed["leaves"].to_pylist()) == 32 * len(rows)


def test_values_that_run_together_are_told_apart() -> None:
    rows = [pa.RecordBatch.from_pydict({"a": [first], "b": [second]}) for first, second in (("x1", "1"), ("x", "11"))]
    assert leaves(rows[0]) != leaves(rows[1])


def test_a_row_that_lacks_a_value_has_no_digest() -> None:
    with pytest.raises(ValueError, match="a null"):
        leaves(pa.RecordBatch.from_pydict({"a": pa.array([None], pa.string())}))
