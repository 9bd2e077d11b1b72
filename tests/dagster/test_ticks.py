"""A tick of a sensor costs little, ends in time, and leaves the rest to the next one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import dagster as dg
import pytest

from lakegc_dagster.partitions import GcCell
from tests.dagster.conftest import Site, open_site

NIGHT = 1_795_226_400.0  # 2026-11-21 02:00 UTC, when a round is due
HOUR = 3_600.0


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Site]:
    with open_site(tmp_path, monkeypatch, instance) as found:
        monkeypatch.setenv("LAKEGC_NOW", str(NIGHT + HOUR))
        yield found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often Dagster's instance is asked what, and how many records it answers with."""
    found = Counter[str]()

    def counted(name: str) -> Callable[..., Any]:
        method = getattr(dg.DagsterInstance, name)

        def ask(*arguments: Any, **options: Any) -> Any:
            answer = method(*arguments, **options)
            found[name] += 1
            found["records"] += len(getattr(answer, "records", answer))
            return answer

        return ask

    for name in ("fetch_materializations", "get_runs", "get_run_records", "get_event_records"):
        monkeypatch.setattr(dg.DagsterInstance, name, counted(name))
    return found


def test_two_hundred_repositories_are_looked_through_with_one_question_each(site: Site, asked: Counter[str]) -> None:
    """And with one for the runs that are at work, so that a tick is over in time."""
    names = [f"repo-{number:03}" for number in range(200)]
    for name in names:
        GcCell(name, "m1").register(site.instance)
    assert "and 180 more" in site.tick("sweep_confirmed").skipped
    assert asked == {"fetch_materializations": 200, "get_runs": 1, "records": 0}


def test_forty_marks_on_record_cost_a_tick_no_more_than_four(site: Site, asked: Counter[str]) -> None:
    """Questions, and records read: what is on record grows with every night."""
    taken = []
    for number in range(40):
        for name in ("alpha", "beta"):
            site.says_marked(name, f"m{number:02}", started=NIGHT - (40 - number) * HOUR, ready=NIGHT + 24 * HOUR)
        if number in (3, 39):
            asked.clear()
            assert f"mark m{number:02} may be swept from" in site.tick("sweep_confirmed").skipped
            taken.append(dict(asked))
    assert taken[0] == taken[1] and taken[0]["fetch_materializations"] == 2


def test_a_repository_that_was_marked_long_ago_is_found_behind_marks_of_others(site: Site) -> None:
    site.says_marked("alpha", "first", started=NIGHT, ready=NIGHT)
    for number in range(30):
        site.says_marked("beta", f"m{number:02}", started=NIGHT + number, ready=NIGHT + 24 * HOUR)
    assert [str(key) for key in site.tick("sweep_confirmed").keys] == ["first|alpha"]


