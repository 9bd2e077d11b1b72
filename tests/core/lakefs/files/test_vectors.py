"""Many small reads of one byte buffer at once say what reads one by one say."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.vectors import (
    PADDING,
    copy_slices,
    gather,
    varint,
    varints_at,
    words_at,
)
from tests.support.plain_tables import to_uvarint


@given(st.lists(st.integers(0, (1 << 35) - 1), min_size=1, max_size=50), st.booleans())
def test_varints_read_the_same_alone_and_together(numbers: list[int], padded: bool) -> None:
    encoded = [to_uvarint(number) for number in numbers]
    ends = np.cumsum([len(one) for one in encoded]).astype(np.int64)
    starts = ends - np.array([len(one) for one in encoded])
    data = b"".join(encoded)
    values, after = varints_at(np.frombuffer(data + bytes(PADDING), np.uint8), starts)
    assert values.tolist() == numbers
    assert after.tolist() == ends.tolist()
    assert [varint(data, at) for at in starts.tolist()] == list(zip(numbers, ends.tolist(), strict=True))


@pytest.mark.parametrize("encoded", [b"\xff" * 10, b"\xff" * 9 + b"\2", b"\x80" * 9 + b"\x80\1"])
def test_a_varint_of_more_than_64_bits_is_refused(encoded: bytes) -> None:
    with pytest.raises(CorruptFileError):
        varint(encoded + bytes(8), 0)
    with pytest.raises(CorruptFileError):
        varints_at(np.frombuffer(encoded + bytes(PADDING), np.uint8), np.array([0]), 10)


def test_minus_one_is_ten_bytes() -> None:
    buffer = np.frombuffer(b"\xff" * 9 + b"\1" + bytes(PADDING), np.uint8)
    values, after = varints_at(buffer, np.array([0]), 10)
    assert (values.tolist(), after.tolist()) == ([-1], [10])


@pytest.mark.parametrize(("kind", "size"), [("<u4", 4), ("<u8", 8)])
def test_words_are_read_wherever_they_start(kind: str, size: int) -> None:
    data = random.Random(1).randbytes(100)
    places = list(range(100 - size + 1))
    words = words_at(np.frombuffer(data, np.uint8), kind, np.array(places))
    assert words.tolist() == [int.from_bytes(data[at : at + size], "little") for at in places]


@given(st.lists(st.binary(max_size=40) | st.integers(0, 3).map(lambda n: b"x" * (1500 * n)), max_size=60))
def test_slices_are_gathered_whatever_their_lengths(parts: list[bytes]) -> None:
    source = np.frombuffer(b"".join(parts) + bytes(PADDING), np.uint8)
    lengths = np.array([len(part) for part in parts], np.int64)
    at = np.cumsum(lengths) - lengths
    backwards = np.arange(len(parts))[::-1]
    offsets, flat = gather(source, at[backwards], lengths[backwards])
    assert flat.tobytes() == b"".join(reversed(parts))
    assert np.diff(offsets).tolist() == lengths[backwards].tolist()
    target = np.zeros(len(source), np.uint8)
    copy_slices(target, at, source, at, lengths)
    assert target.tobytes() == source.tobytes()
