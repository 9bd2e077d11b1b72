"""Each range is read for the entries that are alike in it, however many ranges a task reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakegc_core.stages.expired_addresses.intervals import ALIKE_OR_SINGLE, RangePaths
from lakegc_core.store.local import LocalConfig
from lakegc_sandbox.files.graveler_writer import Entry, write_range

RANGES = 200


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
            {"range_id": table.id, "count": 3, "size": 10 * number + row, "rank": 1, "number": None} for row in sizes
        ]
        wanted[table.id] = (paths[0].encode(), paths[number % 2].encode(), 1 + number % 2)
    batches = pa.Table.from_pylist(rows, ALIKE_OR_SINGLE).to_batches(max_chunksize=70)
    work = RangePaths(LocalConfig(str(tmp_path)), "_lakefs")
    places = pa.Table.from_batches(work.places(iter(batches))).to_pylist()
    assert {each["range_id"]: (each["first"], each["last"], each["reach"]) for each in places} == wanted
