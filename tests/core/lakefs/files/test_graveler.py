from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import graveler
from tests.support.plain_tables import (
    GOLDEN,
    TableWriter,
    bytes_field,
    entry,
    entry_plainly,
    entry_value,
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

FIXTURE = bytes.fromhex(
    """
00119701612f6f6e652e747874010000000000000040233a112466cf6c545014c0f116dd54daecb03bd1f839af6af5c16f87a6b06e10e8010a2e6461
74612f67303030303030303030303030303030303030302f633030303030303030303030303030303030303012080880e2cfaa061005180b22203565
6236336262626530316565656430393363623232626238663561636463332a060a016b12017630013a0a746578742f706c61696e020f5c74776f2e74
7874010000000000000040b21f58f6b6bc4bfc6e2621edd4076e51c73c707a96479922eb8722450543094e740a0c73333a2f2f6f746865722f781206
0881e2cfaa06222064343164386364393866303062323034653938303039393865636638343237653002000000000100000000337d06830009036211
ffffffffffffff00a202000000000100000000bc48e084000501636f756e7432001403657374696d617465645f73697a655f62797465733330300007
096d61785f6b6579612f74776f2e747874010609696e5f6b6579612f6f6e652e747874002404726f636b7364622e626c6f636b2e62617365642e7461
626c652e696e6465782e7479706500000000080b016e756d2e656e7472696573020004067479706572616e676573000000000100000000104f516600
1204726f636b7364622e70726f70657274696573c302970100000000010000000082726b0801df0321a7021700000000000000000000000000000000
00000000000000000000000000000000000002000000f7cff485b741e288
"""
)
FIXTURE_ID = "9ce4b88d71a035e3bca066cda44e519c5484ef424d38169359488701c18d6cb3"
COMMIT = "46d8462e66ad80369051f0fbb132a7b3b8a2d673a2d52af585930194e9cef586"
RANGE_A, RANGE_B = "a" * 64, "b" * 64


def range_value(
    range_id: str, *, min_key: bytes | None = None, max_key: bytes = b"", size: int = 300, count: int = 2
) -> bytes:
    first = b"" if min_key is None else bytes_field(1, min_key)
    content = first + bytes_field(2, max_key) + int_field(3, size) + int_field(4, count)
    return frame(range_id.encode(), content)


def write_metarange(*records: tuple[bytes, bytes]) -> bytes:
    return TableWriter(kind=b"metaranges").write(records)


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
    table = graveler.read_range(
        FIXTURE, count=2, min_key=b"a/one.txt", max_key=b"a/two.txt", paths=True, expected_id=FIXTURE_ID
    )
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


def test_ids_are_those_published() -> None:
    assert graveler.identity(FIXTURE) == FIXTURE_ID
    content = bytes.fromhex("0a09612f6f6e652e7478741209612f74776f2e74787418ac022002")
    metarange = write_metarange((b"a/two.txt", frame(FIXTURE_ID.encode(), content)))
    assert graveler.identity(metarange) == "0f867c670c21dd760f7668ada4539d554b63b7b6fc8a5f40c669d762772a74e0"
    assert graveler.identity(TableWriter().write([])) == (
        "5105eaf20d56aa444d5402b4eab9d952aecff97791980db9141ca8e2590ce149"
    )
    assert graveler.identity(write_metarange()) == "00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66"


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
        assert identity_plainly(properties, records) == path.name == graveler.identity(data)
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
                found = graveler.read_range(
                    body,
                    count=row["count"],
                    min_key=row["min_key"],
                    max_key=row["max_key"],
                    expected_id=row["range_id"],
                )
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
    assert graveler.read_range(empty, count=0, min_key=b"", max_key=b"") == graveler.RANGE_SCHEMA.empty_table()
    assert graveler.read_range(empty, paths=True) == graveler.RANGE_SCHEMA_WITH_PATHS.empty_table()
    assert graveler.read_metarange(write_metarange()) == graveler.METARANGE_SCHEMA.empty_table()
    assert graveler.read_commits(write_dump(b"commit")) == graveler.COMMITS_SCHEMA.empty_table()
    assert graveler.read_refs(write_dump(b"tag"), "tag") == graveler.REFS_SCHEMA.empty_table()


@pytest.mark.parametrize(
    "said", [{"count": 1}, {"count": 3}, {"min_key": b"a/one"}, {"max_key": b"a/two.txt0"}, {"min_key": b""}]
)
def test_t07_a_range_that_is_not_what_its_metarange_says_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(CorruptFileError, match="metarange says"):
        graveler.read_range(FIXTURE, **said)  # type: ignore[arg-type]


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
    for read in (graveler.read_range, graveler.read_metarange, graveler.read_commits, graveler.identity):
        with pytest.raises(CorruptFileError):
            read(data)


# --- entries -------------------------------------------------------------------------------------------------------


def read_values(*values: bytes) -> pa.Table:
    return graveler.read_range(TableWriter().write([(b"k%05d" % i, value) for i, value in enumerate(values)]))


def framed(content: bytes, name: bytes = b"i" * 32) -> bytes:
    return frame(name, content)


def test_t01_an_identity_of_a_hundred_bytes_has_a_length_of_two_bytes() -> None:
    value = framed(entry(), b"i" * 100)
    assert value.startswith(bytes.fromhex("c801"))
    assert read_values(value)["address"].to_pylist() == ["data/s/x"]
    of_metarange = range_value(RANGE_A, max_key=b"c")
    assert of_metarange.startswith(bytes.fromhex("8001"))  # 64
    assert graveler.read_metarange(write_metarange((b"c", of_metarange)))["range_id"].to_pylist() == [RANGE_A]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"", "identity"),
        (to_svarint(-1) + b"x" + framed(entry())[1:], "negative length"),
        (b"\x40" + b"i" * 32 + to_svarint(-2) + b"xx", "negative length|does not end"),
        (b"\x40" + b"i" * 31, "identity"),
        (framed(entry())[:-1], "does not end"),
        (framed(entry()) + b"x", "does not end"),
        (framed(b""), "no address"),
        (framed(bytes_field(4, b"tag")), "no address"),
        (framed(entry(b"")), "no address"),
        (framed(entry(kind=3)), "address type"),
        (framed(entry(kind=-1)), "address type"),
        (framed(entry(b"data/\xff")), "UTF-8"),
        (framed(entry(e_tag=b"\xc3")), "UTF-8"),
        (framed(entry() + b"\x0a"), "cut off|runs over"),
        (framed(b"\x0a\x7fdata"), "runs over"),
        (framed(b"\x0a\xff\xff\xff\xff\xff\xff\x01data"), "varint"),
        (framed(int_field(1, 5)), "wire type"),
        (framed(bytes_field(1, b"a") + bytes_field(6, b"\1")), "wire type"),
        (framed(bytes_field(1, b"a") + b"\x33"), "wire type"),
        (framed(bytes_field(1, b"a") + b"\x53"), "wire type 3"),
        (framed(bytes_field(1, b"a") + b"\x02\x01x"), "number 0"),
        (framed(bytes_field(1, b"a") + b"\x18" + b"\xff" * 10), "varint"),
        (framed(entry() + b"\x49\1\2\3"), "cut off"),
    ],
)
@pytest.mark.parametrize("others", [0, 50])
def test_a_value_that_is_no_entry_is_refused_alone_and_among_others(value: bytes, sentence: str, others: int) -> None:
    good = entry_value()
    with pytest.raises(CorruptFileError, match=sentence):
        read_values(*[good] * others, value, *[good] * others)


