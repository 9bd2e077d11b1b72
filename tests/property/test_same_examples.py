"""What Hypothesis draws depends on seeds and strategies alone, so that every worker tries the same examples."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.support.histories import drawn


def test_a_history_is_the_same_whatever_else_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [drawn(number) for number in range(60)]
    (tmp_path / "full_of_numbers.py").write_text(f"NUMBERS = {list(range(500))}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("full_of_numbers")
    assert [drawn(number) for number in range(60)] == before
