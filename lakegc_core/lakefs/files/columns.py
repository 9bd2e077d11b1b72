"""Arrow columns out of slices of a table's buffer."""

from __future__ import annotations

import pyarrow as pa

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.blocks import Records
from lakegc_core.lakefs.files.keys import whole_keys
from lakegc_core.lakefs.files.vectors import Bytes, Ints, gather


def strings(buffer: Bytes, at: Ints, lengths: Ints, name: str) -> pa.Array:
    """The slices as strings. CorruptFileError, by the `name` of what they are, if one is not UTF-8."""
    offsets, flat = gather(buffer, at, lengths)
    array = pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(flat)])
    if len(flat) and flat.max() > 127:  # else ASCII, and nothing to check
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptFileError(f"the {name} is not UTF-8: {error}") from error
    return array


def binaries(buffer: Bytes, at: Ints, lengths: Ints) -> pa.Array:
    """The slices as they are."""
    offsets, flat = gather(buffer, at, lengths)
    return pa.Array.from_buffers(pa.binary(), len(at), [None, pa.py_buffer(offsets), pa.py_buffer(flat)])


def user_keys(records: Records) -> pa.Array:
    """The user key of every record, binary."""
    return pa.concat_arrays([binaries(part.buffer, part.at, part.length) for part in whole_keys(records)])