def test_entries_by_the_general_rules_of_protobuf_are_understood() -> None:
    """Fields in another order, given twice, unknown ones: not written by lakeFS today."""
    backwards = int_field(6, 2) + bytes_field(4, b"t") + int_field(3, 9) + bytes_field(1, b"late")
    twice = entry(b"first", size=3) + bytes_field(1, b"second") + int_field(3, 0)
    unknown = entry(b"known") + int_field(99, 7) + bytes_field(8, b"x") + b"\x51" + bytes(8) + b"\x5d" + bytes(4)
    table = read_values(framed(entry()), framed(backwards), framed(twice), framed(unknown), framed(entry()))
    assert table["address"].to_pylist() == ["data/s/x", "late", "second", "known", "data/s/x"]
    assert table["address_type"].to_pylist() == [1, 2, 1, 1, 1]
    assert table["size"].to_pylist() == [1, 9, 0, 1, 1]
    assert table["e_tag"].to_pylist() == ["tag", "t", "tag", "tag", "tag"]


@pytest.mark.parametrize("last", [b"", b"text/plain"])
def test_a_byte_after_the_last_field_is_not_taken_for_one_more_field(last: bytes) -> None:
    """The byte after a value is the number of key bytes that the next record shares: here that of a field's tag."""
    tag_of_content_type = 7 << 3 | 2
    values = [framed(entry(b"data/%04d" % i, content_type=b"" if i < 299 else last)) for i in range(300)]
    records = [(b"k" * tag_of_content_type + b"%03d" % i, value) for i, value in enumerate(values)]
    writer = TableWriter(block_bytes=1 << 20, restart_every=1000, share=lambda common: min(common, tag_of_content_type))
    table = graveler.read_range(writer.write(records))
    assert table["address"].to_pylist() == [f"data/{i:04d}" for i in range(300)]
    assert set(table["e_tag"].to_pylist()) == {"tag"}


