"""The floor that marks are measured against: it runs, and writes what it joins."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import floor


@pytest.mark.usefixtures("spark")
def test_the_floor_writes_two_datasets_and_joins_them(tmp_path: Path) -> None:
    floor.main(str(tmp_path))
    assert {each.name for each in (tmp_path / "floor").iterdir()} == {"all", "few"}
