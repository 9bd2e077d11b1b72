"""Globs against matchers that are slow and obvious, and what one pattern means that others mean too."""

from __future__ import annotations

import fnmatch
import itertools
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.policy.globs import as_texts, matches, means_only, name_glob, path_glob
from lakegc_core.policy.holds import PathGlobs, matching_names

BYTES = st.binary(max_size=6) | st.text("ab/é\n\U0001f600\udcff", max_size=6).map(
    lambda text: text.encode("utf-8", "surrogateescape")
)


def means(glob: str, path: str) -> bool:
    """The slow matcher of paths, letter by letter."""

    @cache
    def rest(of_glob: int, of_path: int) -> bool:
        if of_glob == len(glob):
            return of_path == len(path)
        letter = path[of_path : of_path + 1]
        if glob.startswith("**", of_glob):
            return rest(of_glob + 2, of_path) or (letter != "" and rest(of_glob, of_path + 1))
        in_folder = letter not in ("", "/")
        if glob[of_glob] == "*":
            return rest(of_glob + 1, of_path) or (in_folder and rest(of_glob, of_path + 1))
        if glob[of_glob] == "?":
            return in_folder and rest(of_glob + 1, of_path + 1)
        return glob[of_glob] == letter and rest(of_glob + 1, of_path + 1)

    return rest(0, 0)


def held(glob: str, *paths: bytes) -> list[bool]:
    found: list[bool] = PathGlobs((glob,)).any(pa.array(paths, pa.binary())).to_pylist()
    return found


@given(st.text("ab/*?é\n[.\udcff", max_size=7), st.lists(BYTES, min_size=1, max_size=8))
def test_globs_of_paths_mean_what_a_slow_matcher_says(glob: str, paths: list[bytes]) -> None:
    assert held(glob, *paths) == [means(glob, path.decode("utf-8", "surrogateescape")) for path in paths]


@given(st.text("ab-]![*?é\n^\\", max_size=8), st.lists(st.text("ab-]!é\n^\\/", max_size=5), min_size=1, max_size=8))
def test_patterns_of_names_mean_what_a_shell_says(pattern: str, names: list[str]) -> None:
    assert matching_names(pattern, names) == [fnmatch.fnmatchcase(name, pattern) for name in names]


@pytest.mark.parametrize(
    ("glob", "path", "is_meant"),
    [
        ("a?c", "aéc".encode(), True),  # one character, of two bytes
        ("a??c", "aéc".encode(), False),
        ("a?c", b"a\xffc", True),  # a byte that is no UTF-8 is one character
        ("a??c", b"a\xe2\x82c", True),  # … each byte of a cut one
        ("legal/**", b"legal/a\xff/\nb", True),
        ("legal/**", b"legal/a\nb/c", True),
        ("legal/*", b"legal/a\nb", True),
        ("a?b", b"a\nb", True),
        ("legal/*", b"legal/a\nb/c", False),
        ("a", b"a\n", False),
        ("a", b"b\na", False),
        ("[a]", b"[a]", True),  # people have such files
        ("[a]", b"a", False),
        ("", b"", True),
    ],
)
def test_wildcards_are_of_characters_and_newlines_are_some(glob: str, path: bytes, is_meant: bool) -> None:
    assert held(glob, path) == [is_meant]
    assert held(glob, path, b"other \xff") == [is_meant, means(glob, "other \udcff")]


def test_many_stars_are_no_trouble() -> None:
    assert held("**a" * 40 + "b", b"a" * 5_000) == [False]


PATTERNS = st.text("ab*?", max_size=4) | st.sampled_from(["[ab]*", "[!a]", "b[a-b]*", "[b-a]", "*[!b]"])
WORDS = ["".join(word) for size in range(8) for word in itertools.product("abc", repeat=size)]


@given(PATTERNS, st.lists(PATTERNS, max_size=3))
def test_a_pattern_means_only_what_others_mean_where_no_word_says_otherwise(pattern: str, others: list[str]) -> None:
    words = as_texts(pa.array(WORDS))
    mine = matches(name_glob(pattern), words).to_pylist()
    theirs = [matches(name_glob(other), words).to_pylist() for other in others]
    escapes = any(own and not any(row) for own, *row in zip(mine, *theirs, strict=True))
    assert means_only(name_glob(pattern), [name_glob(other) for other in others]) is not escapes


def test_patterns_that_are_not_compared_to_the_end_count_as_different() -> None:
    endless = name_glob("*a" + "?" * 40)
    assert not means_only(endless, [name_glob("*b" + "?" * 30), name_glob("*a" + "?" * 39)])


@given(st.text("ab/*?\n", max_size=6))
def test_a_glob_of_paths_means_only_itself(glob: str) -> None:
    assert means_only(path_glob(glob), [path_glob(glob)])
