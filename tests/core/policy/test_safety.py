"""The levels, and who may choose which."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

import pytest

from lakegc_core.errors import SettingsError
from lakegc_core.policy import safety
from lakegc_core.policy.safety import FULL, LEVELS, NONE, STANDARD, check_min_age, level, stricter

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEGC_UNSAFE", raising=False)


def test_each_level_is_found_by_its_name(unsafe: None) -> None:
    assert {name: level(name) for name in LEVELS} == {"full": FULL, "standard": STANDARD, "none": NONE}


def test_an_unknown_level_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match="full, standard, none"):
        level("paranoid")


@pytest.mark.parametrize("said", ["", "1", "true", "YES"])
def test_level_none_needs_the_operators_exact_yes(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", said)
    with pytest.raises(SettingsError, match="LAKEGC_UNSAFE=yes"):
        level("none")


def test_the_stricter_of_two_levels_wins_whatever_the_order() -> None:
    for strict, loose in ((FULL, STANDARD), (FULL, NONE), (STANDARD, NONE)):
        assert stricter(strict, loose) is stricter(loose, strict) is strict
        assert stricter(strict, strict) is strict


def test_no_limit_of_a_stricter_level_is_weaker_than_that_of_a_looser_one() -> None:
    larger_is_stricter = {"age_margin", "part_age", "gap", "retention_margin", "rules_memory", "samples"}
    larger_is_stricter |= {"rings"}  # any are more than none
    # Without a gap a mark need not live as long; with one no delay is needed beside it.
    exempt = {"name", "mark_validity", "look_delay"}
    for strict, loose in ((FULL, STANDARD), (STANDARD, NONE)):
        for each in fields(strict):
            if each.name in exempt:
                continue
            one, other = getattr(strict, each.name), getattr(loose, each.name)
            assert one >= other if each.name in larger_is_stricter else one <= other, each.name


def test_full_asks_for_a_day_without_interruption_and_standard_for_none() -> None:
    assert FULL.gap == DAY
    assert STANDARD.gap == timedelta(0)
    assert STANDARD.look_delay == timedelta(minutes=15)
    assert FULL.gap + FULL.look_delay >= STANDARD.gap + STANDARD.look_delay


@pytest.mark.parametrize("chosen", [FULL, STANDARD])
def test_the_minimum_age_covers_the_servers_grace_period_and_an_hour(chosen: safety.Level) -> None:
    check_min_age(DAY + HOUR, DAY, chosen)
    check_min_age(safety.DEFAULT_MIN_AGE, DAY, chosen)
    for short in (DAY, DAY + HOUR - timedelta(seconds=1), timedelta(0)):
        with pytest.raises(SettingsError, match="--min-age 25h"):
            check_min_age(short, DAY, chosen)


def test_t30_a_server_with_a_longer_grace_period_needs_a_higher_minimum_age() -> None:
    with pytest.raises(SettingsError, match="--min-age 49h"):
        check_min_age(safety.DEFAULT_MIN_AGE, 2 * DAY, FULL)


def test_a_minimum_age_below_the_grace_period_is_for_the_unsafe_alone(unsafe: None) -> None:
    check_min_age(timedelta(0), DAY, NONE)
