"""The values of a data range: framing (identity, length) and `Entry` protobufs, parsed for all records at once.

lakeFS's servers write the fields of an Entry in the order of their numbers. All records are parsed together under
that assumption, one field after the other; a record that does not end exactly where its value ends is parsed once
more by itself, by the general rules of protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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


def parse_entries(records: Records) -> Entries:
    """Parse the values of a data range. CorruptFileError if one is not a framed Entry with an address."""
    buffer = records.buffer
    end = records.value_at + records.value_length
    begin = _message_starts(records, end)
    # A length field keeps its bytes' place and their number, a varint field its value and (unused) the place after.
    found = {field: (np.zeros(len(records), np.int64), np.zeros(len(records), np.int64)) for field in _WANTED}
    at = begin.copy()
    for field, wire in _WIRES.items():
        while _take_field(buffer, at, end, field, wire, found) and field == _METADATA:
            pass
    for row in np.flatnonzero(at != end).tolist():
        _parse_one(buffer, row, int(begin[row]), int(end[row]), found)

    address_at, address_length = found[_ADDRESS]
    if len(records) and address_length.min() < 1:
        raise CorruptFileError("an entry has no address")
    address_type = found[_ADDRESS_TYPE][1]
    if len(records) and (address_type.min() < ADDRESS_TYPES[0] or address_type.max() > ADDRESS_TYPES[-1]):
        raise CorruptFileError("an entry has an address type that is not known (0, 1 and 2 are)")
    return Entries(address_at, address_length, address_type, found[_SIZE][1], *found[_E_TAG])


def _message_starts(records: Records, end: Ints) -> Ints:
    """Where the message of each value starts: after the identity, and with a length that ends where the value ends.

    Both lengths are zig-zag varints; an odd one is a negative length.
    """
    identity_length, at = varints_at(records.buffer, records.value_at)
    after_identity = at + (identity_length >> 1)
    if (after_identity >= end).any():
        raise CorruptFileError("the identity of an entry runs over the end of its value")
    message_length, begin = varints_at(records.buffer, after_identity)
    if ((identity_length | message_length) & 1).any():
        raise CorruptFileError("a value holds a negative length")
    if (begin + (message_length >> 1) != end).any():
        raise CorruptFileError("the message of an entry does not end where its value ends")
    return begin


def _take_field(buffer: Bytes, at: Ints, end: Ints, field: int, wire: int, found: dict[int, tuple[Ints, Ints]]) -> bool:
    """Read the field wherever it comes next, and move `at` (in place) past it there. False if nowhere."""
    hit = buffer[at] == (field << 3 | wire)
    hit &= at < end  # at the end of a value, the next byte is another record's
    count = np.count_nonzero(hit)
    if not count:
        return False
    rows: Ints | slice = slice(None) if count == len(at) else np.flatnonzero(hit)
    value, place = varints_at(buffer, at[rows] + 1, LENGTH_BYTES if wire == LENGTH else INT64_BYTES)
    after = place + value if wire == LENGTH else place
    if (after > end[rows]).any():
        raise CorruptFileError("a field of an entry runs over the end of its message")
    at[rows] = after
    if field in found and count == len(at):
        found[field] = place, value
    elif field in found:
        places, values = found[field]
        places[rows], values[rows] = place, value
    return True


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
