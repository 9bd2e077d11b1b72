"""What sweeps report of delays, and what has waited longest and why, is told in words that fit."""

from __future__ import annotations

from typing import Any

import pytest

from lakegc_core.views.waits import delay_lines, last_delay, of_sweep, oldest_in_words, oldest_of
from tests.support.pages import mark, sweep

LONG_AGO, FAR_OFF = "2026-11-02T02:00:00.000Z", "2999-01-01T00:00:00.000Z"
DELAY = {"objects": 4, "p50": 25 * 3600.0, "p99": 3.5 * 86_400}


def swept(outcome: str | None, day: int | None = 3, **more: Any) -> dict[str, Any]:
    oldest = outcome and {"since": LONG_AGO, "address": "data/a\x1b", "outcome": outcome}
    return sweep(day, 100) | {"oldest": oldest, "delay": DELAY, "broke_off": day is None, "at_work": None} | more


def waiting(*sweeps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return mark(2, 200, *sweeps) | {"garbage_since": LONG_AGO, "sweepable_from": LONG_AGO, "refused": []} | more


@pytest.mark.parametrize(
    ("found", "why", "said"),
    [
        (waiting(), "unswept", "not swept yet"),
        (waiting(sweepable_from=FAR_OFF), "gap", "not unreferenced for long enough yet"),
        (waiting(refused=[{"name": "shrink"}], sweepable_from=FAR_OFF), "guard", "a guard refuses the sweep"),
        (waiting(swept(None, None)), "broke_off", "a sweep broke off"),
        (waiting(swept(None, None, at_work="vm, process 7")), "at_work", "a sweep is at work"),
        (waiting(swept("held"), swept("over_budget")), "over_budget", "the budget kept it back"),
        (waiting(swept("left")), "left", "a ring stopped the sweep, or it was closed"),
        (waiting(swept("failed:AccessDenied")), "failed:AccessDenied", "its delete failed (AccessDenied)"),
        (waiting(swept("refused:foreign")), "refused:foreign", "the sweep does not take it (foreign)"),
    ],
)
def test_what_waits_longest_is_there_for_the_reason_that_the_last_sweep_or_the_mark_gives(
    found: dict[str, Any], why: str, said: str
) -> None:
    oldest = oldest_of(found)
    assert oldest and (oldest["why"], oldest["since"]) == (why, LONG_AGO)
    words = oldest_in_words(oldest)
    assert words.startswith("oldest garbage: unreferenced since 2026-11-02 02:00 UTC") and said in words
    assert words.isprintable() and ("data/a" in words) is (oldest["address"] is not None)


def test_nothing_waits_after_a_sweep_that_left_nothing_and_before_there_is_garbage() -> None:
    assert oldest_of(waiting(swept(None))) is None and oldest_in_words(None) == ""
    assert oldest_of(waiting(expired=0)) is None
    young = oldest_of(waiting(expired=0, first_young={"deletable_from": FAR_OFF}))
    assert young == {"since": None, "address": None, "why": "young"} and oldest_in_words(young) == ""


def test_a_report_of_an_older_version_tells_no_delay_and_no_oldest_object() -> None:
    assert (
        of_sweep({"outcomes": {"deleted": 4}})
        == of_sweep({"delay": {}, "oldest": {}})
        == {"delay": None, "oldest": None}
    )
    older = waiting(sweep(3, 100) | of_sweep({}) | {"broke_off": False})
    assert (delay_lines(older), oldest_of(older), last_delay([older])) == ([], None, None)


def test_each_sweep_has_a_line_and_the_last_one_that_deleted_anything_is_the_newest() -> None:
    newest = {"objects": 1, "p50": 60.0, "p99": 60.0}
    marks = [waiting(swept(None, 9, delay=newest), swept(None, 10, delay=None)), waiting(swept(None, 8))]
    assert last_delay(marks) == newest
    assert delay_lines(marks[1]) == [
        "      sweep 1: unreferenced until the delete: half up to 25h, 99 % up to 3.5 days"
    ]
