"""lakeFS's own files, read into Arrow: ranges, metaranges, dumps of commits and refs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakegc_core.clock import instant
from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import graveler
from tests.support.lakefs_files import FIXTURE, FIXTURE_ID, RANGE_A, RANGE_B, identity, write_metarange
from tests.support.plain_tables import (
    GOLDEN,
    TableWriter,
    bytes_field,
    entry_plainly,
    frame,
    golden_files,
    identity_plainly,
    int_field,
    message,
    read_plainly,
    to_svarint,
    to_uvarint,
    unframe,
)

COMMIT = "46d8462e66ad80369051f0fbb132a7b3b8a2d673a2d52af585930194e9cef586"


def write_dump(entity: bytes, *records: tuple[bytes, bytes]) -> bytes:
    return TableWriter(properties={b"entity": entity}).write(records)


def commit_value(
    commit_id: bytes = COMMIT.encode(), *, identity: bytes | None = None, date: bytes | None = None
) -> bytes:
    date = int_field(1, 1_700_000_000) + int_field(2, 123_456_789) if date is None else date
    content = bytes_field(1, commit_id) + bytes_field(2, b"alice") + bytes_field(3, b"msg")
    content += bytes_field(4, date) if date else b""
    content += bytes_field(5, RANGE_A.encode()) + bytes_field(6, b"") + bytes_field(7, RANGE_B.encode())
    content += int_field(8, 1) + int_field(9, 3)
    return frame(commit_id if identity is None else identity, content)


# --- what is published of the format -------------------------------------------------------------------------------


def test_t06_the_fixture_holds_its_two_entries_under_their_exact_keys() -> None:
    table = graveler.read_range(FIXTURE, paths=True, expected_id=FIXTURE_ID)
    assert table.schema == graveler.RANGE_SCHEMA_WITH_PATHS
    assert table.to_pylist() == [
        {
            "address": "data/g0000000000000000000/c0000000000000000000",
            "address_type": 1,
            "size": 11,
            "e_tag": "5eb63bbbe01eeed093cb22bb8f5acdc3",
            "path": b"a/one.txt",
        },
        {
            "address": "s3://other/x",
            "address_type": 2,
            "size": 0,
            "e_tag": "d41d8cd98f00b204e9800998ecf8427e",
            "path": b"a/two.txt",
        },
    ]


def test_t07_a_file_of_another_id_is_refused() -> None:
    graveler.verify_identity(FIXTURE, FIXTURE_ID)
    with pytest.raises(CorruptFileError, match="is not that file"):
        graveler.verify_identity(FIXTURE, "0" * 64)
    with pytest.raises(CorruptFileError, match="is not that file"):
        graveler.read_range(FIXTURE, expected_id="0" * 64)


# --- what a real server wrote --------------------------------------------------------------------------------------


def test_every_recorded_file_reads_as_the_plain_reader_reads_it_and_has_its_id() -> None:
    kinds: Counter[tuple[bytes, bytes | None]] = Counter()
    for path in golden_files():
        data = path.read_bytes()
        properties, records = read_plainly(data)
        kind, entity = properties[b"type"], properties.get(b"entity")
        kinds[kind, entity] += 1
        assert identity_plainly(properties, records) == path.name == identity(data)
        if kind == b"metaranges":
            check_metarange(data, records)
        elif entity is None:
            check_range(data, records)
        elif entity == b"commit":
            check_commits(data, records)
        else:
            check_refs(data, records, entity.decode())
    assert len(kinds) == 8 and min(kinds.values()) >= 8


def check_range(data: bytes, records: list[tuple[bytes, bytes]]) -> None:
    table = graveler.read_range(data, paths=True)
    assert list(zip(*(column.to_pylist() for column in table.columns[:4]), strict=True)) == [
        entry_plainly(value) for _, value in records
    ]
    assert table["path"].to_pylist() == [key for key, _ in records]
    assert graveler.read_range(data) == table.drop_columns("path")


def check_metarange(data: bytes, records: list[tuple[bytes, bytes]]) -> None:
    expected = []
    for key, value in records:
        name, content = unframe(value)
        fields = message(content)
        expected.append((name.decode(), fields.get(1, [key])[0], key, fields[4][0]))
    assert list(zip(*(column.to_pylist() for column in graveler.read_metarange(data).columns), strict=True)) == expected


def check_commits(data: bytes, records: list[tuple[bytes, bytes]]) -> None:
    table = graveler.read_commits(data)
    assert table.schema == graveler.COMMITS_SCHEMA
    assert table["commit_id"].to_pylist() == [key.decode() for key, _ in records]
    for row, (_, value) in zip(table.to_pylist(), records, strict=True):
        fields = message(unframe(value)[1])
        date = fields[4][0]
        assert isinstance(date, bytes)
        moment = message(date)
        seconds, nanos = moment[1][0], moment.get(2, [0])[0]
        assert isinstance(seconds, int) and isinstance(nanos, int)
        assert row["creation_us"] == seconds * 10**6 + nanos // 1000
        assert row["metarange_id"].encode() == fields.get(5, [b""])[0]
        assert [parent.encode() for parent in row["parents"]] == fields.get(7, [])
        assert (row["version"], row["generation"]) == (fields.get(8, [0])[0], fields.get(9, [0])[0])


def check_refs(data: bytes, records: list[tuple[bytes, bytes]], entity: str) -> None:
    assert graveler.read_refs(data, entity).to_pylist() == [
        {"name": key.decode(), "commit_id": unframe(value)[0].decode()} for key, value in records
    ]


def test_every_recorded_range_is_what_its_metarange_says() -> None:
    seen = 0
    for path in golden_files():
        data = path.read_bytes()
        properties, _ = read_plainly(data)
        if properties[b"type"] != b"metaranges":
            continue
        for row in graveler.read_metarange(data, expected_id=path.name).to_pylist():
            body = (path.parent / row["range_id"]).read_bytes()
            if b"entity" in properties:
                entity = properties[b"entity"].decode()
                found = graveler.read_commits(body) if entity == "commit" else graveler.read_refs(body, entity)
            else:
                found = graveler.read_range(body, paths=True, expected_id=row["range_id"])
                assert [found["path"][0].as_py(), found["path"][-1].as_py()] == [row["min_key"], row["max_key"]]
            assert len(found) == row["count"]
            seen += 1
    assert seen > 200


@pytest.mark.parametrize("recording", sorted(path.parent for path in GOLDEN.glob("*/api.json")), ids=lambda p: p.name)
def test_the_dump_of_commits_holds_those_the_history_made(recording: Path) -> None:
    known = json.loads((recording / "commits.json").read_text())
    ids = set(json.dumps(known).split('"'))
    for path in golden_files():
        if recording in path.parents:
            data = path.read_bytes()
            properties, _ = read_plainly(data)
            if (properties[b"type"], properties.get(b"entity")) == (b"ranges", b"commit"):
                assert ids.issuperset(graveler.read_commits(data)["commit_id"].to_pylist())


# --- empty files, wrong files --------------------------------------------------------------------------------------


def test_t05_empty_files_have_no_rows_and_the_full_schema() -> None:
    empty = TableWriter().write([])
    assert graveler.read_range(empty) == graveler.RANGE_SCHEMA.empty_table()
    assert graveler.read_range(empty, paths=True) == graveler.RANGE_SCHEMA_WITH_PATHS.empty_table()
    assert graveler.read_metarange(write_metarange()) == graveler.METARANGE_SCHEMA.empty_table()
    assert graveler.read_commits(write_dump(b"commit")) == graveler.COMMITS_SCHEMA.empty_table()
    assert graveler.read_refs(write_dump(b"tag"), "tag") == graveler.REFS_SCHEMA.empty_table()


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (graveler.read_range, write_metarange()),
        (graveler.read_range, write_dump(b"commit")),
        (graveler.read_range, TableWriter(kind=b"other").write([])),
        (graveler.read_metarange, FIXTURE),
        (graveler.read_metarange, TableWriter(kind=b"metaranges", properties={b"entity": b"user"}).write([])),
        (graveler.read_commits, FIXTURE),
        (graveler.read_commits, write_dump(b"tag")),
        (lambda data: graveler.read_refs(data, "tag"), write_dump(b"branch")),
        (lambda data: graveler.read_refs(data, "branch"), write_dump(b"tag")),
    ],
)
def test_a_table_of_another_kind_is_refused(read: Callable[[bytes], pa.Table], data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="was expected"):
        read(data)


def test_refs_of_something_else_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="commit"):
        graveler.read_refs(FIXTURE, "commit")


@pytest.mark.parametrize("data", [b"", b"{}", b"x" * 52, b"x" * 1000, b"<html>not found</html>" * 10])
def test_what_is_no_table_at_all_is_refused(data: bytes) -> None:
    for read in (graveler.read_range, graveler.read_metarange, graveler.read_commits, identity):
        with pytest.raises(CorruptFileError):
            read(data)


# --- dumps ---------------------------------------------------------------------------------------------------------


def test_a_commit_is_read_to_the_microsecond() -> None:
    assert graveler.read_commits(write_dump(b"commit", (COMMIT.encode(), commit_value()))).to_pylist() == [
        {
            "commit_id": COMMIT,
            "metarange_id": RANGE_A,
            "creation_us": 1_700_000_000_123_456,
            "parents": [RANGE_B],
            "version": 1,
            "generation": 3,
        }
    ]


def test_a_commit_with_other_text_in_the_place_of_ids_is_read_as_it_is() -> None:
    """lakeFS stores what clients give: `?source_metarange=latest`, or a record of a commit."""
    fields = {1: b"short", 5: b"latest", 7: "größe".encode()}
    content = b"".join(bytes_field(number, text) for number, text in fields.items()) + bytes_field(4, b"")
    (row,) = graveler.read_commits(write_dump(b"commit", (b"short", frame(b"short", content)))).to_pylist()
    assert (row["commit_id"], row["metarange_id"], row["parents"]) == ("short", "latest", ["größe"])
    assert [graveler.is_id(each) for each in ("latest", RANGE_A, RANGE_A.upper(), f"{RANGE_A}\n")] == [
        False,
        True,
        False,
        False,
    ]


def test_a_first_commit_has_no_metarange_and_no_parents() -> None:
    content = bytes_field(1, COMMIT.encode()) + bytes_field(4, b"")
    (row,) = graveler.read_commits(
        write_dump(b"commit", (COMMIT.encode(), frame(COMMIT.encode(), content)))
    ).to_pylist()
    assert row["metarange_id"] == "" and row["parents"] == []
    assert row["version"] == row["generation"] == row["creation_us"] == 0


@pytest.mark.parametrize(("seconds", "year"), [(1_764_000_000_000, 9999), (2**62, 9999), (-(2**62), 1)])
def test_a_date_that_no_calendar_has_is_taken_as_the_nearest_one(seconds: int, year: int) -> None:
    """lakeFS keeps any date that a client gives to a commit, and never deletes the commit."""
    value = commit_value(date=int_field(1, seconds))
    (row,) = graveler.read_commits(write_dump(b"commit", (COMMIT.encode(), value))).to_pylist()
    assert instant(row["creation_us"] / 1e6).startswith(f"{year:04}-")


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (RANGE_A.encode(), commit_value(), "filed under"),
        (COMMIT.encode(), commit_value(identity=RANGE_A.encode()), "filed under"),
        (b"\xff", commit_value(b"\xff"), "not UTF-8"),
        (COMMIT.encode(), frame(COMMIT.encode(), bytes_field(1, COMMIT.encode())), "no creation date"),
        (COMMIT.encode(), commit_value(date=int_field(1, 1) + int_field(2, 10**9)), "out of bounds"),
        (COMMIT.encode(), commit_value(date=b"\x08"), "cut off"),
        (COMMIT.encode(), commit_value()[:-1], "shorter"),
    ],
)
def test_a_commit_that_does_not_hold_together_is_refused(key: bytes, value: bytes, sentence: str) -> None:
    with pytest.raises(CorruptFileError, match=sentence):
        graveler.read_commits(write_dump(b"commit", (key, value)))


@pytest.mark.parametrize("entity", graveler.REF_ENTITIES)
def test_refs_are_read_and_refused_if_they_contradict_their_key(entity: str) -> None:
    def dump(key: bytes, name: bytes, target: str = COMMIT, identity: str = COMMIT) -> bytes:
        content = bytes_field(1, name) + bytes_field(2, target.encode())
        return write_dump(entity.encode(), (key, frame(identity.encode(), content)))

    assert graveler.read_refs(dump("größe".encode(), "größe".encode()), entity).to_pylist() == [
        {"name": "größe", "commit_id": COMMIT}
    ]
    for bad in (
        dump(b"a", b"b"),
        dump(b"a", b"a", RANGE_A),
        dump(b"\xff", b"\xff"),
    ):
        with pytest.raises(CorruptFileError):
            graveler.read_refs(bad, entity)


# --- damage --------------------------------------------------------------------------------------------------------


def test_no_damage_to_the_fixture_passes() -> None:
    for at in range(len(FIXTURE)):
        for mask in (1, 0x80, 0xFF):
            with pytest.raises(CorruptFileError):
                graveler.read_range(FIXTURE[:at] + bytes([FIXTURE[at] ^ mask]) + FIXTURE[at + 1 :])
        with pytest.raises(CorruptFileError):
            graveler.read_range(FIXTURE[:at])


def test_the_pieces_of_this_test_encode_as_published() -> None:
    assert (to_svarint(32), to_svarint(64), to_svarint(200)) == (b"\x40", b"\x80\x01", b"\x90\x03")
    assert to_uvarint(300) == b"\xac\x02"
