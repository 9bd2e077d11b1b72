"""What is looked for in the parts of marks is found, all of it and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables import key_scan
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.key_scan import Filter, Sieve, Source, Wanted, by_address, scan
from lakegc_core.tables.parts import Part, PartWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HASHES = pa.schema([pa.field("hash", pa.int64(), nullable=False)])
ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)


def written(config: LocalConfig, folder: str, schema: pa.Schema, values: list[object]) -> tuple[Part, ...]:
    writer = PartWriter(config, folder, schema)
    writer.write(pa.RecordBatch.from_arrays([pa.array(values, schema[0].type)], schema=schema))
    return tuple(writer.close())


@settings(deadline=None)
@given(st.lists(NUMBERS), st.lists(NUMBERS), st.lists(NUMBERS))
def test_a_filter_lets_through_what_is_wanted_and_nothing_else(
    wanted: list[int], both: list[int], others: list[int]
) -> None:
    keys = [*others, *both, *others]
    found = Filter(np.array([*wanted, *both], np.int64)).rows(np.array(keys, np.int64)).tolist()
    assert found == [number for number, key in enumerate(keys) if key in {*wanted, *both}]


@pytest.mark.parametrize("most", [3, 1_000])
def test_more_keys_than_a_worker_holds_are_kept_on_its_disk_and_found_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(key_scan, "MOST", most)
    config, values = LocalConfig(str(tmp_path)), np.random.default_rng(most).integers(-(2**63), 2**63 - 1, 400)
    parts = [part for share in np.array_split(values, 3) for part in written(config, "w", HASHES, share.tolist())]
    found = key_scan.filter_of(Wanted(config, (("w", tuple(parts)),)))
    assert isinstance(found._wanted, np.memmap) is (most == 3)
    asked = np.concatenate([values[::2], values[:5] + 1])
    assert found.rows(asked).tolist() == [number for number, key in enumerate(asked) if key in set(values)]


def test_rows_are_found_by_any_of_several_keys() -> None:
    keys = (np.array([1, 2, 3, 4]), np.array([9, 5, 9, 9]))
    assert Filter(np.array([2, 4, 5])).any(keys).tolist() == [1, 3]


def test_a_scan_finds_addresses_in_the_parts_of_all_marks_and_says_whose_they_are(
    quick: SparkSession, tmp_path: Path
) -> None:
    config = LocalConfig(str(tmp_path))
    lying: dict[str, list[object]] = {mark: [f"data/{mark}/{number}" for number in range(50)] for mark in "abc"}
    sources = [
        Source(config, mark, part, mark)
        for mark, found in lying.items()
        for part in written(config, mark, ADDRESSES, found)
    ]
    sought = ["data/a/3", "data/c/49", "data/c/50"]
    parts = written(config, "wanted", HASHES, hash_strings(pa.array(sought)).tolist())
    rows = scan(quick, sources, ADDRESSES, Wanted(config, (("wanted", parts),)), by_address).as_frame().collect()
    assert sorted(map(tuple, rows)) == [("data/a/3", "a"), ("data/c/49", "c")]
    assert scan(quick, sources, ADDRESSES, Wanted(config, ()), by_address).as_frame().collect() == []


@pytest.mark.parametrize("found", [True, False])
def test_columns_of_few_values_are_read_as_dictionaries_and_come_as_they_were(
    quick: SparkSession, tmp_path: Path, found: bool
) -> None:
    config, lying = LocalConfig(str(tmp_path)), [f"data/{number % 3}" for number in range(60)]
    sources = [Source(config, "a", part, "a") for part in written(config, "a", ADDRESSES, list(lying))]
    parts = written(config, "wanted", HASHES, hash_strings(pa.array(["data/1"])).tolist())
    wanted = Wanted(config, (("wanted", parts),))
    rows = scan(quick, sources, ADDRESSES, wanted, by_address, found=found, repeated=("address",)).as_frame().collect()
    assert sorted(row[0] for row in rows) == sorted(each for each in lying if (each == "data/1") == found)


def test_a_damaged_part_ends_the_scan(quick: SparkSession, tmp_path: Path) -> None:
    config = LocalConfig(str(tmp_path))
    parts = written(config, "a", HASHES, [1, 2, 3])
    wanted = Wanted(config, (("a", parts),))
    file = tmp_path / "a" / parts[0].name
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(Exception, match=CorruptFileError.__name__):
        scan(quick, [Source(config, "a", parts[0], "a")], HASHES, wanted).as_frame().collect()


@pytest.mark.parametrize("wanted", [["data/a/3"], []])
def test_what_is_not_wanted_is_found_as_well_and_nothing_wanted_means_all(
    quick: SparkSession, tmp_path: Path, wanted: list[str]
) -> None:
    config = LocalConfig(str(tmp_path))
    lying: list[object] = [f"data/a/{number}" for number in range(50)]
    sources = [Source(config, "a", part, "a") for part in written(config, "a", ADDRESSES, lying)]
    parts = written(config, "wanted", HASHES, hash_strings(pa.array(wanted, pa.string())).tolist())
    rows = (
        scan(quick, sources, ADDRESSES, Wanted(config, (("wanted", parts),)), by_address, found=False)
        .as_frame()
        .collect()
    )
    assert sorted(row[0] for row in rows) == sorted(set(lying) - set(wanted))


@settings(deadline=None)
@given(st.lists(NUMBERS), st.lists(NUMBERS))
def test_a_sieve_lets_all_wanted_keys_through_and_of_others_those_that_end_like_them(
    wanted: list[int], others: list[int]
) -> None:
    sieve = Sieve(len(wanted))
    for key in wanted:
        sieve.add(np.array([key], np.int64))
    keys = [*wanted, *others]
    endings = {key & 0xFFFFFF for key in wanted}
    found = sieve.rows(np.array(keys, np.int64)).tolist()
    assert found == [number for number, key in enumerate(keys) if key & 0xFFFFFF in endings]


def test_the_share_of_others_that_a_sieve_lets_through_is_what_it_says() -> None:
    chance = np.random.default_rng(1)
    wanted, others = (chance.integers(-(2**63), 2**63 - 1, count) for count in (300_000, 500_000))
    sieve = Sieve(len(wanted))
    sieve.add(wanted)
    assert 0.9 * Sieve.share(len(wanted)) < len(sieve.rows(others)) / len(others) <= Sieve.share(len(wanted))
