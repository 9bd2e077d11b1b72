"""Rows are told apart by whether their key is wanted, alike by the filters of workers and by Spark's join."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core.errors import CorruptFileError
from lakegc_core.spark.tasks import Mapped
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables import joins
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.gather import Feed, columns_of
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.joins import also_in, among, beside, flagged, scan
from lakegc_core.tables.key_scan import Source, Wanted
from lakegc_core.tables.parts import Part, PartWriter
from tests.support.rows import BOTH, Rows, few, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HASHES = pa.schema([pa.field("hash", pa.int64(), nullable=False)])
ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])
LAYERS = ADDRESSES.append(pa.field("layer", pa.string(), nullable=False))


@pytest.fixture(params=[joins.MOST, -1], ids=["looked up by workers", "joined by Spark"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "MOST", request.param)


def written(config: LocalConfig, folder: str, schema: pa.Schema, values: list[Any]) -> tuple[Part, ...]:
    writer = PartWriter(config, folder, schema)
    writer.write(pa.RecordBatch.from_arrays([pa.array(values, schema[0].type)], schema=schema))
    return tuple(writer.close())


def wanted(config: LocalConfig, *addresses: str) -> Wanted:
    hashes = hash_strings(pa.array(addresses, pa.string())).tolist()
    return Wanted(
        tuple(Source(config, "wanted", part, "") for part in written(config, "wanted", HASHES, hashes)), ("hash",)
    )


def lying(config: LocalConfig, mark: str, names: list[str]) -> list[Source]:
    return [Source(config, mark, part, mark) for part in written(config, mark, ADDRESSES, names)]


def rows_of(mapped: Mapped) -> list[tuple[Any, ...]]:
    assert mapped.as_frame().columns == mapped.schema.names
    return sorted(map(tuple, mapped.as_frame().collect()))


def test_a_scan_finds_addresses_in_the_parts_of_all_marks_and_makes_of_them_what_feeds_say(
    quick: SparkSession, tmp_path: Path
) -> None:
    def of_layer(layer: str) -> Any:
        def make(rows: pa.RecordBatch) -> Mapping[str, Any]:
            return columns_of(rows) | {"layer": layer}

        return make

    config = LocalConfig(str(tmp_path))
    feeds = [
        Feed(source, ("address",), of_layer(mark))
        for mark in "abc"
        for source in lying(config, mark, [f"data/{mark}/{number}" for number in range(50)])
    ]
    sought = wanted(config, "data/a/3", "data/c/49", "data/c/50")
    assert rows_of(scan(quick, feeds, LAYERS, sought)) == [("data/a/3", "a"), ("data/c/49", "c")]
    assert rows_of(scan(quick, feeds, LAYERS, Wanted(()))) == []


@pytest.mark.parametrize("found", [True, False])
def test_columns_of_few_values_are_read_as_dictionaries_and_come_as_they_were(
    quick: SparkSession, tmp_path: Path, found: bool
) -> None:
    config, names = LocalConfig(str(tmp_path)), [f"data/{number % 3}" for number in range(60)]
    feeds = [Feed(source, ("address",), columns_of, ("address",)) for source in lying(config, "a", names)]
    rows = rows_of(scan(quick, feeds, ADDRESSES, wanted(config, "data/1"), found=found))
    assert [row[0] for row in rows] == sorted(each for each in names if (each == "data/1") == found)


def test_a_damaged_part_ends_the_scan(quick: SparkSession, tmp_path: Path) -> None:
    config = LocalConfig(str(tmp_path))
    sources, sought = lying(config, "a", ["data/1"]), wanted(config, "data/1")
    file = tmp_path / "wanted" / sought.sources[0].part.name
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(Exception, match=CorruptFileError.__name__):
        scan(quick, Dataset(ADDRESSES, tuple(sources)).feeds(), ADDRESSES, sought).as_frame().collect()


@pytest.mark.parametrize("sought", [["data/a/3"], []])
def test_what_is_not_wanted_is_found_as_well_and_nothing_wanted_means_all(
    quick: SparkSession, tmp_path: Path, sought: list[str]
) -> None:
    config, names = LocalConfig(str(tmp_path)), [f"data/a/{number}" for number in range(50)]
    feeds = Dataset(ADDRESSES, tuple(lying(config, "a", names))).feeds()
    rows = rows_of(scan(quick, feeds, ADDRESSES, wanted(config, *sought), found=False))
    assert {row[0] for row in rows} == set(names) - set(sought)


def test_rows_of_a_frame_are_told_apart_and_those_that_come_twice_stay_so(quick: SparkSession, tmp_path: Path) -> None:
    config, names = LocalConfig(str(tmp_path)), ["x", "y", "y", "z"]
    rows = Mapped(quick.createDataFrame([(name,) for name in names], "address string"), ADDRESSES)
    sought = wanted(config, "y", "y", "other")
    assert rows_of(among(quick, rows, sought)) == [("y",), ("y",)]
    assert rows_of(among(quick, rows, sought, found=False)) == [("x",), ("z",)]
    assert rows_of(flagged(quick, rows, "kept", sought)) == [("x", False), ("y", True), ("y", True), ("z", False)]
    assert rows_of(flagged(quick, rows, "kept", wanted(config))) == [(name, False) for name in names]


@pytest.mark.parametrize("made", BOTH)
@pytest.mark.parametrize("asked", BOTH)
def test_columns_of_others_stand_beside_the_rows_of_the_same_address_and_of_no_other(
    quick: SparkSession, made: Rows, asked: Rows
) -> None:
    rows = made(quick, [{"address": each} for each in ("a", "b", "A", "a", "é")], ADDRESSES)
    others = asked(quick, [{"address": "a", "layer": "m1"}, {"address": "é", "layer": "m2"}], LAYERS)
    found = {(row["address"], row["layer"]) for row in told(beside(rows, others, "layer"))}
    assert found == {("A", None), ("a", "m1"), ("b", None), ("é", "m2")}
    nothing = told(beside(rows, asked(quick, [], LAYERS), "layer"))
    assert [row["layer"] for row in nothing] == [None] * 5


@pytest.mark.parametrize("made", BOTH)
@pytest.mark.parametrize("asked", BOTH)
def test_rows_whose_address_is_among_any_of_others_are_found_once(quick: SparkSession, made: Rows, asked: Rows) -> None:
    rows = made(quick, [{"address": each} for each in ("a", "b", "c", "d")], ADDRESSES)
    one = asked(quick, [{"address": "a"}, {"address": "a"}, {"address": "x"}], ADDRESSES)
    other = few(quick, [{"address": "c"}, {"address": "a"}], ADDRESSES)
    assert rows_of(also_in(rows, one, other)) == [("a",), ("c",)]
    assert rows_of(also_in(rows, asked(quick, [], ADDRESSES))) == []
