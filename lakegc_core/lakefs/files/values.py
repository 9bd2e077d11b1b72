"""The values of a table's records, framing (identity, length) and protobuf messages, parsed for all records at once.

lakeFS's servers write the fields of a message in the order of their numbers. All records are parsed together under
that assumption, one field after the other; a record that does not end exactly where its value ends is parsed once
more by itself, by the general rules of protobuf. What the fields mean is not said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import protobuf
from lakegc_core.lakefs.files.blocks import Records
from lakegc_core.lakefs.files.protobuf import LENGTH
from lakegc_core.lakefs.files.vectors import INT64_BYTES, LENGTH_BYTES, Bytes, Ints, varints_at

Fields = dict[int, tuple[Ints, Ints]]
"""Fields by number, one element a record. For a length field: the place of its bytes and their number; for a varint
field: its place and its value. Both are 0 where a record lacks the field."""


@dataclass(frozen=True)
class Message:
    """A message of lakeFS's: the wire types of its fields by number, in the order of writing, and which are wanted."""

    wires: Mapping[int, int]
    wanted: tuple[int, ...]
    repeated: tuple[int, ...] = ()


def parse_values(records: Records, message: Message) -> Fields:
    """The wanted fields of all values. CorruptFileError if one is not a framed message of this form."""
    buffer, end = records.buffer, records.value_at + records.value_length
    begin = _message_starts(records, end)
    found: Fields = {field: _nothing(len(records)) for field in message.wanted}
    at = begin.copy()
    for field in message.wires:
        while _take_field(buffer, at, end, field, message, found) and field in message.repeated:
            pass
    for row in np.flatnonzero(at != end).tolist():
        _parse_one(buffer, row, slice(int(begin[row]), int(end[row])), message, found)
    return found


def identities_at(records: Records) -> tuple[Ints, Ints]:
    """Place and length of the identity of each value; `parse_values` has checked that they are inside."""
    length, at = varints_at(records.buffer, records.value_at)
    return at, length >> 1


def _nothing(count: int) -> tuple[Ints, Ints]:
    return np.zeros(count, np.int64), np.zeros(count, np.int64)


def _message_starts(records: Records, end: Ints) -> Ints:
    """The start of the message of each value: after the identity, and with a length that ends where the value ends.

    Both lengths are zig-zag varints; an odd one is a negative length.
    """
    identity_length, at = varints_at(records.buffer, records.value_at)
    at += identity_length >> 1
    if (at >= end).any():
        raise CorruptFileError("the identity of a value runs over the end of its value")
    message_length, begin = varints_at(records.buffer, at)
    if ((identity_length | message_length) & 1).any():
        raise CorruptFileError("a value holds a negative length")
    if (begin + (message_length >> 1) != end).any():
        raise CorruptFileError("the message of a value does not end where its value ends")
    return begin


def _take_field(buffer: Bytes, at: Ints, end: Ints, field: int, message: Message, found: Fields) -> bool:
    """Read the field of all records where it comes next, and move their places in `at` behind it. False if nowhere."""
    wire = message.wires[field]
    hit = (buffer.take(at) == (field << 3 | wire)) & (at < end)  # at the end, the next byte is another record's
    count = np.count_nonzero(hit)
    if not count:
        return False
    rows: Ints | slice = slice(None) if count == len(at) else np.flatnonzero(hit)
    value, place = varints_at(buffer, at[rows] + 1, LENGTH_BYTES if wire == LENGTH else INT64_BYTES)
    after = place + value if wire == LENGTH else place
    if (after > end[rows]).any():
        raise CorruptFileError("a field of a message runs over the end of its message")
    at[rows] = after
    if field in found:
        places, values = found[field]
        places[rows], values[rows] = place, value
    return True


def _parse_one(buffer: Bytes, row: int, where: slice, message: Message, found: Fields) -> None:
    """Parse one message by the general rules: any order of fields, unknown ones, the last of several counts."""
    for places, values in found.values():
        places[row] = values[row] = 0
    for number, wire, start, value in protobuf.places(buffer[where].tobytes()):
        expected = message.wires.get(number, wire)
        if wire != expected:
            raise CorruptFileError(f"field {number} of a message is of wire type {wire} instead of {expected}")
        if number in found:
            places, values = found[number]
            places[row], values[row] = where.start + start, value