def test_a_mark_recorded_many_times_hides_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster gives records in pages, the newest first."""
    monkeypatch.setattr("lakegc_dagster.records._PAGE", 2)
    site.says_marked("alpha", "late", started=NIGHT + HOUR, ready=NIGHT)
    for _ in range(5):
        site.says_marked("alpha", "early", started=NIGHT, ready=NIGHT)
    assert [str(key) for key in site.tick("sweep_confirmed").keys] == ["late|alpha"]


def test_a_tick_ends_in_time_and_the_next_one_goes_on_behind_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["alpha", "beta", "delta", "gamma", "omega"]
    for name in names:
        site.says_marked(name, "m1", started=NIGHT, ready=NIGHT)
    seconds = iter(range(0, 10_000, 10))  # a look at the clock each time; a tick begins nothing after 20
    monkeypatch.setattr("lakegc_dagster.budget.monotonic", lambda: next(seconds))
    assert site.tick("sweep_confirmed").repositories == ["alpha", "beta"]
    assert site.tick("sweep_confirmed").repositories == ["delta", "gamma"]
    assert site.tick("sweep_confirmed").repositories == ["omega"]
    site.says_marked("alpha", "m2", started=NIGHT + HOUR, ready=NIGHT)
    site.says_marked("beta", "m2", started=NIGHT + HOUR, ready=NIGHT + 24 * HOUR)
    ticks = [site.tick("sweep_confirmed") for _ in range(3)]  # round and round
    assert "alpha" in {name for tick in ticks for name in tick.repositories}


def test_a_tick_that_is_cut_off_and_asks_for_nothing_says_how_many_are_left(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alpha", "beta", "gamma"):
        site.says_marked(name, "m1", started=NIGHT, ready=NIGHT + 24 * HOUR)
    seconds = iter(range(0, 10_000, 30))
    monkeypatch.setattr("lakegc_dagster.budget.monotonic", lambda: next(seconds))
    tick = site.tick("sweep_confirmed")
    assert "alpha: mark m1 may be swept" in tick.skipped and "2 more repositories are left for the next" in tick.skipped
    assert site.tick("sweep_confirmed").skipped.startswith("beta: ")


def test_a_tick_asks_for_so_many_runs_and_the_next_one_for_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster resolves the requests within the same minute."""
    monkeypatch.setattr("lakegc_dagster.sensors.MOST_REQUESTS", 2)
    site.create("alpha", "beta", "gamma")
    opened = [site.tick("open_round") for _ in range(3)]
    assert [tick.repositories for tick in opened] == [["alpha", "beta"], ["gamma"], []]
    assert "Round 20261121T0200Z is open" in opened[2].skipped
    for name in ("alpha", "beta", "gamma"):
        site.says_marked(name, "m1", started=NIGHT, ready=NIGHT)
    swept = [site.tick("sweep_confirmed").repositories for _ in range(2)]
    assert swept == [["alpha", "beta"], ["gamma"]]


def branches_asked(site: Site) -> list[str]:
    """The repositories whose branches lakeFS was asked for, in their order."""
    asked = (re.search(r"/repositories/([^/]+)/branches$", path) for _, path in site.server.requests)
    return [found[1] for found in asked if found]


def test_a_tick_asks_lakefs_about_the_repositories_that_it_asks_for_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakegc_dagster.sensors.MOST_REQUESTS", 2)
    site.create("alpha", "bare", "bare-too", "bare-tree", "gamma")
    for name in ("bare", "bare-too", "bare-tree"):
        site.server.sandbox.repository(name).refs.branches.clear()
    ticks = [site.tick("open_round") for _ in range(3)]
    assert [tick.repositories for tick in ticks] == [["alpha"], [], ["gamma"]]
    assert "bare-too: bare: it has no branch" in ticks[1].skipped  # and yet the next tick went on
    assert sorted(branches_asked(site)) == ["alpha", "bare", "bare-too", "bare-tree", "gamma"]


def test_a_tick_waits_no_longer_than_its_time_for_a_lakefs_that_hangs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"repo-{number:02}" for number in range(20)]
    site.create(*names)
    let_go, waited = Event(), []

    def hang(method: str, path: str, query: Any) -> None:
        if path.endswith("/branches"):
            waited.append(let_go.wait(20))

    site.server.fault = hang
    monkeypatch.setattr("lakegc_dagster.budget.TICK_SECONDS", 0.5)
    try:
        assert site.tick("open_round").repositories == names  # of these, nobody knows whether they are bare
        assert not waited and len(branches_asked(site)) <= 8
    finally:
        let_go.set()


def test_a_round_that_a_later_slot_overtakes_leaves_the_later_one_whole(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakegc_dagster.sensors.MOST_REQUESTS", 2)
    site.create("alpha", "beta", "gamma")
    assert site.tick("open_round").repositories == ["alpha", "beta"]
    monkeypatch.setenv("LAKEGC_NOW", str(NIGHT + 24 * HOUR))
    assert [site.tick("open_round").repositories for _ in range(2)] == [["alpha", "beta"], ["gamma"]]
