"""Which entries of heads are alike a candidate: every size of a range counts, and counts once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.references.shown import alike

_ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.sampled_from(["m1", "m2"])))


@given(st.lists(_ROWS, max_size=4), st.sampled_from([1, 3, alike._ROWS_TOGETHER]))
def test_no_size_of_a_range_gets_lost_where_repeated_ones_go(
    batches: list[list[tuple[str, int, str]]], together: int
) -> None:
    given_rows = [
        pa.RecordBatch.from_pylist([dict(zip(alike._HITS.names, row, strict=True)) for row in rows], schema=alike._HITS)
        for rows in batches
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alike, "_ROWS_TOGETHER", together)
        found = [
            tuple(row.values()) for batch in alike._distinct(alike._HITS, iter(given_rows)) for row in batch.to_pylist()
        ]
    every = {row for rows in batches for row in rows}
    assert set(found) == every
    if together == alike._ROWS_TOGETHER:
        assert len(found) == len(every), "what batches have in common goes on once"
    assert len(found) <= sum(len(set(rows)) for rows in batches)
