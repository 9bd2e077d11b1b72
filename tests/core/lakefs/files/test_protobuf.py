"""The wire format of protobuf, as far as lakeFS's messages need it."""

from __future__ import annotations

import pytest

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.protobuf import FIXED32, FIXED64, LENGTH, VARINT, fields, int64, places


@pytest.mark.parametrize(
    ("written", "value"), [(0, 0), (1, 1), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, -(1 << 63)), ((1 << 64) - 1, -1)]
)
def test_a_varint_of_64_bits_is_a_signed_number(written: int, value: int) -> None:
    assert int64(written) == value


def test_every_field_is_told_with_its_place() -> None:
    message = b"\x08\x96\x01" + b"\x12\x00" + b"\x1a\x02ab" + b"\x21" + bytes(8) + b"\x2d" + bytes(4)
    assert list(places(message)) == [
        (1, VARINT, 1, 150),
        (2, LENGTH, 5, 0),
        (3, LENGTH, 7, 2),
        (4, FIXED64, 10, 8),
        (5, FIXED32, 19, 4),
    ]
    assert list(places(b"")) == []


def test_a_negative_number_takes_ten_bytes() -> None:
    assert list(places(b"\x08" + b"\xff" * 9 + b"\x01")) == [(1, VARINT, 1, -1)]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b"\x00\x01", "number 0"),
        (b"\x08", "cut off"),
        (b"\x08\x80", "cut off"),
        (b"\x80", "cut off"),
        (b"\x12\x03ab", "cut off inside a field"),
        (b"\x21" + bytes(7), "cut off inside a field"),
        (b"\x2d" + bytes(3), "cut off inside a field"),
        (b"\x0b", "wire type 3"),
        (b"\x0c", "wire type 4"),
        (b"\x0e\x00", "wire type 6"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "longer than 64 bits"),
        (b"\x08" + b"\xff" * 9 + b"\x02", "longer than 64 bits"),
    ],
)
def test_a_message_that_is_none_is_an_error(message: bytes, says: str) -> None:
    with pytest.raises(CorruptFileError, match=says):
        list(places(message))


def test_only_the_wanted_fields_are_given_all_of_several_in_their_order() -> None:
    message = b"\x12\x01a" + b"\x08\x05" + b"\x1a\x01x" + b"\x12\x01b"
    assert fields(message, {1: VARINT, 2: LENGTH, 4: LENGTH}) == {1: [5], 2: [b"a", b"b"], 4: []}
    assert fields(message, {}) == {}


def test_a_wanted_field_of_another_type_is_an_error_and_an_unwanted_one_is_not() -> None:
    with pytest.raises(CorruptFileError, match="field 2 is of wire type 0 instead of 2"):
        fields(b"\x10\x05", {2: LENGTH})
    assert fields(b"\x10\x05", {3: LENGTH}) == {3: []}
    with pytest.raises(CorruptFileError, match="cut off"):
        fields(b"\x12\x05a", {3: LENGTH})
