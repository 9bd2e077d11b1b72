"""SAFETY.md says what the tests show: its tables and the tests of interleavings name each other, and every guard."""

from __future__ import annotations

import re
from pathlib import Path

from lakegc_core.policy.guards import GUARDS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SAFETY.md").read_text(encoding="utf-8")
ROW = re.compile(r"^@stopped_by\(\w+\)\ndef (test_\w+)\(", re.MULTILINE)
FILES = sorted((ROOT / "tests" / "interleavings").glob("test_*.py"))


def _rows() -> dict[str, str]:
    """The last cell of each row that names a test, and the section's heading."""
    found, heading = {}, ""
    for line in TEXT.splitlines():
        if line.startswith("### "):
            heading = line
        if match := re.search(r"\| `(test_\w+)` \|$", line):
            found[match[1]] = heading
    return found


def test_every_test_in_the_table_exists_in_the_file_that_its_heading_names() -> None:
    for name, heading in _rows().items():
        files = [file.name for file in FILES if f"def {name}(" in file.read_text(encoding="utf-8")]
        assert len(files) == 1, name
        assert files[0] in heading, name


def test_every_interleaving_that_is_tested_stands_in_the_table() -> None:
    tested = {name for file in FILES for name in ROW.findall(file.read_text(encoding="utf-8"))}
    assert len(tested) > 50
    assert tested - set(_rows()) == set()


def test_every_guard_stands_in_the_table_with_whether_it_may_be_accepted() -> None:
    section = TEXT.partition("## The guards")[2].partition("\n### ")[0]
    found = dict(re.findall(r"^\| `([\w-]+)` \| .* \| (yes|no) \|$", section, re.MULTILINE))
    assert found == {guard.name: "yes" if guard.may_be_accepted else "no" for guard in GUARDS}


def test_each_row_of_what_others_may_write_names_a_test_that_exists() -> None:
    section = TEXT.partition("## What others may write")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    named = re.findall(r"\| `(test_\w+\.py)`: `(test_\w+)` \|$", section, re.MULTILINE)
    assert len(named) == len(rows) > 25
    for file, test in named:
        found = [path for path in (ROOT / "tests").rglob(file) if f"def {test}(" in path.read_text(encoding="utf-8")]
        assert len(found) == 1, f"{file}: {test}"
