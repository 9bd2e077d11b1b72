"""Holds by path: which paths a glob holds, and which ranges can hold such a path."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.policy.holds import PathGlobs, fixed_prefix
from lakegc_core.stages.committed_addresses.held_paths import may_hold


def holds(glob: str, *paths: str) -> list[bool]:
    found: list[bool] = PathGlobs((glob,)).any(pa.array(paths)).to_pylist()
    return found


def ranges(*bounds: tuple[bytes, bytes]) -> pa.Table:
    return pa.table({"min_key": [first for first, _ in bounds], "max_key": [last for _, last in bounds]})


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
    assert holds(glob, path) == [held]


@given(st.text("ab/*?é", max_size=6), st.lists(st.text("ab/é", min_size=1, max_size=6), min_size=1, max_size=8))
def test_a_range_that_holds_a_held_path_is_always_read(glob: str, paths: list[str]) -> None:
    keys = sorted(path.encode() for path in paths)
    if any(holds(glob, *paths)):
        assert may_hold(ranges((keys[0], keys[-1])), fixed_prefix(glob)).to_pylist() == [True]


def test_a_range_beside_the_held_folder_is_not_read() -> None:
    bounds = (
        (b"a", b"k"),
        (b"m", b"z"),
        (b"a", b"z"),
        (b"legal/2", b"legal/3"),
        (b"l", b"l\xff"),
        (b"legal", b"legal"),
    )
    assert may_hold(ranges(*bounds), b"legal/").to_pylist() == [False, False, True, True, True, False]
    assert may_hold(ranges(*bounds), b"").to_pylist() == [True] * len(bounds)
