"""lakeFS's committed metadata, written: entries, ranges, metaranges, dump tables, rules, and all their ids.

The bytes of a table belong in `sstable_writer`, what a commit contains in `tree`. Reading any of this back
belongs in `lakegc_core.lakefs`: the sandbox never decodes what it wrote.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakegc_sandbox.files.sstable_writer import TableWriter, uvarint

RELATIVE = 1
FULL = 2

RANGE_MODULUS = 50_000  # a range is cut behind a key whose hash is a multiple of it
RANGE_MAX_SIZE = 20 << 20  # bytes, by the writer's own estimate

_SCHEMA_NAMES = {"commit": "CommitData", "branch": "BranchData", "tag": "TagData"}


# --- protobuf ---


def _bytes_field(number: int, data: bytes) -> bytes:
    return uvarint(number << 3 | 2) + uvarint(len(data)) + data if data else b""


def _int_field(number: int, value: int) -> bytes:
    return uvarint(number << 3) + uvarint(value & (1 << 64) - 1) if value else b""


def _map_field(number: int, pairs: Mapping[str, str]) -> bytes:
    head = uvarint(number << 3 | 2)
    parts = []
    for key in sorted(pairs):
        pair = _bytes_field(1, key.encode()) + _bytes_field(2, pairs[key].encode())
        parts.append(head + uvarint(len(pair)) + pair)
    return b"".join(parts)


def _timestamp_field(number: int, nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 10**9)
    data = _int_field(1, seconds) + _int_field(2, rest)
    return uvarint(number << 3 | 2) + uvarint(len(data)) + data


def frame(identity: bytes, data: bytes) -> bytes:
    """A graveler value: identity and data, each behind its zig-zag length."""
    return uvarint(len(identity) << 1) + identity + uvarint(len(data) << 1) + data


# --- the encoding that identities are hashed over ---


def _hash_int(value: int) -> bytes:
    return b"\x02\x08" + value.to_bytes(8, "big", signed=True)


def _hash_bytes(data: bytes) -> bytes:
    return b"\x00" + _hash_int(len(data)) + data


def _hash_text(text: str) -> bytes:
    data = text.encode()
    return b"\x01" + _hash_int(len(data)) + data


def _hash_list(items: Sequence[str]) -> bytes:
    return b"\x03" + _hash_int(len(items)) + b"".join(map(_hash_text, items))


def _hash_map(pairs: Mapping[str, str]) -> bytes:
    parts = [_hash_text(key) + _hash_text(pairs[key]) for key in sorted(pairs)]
    return b"\x04" + _hash_int(len(pairs)) + b"".join(parts)


# --- entries ---


@dataclass(frozen=True)
class Entry:
    """One object as a branch or a commit shows it. `last_modified` in unix nanoseconds, `size` in bytes."""

    address: str
    size: int
    e_tag: str
    last_modified: int = 0
    address_type: int = RELATIVE
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    content_type: str = ""

    @functools.cached_property
    def identity(self) -> bytes:
        """The digest by which lakeFS compares entries: address, type and time do not count."""
        encoded = _hash_int(self.size) + _hash_text(self.e_tag) + _hash_map(self.metadata)
        if self.content_type:
            encoded += _hash_text(self.content_type)
        return hashlib.sha256(encoded).digest()

    @functools.cached_property
    def value(self) -> bytes:
        """The framed value a range stores for it."""
        data = (
            _bytes_field(1, self.address.encode())
            + _timestamp_field(2, self.last_modified)
            + _int_field(3, self.size)
            + _bytes_field(4, self.e_tag.encode())
            + _map_field(5, self.metadata)
            + _int_field(6, self.address_type)
            + _bytes_field(7, self.content_type.encode())
        )
        return frame(self.identity, data)


# --- commits ---


@dataclass(frozen=True)
class Commit:
    """One commit record; `creation_date` in unix nanoseconds."""

    committer: str
    message: str
    creation_date: int
    meta_range_id: str
    parents: tuple[str, ...]
    generation: int
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    version: int = 1

    @functools.cached_property
    def id(self) -> str:
        parents = hashlib.sha256(_hash_list(self.parents)).digest()
        encoded = (
            _hash_text("commit:v1")
            + _hash_text(self.committer)
            + _hash_text(self.message)
            + _hash_text(self.meta_range_id)
            + _hash_int(self.creation_date // 10**9)
            + _hash_map(self.metadata)
            + b"\x05"
            + _hash_bytes(parents)
        )
        return hashlib.sha256(encoded).hexdigest()

    @property
    def main_parent(self) -> str | None:
        """The commit its branch showed before it; commits of version 0 stored it last."""
        if not self.parents:
            return None
        return self.parents[0] if self.version >= 1 else self.parents[-1]

    @property
    def value(self) -> bytes:
        """The framed value a dump stores for it."""
        data = (
            _bytes_field(1, self.id.encode())
            + _bytes_field(2, self.committer.encode())
            + _bytes_field(3, self.message.encode())
            + _timestamp_field(4, self.creation_date)
            + _bytes_field(5, self.meta_range_id.encode())
            + _map_field(6, self.metadata)
            + b"".join(_bytes_field(7, parent.encode()) for parent in self.parents)
            + _int_field(8, self.version)
            + _int_field(9, self.generation)
        )
        return frame(self.id.encode(), data)


def ref_value(name: str, commit_id: str) -> bytes:
    """The framed value a dump stores for a branch or a tag."""
    return frame(commit_id.encode(), _bytes_field(1, name.encode()) + _bytes_field(2, commit_id.encode()))


def rules_file(default_days: int, branch_days: Mapping[str, int]) -> bytes:
    """The content of the rules object: protobuf, whatever its name says."""
    data = _int_field(1, default_days)
    for branch, days in branch_days.items():
        data += _bytes_field(2, _bytes_field(1, branch.encode()) + _int_field(2, days))
    return data


# --- ranges and metaranges ---

Record = tuple[bytes, bytes]  # user key, framed value


@dataclass(frozen=True)
class RangeInfo:
    """The record of a metarange about one of its ranges."""

    id: str
    min_key: bytes
    max_key: bytes
    count: int
    estimated_size: int

    @property
    def record(self) -> Record:
        data = (
            _bytes_field(1, self.min_key)
            + _bytes_field(2, self.max_key)
            + _int_field(3, self.estimated_size)
            + _int_field(4, self.count)
        )
        return self.max_key, frame(self.id.encode(), data)


@dataclass(frozen=True)
class Table:
    """One finished table: its file is `PFX/<id>` with `data` in it."""

    info: RangeInfo
    data: bytes = field(repr=False)

    @property
    def id(self) -> str:
        return self.info.id


def record_digest(records: Iterable[Record]) -> hashlib._Hash:
    """The running hash over records that the id of their table starts with."""
    digest = hashlib.sha256()
    for key, value in records:
        digest.update(b"%d%b|%d%b|" % (len(key), key, len(value), value))
    return digest


def _properties(kind: str, entity: str | None) -> dict[str, str]:
    if entity is None:
        return {"type": kind}
    schema = _SCHEMA_NAMES[entity]
    return {
        "type": kind,
        "entity": entity,
        "schema_name": f"io.treeverse.lakefs.graveler.{schema}",
        "schema_definition": _schema_definition(entity),
    }


def _write_table(
    records: Iterable[Record],
    properties: Mapping[str, str],
    full: Callable[[TableWriter], bool] | None = None,
) -> Table:
    """Write records until they end or `full` says so; the caller sees from the count how many were taken."""
    writer = TableWriter()
    taken = []
    for record in records:
        writer.add(*record)
        taken.append(record)
        if full is not None and full(writer):
            break
    digest = record_digest(taken)
    digest.update(_hash_map(properties))
    data, estimate = writer.finish(properties)
    min_key, max_key = (taken[0][0], taken[-1][0]) if taken else (b"", b"")
    return Table(RangeInfo(digest.hexdigest(), min_key, max_key, len(taken), estimate), data)


def write_range(records: Iterable[Record], entity: str | None = None) -> Table:
    """One range (or range of a dump, with its `entity`) holding all the records, which must be sorted."""
    return _write_table(records, _properties("ranges", entity))


def write_metarange(ranges: Iterable[RangeInfo], entity: str | None = None) -> Table:
    """The metarange over ranges, which must be sorted and disjoint."""
    return _write_table((info.record for info in ranges), _properties("metaranges", entity))


def write_ranges(
    records: Sequence[Record],
    *,
    modulus: int = RANGE_MODULUS,
    max_size: int = RANGE_MAX_SIZE,
    entity: str | None = None,
) -> list[Table]:
    """Split sorted records as lakeFS does: behind a key its hash picks, or at the size limit."""

    def full(writer: TableWriter) -> bool:
        return writer.estimated_size() >= max_size or cuts_behind(writer.last_key, modulus)

    tables = []
    properties = _properties("ranges", entity)
    start = 0
    while start < len(records):
        table = _write_table((records[i] for i in range(start, len(records))), properties, full)
        tables.append(table)
        start += table.info.count
    return tables


@functools.lru_cache(maxsize=1 << 18)
def _fnv1a(key: bytes) -> int:
    number = 0xCBF29CE484222325
    for byte in key:
        number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return number


def cuts_behind(key: bytes, modulus: int = RANGE_MODULUS) -> bool:
    """True if a range ends behind this key whatever its size."""
    return _fnv1a(key) % modulus == 0


# --- the schemas dump tables carry ---


def _schema_field(name: str, number: int, kind: str, label: str = "OPTIONAL", type_name: str = "") -> str:
    camel = "".join(part.title() if place else part for place, part in enumerate(name.split("_")))
    named = f'"typeName":"{type_name}", ' if type_name else ""
    return (
        f'{{"name":"{name}", "number":{number}, "label":"LABEL_{label}", "type":"TYPE_{kind}", '
        f'{named}"jsonName":"{camel}"}}'
    )


@functools.cache
def _schema_definition(entity: str) -> str:
    nested = ""
    if entity == "commit":
        entry = ".io.treeverse.lakefs.graveler.CommitData.MetadataEntry"
        fields = [
            _schema_field("id", 1, "STRING"),
            _schema_field("committer", 2, "STRING"),
            _schema_field("message", 3, "STRING"),
            _schema_field("creation_date", 4, "MESSAGE", type_name=".google.protobuf.Timestamp"),
            _schema_field("meta_range_id", 5, "STRING"),
            _schema_field("metadata", 6, "MESSAGE", "REPEATED", entry),
            _schema_field("parents", 7, "STRING", "REPEATED"),
            _schema_field("version", 8, "INT32"),
            _schema_field("generation", 9, "INT32"),
        ]
        pair = f"{_schema_field('key', 1, 'STRING')}, {_schema_field('value', 2, 'STRING')}"
        nested = f', "nestedType":[{{"name":"MetadataEntry", "field":[{pair}], "options":{{"mapEntry":true}}}}]'
    else:
        fields = [_schema_field("id", 1, "STRING"), _schema_field("commit_id", 2, "STRING")]
    if entity == "branch":
        fields += [
            _schema_field("staging_token", 3, "STRING"),
            _schema_field("sealed_tokens", 4, "STRING", "REPEATED"),
            _schema_field("hidden", 5, "BOOL"),
        ]
    return f'{{"name":"{_SCHEMA_NAMES[entity]}", "field":[{", ".join(fields)}]{nested}}}'
