"""The rows by which a metarange describes its ranges. `values` says how values are parsed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.blocks import Records
from lakegc_core.lakefs.files.columns import binaries, strings, user_keys
from lakegc_core.lakefs.files.protobuf import LENGTH, VARINT
from lakegc_core.lakefs.files.values import Message, identities_at, parse_values

METARANGE_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),  # 64 lower-case hex digits
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),  # records
    ]
)

_MIN_KEY, _MAX_KEY, _ESTIMATED_SIZE, _COUNT = range(1, 5)
_RANGE = Message(
    wires={_MIN_KEY: LENGTH, _MAX_KEY: LENGTH, _ESTIMATED_SIZE: VARINT, _COUNT: VARINT},
    wanted=(_MIN_KEY, _MAX_KEY, _COUNT),
)
_ID = "^[0-9a-f]{64}$"


def parse_range_rows(records: Records) -> pa.RecordBatch:
    """METARANGE_SCHEMA. CorruptFileError unless each record is filed under its last key and makes sense by itself."""
    found = parse_values(records, _RANGE)
    buffer, filed = records.buffer, user_keys(records)
    ids = strings(buffer, *identities_at(records), "id of a range")
    min_key = binaries(buffer, *found[_MIN_KEY])
    max_key, count = binaries(buffer, *found[_MAX_KEY]), pa.array(found[_COUNT][1])
    # A record without the field: its range has the one key, or begins with the empty path, which protobuf leaves out.
    one_key = pa.array((found[_MIN_KEY][0] == 0) & (found[_COUNT][1] <= 1))
    if pc.any(one_key).as_py():
        min_key = pc.if_else(one_key, filed, min_key)
    row = _first(pc.not_equal(max_key, filed))
    if row is not None:
        raise CorruptFileError(f"a range is filed under {filed[row]} and says that its last key is {max_key[row]}")
    row = _first(pc.greater(min_key, max_key))
    if row is not None:
        raise CorruptFileError(f"a range says that it reaches from {min_key[row]} down to {max_key[row]}")
    row = _first(pc.less(count, 0))
    if row is not None:
        raise CorruptFileError(f"a range says that it has {count[row]} entries")
    row = _first(pc.invert(pc.match_substring_regex(ids, _ID)))
    if row is not None:
        raise CorruptFileError(f"the id of a range is {ids[row].as_py()!r}, not 64 lower-case hex digits")
    return pa.RecordBatch.from_arrays([ids, min_key, max_key, count], schema=METARANGE_SCHEMA)


def check_disjoint(rows: pa.Table, counts: Sequence[int]) -> None:
    """CorruptFileError if two ranges of one metarange overlap. `counts`: how many of the rows each metarange has."""
    if len(rows) < 2:
        return
    own = np.repeat(np.arange(len(counts)), counts)
    overlaps = pc.greater_equal(rows["max_key"][:-1], rows["min_key"][1:])
    row = _first(pc.and_(overlaps, pa.array(own[:-1] == own[1:])))
    if row is not None:
        first, second = (rows["range_id"][place].as_py() for place in (row, row + 1))
        raise CorruptFileError(f"two ranges of a metarange overlap: {first} and {second}")


def _first(mask: Any) -> int | None:
    """The first row where a mask of booleans without nulls is true."""
    row: int = pc.index(mask, pa.scalar(True)).as_py()
    return None if row < 0 else row
