"""The values of a data range: framing (identity, length) and `Entry` protobufs, parsed for all records at once.

lakeFS's servers write the fields of an Entry in the order of their numbers. All records are parsed together under
that assumption, one field after the other; a record that does not end exactly where its value ends is parsed once
more by itself, by the general rules of protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs import protobuf
from lakegc_core.lakefs.blocks import Records
from lakegc_core.lakefs.protobuf import LENGTH, VARINT
from lakegc_core.lakefs.vectors import INT64_BYTES, LENGTH_BYTES, Bytes, Ints, varints_at

ADDRESS_TYPES = (0, 1, 2)  # by prefix (servers before 0.40), relative, full

_ADDRESS, _SIZE, _E_TAG, _METADATA, _ADDRESS_TYPE = 1, 3, 4, 5, 6
# Wire types by field number: address, last_modified, size, e_tag, metadata, address_type, content_type.
_WIRES = {1: LENGTH, 2: LENGTH, 3: VARINT, 4: LENGTH, 5: LENGTH, 6: VARINT, 7: LENGTH}
_WANTED = (_ADDRESS, _SIZE, _E_TAG, _ADDRESS_TYPE)


@dataclass(frozen=True)
class Entries:
    """What is kept of the entries, one element a record: places in the records' buffer, and numbers."""

    address_at: Ints
    address_length: Ints  # bytes, at least 1
    address_type: Ints  # one of ADDRESS_TYPES
    size: Ints  # bytes
    e_tag_at: Ints
    e_tag_length: Ints


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


def parse_entries(records: Records) -> Entries:
    """Parse the values of a data range. CorruptFileError if one is not a framed Entry with an address."""
    buffer = records.buffer
    end = records.value_at + records.value_length
    begin = _message_starts(records, end)
    # A length field keeps its bytes' place and their number, a varint field its value and (unused) the place after.
    found: dict[int, tuple[Ints, Ints]] = {}
    at, tags = begin, _bytes_at(buffer, begin)
    for field, wire in _WIRES.items():
        while (after := _take_field(buffer, at, tags, end, field, wire, found)) is not None:
            at, tags = after, _bytes_at(buffer, after)
            if field != _METADATA:
                break
    for field in set(_WANTED) - found.keys():
        found[field] = _nothing(len(records))
    for row in np.flatnonzero(at.array() != end).tolist():
        _parse_one(buffer, row, int(begin.base[row]) + begin.shift, int(end[row]), found)

    address_at, address_length = found[_ADDRESS]
    if len(records) and address_length.min() < 1:
        raise CorruptFileError("an entry has no address")
    address_type = found[_ADDRESS_TYPE][1]
    if len(records) and (address_type.min() < ADDRESS_TYPES[0] or address_type.max() > ADDRESS_TYPES[-1]):
        raise CorruptFileError("an entry has an address type that is not known (0, 1 and 2 are)")
    return Entries(address_at, address_length, address_type, found[_SIZE][1], *found[_E_TAG])


def _bytes_at(buffer: Bytes, at: _Places, further: int = 0) -> Bytes:
    return buffer[at.shift + further :].take(at.base)


def _nothing(count: int) -> tuple[Ints, Ints]:
    return np.zeros(count, np.int64), np.zeros(count, np.int64)


def _message_starts(records: Records, end: Ints) -> _Places:
    """Where the message of each value starts: after the identity, and with a length that ends where the value ends.

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
        raise CorruptFileError("the identity of an entry runs over the end of its value")
    message_length, after = varints_at(buffer[at.shift :], at.base)
    if odd or (message_length & 1).any():
        raise CorruptFileError("a value holds a negative length")
    message_length >>= 1
    message_length += after
    message_length += at.shift
    if (message_length != end).any():
        raise CorruptFileError("the message of an entry does not end where its value ends")
    return _places(after, end).moved(at.shift)


def _take_field(
    buffer: Bytes, at: _Places, tags: Bytes, end: Ints, field: int, wire: int, found: dict[int, tuple[Ints, Ints]]
) -> _Places | None:
    """Read the field wherever it comes next: `tags` are the bytes at `at`. The places after it; None if nowhere."""
    hit = tags == (field << 3 | wire)
    if not hit.any():
        return None
    if at.shift < at.room and hit.all():  # the field is inside every message, so its second byte is in the buffer
        byte = _bytes_at(buffer, at, 1)
        lowest, highest = int(byte.min()), int(byte.max())
        after = at.moved(2 + lowest if wire == LENGTH else 2)
        if highest < 128 and (lowest == highest or wire == VARINT) and after.shift <= at.room:
            if field in _WANTED:
                found[field] = at.moved(2).array(), byte.astype(np.int64)
            return after
    return _take_field_where(buffer, at.array(), hit, end, field, wire, found)


def _take_field_where(
    buffer: Bytes,
    at: Ints,
    hit: npt.NDArray[np.bool_],
    end: Ints,
    field: int,
    wire: int,
    found: dict[int, tuple[Ints, Ints]],
) -> _Places | None:
    """Read the field of the records that `hit` says, whatever its lengths are, or if only some records have it."""
    hit &= at < end  # at the end of a value, the next byte is another record's
    count = np.count_nonzero(hit)
    if not count:
        return None
    rows: Ints | slice = slice(None) if count == len(at) else np.flatnonzero(hit)
    value, place = varints_at(buffer, at[rows] + 1, LENGTH_BYTES if wire == LENGTH else INT64_BYTES)
    after = place + value if wire == LENGTH else place
    if (after > end[rows]).any():
        raise CorruptFileError("a field of an entry runs over the end of its message")
    at[rows] = after
    if field in _WANTED and count == len(at):
        found[field] = place, value
    elif field in _WANTED:
        places, values = found.setdefault(field, _nothing(len(at)))
        places[rows], values[rows] = place, value
    return _places(at, end)


def _parse_one(buffer: Bytes, row: int, begin: int, end: int, found: dict[int, tuple[Ints, Ints]]) -> None:
    """Parse one message by the general rules: any order of fields, unknown ones, the last of several counts."""
    for places, values in found.values():
        places[row] = values[row] = 0
    message = buffer[begin:end].tobytes()
    for number, wire, start, value in protobuf.places(message):
        if wire != _WIRES.get(number, wire):
            raise CorruptFileError(f"field {number} of an entry is of wire type {wire} instead of {_WIRES[number]}")
        if number in found:
            places, values = found[number]
            places[row], values[row] = begin + start, value
