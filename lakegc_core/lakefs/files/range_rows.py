"""The rows by which a metarange describes its ranges. `values` says how values are parsed.

What a metarange says of a range is advice: where to look, and how much is there. Before version 1.0, lakeFS took it
from clients, as JSON. Counts were what a client said. In keys, bytes that are no UTF-8 had become U+FFFD: such keys
need not bound a range, and ranges need not be in order by them. Which ranges a metarange has, and what is in them,
their ids say.
"""

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
        pa.field("min_key", pa.binary(), nullable=False),  # no key of the range is less
        pa.field("max_key", pa.binary(), nullable=False),  # no key of the range is greater
        pa.field("count", pa.int64(), nullable=False),  # records, as the metarange says
    ]
)

_MIN_KEY, _MAX_KEY, _ESTIMATED_SIZE, _COUNT = range(1, 5)
_RANGE = Message(
    wires={_MIN_KEY: LENGTH, _MAX_KEY: LENGTH, _ESTIMATED_SIZE: VARINT, _COUNT: VARINT},
    wanted=(_MIN_KEY, _MAX_KEY, _COUNT),
)
_ID = "^[0-9a-f]{64}$"
_REPLACED = "\ufffd"  # stands in a key for bytes that are no UTF-8
_ABOVE = b"\xff" * 1025  # behind the beginning of a key: above every path that begins so, of at most 1024 bytes


def parse_range_rows(records: Records) -> pa.RecordBatch:
    """METARANGE_SCHEMA, with the keys as they stand. CorruptFileError unless each record is filed under its last key
    and makes sense by itself."""
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
    count = pc.if_else(pc.less(count, 0), 0, count)
    row = _first(pc.invert(pc.match_substring_regex(ids, _ID)))
    if row is not None:
        raise CorruptFileError(f"the id of a range is {ids[row].as_py()!r}, not 64 lower-case hex digits")
    return pa.RecordBatch.from_arrays([ids, min_key, max_key, count], schema=METARANGE_SCHEMA)


def with_bounds(rows: pa.Table, counts: Sequence[int]) -> pa.Table:
    """Rows of metaranges with keys that bound their ranges. `counts`: how many of the rows each metarange has.

    A key in which bytes were replaced bounds its range by what stands before them; nothing bounds a range that seems to
    end before it begins. CorruptFileError if, by other keys, two ranges of one metarange overlap.
    """
    turned = pc.greater(rows["min_key"], rows["max_key"])
    min_key, max_key = (pc.if_else(turned, _REPLACED.encode(), rows[name]) for name in ("min_key", "max_key"))
    cut_min, cut_max = (pc.match_substring(key, _REPLACED) for key in (min_key, max_key))
    exact = pc.invert(pc.or_(cut_min, cut_max))
    own = np.repeat(np.arange(len(counts)), counts)
    overlaps = pc.and_(pc.greater_equal(max_key[:-1], min_key[1:]), pc.and_(exact[:-1], exact[1:]))
    row = _first(pc.and_(overlaps, pa.array(own[:-1] == own[1:])))
    if row is not None:
        first, second = (rows["range_id"][place].as_py() for place in (row, row + 1))
        raise CorruptFileError(f"two ranges of a metarange overlap: {first} and {second}")
    if pc.all(exact).as_py():
        return rows
    rows = rows.set_column(
        1, METARANGE_SCHEMA.field("min_key"), pc.if_else(cut_min, _before_replaced(min_key), min_key)
    )
    above = pc.binary_join_element_wise(_before_replaced(max_key), pa.scalar(_ABOVE), b"")
    return rows.set_column(2, METARANGE_SCHEMA.field("max_key"), pc.if_else(cut_max, above, max_key))


def _before_replaced(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.list_element(pc.split_pattern(keys, _REPLACED, max_splits=1), 0)


def _first(mask: Any) -> int | None:
    """The first row where a mask of booleans without nulls is true."""
    row: int = pc.index(mask, pa.scalar(True)).as_py()
    return None if row < 0 else row
