"""What a tick does in its time, and where the next one goes on."""

from __future__ import annotations

import pytest

from lakegc_dagster.budget import Budget

ALWAYS, NEVER = Budget(float("inf")), Budget(float("-inf"))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (None, ["a", "b", "c"]),
        ("", ["a", "b", "c"]),
        ("a", ["b", "c", "a"]),
        ("c", ["a", "b", "c"]),
        ("bb", ["c", "a", "b"]),  # one that is gone
    ],
)
def test_each_has_one_turn_from_behind_the_last_one_on(after: str | None, expected: list[str]) -> None:
    assert list(ALWAYS.turns(["c", "a", "b"], after)) == expected


def test_a_tick_without_time_still_looks_at_one_and_so_gets_round() -> None:
    seen, last = [], None
    for _ in range(4):
        (last,) = NEVER.turns(["a", "b", "c"], last)
        seen.append(last)
    assert seen == ["a", "b", "c", "a"]


def test_nobody_has_no_turn() -> None:
    assert list(NEVER.turns([], "a")) == []
