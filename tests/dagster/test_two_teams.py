"""Two teams' definitions on one instance, each over a lakeFS of its own: neither sees the other's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakegc_core.marks.context import open_repository
from lakegc_dagster.config import LakegcConfig
from tests.dagster.conftest import Site, open_site
from tests.support.old_marks import DAY, START, TODAY, write_mark

NIGHT = START + TODAY * DAY


@pytest.fixture
def teams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[tuple[Site, Site]]:
    (tmp_path / "red").mkdir()
    (tmp_path / "blue").mkdir()
    with (
        open_site(tmp_path / "red", monkeypatch, instance, LakegcConfig(key_prefix=("red",))) as red,
        open_site(tmp_path / "blue", monkeypatch, instance, LakegcConfig(key_prefix=("blue",))) as blue,
    ):
        monkeypatch.setenv("LAKEGC_NOW", str(NIGHT))
        red.create("analytics", "web")
        blue.create("analytics", "legal")
        yield red, blue


def test_their_definitions_share_no_name(teams: tuple[Site, Site]) -> None:
    red, blue = ({*names(site)} for site in teams)
    assert not red & blue and len(red) == len(blue)


def names(site: Site) -> Iterator[str]:
    yield from (key.to_user_string() for key in site.defs.resolve_asset_graph().get_all_asset_keys())
    yield from (each.name for each in (*(site.defs.sensors or ()), *(site.defs.jobs or ())))
    yield from (each.name for each in site.defs.schedules or () if isinstance(each, dg.ScheduleDefinition))
    yield from (str(each.name) for each in (site.options.grid.repositories, site.options.grid.marks))


def test_each_opens_the_rounds_of_its_own_lakefs(teams: tuple[Site, Site]) -> None:
    red, blue = teams
    assert red.tick("open_round").repositories == ["analytics", "web"]
    assert blue.tick("open_round").repositories == ["analytics", "legal"]
    assert red.options.grid.repositories_of(red.instance) == ["analytics", "web"]
    assert blue.options.grid.repositories_of(blue.instance) == ["analytics", "legal"]


def test_a_sweep_and_a_run_at_work_of_the_one_are_nothing_to_the_other(
    teams: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    red, blue = teams
    now = time.time()  # of Dagster's own records, too
    monkeypatch.setenv("LAKEGC_NOW", str(now))
    for team in teams:
        team.says_marked("analytics", "m1", started=now - DAY, ready=now - DAY)
    red.instance.create_run_for_job(
        red.defs.resolve_job_def("red_gc_mark"),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition/repository": "analytics"},
    )
    assert red.tick("sweep_confirmed").requests == []
    (request,) = blue.tick("sweep_confirmed").requests
    assert request.run_config == {"ops": {"blue__swept_report": {"config": {"dry_run": False}}}}


def test_marks_that_the_one_retires_stay_the_others(teams: tuple[Site, Site]) -> None:
    red, blue = teams
    red.configure("  - {match: '*', keep_marks: 2}\n")
    for team in teams:
        context = open_repository(team.lakegc.settings(), "analytics")
        for day in range(1, 5):
            write_mark(context.artifacts(f"m{day}"), day, storage_namespace=context.namespace.uri)
            team.says_marked("analytics", f"m{day}", started=START, ready=START)
    assert red.run("gc_retire").success
    assert red.options.grid.marks_of(red.instance) == ["m3", "m4"]
    assert blue.options.grid.marks_of(blue.instance) == ["m1", "m2", "m3", "m4"]
    assert (blue.server.sandbox.root / "analytics/_lakefs/retention/gc/lakegc/marks/m1/mark.json").is_file()
