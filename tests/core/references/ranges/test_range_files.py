"""Metadata files are read some at a time: what comes of that is what each of them gives alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks import metadata_files
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.ranges import range_files
from lakegc_core.references.ranges.range_files import INDEX, METARANGES_SCHEMA, RANGES, RangeReader, RangeWriter
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.hashing import hash_strings, sum_of
from tests.support.lakefs_files import read_table
from tests.support.replays import GOLDEN

RECORDING = GOLDEN / "many_ranges" / "namespace"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """The folder of a recorded namespace."""
    return Path(shutil.copytree(RECORDING, tmp_path / "lake"))


@pytest.fixture(params=[1, 100_000, 1 << 30], ids=["one at a time", "some", "all"])
def together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_files, "_TOGETHER_BYTES", request.param)


def work_on(lake: Path) -> RangeWriter:
    home = LocalConfig(str(lake))
    reader = RangeReader(MetadataFiles(home, "_lakefs"), Namespace("s3://bucket/lake"))
    return RangeWriter(reader, DatasetFolder(home, "here"), "m1")


def metaranges_of(lake: Path) -> dict[str, list[dict[str, object]]]:
    """What each metarange of commits says, read one by one."""
    found = {}
    for file in sorted((lake / "_lakefs").iterdir()):
        properties = read_table(file.read_bytes()).properties if len(file.name) == 64 else {}
        if properties.get(b"type") == b"metaranges" and b"entity" not in properties:
            found[file.name] = graveler.read_metarange(file.read_bytes()).to_pylist()
    assert len(found) > 1
    return found


def rows_wanted(said: dict[str, list[dict[str, object]]]) -> pa.RecordBatch:
    ranges = {str(row["range_id"]): row for rows in said.values() for row in rows}
    return pa.RecordBatch.from_pylist([row | {"references": 1} for row in ranges.values()])


def read_parts(lake: Path, dataset: str = "") -> list[dict[str, object]]:
    return [
        row for file in sorted((lake / "here" / dataset).glob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]


def some_ids(said: dict[str, list[dict[str, object]]]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"metarange_id": list(said)})])


@pytest.mark.usefixtures("together")
def test_metaranges_give_one_row_that_counts_and_one_row_a_range(lake: Path) -> None:
    said = metaranges_of(lake)
    batches = list(work_on(lake).reader.metaranges(some_ids(said)))
    assert all(batch.schema == METARANGES_SCHEMA for batch in batches)
    found: dict[str, list[dict[str, object]]] = {name: [] for name in said}
    for row in pa.Table.from_batches(batches).to_pylist():
        found[row.pop("metarange_id")].append(row)
    for name, rows in said.items():
        ids = pa.array([row["range_id"] for row in rows], pa.string())
        checksum = sum_of(hash_strings(ids))
        (own,) = [row for row in found[name] if row["range_id"] == ""]
        assert (own["count"], own["checksum"] % 2**64) == (len(rows), checksum)  # type: ignore[operator]
        assert [row for row in found[name] if row["range_id"]] == [row | {"checksum": 0} for row in rows]


@pytest.mark.usefixtures("together")
def test_ranges_give_the_rows_of_each_and_their_index(lake: Path) -> None:
    wanted = rows_wanted(metaranges_of(lake))
    assert list(work_on(lake).ranges(iter([wanted])))
    expected = []
    for name in wanted["range_id"].to_pylist():
        for entry in graveler.read_range((lake / "_lakefs" / name).read_bytes()).to_pylist():
            assert entry.pop("address_type") == 1
            expected.append({"range_id": name, "exact": True} | entry)
    rows = read_parts(lake)
    assert sorted(rows, key=str) == sorted(({key: row[key] for key in rows[0]} for row in expected), key=str)
    hashes = hash_strings(pa.array([row["address"] for row in rows])).tolist()
    indexed = [(row["range_id"], row["hash"]) for row in read_parts(lake, INDEX)]
    assert indexed == [(row["range_id"], hashed) for row, hashed in zip(rows, hashes, strict=True)]
    assert {row["range_id"]: row["count"] for row in read_parts(lake, RANGES)} == dict(
        zip(wanted["range_id"].to_pylist(), wanted["count"].to_pylist(), strict=True)
    )


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("place", [0, -1])
def test_the_file_that_is_damaged_is_named_whatever_was_read_with_it(lake: Path, place: int) -> None:
    said = metaranges_of(lake)
    wanted = rows_wanted(said)
    for kind, name in (("Metarange", list(said)[place]), ("Range", wanted["range_id"].to_pylist()[place])):
        file = lake / "_lakefs" / name
        whole = file.read_bytes()
        file.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
        with pytest.raises(CorruptFileError, match=f"^{kind} {name}: .*checksum"):
            if kind == "Range":
                list(work_on(lake).ranges(iter([wanted])))
            else:
                list(work_on(lake).reader.metaranges(some_ids(said)))
        file.write_bytes(whole)
    assert list(work_on(lake).ranges(iter([wanted])))


@pytest.mark.usefixtures("together")
def test_a_range_holds_what_its_file_says_whatever_its_metarange_says(lake: Path) -> None:
    rows = rows_wanted(metaranges_of(lake)).to_pylist()
    held = {row["range_id"]: row["count"] for row in rows}
    wrong = [row | {"count": 7, "min_key": b"y", "max_key": b"z"} for row in rows]
    list(work_on(lake).ranges(iter([pa.RecordBatch.from_pylist(wrong)])))
    assert len(read_parts(lake)) == sum(held.values())
    assert {row["range_id"]: row["count"] for row in read_parts(lake, RANGES)} == held


@pytest.mark.usefixtures("together")
def test_two_files_that_were_exchanged_are_told_by_their_ids(lake: Path) -> None:
    said = metaranges_of(lake)
    first, second = (lake / "_lakefs" / name for name in list(said)[:2])
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    with pytest.raises(CorruptFileError, match=f"^Metarange {first.name}: .*it is not that file"):
        list(work_on(lake).reader.metaranges(some_ids(said)))


class _Meeting(LocalStore):
    """A store whose reads wait for one another: none answers until two have been asked for."""

    met = Barrier(2)

    def read(self, key: str) -> bytes:
        self.met.wait(timeout=120)
        return super().read(key)


class _Counting(LocalStore):
    """A store that counts what it is asked for."""

    asked = 0

    def read(self, key: str) -> bytes:
        self.asked += 1
        return super().read(key)


def test_files_are_asked_for_side_by_side(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = rows_wanted(metaranges_of(lake)).slice(0, 4)
    assert len(wanted) == 4
    monkeypatch.setattr(metadata_files, "connect", lambda config: _Meeting(config))
    assert list(work_on(lake).ranges(iter([wanted])))


def test_of_large_files_few_are_on_their_way(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _Counting(LocalConfig(str(lake)))
    monkeypatch.setattr(metadata_files, "connect", lambda config: store)
    told = rows_wanted(metaranges_of(lake))["range_id"].to_pylist() * 5
    for bytes_in_flight, most in ((0, 1), (1 << 40, range_files._IN_FLIGHT)):
        monkeypatch.setattr(range_files, "_BYTES_IN_FLIGHT", bytes_in_flight)
        ahead, store.asked = [], 0
        for given, (each, data) in enumerate(work_on(lake).reader.fetched(told)):
            assert each is told[given] and data == (lake / "_lakefs" / each).read_bytes()
            ahead.append(store.asked - given - 1)
        assert len(ahead) == len(told) and max(ahead[2:]) <= most - 1 + (most > 1)


@pytest.mark.parametrize("bytes_in_flight", [0, 1 << 40])
def test_a_file_that_is_missing_is_an_error_whatever_is_on_its_way(
    lake: Path, monkeypatch: pytest.MonkeyPatch, bytes_in_flight: int
) -> None:
    monkeypatch.setattr(range_files, "_BYTES_IN_FLIGHT", bytes_in_flight)
    wanted = rows_wanted(metaranges_of(lake))
    name = wanted["range_id"].to_pylist()[len(wanted) // 2]
    assert list(work_on(lake).ranges(iter([wanted])))
    (lake / "_lakefs" / name).unlink()
    with pytest.raises(
        ObjectNotFoundError, match=f"Range {name}.* Bring .*_lakefs/{name} back from a version or a backup"
    ):
        list(work_on(lake).ranges(iter([wanted])))
