"""How much of old commits one mark reads for paths, and what it reads where files are damaged or gone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.past import ranges as old_ranges
from lakegc_core.past.commits import PASTS_SCHEMA
from lakegc_core.past.ranges import CHOSEN_RANGES, CHOSEN_RANGES_SCHEMA, OldRanges, within_budget
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.ranges.range_files import RangeReader
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.parts import parts_of
from tests.support.lakefs_files import read_table
from tests.support.replays import GOLDEN


def chosen(folder: Path, entries: int, ranges: Mapping[str, tuple[int, int]]) -> tuple[list[str], int | None]:
    """The ranges that are taken, newest first, and until when. `ranges`: entries and moment by id."""
    out = DatasetFolder(LocalConfig(str(folder)), "work")
    rows: list[dict[str, Any]] = [
        {"range_id": name, "count": count, "commit_id": "c", "moment": moment, "cause": "", "by": "", "branch": ""}
        for name, (count, moment) in ranges.items()
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=CHOSEN_RANGES_SCHEMA)
    results = list(within_budget(out, entries, iter([batch])))
    ranges_taken = out.dataset(CHOSEN_RANGES, parts_of(results, [CHOSEN_RANGES])[CHOSEN_RANGES], CHOSEN_RANGES_SCHEMA)
    found = [name for each in ranges_taken.batches("range_id") for name in each.column(0).to_pylist()]
    (until,) = [result["complete_after"] for result in results if "complete_after" in result]
    return found, until


def test_the_newest_ranges_are_taken_until_the_entries_suffice(tmp_path: Path) -> None:
    ranges = {"a": (10, 1), "b": (10, 3), "c": (10, 2), "d": (10, 3)}
    assert chosen(tmp_path, 21, ranges) == (["b", "d", "c"], 1)
    assert chosen(tmp_path, 20, ranges) == (["b", "d"], 2)
    assert chosen(tmp_path, 10, ranges) == (["b"], 3)  # of the moment 3 not all is taken: nothing is done with
    assert chosen(tmp_path, 31, ranges) == (["b", "d", "c", "a"], None)


def test_a_range_that_is_larger_than_the_budget_is_taken_alone(tmp_path: Path) -> None:
    assert chosen(tmp_path, 5, {"a": (1000, 1), "b": (1000, 2)}) == (["b"], 1)
    assert chosen(tmp_path, 5, {}) == ([], None)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=8), st.integers(1, 30))
def test_whatever_is_newer_than_the_moment_it_names_is_taken(
    tmp_path_factory: Any, told: list[tuple[int, int]], entries: int
) -> None:
    ranges = {str(number): each for number, each in enumerate(told)}
    found, until = chosen(tmp_path_factory.mktemp("budget"), entries, ranges)
    assert bool(found) == bool(ranges), "a mark gets on"
    if until is None:
        assert set(found) == set(ranges)
        return
    assert {name for name, (_, moment) in ranges.items() if moment > until} <= set(found) != set(ranges)


PAST = {"commit_id": "c", "moment": 1, "cause": "deleted", "by": "", "branch": "main", "gone": None}
Rows = list[dict[str, Any]]


def damaged(file: Path) -> None:
    file.write_bytes(b"damaged")


@pytest.mark.parametrize("spoil", [damaged, Path.unlink], ids=["damaged", "gone"])
@pytest.mark.parametrize("together", [2, 1000])
def test_files_that_do_not_read_are_passed_over_and_all_others_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None], together: int
) -> None:
    monkeypatch.setattr(old_ranges, "_TOGETHER", together)
    folder = Path(shutil.copytree(GOLDEN / "many_ranges" / "namespace", tmp_path / "lake")) / "_lakefs"
    metaranges = {
        file.name: graveler.read_metarange(file.read_bytes())["range_id"].to_pylist()
        for file in sorted(folder.iterdir())
        if len(file.name) == 64 and read_table(file.read_bytes()).properties.get(b"type") == b"metaranges"
        if b"entity" not in read_table(file.read_bytes()).properties
    }
    ranges = sorted({each for found in metaranges.values() for each in found})
    entries = {each: graveler.read_range((folder / each).read_bytes(), paths=True).to_pylist() for each in ranges}
    assert len(metaranges) > 3 < len(ranges)
    for names in (metaranges, ranges):
        for each in list(names)[1:3]:
            spoil(folder / each)

    work = OldRanges(RangeReader(MetadataFiles(LocalConfig(str(tmp_path / "lake")), "_lakefs"), Namespace("s3://b/l")))
    read = _rows(work.ranges, [{"metarange_id": each, **PAST, "by": each} for each in metaranges], PASTS_SCHEMA)
    left = [each for number, each in enumerate(metaranges) if number not in (1, 2)]
    expected = [(each, range_id) for each in left for range_id in metaranges[each]]
    assert sorted((row["by"], row["range_id"]) for row in read) == sorted(expected)

    chosen = [{"range_id": each, "count": 1, **PAST, "by": each} for each in ranges]
    read = _rows(work.entries, chosen, CHOSEN_RANGES_SCHEMA)
    left = [each for number, each in enumerate(ranges) if number not in (1, 2)]
    shown = [(each, entry["address"], entry["path"].decode()) for each in left for entry in entries[each]]
    assert sorted((row["by"], row["address"], row["path"]) for row in read) == sorted(shown)


def _rows(read: Callable[..., Any], rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Rows:
    return [row for batch in read(iter([pa.RecordBatch.from_pylist(rows, schema=schema)])) for row in batch.to_pylist()]
