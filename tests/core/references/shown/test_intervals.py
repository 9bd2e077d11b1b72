"""Each range is read for the entries that are alike in it, however many ranges a task reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.shown.intervals import ALL, AWAY, CHOSEN, OF_TAG, RangePaths
from lakegc_core.store.local import LocalConfig
from lakegc_sandbox.files.graveler_writer import FULL, Entry, write_range

RANGES = 200
NAMESPACE = Namespace("s3://bucket/lake")


def test_of_many_ranges_each_is_read_for_its_own_sizes(tmp_path: Path) -> None:
    rows, wanted = [], {}
    (tmp_path / "_lakefs").mkdir()
    for number in range(RANGES):
        paths = [f"table/{number:05}/{row}" for row in range(3)]
        entries = [Entry(f"data/{path}", 10 * number + row, f"{number}-{row}") for row, path in enumerate(paths)]
        table = write_range([(path.encode(), entry.value) for path, entry in zip(paths, entries, strict=True)])
        (tmp_path / "_lakefs" / table.id).write_bytes(table.data)
        sizes = range(1 + number % 2)  # of some ranges one entry is alike, of others two are
        rows += [
            {"range_id": table.id, "count": 3, "size": 10 * number + row, "rank": 1, "which": ALL} for row in sizes
        ]
        wanted[table.id] = (paths[0].encode(), paths[number % 2].encode(), 1 + number % 2)
    batches = pa.Table.from_pylist(rows, CHOSEN).to_batches(max_chunksize=70)
    work = RangePaths(MetadataFiles(LocalConfig(str(tmp_path)), "_lakefs"), NAMESPACE)
    places = pa.Table.from_batches(work.places(iter(batches))).to_pylist()
    assert {each["range_id"]: (each["first"], each["last"], each["reach"]) for each in places} == wanted


def test_of_the_entries_of_one_size_those_are_chosen_that_claim_a_tag_or_may_lie_elsewhere(tmp_path: Path) -> None:
    paths = [f"{row:04}" for row in range(5_000)]
    odd = {1: Entry("data/a", 7, "b" * 32), 2_500: Entry("data/b", 8, "b" * 32)}
    odd[4_000] = Entry("s3://other/c", 7, "c" * 32, address_type=FULL)
    entries = [odd.get(row, Entry(f"data/{path}", 7, "a" * 32)) for row, path in enumerate(paths)]
    table = write_range([(path.encode(), entry.value) for path, entry in zip(paths, entries, strict=True)])
    (tmp_path / "_lakefs").mkdir()
    (tmp_path / "_lakefs" / table.id).write_bytes(table.data)
    work = RangePaths(MetadataFiles(LocalConfig(str(tmp_path)), "_lakefs"), NAMESPACE)
    of_tag = {"range_id": table.id, "count": 5_000, "size": 7, "rank": 3, "which": OF_TAG, "e_tag": "b" * 32}
    away = of_tag | {"which": AWAY, "e_tag": None}

    def found(*rows: dict[str, object]) -> list[tuple[bytes, int]]:
        places = pa.Table.from_batches(work.places(iter(pa.Table.from_pylist(list(rows), CHOSEN).to_batches())))
        return [(each["first"], each["rank"]) for each in places.to_pylist()]

    assert found(of_tag) == [(b"0001", 3)]
    assert found(away) == [(b"4000", 3)]
    assert found(of_tag, away | {"rank": 2}, of_tag | {"size": 8}) == [(b"0001", 3), (b"2500", 3), (b"4000", 2)]
