"""The values of a table's records, framing (identity, length) and protobuf messages, parsed for all records at once.

lakeFS's servers write the fields of a message in the order of their numbers. All records are parsed together under
that assumption, one field after the other; a record that does not end exactly where its value ends is parsed once
more by itself, by the general rules of protobuf. What the fields mean is not said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import protobuf
from lakegc_core.lakefs.files.blocks import Records
from lakegc_core.lakefs.files.protobuf import LENGTH, VARINT
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


@dataclass(frozen=True)
class _Places:
    """A place in every record: `base + shift`, of which `buffer[shift:].take(base)` are the bytes.

    Most fields have one length in all records. To pass them moves the shift alone, and costs no array.
    """

    base: Ints
    shift: int
    room: int  # the lowest distance from `base` to the end of its record

    def array(self) -> Ints:
        return self.base + self.shift

    def moved(self, by: int) -> _Places:
        return _Places(self.base, self.shift + by, self.room)


def _places(at: Ints, end: Ints) -> _Places:
    return _Places(at, 0, int((end - at).min(initial=np.iinfo(np.int64).max)))


def parse_values(records: Records, message: Message) -> Fields:
    """The wanted fields of all values. CorruptFileError if one is not a framed message of this form."""
    buffer = records.buffer
    end = records.value_at + records.value_length
    begin = _message_starts(records, end)
    found: Fields = {}
    at, tags = begin, _bytes_at(buffer, begin)
    for field, wire in message.wires.items():
        while (after := _take_field(buffer, at, tags, end, (field, wire, field in message.wanted), found)) is not None:
            at, tags = after, _bytes_at(buffer, after)
            if field not in message.repeated:
                break
    for field in set(message.wanted) - found.keys():
        found[field] = _nothing(len(records))
    for row in np.flatnonzero(at.array() != end).tolist():
        _parse_one(buffer, row, slice(int(begin.base[row]) + begin.shift, int(end[row])), message, found)
    return found


def identities_at(records: Records) -> tuple[Ints, Ints]:
    """Place and length of the identity of each value; `parse_values` has checked that they are inside."""
    length, at = varints_at(records.buffer, records.value_at)
    return at, length >> 1


def _bytes_at(buffer: Bytes, at: _Places, further: int = 0) -> Bytes:
    return buffer[at.shift + further :].take(at.base)


def _nothing(count: int) -> tuple[Ints, Ints]:
    return np.zeros(count, np.int64), np.zeros(count, np.int64)


def _message_starts(records: Records, end: Ints) -> _Places:
    """The start of the message of each value: after the identity, and with a length that ends where the value ends.

    Both lengths are zig-zag varints; an odd one is a negative length.
    """
    buffer = records.buffer
    at = _places(records.value_at, end)
    identity = _bytes_at(buffer, at)
    lowest, highest = int(identity.min(initial=255)), int(identity.max(initial=0))
    if lowest == highest < 128 and 1 + (lowest >> 1) < at.room:  # as lakeFS writes it: 32 bytes in every record
        at, odd = at.moved(1 + (lowest >> 1)), lowest & 1
    else:
        identity_length, after = varints_at(buffer, records.value_at)
        at, odd = _places(after + (identity_length >> 1), end), int((identity_length & 1).any())
    if at.shift >= at.room:
        raise CorruptFileError("the identity of a value runs over the end of its value")
    message_length, after = varints_at(buffer[at.shift :], at.base)
    if odd or (message_length & 1).any():
        raise CorruptFileError("a value holds a negative length")
    message_length >>= 1
    message_length += after
    message_length += at.shift
    if (message_length != end).any():
        raise CorruptFileError("the message of a value does not end where its value ends")
    return _places(after, end).moved(at.shift)


def _take_field(
    buffer: Bytes, at: _Places, tags: Bytes, end: Ints, which: tuple[int, int, bool], found: Fields
) -> _Places | None:
    """Read the field wherever it comes next: `tags` are the bytes at `at`. The places after it; None if nowhere.

    `which`: its number, its wire type, and whether it is wanted.
    """
    field, wire, is_wanted = which
    hit = tags == (field << 3 | wire)
    if not hit.any():
        return None
    if at.shift < at.room and hit.all():  # the field is inside every message, so its second byte is in the buffer
        byte = _bytes_at(buffer, at, 1)
        lowest, highest = int(byte.min()), int(byte.max())
        after = at.moved(2 + lowest if wire == LENGTH else 2)
        if highest < 128 and (lowest == highest or wire == VARINT) and after.shift <= at.room:
            if is_wanted:
                found[field] = at.moved(2).array(), byte.astype(np.int64)
            return after
    return _take_field_where(buffer, at.array(), hit, end, which, found)


def _take_field_where(
    buffer: Bytes,
    at: Ints,
    hit: npt.NDArray[np.bool_],
    end: Ints,
    which: tuple[int, int, bool],
    found: Fields,
) -> _Places | None:
    """Read the field of the records that `hit` says, whatever its lengths are, or if only some records have it."""
    field, wire, is_wanted = which
    hit &= at < end  # at the end of a value, the next byte is another record's
    count = np.count_nonzero(hit)
    if not count:
        return None
    rows: Ints | slice = slice(None) if count == len(at) else np.flatnonzero(hit)
    value, place = varints_at(buffer, at[rows] + 1, LENGTH_BYTES if wire == LENGTH else INT64_BYTES)
    after = place + value if wire == LENGTH else place
    if (after > end[rows]).any():
        raise CorruptFileError("a field of a message runs over the end of its message")
    at[rows] = after
    if is_wanted and count == len(at):
        found[field] = place, value
    elif is_wanted:
        places, values = found.setdefault(field, _nothing(len(at)))
        places[rows], values[rows] = place, value
    return _places(at, end)


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
