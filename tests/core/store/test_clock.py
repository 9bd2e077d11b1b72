"""A process's time by the store: never earlier than the store's own, asked for seldom, and blind to no sleep."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakegc_core import clock
from lakegc_core.store.clock import FRESH, StoreClock
from lakegc_core.store.local import LocalConfig, LocalStore

START = 1_700_000_000.75


class Times:
    """The store's time, this machine's, and what it has been up for: each moves as a test says. Unix seconds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.store, self.wall, self.uptime, self.asked, self.answer_takes = START, START, 50.0, 0, 0.0
        patch.setenv("LAKEGC_UNSAFE", "yes")
        patch.setattr(clock, "now", lambda: datetime.fromtimestamp(self.wall, UTC))
        patch.setattr(clock, "uptime", lambda: self.uptime)
        patch.setattr(LocalStore, "clock", lambda store: self._date())

    def _date(self) -> datetime:
        self.asked += 1
        date = datetime.fromtimestamp(int(self.store), UTC)
        self.pass_time(self.answer_takes)
        return date

    def pass_time(self, seconds: float) -> None:
        self.store, self.wall, self.uptime = (each + seconds for each in (self.store, self.wall, self.uptime))


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    return Times(monkeypatch)


@pytest.fixture
def found(times: Times, tmp_path: Path) -> StoreClock:
    return StoreClock(LocalConfig(str(tmp_path)))


@pytest.mark.parametrize("ahead", [-7200.0, 0.0, 7200.0])
def test_it_is_at_most_a_second_late_by_the_stores_time_and_never_early(
    times: Times, found: StoreClock, ahead: float
) -> None:
    times.wall += ahead
    for _ in range(100):
        assert times.store < found.latest() <= times.store + 1
        times.pass_time(0.37)


def test_the_store_is_asked_once_in_a_while_only(times: Times, found: StoreClock) -> None:
    for _ in range(300):
        found.latest()
        times.pass_time(0.1)
    assert times.asked == pytest.approx(30 / FRESH, abs=1)


def test_an_answer_that_takes_long_does_not_make_it_early(times: Times, found: StoreClock) -> None:
    times.answer_takes = 45.0
    assert found.latest() >= times.store


@pytest.mark.parametrize("knows", ["wall", "uptime"])
def test_a_machine_that_slept_asks_again_whichever_of_its_clocks_knows(
    times: Times, found: StoreClock, knows: str
) -> None:
    found.latest()
    times.store += 3600
    setattr(times, knows, getattr(times, knows) + 3600)
    assert found.latest() >= times.store
    assert times.asked == 2


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_clock_that_is_set_makes_no_difference_for_long(times: Times, found: StoreClock, step: float) -> None:
    found.latest()
    times.wall += step
    for _ in range(3):
        assert times.store <= found.latest() <= times.store + 1
        times.pass_time(1.0)


def test_without_asking_it_goes_on_from_what_it_knows(times: Times, found: StoreClock) -> None:
    found.latest(ask=False)
    times.pass_time(500.0)
    assert times.store <= found.latest(ask=False) <= times.store + 1
    assert times.asked == 1


def test_the_uptime_goes_on_by_itself() -> None:
    began = time.monotonic()
    before: Any = clock.uptime()
    time.sleep(0.01)
    passed = clock.uptime() - before
    assert 0.01 <= passed <= time.monotonic() - began
