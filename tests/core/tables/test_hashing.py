"""The hash of addresses: the same for the same bytes, whatever lies around them, and spread over all 64 bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.tables.hashing import MODULUS, hash_strings, sum_of
from lakegc_sandbox.files.names import Names

WRITTEN = [-3776953011475336645, 7085996619026756167, 3913238449407664909, 4495801662853498936]
"""Another hash would need another format of marks."""


@given(st.lists(st.text(max_size=40), max_size=30), st.integers(0, 5))
def test_a_string_has_the_same_hash_alone_and_in_any_slice_of_any_column(strings: list[str], start: int) -> None:
    alone = [int(hash_strings(pa.array([each]))[0]) for each in strings]
    assert hash_strings(pa.array(strings, pa.string())).tolist() == alone
    assert hash_strings(pa.array(strings, pa.string()).slice(start)).tolist() == alone[start:]
    assert hash_strings(pa.array(strings, pa.string()).dictionary_encode()).tolist() == alone
    assert hash_strings(pa.chunked_array([strings[:start], strings[start:]], pa.string())).tolist() == alone


@given(st.sets(st.text(max_size=12), max_size=200))
def test_different_strings_have_different_hashes(strings: set[str]) -> None:
    assert len(set(hash_strings(pa.array(sorted(strings), pa.string())).tolist())) == len(strings)


def test_zeros_at_the_end_count() -> None:
    assert len(set(hash_strings(pa.array(["", "\0", "\0\0", "a", "a\0", "a\0\0\0\0\0\0\0"])).tolist())) == 6


def test_addresses_are_spread_evenly_over_every_bit() -> None:
    names = Names(seed=1)
    hashes = hash_strings(pa.array([names.data_address(1.6e9 + number // 5) for number in range(100_000)]))
    assert len(set(hashes.tolist())) == 100_000
    ones = np.unpackbits(hashes.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert ones.min() > 0.49 and ones.max() < 0.51
    assert len(np.unique(hashes & 0xFFFFFF)) > 99_000, "the low bits decide nearly everything in a scan"


def test_the_hash_is_what_it_was_when_marks_were_written() -> None:
    found = hash_strings(pa.array(["", "data/a", "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag", "ü"]))
    assert found.tolist() == WRITTEN


def test_a_null_has_no_hash() -> None:
    with pytest.raises(ValueError, match="null"):
        hash_strings(pa.array(["a", None]))


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**40))))
def test_sums_are_those_of_whole_numbers_modulo_two_to_the_64(rows: list[tuple[int, int]]) -> None:
    hashes, times = (np.array([row[n] for row in rows], np.int64) for n in (0, 1))
    assert sum_of(hashes, times) == sum(value * count for value, count in rows) % MODULUS
    assert sum_of(hashes) == sum(value for value, _ in rows) % MODULUS
