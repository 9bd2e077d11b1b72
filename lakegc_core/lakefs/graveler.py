"""lakeFS's own tables (Graveler): data ranges, metaranges and repository dumps, read into Arrow.

Here is what the values of a table mean. How a table holds records is said in `sstable`, what an address means for the
object store is not said here. Every function raises CorruptFileError, with a sentence, for a file that is not
exactly what it must be; none takes a part of a file for the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs import protobuf
from lakegc_core.lakefs.blocks import Records
from lakegc_core.lakefs.entries import parse_entries
from lakegc_core.lakefs.identity import table_identity
from lakegc_core.lakefs.keys import WholeKeys, whole_keys
from lakegc_core.lakefs.protobuf import LENGTH, VARINT
from lakegc_core.lakefs.sstable import Table, read_table
from lakegc_core.lakefs.vectors import Bytes, Ints, gather, varint

RANGE_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("address_type", pa.int8(), nullable=False),  # 0 by prefix, 1 relative, 2 full
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("e_tag", pa.string(), nullable=False),
    ]
)
RANGE_SCHEMA_WITH_PATHS = RANGE_SCHEMA.append(pa.field("path", pa.binary(), nullable=False))
METARANGE_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),  # 64 lower-case hex digits
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),  # records
    ]
)
COMMITS_SCHEMA = pa.schema(
    [
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("metarange_id", pa.string(), nullable=False),  # "" = a commit without content
        pa.field("creation_us", pa.int64(), nullable=False),  # microseconds since 1970, UTC, rounded down
        pa.field("parents", pa.list_(pa.field("item", pa.string(), nullable=False)), nullable=False),
        pa.field("version", pa.int32(), nullable=False),
        pa.field("generation", pa.int32(), nullable=False),
    ]
)
REFS_SCHEMA = pa.schema(
    [pa.field("name", pa.string(), nullable=False), pa.field("commit_id", pa.string(), nullable=False)]
)
REF_ENTITIES = ("branch", "tag")

_ENTITIES = (b"commit", b"branch", b"tag")
_HEX_ID = re.compile(rb"[0-9a-f]{64}")
_INT32_MAX = (1 << 31) - 1
_MICROSECONDS = 1_000_000


def read_range(
    data: bytes,
    *,
    count: int | None = None,
    min_key: bytes | None = None,
    max_key: bytes | None = None,
    paths: bool = False,
    expected_id: str | None = None,
) -> pa.Table:
    """The entries of a data range: RANGE_SCHEMA, one row an entry, in the order of their paths.

    `count`, `min_key` and `max_key` are what the metarange says of this range; what is given must be so. With
    `paths`, there is a column `path` (bytes; need not be UTF-8) too: RANGE_SCHEMA_WITH_PATHS.

    In all four readers, `expected_id` adds `verify_identity` at less than the cost of a second reading.
    """
    table = _open(data, b"ranges", (None,), expected_id)
    if count is not None and count != len(table):
        raise CorruptFileError(f"a range holds {len(table)} entries; its metarange says {count}")
    for name, said in ((b"min_key", min_key), (b"max_key", max_key)):
        # The properties have been compared with the keys themselves.
        if said is not None and said != table.properties[name]:
            raise CorruptFileError(
                f"a range has the {name.decode()} {table.properties[name]!r}; its metarange says {said!r}"
            )
    schema = RANGE_SCHEMA_WITH_PATHS if paths else RANGE_SCHEMA
    return pa.Table.from_batches([_range_batch(group, schema, paths) for group in table.groups], schema)


def read_metarange(data: bytes, *, expected_id: str | None = None) -> pa.Table:
    """The ranges of a metarange, of a commit or of a dump: METARANGE_SCHEMA, sorted, disjoint."""
    table = _open(data, b"metaranges", (None, *_ENTITIES), expected_id)
    rows = [_range_row(key, value) for key, value in table.records()]
    for before, after in pairwise(rows):
        if before[2] >= after[1]:
            raise CorruptFileError(f"two ranges of a metarange overlap: {before[0]} and {after[0]}")
    return _table(rows, METARANGE_SCHEMA)


def read_commits(data: bytes, *, expected_id: str | None = None) -> pa.Table:
    """The commits in a range of a commit dump: COMMITS_SCHEMA, in the order of their ids."""
    table = _open(data, b"ranges", (b"commit",), expected_id)
    return _table([_commit_row(key, value) for key, value in table.records()], COMMITS_SCHEMA)


def read_refs(data: bytes, entity: str, *, expected_id: str | None = None) -> pa.Table:
    """The branches or tags (`entity`: one of REF_ENTITIES) in a range of such a dump: REFS_SCHEMA, sorted by name."""
    if entity not in REF_ENTITIES:
        raise ValueError(f"a dump of refs is of one of {REF_ENTITIES}, not of {entity!r}")
    table = _open(data, b"ranges", (entity.encode(),), expected_id)
    return _table([_ref_row(key, value, entity) for key, value in table.records()], REFS_SCHEMA)


def identity(data: bytes) -> str:
    """The id that the content of a range or metarange makes, 64 lower-case hex digits: the name it must have."""
    return table_identity(read_table(data))


def verify_identity(data: bytes, expected_id: str) -> None:
    """CorruptFileError if the content of a range or metarange does not make the id it was found under."""
    _verify(read_table(data), expected_id)


def _verify(table: Table, expected_id: str) -> None:
    actual = table_identity(table)
    if actual != expected_id:
        raise CorruptFileError(f"the file of the id {expected_id} has the content of {actual}: it is not that file")


def _open(data: bytes, kind: bytes, entities: tuple[bytes | None, ...], expected_id: str | None) -> Table:
    """Read a table that must be of this type, and of one of these entities (None: of commits' content, no dump)."""
    table = read_table(data)
    found, entity = table.properties.get(b"type"), table.properties.get(b"entity")
    if found != kind:
        raise CorruptFileError(f"a table of type {kind.decode()} was expected; this one is of type {found!r}")
    if entity not in entities:
        raise CorruptFileError(f"a table of the entity {entities!r} was expected; this one is of {entity!r}")
    if expected_id is not None:
        _verify(table, expected_id)
    return table


def _range_batch(records: Records, schema: pa.Schema, paths: bool) -> pa.RecordBatch:
    entries = parse_entries(records)
    columns = [
        _strings(records.buffer, entries.address_at, entries.address_length, "address"),
        pa.array(entries.address_type.astype(np.int8)),
        pa.array(entries.size),
        _strings(records.buffer, entries.e_tag_at, entries.e_tag_length, "e_tag"),
    ]
    if paths:
        columns.append(pa.concat_arrays([_binary(part) for part in whole_keys(records)]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _binary(part: WholeKeys) -> pa.Array:
    offsets, flat = gather(part.buffer, part.at, part.length)
    return pa.Array.from_buffers(pa.binary(), len(part.at), [None, pa.py_buffer(offsets), pa.py_buffer(flat)])


def _strings(buffer: Bytes, at: Ints, lengths: Ints, name: str) -> pa.Array:
    offsets, flat = gather(buffer, at, lengths)
    array = pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(flat)])
    if len(flat) and flat.max() > 127:  # else ASCII, and nothing to check
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptFileError(f"the {name} of an entry is not UTF-8: {error}") from error
    return array


def _table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _unframe(value: bytes) -> tuple[bytes, bytes]:
    """Identity and message of a value: each after its length, a signed (zig-zag) varint, and nothing after them."""
    parts = []
    at = 0
    for _ in range(2):
        zigzag, at = varint(value, at)
        if zigzag & 1:
            raise CorruptFileError("a value holds a negative length")
        end = at + (zigzag >> 1)
        if end > len(value):
            raise CorruptFileError("a value is shorter than the lengths in it say")
        parts.append(value[at:end])
        at = end
    if at != len(value):
        raise CorruptFileError("a value holds more bytes than the lengths in it say")
    return parts[0], parts[1]


def _range_row(key: bytes, value: bytes) -> tuple[str, bytes, bytes, int]:
    name, message = _unframe(value)
    min_key, max_key, count = key, b"", 0
    for number, integer, content in protobuf.fields(message, {1: LENGTH, 2: LENGTH, 4: VARINT}):
        if number == 1:
            min_key = content
        elif number == 2:
            max_key = content
        else:
            count = integer
    if max_key != key:
        raise CorruptFileError(f"a range is filed under {key!r} and says that its last key is {max_key!r}")
    if min_key > max_key:
        raise CorruptFileError(f"a range says that it reaches from {min_key!r} down to {max_key!r}")
    if count < 0:
        raise CorruptFileError(f"a range says that it has {count} entries")
    return _id(name, "range"), min_key, max_key, count


def _commit_row(key: bytes, value: bytes) -> tuple[str, str, int, list[str], int, int]:
    name, message = _unframe(value)
    commit_id = metarange_id = b""
    created: bytes | None = None
    parents: list[str] = []
    version = generation = 0
    wires = {1: LENGTH, 4: LENGTH, 5: LENGTH, 7: LENGTH, 8: VARINT, 9: VARINT}
    for number, integer, content in protobuf.fields(message, wires):
        if number == 1:
            commit_id = content
        elif number == 4:
            created = (created or b"") + content  # protobuf merges a message that is given in pieces
        elif number == 5:
            metarange_id = content
        elif number == 7:
            parents.append(_id(content, "parent"))
        elif number == 8:
            version = integer
        else:
            generation = integer
    if not key == name == commit_id:
        raise CorruptFileError(
            f"a commit is filed under {key!r}, by the identity {name!r}, and has the id {commit_id!r}"
        )
    if created is None:
        raise CorruptFileError(f"the commit {key!r} has no creation date")
    for number in (version, generation):
        if not 0 <= number <= _INT32_MAX:
            raise CorruptFileError(f"the commit {key!r} has a version or generation of {number}")
    return (
        _id(commit_id, "commit"),
        _id(metarange_id, "metarange") if metarange_id else "",
        _microseconds(created),
        parents,
        version,
        generation,
    )


def _microseconds(timestamp: bytes) -> int:
    """Microseconds since 1970 of a protobuf Timestamp."""
    seconds = nanos = 0
    for number, integer, _ in protobuf.fields(timestamp, {1: VARINT, 2: VARINT}):
        if number == 1:
            seconds = integer
        else:
            nanos = integer
    # Protobuf's own bounds: the years 1 to 9999.
    if not (-62_135_596_800 <= seconds < 253_402_300_800 and 0 <= nanos < 1_000_000_000):
        raise CorruptFileError(f"a date is out of bounds: {seconds} s, {nanos} ns")
    return seconds * _MICROSECONDS + nanos // 1000


def _ref_row(key: bytes, value: bytes, entity: str) -> tuple[str, str]:
    target, message = _unframe(value)
    name = commit_id = b""
    for number, _, content in protobuf.fields(message, {1: LENGTH, 2: LENGTH}):
        if number == 1:
            name = content
        else:
            commit_id = content
    if name != key or commit_id != target:
        raise CorruptFileError(f"the {entity} filed under {key!r} says that it is {name!r}, or has another target")
    try:
        return name.decode(), _id(commit_id, "commit")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"the name of a {entity} is not UTF-8: {key!r}") from error


def _id(value: bytes, what: str) -> str:
    """An id of a file or a commit: 64 lower-case hex digits."""
    if not _HEX_ID.fullmatch(value):
        raise CorruptFileError(f"the id of a {what} is {value!r}, not 64 lower-case hex digits")
    return value.decode()
