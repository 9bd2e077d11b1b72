"""lakeFS's own tables (Graveler): data ranges, metaranges and repository dumps, read into Arrow.

This module says what the values of a table mean. `sstable` says how a table holds records. What an address means for
the object store is not said here. Every function raises CorruptFileError, with a sentence, for a file that is not
exactly what it must be; none takes a part of a file for the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import protobuf
from lakegc_core.lakefs.files.blocks import Records
from lakegc_core.lakefs.files.columns import strings, user_keys
from lakegc_core.lakefs.files.entries import parse_entries
from lakegc_core.lakefs.files.identity import identities
from lakegc_core.lakefs.files.protobuf import LENGTH, VARINT
from lakegc_core.lakefs.files.range_rows import METARANGE_SCHEMA, parse_range_rows, with_bounds
from lakegc_core.lakefs.files.sstable import Tables, read_tables
from lakegc_core.lakefs.files.vectors import varint

RANGE_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("address_type", pa.int8(), nullable=False),  # 0 by prefix, 1 relative, 2 full
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("e_tag", pa.string(), nullable=False),
    ]
)
RANGE_SCHEMA_WITH_PATHS = RANGE_SCHEMA.append(pa.field("path", pa.binary(), nullable=False))
COMMITS_SCHEMA = pa.schema(
    [
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("metarange_id", pa.string(), nullable=False),  # "" = a commit without content; may be no id: `is_id`
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
_HEX_ID = re.compile(r"[0-9a-f]{64}")
_INT32_MAX = (1 << 31) - 1
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999
_MICROSECONDS = 1_000_000


def read_range(data: bytes, *, paths: bool = False, expected_id: str | None = None) -> pa.Table:
    """The entries of a data range: RANGE_SCHEMA, one row an entry, in the order of their paths.

    With `paths`, there is a column `path` (bytes; need not be UTF-8) too: RANGE_SCHEMA_WITH_PATHS.

    In all readers, `expected_id` adds `verify_identity` at less than the cost of a second reading. It proves that the
    file is whole and the one that was meant. So what a metarange says of the count and the keys is not compared: that
    may be wrong (`range_rows`).
    """
    return read_ranges([data], [expected_id], paths=paths)[0]


def read_ranges(
    files: Sequence[bytes], expected_ids: Sequence[str | None], *, paths: bool = False
) -> tuple[pa.Table, list[int]]:
    """The entries of some data ranges, one range after the other, as from `read_range`, and how many each has.

    Quicker than one by one where they are small. An error does not say which of them it is about.
    """
    tables = _open(files, b"ranges", (None,), expected_ids)
    schema = RANGE_SCHEMA_WITH_PATHS if paths else RANGE_SCHEMA
    batches = [_range_batch(group.records, schema, paths) for group in tables.groups]
    return pa.Table.from_batches(batches, schema), tables.counts


def read_metarange(data: bytes, *, expected_id: str | None = None) -> pa.Table:
    """The ranges of a metarange, of a commit or of a dump: METARANGE_SCHEMA, in the order of the file."""
    return read_metaranges([data], [expected_id])[0]


def read_metaranges(files: Sequence[bytes], expected_ids: Sequence[str | None]) -> tuple[pa.Table, list[int]]:
    """The ranges of some metaranges, one metarange after the other, as from `read_metarange`, and how many each has.

    Quicker than one by one where they are small. An error does not say which of them it is about.
    """
    tables = _open(files, b"metaranges", (None, *_ENTITIES), expected_ids)
    rows = pa.Table.from_batches([parse_range_rows(group.records) for group in tables.groups], METARANGE_SCHEMA)
    return with_bounds(rows, tables.counts), tables.counts


def read_commits(data: bytes, *, expected_id: str | None = None) -> pa.Table:
    """The commits in a range of a commit dump: COMMITS_SCHEMA, in the order of their ids."""
    table = _open_one(data, b"commit", expected_id)
    return _table([_commit_row(key, value) for key, value in table.records()], COMMITS_SCHEMA)


def read_refs(data: bytes, entity: str, *, expected_id: str | None = None) -> pa.Table:
    """The branches or tags (`entity`: one of REF_ENTITIES) in a range of such a dump: REFS_SCHEMA, sorted by name."""
    if entity not in REF_ENTITIES:
        raise ValueError(f"a dump of refs is of one of {REF_ENTITIES}, not of {entity!r}")
    table = _open_one(data, entity.encode(), expected_id)
    return _table([_ref_row(key, value, entity) for key, value in table.records()], REFS_SCHEMA)


def verify_identity(data: bytes, expected_id: str) -> None:
    """CorruptFileError if the content of a range or metarange does not make the id it was found under."""
    _verify(read_tables([data]), [expected_id])


def _verify(tables: Tables, expected_ids: Sequence[str | None]) -> None:
    for actual, expected_id in zip(identities(tables), expected_ids, strict=True):
        if expected_id is not None and actual != expected_id:
            raise CorruptFileError(f"the file of the id {expected_id} has the content of {actual}: it is not that file")


def _open(
    files: Sequence[bytes], kind: bytes, entities: tuple[bytes | None, ...], expected_ids: Sequence[str | None]
) -> Tables:
    """Read tables that must be of this type, and of one of these entities (None: of commits' content, no dump)."""
    tables = read_tables(files)
    for properties in tables.properties:
        found, entity = properties.get(b"type"), properties.get(b"entity")
        if found != kind:
            raise CorruptFileError(f"a table of type {kind.decode()} was expected; this one is of type {found!r}")
        if entity not in entities:
            raise CorruptFileError(f"a table of the entity {entities!r} was expected; this one is of {entity!r}")
    if any(expected is not None for expected in expected_ids):
        _verify(tables, expected_ids)
    return tables


def _open_one(data: bytes, entity: bytes, expected_id: str | None) -> Tables:
    return _open([data], b"ranges", (entity,), [expected_id])


def _range_batch(records: Records, schema: pa.Schema, paths: bool) -> pa.RecordBatch:
    entries = parse_entries(records)
    columns = [
        strings(records.buffer, entries.address_at, entries.address_length, "address of an entry"),
        pa.array(entries.address_type.astype(np.int8)),
        pa.array(entries.size),
        strings(records.buffer, entries.e_tag_at, entries.e_tag_length, "e_tag of an entry"),
    ]
    if paths:
        columns.append(user_keys(records))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


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


def _commit_row(key: bytes, value: bytes) -> tuple[str, str, int, list[str], int, int]:
    name, message = _unframe(value)
    found = protobuf.fields(message, {1: LENGTH, 4: LENGTH, 5: LENGTH, 7: LENGTH, 8: VARINT, 9: VARINT})
    commit_id, metarange_id = ((found[number] or [b""])[-1] for number in (1, 5))
    version, generation = ((found[number] or [0])[-1] for number in (8, 9))
    if not key == name == commit_id:
        raise CorruptFileError(
            f"a commit is filed under {key!r}, by the identity {name!r}, and has the id {commit_id!r}"
        )
    if not found[4]:
        raise CorruptFileError(f"the commit {key!r} has no creation date")
    for number in (version, generation):
        if not -_INT32_MAX - 1 <= number <= _INT32_MAX:  # lakeFS takes any number from who records a commit
            raise CorruptFileError(f"the commit {key!r} has a version or generation of {number}")
    return (
        _text(commit_id, "id of a commit"),
        _text(metarange_id, "id of a metarange"),
        _microseconds(b"".join(found[4])),  # protobuf merges a message that is given in pieces
        [_text(each, "id of a parent") for each in found[7]],
        version,
        generation,
    )


def _microseconds(timestamp: bytes) -> int:
    """Microseconds since 1970 of a protobuf Timestamp."""
    found: dict[int, list[int]] = protobuf.fields(timestamp, {1: VARINT, 2: VARINT})
    seconds, nanos = ((found[number] or [0])[-1] for number in (1, 2))
    if not 0 <= nanos < 1_000_000_000:
        raise CorruptFileError(f"a date is out of bounds: {nanos} ns")
    return bounded(seconds) * _MICROSECONDS + nanos // 1000


def bounded(seconds: int) -> int:
    """A date of a commit (unix seconds), or the nearest one in the years 1 to 9999. lakeFS takes any number from a
    client, such as milliseconds."""
    return min(max(seconds, _FIRST_SECOND), _LAST_SECOND)


def _ref_row(key: bytes, value: bytes, entity: str) -> tuple[str, str]:
    target, message = _unframe(value)
    found = protobuf.fields(message, {1: LENGTH, 2: LENGTH})
    name, commit_id = ((found[number] or [b""])[-1] for number in (1, 2))
    if name != key or commit_id != target:
        raise CorruptFileError(f"the {entity} filed under {key!r} says that it is {name!r}, or has another target")
    return _text(name, f"name of a {entity}"), _text(commit_id, "id of a commit")


def is_id(text: str) -> bool:
    """True if a range or metarange can have this id: 64 lower-case hex digits."""
    return _HEX_ID.fullmatch(text) is not None


def _text(value: bytes, what: str) -> str:
    """A name or an id as it stands. Clients of lakeFS may record commits with any text in the place of an id."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"the {what} is not UTF-8: {value!r}") from error
