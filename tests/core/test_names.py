"""Names and words that all rooms share."""

from __future__ import annotations

import pytest

from lakegc_core.names import counted


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (0, ("tag",), "0 tags"),
        (1, ("tag",), "1 tag"),
        (1_200, ("tag",), "1,200 tags"),
        (1, ("branch", "branches"), "1 branch"),
        (2, ("branch", "branches"), "2 branches"),
    ],
)
def test_a_number_of_things_is_told_in_the_singular_if_it_is_one(
    number: int, words: tuple[str, ...], told: str
) -> None:
    assert counted(number, *words) == told