@pytest.mark.parametrize("place", [0, 20, 39])
@pytest.mark.parametrize("short", [b"\x0a\x08data/1", b"\x0a", bytes_field(1, b"data/s/x") + b"\x22\x03ta"])
def test_a_field_as_long_as_in_all_other_records_must_fit_the_shortest_one(short: bytes, place: int) -> None:
    whole = framed(bytes_field(1, b"data/s/x") + bytes_field(4, b"tag"))
    values = [whole] * 40
    values[place] = framed(short)
    with pytest.raises(CorruptFileError, match=r"runs over|cut off"):
        read_values(*values)


@pytest.mark.parametrize("others", [0, 7])
def test_an_identity_of_another_length_than_the_others_is_passed_rightly(others: int) -> None:
    values = [framed(entry(b"data/s/%d" % i), b"i" * (32 if i % 8 != others else i)) for i in range(40)]
    assert read_values(*values)["address"].to_pylist() == [f"data/s/{i}" for i in range(40)]


TEXT = st.one_of(st.text(min_size=1, max_size=20), st.just("data/slice/xid"), st.integers(120, 400).map("é".__mul__))
ENTRY = st.fixed_dictionaries(
    {
        "address": TEXT.map(str.encode),
        "size": st.one_of(st.integers(0, 300), st.integers(-(1 << 63), (1 << 63) - 1)),
        "e_tag": st.one_of(st.just(b""), st.text(max_size=40).map(str.encode)),
        "kind": st.sampled_from([0, 1, 2]),
        "metadata": st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=200)), max_size=3),
        "content_type": st.sampled_from([b"", b"text/plain"]),
    }
)


@settings(max_examples=200, deadline=None)
@given(entries=st.lists(ENTRY, min_size=1, max_size=80), two_level=st.booleans(), odd=st.booleans())
def test_entries_of_any_shape_read_as_they_were_written(
    entries: list[dict[str, object]], two_level: bool, odd: bool
) -> None:
    values = [entry_value(**parts) for parts in entries]
    records = [(b"path/%d" % i * (1 + i % 3), value) for i, value in enumerate(values)]
    data = TableWriter(two_level=two_level, block_bytes=60 if odd else 4096).write(sorted(records))
    table = graveler.read_range(data, paths=True)
    assert list(zip(*(column.to_pylist() for column in table.columns[:4]), strict=True)) == [
        entry_plainly(value) for _, value in sorted(records)
    ]
    assert table["path"].to_pylist() == [key for key, _ in sorted(records)]
    properties, plain = read_plainly(data)
    assert graveler.identity(data) == identity_plainly(properties, plain)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_damaged_values_under_a_right_checksum_read_like_protobuf_or_are_refused(data: st.DataObject) -> None:
    values = [bytearray(entry_value(size=i, address=b"data/s/%d" % i)) for i in range(20)]
    for _ in range(data.draw(st.integers(1, 4))):
        value = values[data.draw(st.integers(0, 19))]
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    try:
        table = read_values(*map(bytes, values))
    except CorruptFileError:
        return
    assert len(table) == 20
    table.validate(full=True)


