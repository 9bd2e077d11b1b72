"""Tests mirror the packages: each module of the marks and of the stages has its own test file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
ROOMS = ["marks", *(f"stages/{file.parent.name}" for file in sorted(ROOT.glob("lakegc_core/stages/*/stage.py")))]
"""Below lakegc_core, those whose modules all have tests."""


def file_for(room: str, module: str) -> str:
    """Where the tests of a module lie, below tests/core. A stage's `stage.py` has the stage's name in it."""
    stage = f"{Path(room).name}_stage"
    return f"{room}/test_{stage if module == 'stage' else module}.py"


def modules(room: str) -> set[str]:
    return {file.stem for file in (ROOT / "lakegc_core" / room).glob("*.py")} - {"__init__"}


def test_the_rooms_are_those_of_the_package() -> None:
    assert len(ROOMS) == 7
    assert all(modules(room) for room in ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_has_its_test_file_and_every_test_file_its_module(room: str) -> None:
    expected = {file_for(room, module) for module in modules(room)}
    found = {file.relative_to(TESTS / "core").as_posix() for file in (TESTS / "core" / room).glob("test_*.py")}
    assert found == expected


@pytest.mark.parametrize("room", ROOMS)
def test_every_test_file_tests_something(room: str) -> None:
    files = [TESTS / "core" / file_for(room, module) for module in sorted(modules(room))]
    assert [file.name for file in files if "\ndef test_" not in file.read_text(encoding="utf-8")] == []


def test_names_of_test_files_are_told_apart() -> None:
    """pytest imports them by their names alone, whatever their folders."""
    names = Counter(file.name for file in TESTS.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
