"""Figures and dates in words."""

from __future__ import annotations

import subprocess

import pytest

from lakegc_core.views.words import (
    ago,
    argument,
    counted,
    day,
    day_and_time,
    human_bytes,
    kept_by,
    monthly,
    shown,
    yearly,
)

EUR = {"per_gb_month": 0.02, "currency": "EUR"}


@pytest.mark.parametrize(
    ("instant", "written"),
    [
        ("2026-11-23T16:30:59.999Z", "23 November 2026, 16:30 UTC"),
        ("2026-01-02T00:05:00.000Z", "2 January 2026, 00:05 UTC"),
        ("2026-12-31T23:30:00-01:00", "1 January 2027, 00:30 UTC"),
    ],
)
def test_dates_are_written_as_people_write_them_whatever_the_machine_speaks(instant: str, written: str) -> None:
    assert day_and_time(instant) == written
    assert day(instant) == written.partition(",")[0]


def test_an_age_is_said_in_hours_for_two_days_and_then_in_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", "1795451400")  # 2026-11-23T16:30
    assert ago("2026-11-23T16:29:45.000Z") == "less than a minute ago"
    assert ago("2026-11-23T16:29:00.000Z") == "1 minute ago"
    assert ago("2026-11-23T15:31:00.000Z") == "59 minutes ago"
    assert ago("2026-11-23T15:30:00.000Z") == "1 hour ago"
    assert ago("2026-11-21T17:30:00.000Z") == "47 hours ago"
    assert ago("2026-11-20T16:30:00.000Z") == "3 days ago"


@pytest.mark.parametrize(
    ("size", "written"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (10**18, "1000.0 PB")],
)
def test_bytes_never_read_as_a_thousand_of_a_unit_that_has_a_larger_one(size: int, written: str) -> None:
    assert human_bytes(size) == written


def test_money_is_of_a_month_or_of_twelve_and_none_is_said_without_a_price() -> None:
    assert monthly(10**11, EUR) == "about 2.00 EUR a month" and yearly(10**11, EUR) == "about 24.00 EUR a year"
    assert monthly(10**8, EUR) == "less than 0.01 EUR a month" and yearly(10**9, EUR) == "about 0.24 EUR a year"
    assert monthly(10**9, None) == yearly(0, EUR) == ""


def test_what_keeps_commits_is_said_in_words_and_not_in_those_of_the_artifacts() -> None:
    assert kept_by({"kept_by": {"rules": 1_200, "head": 2}}) == "2 by head, 1,200 by rules"
    assert kept_by({"kept_by": {"dangling": 1}}) == "1 as the last of a deleted branch"
    assert kept_by({"kept_by": {"dangling": 2}}) == "2 as the last of deleted branches"
    assert kept_by({"kept_by": {"all": 3}}) == "3 because there are no rules"
    assert kept_by({"kept_by": {"server": 3}}) == "3 by lakeFS's own list"


@pytest.mark.parametrize(
    "text", ["data/a", "a b", "it's", "*", "é", "a\nb", "\x1b[31m1", "\x851", "\u202e7\\'", "\udcff0"]
)
def test_an_argument_is_read_by_a_shell_as_it_was_and_each_character_of_it_prints(text: str) -> None:
    written = argument(text)
    assert written.isprintable()
    told = subprocess.run(["bash", "-c", f"printf %s {written}"], capture_output=True, check=True).stdout
    assert told == text.encode("utf-8", "surrogateescape")


def test_one_is_not_several() -> None:
    assert (counted(1, "sweep"), counted(0, "sweep"), counted(1_200, "sweep")) == (
        "1 sweep",
        "0 sweeps",
        "1,200 sweeps",
    )


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("evil/\x1b[31mred\x1b[0m\x07.txt", r"evil/\x1b[31mred\x1b[0m\x07.txt"),
        ("one\ntwo\r\tthree", r"one\ntwo\r\tthree"),
        ("left\u202eright \udc80", r"left\u202eright \udc80"),
        ("größe/naïve 数据/🦆 'a' \\", "größe/naïve 数据/🦆 'a' \\"),
        ("", ""),
    ],
)
def test_what_does_not_print_is_escaped_and_every_other_character_stays(text: str, seen: str) -> None:
    assert shown(text) == seen
