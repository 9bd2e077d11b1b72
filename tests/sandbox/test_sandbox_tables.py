"""What the sandbox writes is what lakeFS writes: ids against known vectors, bytes against recordings."""

from __future__ import annotations

import hashlib
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.lakefs.files import graveler
from lakegc_sandbox.files import graveler_writer
from lakegc_sandbox.files.graveler_writer import (
    FULL,
    Commit,
    Entry,
    RangeInfo,
    cuts_behind,
    ref_value,
    rules_file,
    write_metarange,
    write_range,
    write_ranges,
)
from lakegc_sandbox.files.names import Names
from lakegc_sandbox.files.sstable_writer import TableWriter
from lakegc_sandbox.model.tree import EMPTY_TREE, Tree, TreeWriter, diff
from tests.support.lakefs_files import identity, read_table

GOLDEN = Path(__file__).parents[1] / "golden"
RECORDINGS = sorted(path.parent for path in GOLDEN.glob("*/api.json"))

EMPTY_RANGE = "5105eaf20d56aa444d5402b4eab9d952aecff97791980db9141ca8e2590ce149"
EMPTY_METARANGE = "00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66"
FIRST_RANGE = "9ce4b88d71a035e3bca066cda44e519c5484ef424d38169359488701c18d6cb3"

ONE = Entry(
    address="data/g0000000000000000000/c0000000000000000000",
    size=11,
    e_tag="5eb63bbbe01eeed093cb22bb8f5acdc3",
    last_modified=1700000000 * 10**9 + 5,
    metadata={"k": "v"},
    content_type="text/plain",
)
TWO = Entry(
    address="s3://other/x",
    size=0,
    e_tag="d41d8cd98f00b204e9800998ecf8427e",
    last_modified=1700000001 * 10**9,
    address_type=FULL,
)
RECORDS = [(b"a/one.txt", ONE.value), (b"a/two.txt", TWO.value)]


def test_entry_identities_are_lakefs_own() -> None:
    assert ONE.identity.hex() == "233a112466cf6c545014c0f116dd54daecb03bd1f839af6af5c16f87a6b06e10"
    assert TWO.identity.hex() == "b21f58f6b6bc4bfc6e2621edd4076e51c73c707a96479922eb8722450543094e"


def test_range_and_metarange_ids_are_lakefs_own() -> None:
    assert write_range(RECORDS).id == FIRST_RANGE
    ranges = [RangeInfo(FIRST_RANGE, b"a/one.txt", b"a/two.txt", 2, 300)]
    assert write_metarange(ranges).id == "0f867c670c21dd760f7668ada4539d554b63b7b6fc8a5f40c669d762772a74e0"


def test_empty_tables_have_lakefs_own_ids() -> None:
    assert write_range([]).id == EMPTY_RANGE
    assert write_metarange([]).id == EMPTY_METARANGE
    assert graveler.read_range(write_range([]).data, expected_id=EMPTY_RANGE).num_rows == 0


def test_commit_id_is_lakefs_own() -> None:
    commit = Commit("alice", "msg", 1700000000 * 10**9, "", (), 1)
    assert commit.id == "46d8462e66ad80369051f0fbb132a7b3b8a2d673a2d52af585930194e9cef586"


def test_main_parent_of_old_commits_is_the_last_one() -> None:
    assert Commit("", "", 0, "", ("a", "b"), 2, version=0).main_parent == "b"
    assert Commit("", "", 0, "", ("a", "b"), 2).main_parent == "a"
    assert Commit("", "", 0, "", (), 1).main_parent is None


