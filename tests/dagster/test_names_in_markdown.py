"""What others may name stays text in the markdown of Dagster's UI."""

from __future__ import annotations

import pytest

from lakegc_dagster.failures import refused
from lakegc_dagster.metadata.shown import plain, table

WORST = "[all is well](https://evil.example) ![](https://evil.example/x.png) <b>`x` | y\n# heading\x1b[31m\u202e"


def test_a_name_in_markdown_makes_no_link_picture_code_or_cell_and_no_line() -> None:
    found = plain(WORST)
    assert "\n" not in found and found.isprintable()
    for mark in "[]<>`|":
        assert found.count(mark) == found.count(f"\\{mark}") > 0


@pytest.mark.parametrize("text", ["main=7 · 3 days", "min_age: 25h", "10% of 5 (a, b)"])
def test_ordinary_words_stay_as_they_are(text: str) -> None:
    assert plain(text) == text


def test_names_in_tables_and_refusals_cannot_break_them() -> None:
    shown = table(("folder",), [[WORST]]).value
    assert shown is not None and len(shown.split("\n")) == 3 and "[all" not in shown.replace("\\[", "")
    told = refused([WORST]).metadata["refusals"].value
    assert isinstance(told, str) and told.count("\n") == 0
