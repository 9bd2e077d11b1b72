"""Tests mirror the packages: each module of the marks and of the rooms that collect has its own test file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
ROOMS = (
    "marks",
    "inventory",
    "references",
    "references/commits",
    "references/ranges",
    "references/shown",
    "past",
    "judging",
    "sweep",
    "doctor",
)
"""Below lakegc_core, those whose modules all have tests."""


def files_for(room: str, module: str) -> set[str]:
    """Where the tests of a module may lie, below tests/core: the room's name may stand before the module's."""
    return {f"{room}/test_{module}.py", f"{room}/test_{Path(room).name}_{module}.py"}


def modules(room: str) -> set[str]:
    return {file.stem for file in (ROOT / "lakegc_core" / room).glob("*.py")} - {"__init__"}


def test_the_rooms_are_those_of_the_package() -> None:
    assert all(modules(room) for room in ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_has_its_test_file_and_every_test_file_its_module(room: str) -> None:
    found = {file.relative_to(TESTS / "core").as_posix() for file in (TESTS / "core" / room).glob("test_*.py")}
    assert [module for module in sorted(modules(room)) if len(files_for(room, module) & found) != 1] == []
    assert found - set().union(*(files_for(room, module) for module in modules(room))) == set()


@pytest.mark.parametrize("room", ROOMS)
def test_every_test_file_tests_something(room: str) -> None:
    files = (TESTS / "core" / room).glob("test_*.py")
    assert [file.name for file in files if "\ndef test_" not in file.read_text(encoding="utf-8")] == []


def test_names_of_test_files_are_told_apart() -> None:
    """pytest imports them by their names alone, whatever their folders."""
    names = Counter(file.name for file in TESTS.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