def test_rules_are_protobuf() -> None:
    expected = "080e 1207 0a03646576 1007 1208 0a046d61696e 1015".replace(" ", "")
    assert rules_file(14, {"dev": 7, "main": 21}).hex() == expected
    assert rules_file(-1, {}).hex() == "08ffffffffffffffffff01"
    assert rules_file(0, {}) == b""


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.name)
def recording(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording. Schemas are written as its server wrote them: Go's protojson puts a space behind every comma of its
    output or behind none, as each build of the program has it.
    """
    found: Path = request.param
    tables = [read_table(file.read_bytes()) for file in (found / "namespace/_lakefs").iterdir() if len(file.name) == 64]
    schemas = [table.properties.get(b"schema_definition", b"") for table in tables]
    if not any(b", " in schema for schema in schemas):
        spaced = graveler_writer._schema_definition
        monkeypatch.setattr(graveler_writer, "_schema_definition", lambda entity: spaced(entity).replace(", ", ","))
    return found


@pytest.mark.golden
def test_recorded_tables_are_rewritten_byte_for_byte(recording: Path) -> None:
    folder = recording / "namespace" / "_lakefs"
    for file in folder.iterdir():
        if len(file.name) != 64:
            continue
        data = file.read_bytes()
        table = read_table(data)
        entity = table.properties.get(b"entity", b"").decode() or None
        if table.properties[b"type"] == b"ranges":
            written = write_range(table.records(), entity)
        else:
            rows = graveler.read_metarange(data).to_pylist()
            written = write_metarange([_range_info(folder, row) for row in rows], entity)
        assert (written.id, written.data) == (file.name, data)


def _range_info(folder: Path, row: dict[str, Any]) -> RangeInfo:
    """What a metarange must say about a range, the writer's size estimate taken from the range's own file."""
    properties = read_table((folder / row["range_id"]).read_bytes()).properties
    estimate = int(properties[b"estimated_size_bytes"])
    return RangeInfo(row["range_id"], row["min_key"], row["max_key"], row["count"], estimate)


@pytest.mark.golden
def test_recorded_references_and_commits_get_their_recorded_ids(recording: Path) -> None:
    calls = json.loads((recording / "api.json").read_text())
    refs = next(call["answer"]["refs"] for call in calls if "refs" in call["answer"])
    for entity, listing in (("branch", "branches"), ("tag", "tags")):
        pages = [call["answer"] for call in calls if call["path"].endswith(f"/{listing}")]
        named = {row["id"]: row["commit_id"] for page in pages for row in page["results"]}
        records = [(name.encode(), ref_value(name, named[name])) for name in sorted(named)]
        ranges = [table.info for table in write_ranges(records, entity=entity)]
        assert write_metarange(ranges, entity).id == refs[f"{listing}_meta_range_id"]
    for row in json.loads((recording / "commits.json").read_text()):
        commit = Commit(
            row["committer"],
            row["message"],
            row["creation_date"] * 10**9,
            row["meta_range_id"],
            tuple(row["parents"]),
            row["generation"],
            row["metadata"],
            row["version"],
        )
        assert commit.id == row["id"]


def _entry(text: str) -> Entry:
    return Entry(f"data/s/{text}", len(text), hashlib.md5(text.encode()).hexdigest(), 10**18)


def _entries(count: int, seed: int = 1) -> dict[str, Entry]:
    source = random.Random(seed)
    names = [f"table/dt={source.randrange(40):02d}/part-{source.randrange(10**9)}" for _ in range(count)]
    return {name: _entry(name) for name in names}


def _records(entries: dict[str, Entry]) -> list[tuple[bytes, bytes]]:
    return [(path.encode(), entries[path].value) for path in sorted(entries)]


def test_ranges_end_behind_the_keys_their_hash_picks() -> None:
    records = _records(_entries(2_000))
    tables = write_ranges(records, modulus=100)
    assert len(tables) > 5
    assert all(cuts_behind(table.info.max_key, 100) for table in tables[:-1])
    assert sum(cuts_behind(key, 100) for key, _ in records[:-1]) == len(tables) - 1
    assert [record for table in tables for record in read_table(table.data).records()] == records


def test_ranges_end_at_the_size_limit() -> None:
    tables = write_ranges(_records(_entries(2_000)), max_size=20_000)
    assert len(tables) > 3
    assert all(20_000 <= table.info.estimated_size < 26_000 for table in tables[:-1])


def test_large_ranges_get_a_two_level_index_and_read_back() -> None:
    records = _records(_entries(20_000))
    table = write_range(records)
    read = read_table(table.data)
    assert read.properties[b"rocksdb.block.based.table.index.type"] == bytes([2, 0, 0, 0])
    assert list(read.records()) == records
    assert identity(table.data) == table.id


def test_incompressible_and_huge_values_read_back() -> None:
    source = random.Random(3)
    records = [(b"%04d" % number, source.randbytes(source.choice([10, 900, 9_000]))) for number in range(99)]
    records.append((b"zeros", bytes(30_000)))
    writer = TableWriter()
    for key, value in records:
        writer.add(key, value)
    data, _ = writer.finish({"type": "ranges"})
    assert list(read_table(data).records()) == records


def test_records_must_come_in_order() -> None:
    writer = TableWriter()
    writer.add(b"b", b"")
    for key in (b"a", b"b"):
        with pytest.raises(ValueError, match="does not follow"):
            writer.add(key, b"")


def _tree_writer(modulus: int = 20) -> tuple[TreeWriter, dict[str, bytes]]:
    files: dict[str, bytes] = {}
    return TreeWriter(files.__setitem__, modulus, 20 << 20), files


def test_the_same_content_gives_the_same_tree_however_it_came_about() -> None:
    source = random.Random(5)
    writer, files = _tree_writer()
    tree, content = EMPTY_TREE, dict[str, Entry]()
    for step in range(40):
        added = _entries(source.randrange(30), seed=step)
        removed = source.sample(sorted(content), min(len(content), source.randrange(25)))
        changes: dict[str, Entry | None] = {**dict.fromkeys(removed), **added}
        tree = writer.apply(tree, changes)
        content = {path: entry for path, entry in content.items() if path not in changes} | added
        fresh = _tree_writer()[0].apply(EMPTY_TREE, content)
        assert tree.meta_range_id == fresh.meta_range_id
        assert dict(tree.items()) == content
        assert list(dict(tree.items())) == sorted(content)
    assert all(identity(data) == table_id for table_id, data in files.items())


def test_a_commit_rewrites_only_the_ranges_it_touches() -> None:
    writer, files = _tree_writer(modulus=50)
    old = writer.apply(EMPTY_TREE, _entries(1_000))
    before = set(files)
    new = writer.apply(old, {"table/dt=20/new": _entry("new")})
    assert len(old.segments) > 5
    assert 2 <= len(set(files) - before) <= 3  # the metarange, and one range, or two if the new key cuts it
    assert diff(old, new) == {"table/dt=20/new": _entry("new")}
    assert diff(new, old) == {"table/dt=20/new": None}


def test_trees_find_paths_and_start_anywhere() -> None:
    entries = _entries(500)
    tree = _tree_writer()[0].apply(EMPTY_TREE, entries)
    assert all(tree.get(path) == entry for path, entry in entries.items())
    assert tree.get("table/") is None
    assert tree.get("zzz") is None
    middle = sorted(entries)[250]
    assert [path for path, _ in tree.items(middle)] == sorted(entries)[250:]
    assert list(Tree().items()) == []


def test_names_carry_their_time() -> None:
    def at(text: str) -> float:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()

    names = Names(1)
    assert names.run_id(at("2024-10-28T12:01:12")).startswith("gcnobu")
    assert names.run_id(at("2024-10-27T13:19:56")).startswith("gcoca1")
    assert names.xid(int(at("2022-12-07T17:23:28"))).startswith("ce8co4")
    first = names.data_address(at("2022-12-07T17:23:28")).split("/")
    second = names.data_address(at("2022-12-07T17:59:00")).split("/")
    third = names.data_address(at("2022-12-07T18:01:00")).split("/")
    assert [len(part) for part in first] == [4, 20, 20]
    assert first[1] == second[1] > third[1]
    assert first[2] < second[2] < third[2]


def test_a_slice_takes_fifty_thousand_names() -> None:
    names = Names(1)
    slices = {names.data_address(1.7e9).split("/")[1] for _ in range(50_001)}
    assert len(slices) == 2
