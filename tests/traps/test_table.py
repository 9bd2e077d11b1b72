"""The table of traps (README.md here) and the tests agree."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
TRAPS = {f"{number:02}" for number in range(1, 52)}


def named_tests() -> set[str]:
    """Every test that is named after a trap, as `path::name`; the path is relative to `tests`."""
    return {
        f"{file.relative_to(TESTS).as_posix()}::{node.name}"
        for file in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and re.match(r"test_t[0-9]", node.name)
    }


def table() -> dict[str, list[str]]:
    """The tests that the table names, by the number of their trap."""
    rows = re.findall(r"^\| T([0-9]{2}) \| [^|]+ \| (.+) \|$", (TESTS / "traps/README.md").read_text("utf-8"), re.M)
    assert len(rows) == len(TRAPS), "one row a trap"
    return {number: re.findall(r"`([^`]+)`", tests) for number, tests in rows}


def test_every_trap_has_a_row_and_every_row_a_test() -> None:
    found = table()
    assert found.keys() == TRAPS
    assert all(found.values())


def test_every_named_test_exists_and_every_test_of_a_trap_is_named() -> None:
    told = [test for tests in table().values() for test in tests]
    assert len(told) == len(set(told))
    assert set(told) == named_tests()


def test_every_test_stands_for_the_trap_it_is_named_after() -> None:
    for number, tests in table().items():
        for test in tests:
            assert f"::test_t{number}_" in test
