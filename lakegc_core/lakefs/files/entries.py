"""The part of a data range's entries that is kept. `values` says how values are parsed."""

from __future__ import annotations

from dataclasses import dataclass

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.blocks import Records
from lakegc_core.lakefs.files.protobuf import LENGTH, VARINT
from lakegc_core.lakefs.files.values import Message, parse_values
from lakegc_core.lakefs.files.vectors import Ints
from lakegc_core.policy.namespace import ADDRESS_FULL, ADDRESS_RELATIVE

ADDRESS_TYPES = (0, ADDRESS_RELATIVE, ADDRESS_FULL)  # by prefix (servers before 0.40), relative, full

_ADDRESS, _MODIFIED, _SIZE, _E_TAG, _METADATA, _ADDRESS_TYPE, _CONTENT_TYPE = range(1, 8)
_ENTRY = Message(
    wires={
        _ADDRESS: LENGTH,
        _MODIFIED: LENGTH,
        _SIZE: VARINT,
        _E_TAG: LENGTH,
        _METADATA: LENGTH,
        _ADDRESS_TYPE: VARINT,
        _CONTENT_TYPE: LENGTH,
    },
    wanted=(_ADDRESS, _SIZE, _E_TAG, _ADDRESS_TYPE),
    repeated=(_METADATA,),
)


@dataclass(frozen=True)
class Entries:
    """The part of the entries that is kept, one element a record: places in the records' buffer, and numbers."""

    address_at: Ints
    address_length: Ints  # bytes; 0: lakeFS's link call takes that, too, and such an entry names no object
    address_type: Ints  # one of ADDRESS_TYPES
    size: Ints  # bytes
    e_tag_at: Ints
    e_tag_length: Ints


def parse_entries(records: Records) -> Entries:
    """Parse the values of data ranges. CorruptFileError if one is not a framed Entry."""
    found = parse_values(records, _ENTRY)
    address_at, address_length = found[_ADDRESS]
    address_type = found[_ADDRESS_TYPE][1]
    if len(records) and (address_type.min() < ADDRESS_TYPES[0] or address_type.max() > ADDRESS_TYPES[-1]):
        raise CorruptFileError("an entry has an address type that is not known (0, 1 and 2 are)")
    return Entries(address_at, address_length, address_type, found[_SIZE][1], *found[_E_TAG])
