"""What is looked for in the parts of marks is found, all of it and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.store.local import LocalConfig
from lakegc_core.tables import key_scan
from lakegc_core.tables.key_scan import Filter, Sieve, Source, Wanted
from lakegc_core.tables.parts import Part, PartWriter

HASHES = pa.schema([pa.field("hash", pa.int64(), nullable=False)])
ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)


def written(config: LocalConfig, folder: str, schema: pa.Schema, values: list[object]) -> tuple[Part, ...]:
    writer = PartWriter(config, folder, schema)
    writer.write(pa.RecordBatch.from_arrays([pa.array(values, schema[0].type)], schema=schema))
    return tuple(writer.close())


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
    found = key_scan.filter_of(Wanted(tuple(Source(config, "w", part, "") for part in parts), ("hash",)))
    assert isinstance(found._wanted, np.memmap) is (most == 3)
    asked = np.concatenate([values[::2], values[:5] + 1])
    assert found.rows(asked).tolist() == [number for number, key in enumerate(asked) if key in set(values)]


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
