"""Holds: which are understood, and what is said of those that could hold nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakegc_core.policy.holds import PathGlobs, fixed_prefix, patterns_of, problem_of

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "hold",
    [
        "tag:v*",
        "tag:release/1.0",
        "branch:main",
        "branch:[a-m]*",
        f"commit:{ID}",
        "commit:9f2c",
        "path:legal/**",
        "path:**/a b.csv",
        "path:a:b",
        "path:é/?",
    ],
)
def test_what_can_hold_something_is_a_hold(hold: str) -> None:
    assert problem_of(hold) is None


@pytest.mark.parametrize(
    ("hold", "says"),
    [
        ("path:/legal/**", "write 'path:legal/**'"),
        ("path:legal/", "write 'path:legal/**'"),
        ("path:/", "write 'path:**'"),
        ("path:", "is no hold"),
        ("path:  ", "is no hold"),
        ("tag: v1", "write 'tag:v1'"),
        ("branch:main ", "write 'branch:main'"),
        (" tag:v1", "is no hold"),
        (f"commit:{ID.upper()}", "ids of commits are lower-case"),
        ("commit:9F2C", "write 'commit:9f2c'"),
        (f"commit:{ID}0", "an id is up to 64 digits of 0-9a-f"),
        ("commit:main", "no id of a commit"),
        ("commit:9f2c*", "no id of a commit"),
        ("path:a\ud800", "a character that no name has"),
        ({"path": "a"}, "is no hold"),
    ],
)
def test_what_can_hold_nothing_is_told_with_what_to_write(hold: object, says: str) -> None:
    assert says in str(problem_of(hold))


def test_the_patterns_of_a_kind_are_told_apart() -> None:
    holds = ["path:b", "tag:path:x", "path:a", "path:b", "commit:9"]
    assert patterns_of(holds, "path") == ("a", "b")
    assert patterns_of(holds, "tag") == ("path:x",)


def test_the_fixed_prefix_of_a_glob_is_of_bytes() -> None:
    assert fixed_prefix("é/a*b") == b"\xc3\xa9/a"
    assert fixed_prefix("a\udcff?") == b"a\xff"
    assert fixed_prefix("**") == b""


def holds(glob: str, *paths: str) -> list[bool]:
    found: list[bool] = PathGlobs((glob,)).any(pa.array(paths)).to_pylist()
    return found


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
