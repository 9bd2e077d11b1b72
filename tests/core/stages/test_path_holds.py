"""Holds by path: which paths a glob holds, and which ranges can hold such a path."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.stages.path_holds import _may_hold, fixed_prefix, path_pattern


@pytest.mark.parametrize(
    ("glob", "path", "held"),
    [
        ("legal/**", "legal/a", True),
        ("legal/**", "legal/2024/a.pdf", True),
        ("legal/**", "legalese/a", False),
        ("legal/*", "legal/a", True),
        ("legal/*", "legal/2024/a.pdf", False),
        ("**/contract.pdf", "a/b/contract.pdf", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a+b(1).csv", "a+b(1).csv", True),
        ("exact", "exact", True),
        ("exact", "exactly", False),
    ],
)
def test_a_glob_holds_what_people_expect(glob: str, path: str, held: bool) -> None:
    assert bool(re.search(path_pattern(glob), path)) is held


@given(st.text("ab/*?", max_size=6), st.lists(st.text("ab/", min_size=1, max_size=6), min_size=1, max_size=8))
def test_a_range_that_holds_a_held_path_is_always_read(glob: str, paths: list[str]) -> None:
    keys = sorted(path.encode() for path in paths)
    held = [path for path in paths if re.search(path_pattern(glob), path)]
    if held:
        assert _may_hold(keys[0], keys[-1], fixed_prefix(glob))


def test_a_range_beside_the_held_folder_is_not_read() -> None:
    assert not _may_hold(b"a", b"k", b"legal/")
    assert not _may_hold(b"m", b"z", b"legal/")
    assert _may_hold(b"a", b"z", b"legal/")
    assert _may_hold(b"legal/2", b"legal/3", b"legal/")