# --- metaranges ----------------------------------------------------------------------------------------------------


def test_a_metarange_names_its_ranges() -> None:
    data = write_metarange(
        (b"c", range_value(RANGE_A, min_key=b"a", max_key=b"c")),
        (b"\xff", range_value(RANGE_B, max_key=b"\xff", count=1)),
    )
    assert graveler.read_metarange(data).to_pylist() == [
        {"range_id": RANGE_A, "min_key": b"a", "max_key": b"c", "count": 2},
        {"range_id": RANGE_B, "min_key": b"\xff", "max_key": b"\xff", "count": 1},
    ]


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([(b"c", range_value(RANGE_A, max_key=b"d"))], "filed under"),
        ([(b"c", range_value(RANGE_A, min_key=b"d", max_key=b"c"))], "down to"),
        ([(b"c", range_value(RANGE_A, max_key=b"c", count=-1))], "-1 entries"),
        ([(b"c", range_value("A" * 64, max_key=b"c"))], "64 lower-case"),
        ([(b"c", range_value("a" * 63, max_key=b"c"))], "64 lower-case"),
        ([(b"c", range_value("a" * 64 + "\n", max_key=b"c"))], "64 lower-case"),
        ([(b"c", frame(RANGE_A.encode(), int_field(2, 5)))], "wire type"),
        ([(b"c", frame(RANGE_A.encode(), b"\x12\x05c"))], "runs over"),
        ([(b"c", range_value(RANGE_A, max_key=b"c")[:-1])], "does not end"),
        ([(b"c", range_value(RANGE_A, max_key=b"c") + b"x")], "does not end"),
        ([(b"c", to_svarint(-64) + RANGE_A.encode())], "negative"),
        (
            [
                (b"c", range_value(RANGE_A, min_key=b"a", max_key=b"c")),
                (b"d", range_value(RANGE_B, min_key=b"c", max_key=b"d")),
            ],
            "overlap",
        ),
    ],
)
def test_a_metarange_that_does_not_hold_together_is_refused(records: list[tuple[bytes, bytes]], sentence: str) -> None:
    with pytest.raises(CorruptFileError, match=sentence):
        graveler.read_metarange(write_metarange(*records))


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


def test_a_first_commit_has_no_metarange_and_no_parents() -> None:
    content = bytes_field(1, COMMIT.encode()) + bytes_field(4, b"")
    (row,) = graveler.read_commits(
        write_dump(b"commit", (COMMIT.encode(), frame(COMMIT.encode(), content)))
    ).to_pylist()
    assert row["metarange_id"] == "" and row["parents"] == []
    assert row["version"] == row["generation"] == row["creation_us"] == 0


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (RANGE_A.encode(), commit_value(), "filed under"),
        (COMMIT.encode(), commit_value(identity=RANGE_A.encode()), "filed under"),
        (b"short", commit_value(b"short"), "64 lower-case"),
        (COMMIT.encode(), frame(COMMIT.encode(), bytes_field(1, COMMIT.encode())), "no creation date"),
        (COMMIT.encode(), commit_value(date=int_field(1, 1) + int_field(2, 10**9)), "out of bounds"),
        (COMMIT.encode(), commit_value(date=int_field(1, 10**12)), "out of bounds"),
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
        dump(b"a", b"a", "x", "x"),
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
