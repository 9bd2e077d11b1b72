"""How much of old commits one mark reads for paths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.past.ranges import CHOSEN_RANGES, CHOSEN_RANGES_SCHEMA, Budget
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.parts import parts_of


def chosen(folder: Path, entries: int, ranges: Mapping[str, tuple[int, int]]) -> tuple[list[str], int | None]:
    """The ranges that are taken, newest first, and until when. `ranges`: entries and moment by id."""
    out = DatasetFolder(LocalConfig(str(folder)), "work")
    rows: list[dict[str, Any]] = [
        {"range_id": name, "count": count, "commit_id": "c", "moment": moment, "cause": "", "by": "", "branch": ""}
        for name, (count, moment) in ranges.items()
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=CHOSEN_RANGES_SCHEMA)
    results = list(Budget(out, entries)(iter([batch])))
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
