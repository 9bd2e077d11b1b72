"""Just enough of the protobuf wire format to read lakeFS's messages. Strict: cut off or mistyped is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.vectors import varint

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


def int64(value: int) -> int:
    """The signed number behind a varint of 64 bits."""
    return value - (1 << 64) if value >= 1 << 63 else value


def places(message: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Field number, wire type, start, and value of every field.

    A varint's value is its signed number, and its start is where that begins. For all other types the value is the
    length in bytes and the start is that of the bytes.
    """
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise CorruptFileError("a protobuf field has the number 0")
        if wire == VARINT:
            start = at
            value, at = varint(message, at)
            yield number, wire, start, int64(value)
            continue
        if wire == LENGTH:
            length, at = varint(message, at)
        elif wire in _FIXED_BYTES:
            length = _FIXED_BYTES[wire]
        else:
            raise CorruptFileError(f"a protobuf field is of wire type {wire}, which lakeFS does not write")
        if at + length > len(message):
            raise CorruptFileError("a protobuf message is cut off inside a field")
        yield number, wire, at, length
        at += length


def fields(message: bytes, wires: Mapping[int, int]) -> dict[int, list[Any]]:
    """The values of each field whose number is in `wires`, in their order: numbers of varints, bytes of all others.

    Other fields are skipped. CorruptFileError if one of these has another wire type than `wires` says.
    """
    found: dict[int, list[Any]] = {number: [] for number in wires}
    for number, wire, start, value in places(message):
        if number not in wires:
            continue
        if wire != wires[number]:
            raise CorruptFileError(f"protobuf field {number} is of wire type {wire} instead of {wires[number]}")
        found[number].append(value if wire == VARINT else message[start : start + value])
    return found
