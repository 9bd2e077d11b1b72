"""What the last marking stage compares a mark with, and how it puts rows where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.stages.expired_addresses.stage import _previous
from tests.support.old_marks import Made, maker


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return maker(tmp_path)


def test_a_mark_that_had_shrunk_is_no_measure_for_the_next_one_until_it_is_swept(made: Made) -> None:
    """Otherwise a short answer of the server, given twice, would pass the guard the second time."""
    made("m1", 0)
    first = _previous(made("none", 0.5, stages=0))
    assert first and first.mark_id == "m1"
    short = made("m2", 1, live=10, previous=first)
    assert _previous(made("m3", 2, stages=0)) == first
    short.mark.store.write(f"{short.mark.folder}/sweeps/1/plan.json", b"{}")  # somebody has accepted it
    found = _previous(made("m4", 3, stages=0))
    assert found and found.mark_id == "m2"
