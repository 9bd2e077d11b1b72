"""The two sensors over a real sandbox server and an instance: what they ask for, once, and what they say otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from lakegc_core.errors import LakegcError
from lakegc_dagster.metadata.entries import EXPIRED, READY, STARTED
from lakegc_dagster.partitions import GC_PARTITIONS, GcCell
from tests.dagster.conftest import Site, failure_of, open_site
from tests.dagster.test_authorization import Recorded

NIGHT = 1_795_226_400.0  # 2026-11-21 02:00 UTC, when a round is due
HOUR = 3_600.0


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Site]:
    with open_site(tmp_path, monkeypatch, instance) as found:
        monkeypatch.setenv("LAKEGC_NOW", str(NIGHT + HOUR))
        yield found


def test_a_round_asks_for_a_mark_of_every_repository_and_makes_their_partitions(site: Site) -> None:
    site.create("alpha", "beta", "gamma")
    tick = site.tick("open_round")
    assert tick.repositories == ["alpha", "beta", "gamma"]
    assert {str(key) for key in tick.keys} == {f"20261121T0200Z|{name}" for name in ("alpha", "beta", "gamma")}
    with dg.partition_loading_context(dynamic_partitions_store=site.instance):
        assert all(GC_PARTITIONS.has_partition_key(key) for key in tick.keys)
    assert tick.requests[0].tags == {
        "lakegc/repository": "alpha",
        "lakegc/store": "local://alpha",
        "lakegc/round": "20261121T0200Z",
    }


def test_a_slot_is_opened_once_and_the_next_one_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.create("alpha")
    assert len(site.tick("open_round").requests) == 1
    asked = len(site.server.requests)
    again = site.tick("open_round")
    assert (
        again.requests == [] and "Round 20261121T0200Z is open; the next one opens at 2026-11-22 02:00" in again.skipped
    )
    assert len(site.server.requests) == asked  # lakeFS is not bothered
    monkeypatch.setenv("LAKEGC_NOW", str(NIGHT + 24 * HOUR))
    assert [str(key) for key in site.tick("open_round").keys] == ["20261122T0200Z|alpha"]


def test_a_round_whose_cursor_was_lost_has_the_same_run_keys(site: Site) -> None:
    site.create("alpha", "beta")
    assert len(site.tick("open_round").requests) == 2
    site.cursors.clear()
    assert site.tick("open_round").requests == []


def test_who_is_still_queued_for_an_earlier_round_is_not_asked_for_again_and_the_tick_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.create("alpha", "beta")
    waits = site.queued("alpha", "20261120T0200Z")
    assert site.tick("open_round").repositories == ["beta"]
    monkeypatch.setenv("LAKEGC_NOW", str(NIGHT + 25 * HOUR))
    site.queued("beta", "20261121T0200Z")
    tick = site.tick("open_round")
    assert "alpha: its run of round 20261120T0200Z is still queued; beta: its run of round 20261121" in tick.skipped
    assert "Round 20261122T0200Z is open" in site.tick("open_round").skipped
    site.cursors.clear()
    site.instance.report_run_canceled(waits)
    assert site.tick("open_round").repositories == ["alpha"]


def test_a_mark_of_the_round_that_broke_off_is_asked_for_once_more_an_hour_later(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, first = round_of_now(site, monkeypatch, "alpha", "beta", "gamma")
    for name in ("alpha", "gamma"):
        begin(site, first[name])
    for name in ("alpha", "beta"):  # beta failed before its mark was begun: it would again
        site.instance.report_run_failed(run_of(site, first[name]))
    run_of(site, first["gamma"])
    for later in (0.0, 12.1):
        monkeypatch.setenv("LAKEGC_NOW", str(now + later * HOUR))
        assert site.tick("open_round").requests == []
    monkeypatch.setenv("LAKEGC_NOW", str(now + 1.1 * HOUR))
    (again,) = site.tick("open_round").requests
    assert again.partition_key == first["alpha"].partition_key
    assert again.tags == {**first["alpha"].tags, "lakegc/again": "yes"}
    site.run_keys.clear()
    site.instance.report_run_failed(run_of(site, again))
    monkeypatch.setenv("LAKEGC_NOW", str(now + 3 * HOUR))
    assert "is open; the next one opens at" in site.tick("open_round").skipped


def test_a_mark_that_broke_off_is_asked_for_once_more_though_somebody_deleted_its_partition(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, first = round_of_now(site, monkeypatch, "alpha", "beta")
    for request in first.values():
        begin(site, request)
        site.instance.report_run_failed(run_of(site, request))
    site.instance.delete_dynamic_partition(str(site.options.grid.repositories.name), "alpha")
    site.instance.delete_dynamic_partition(str(site.options.grid.marks.name), first["beta"].tags["lakegc/round"])
    monkeypatch.setenv("LAKEGC_NOW", str(now + 1.1 * HOUR))
    assert {*site.tick("open_round").repositories} == {"alpha", "beta"}


def test_a_complete_mark_that_a_guard_refused_is_not_asked_for_again_and_one_that_nobody_judged_is(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, first = round_of_now(site, monkeypatch, "refused", "unjudged", "unjudged-anew")
    cells = {name: GcCell(name, request.tags["lakegc/round"]) for name, request in first.items()}
    recorded = Recorded(site.instance)
    recorded.failing = {"order": dg.AssetCheckSeverity.ERROR}
    recorded.mark(cells["refused"])
    recorded.mark(cells["unjudged-anew"])
    for name in ("unjudged", "unjudged-anew"):  # killed between the last stage and its checks
        recorded.mark(cells[name], checks=False)
    for request in first.values():
        begin(site, request)
        site.instance.report_run_failed(run_of(site, request))
    monkeypatch.setenv("LAKEGC_NOW", str(now + 1.1 * HOUR))
    assert {*site.tick("open_round").repositories} == {"unjudged", "unjudged-anew"}


def round_of_now(site: Site, monkeypatch: pytest.MonkeyPatch, *names: str) -> tuple[float, dict[str, dg.RunRequest]]:
    """Open a round over new repositories in this minute: Dagster's own records are of now. Returns the time, and the
    requests by repository."""
    now = time.time()
    monkeypatch.setenv("LAKEGC_NOW", str(now))
    monkeypatch.setattr(
        "lakegc_dagster.rounds.latest_slot", lambda cron, at: datetime.fromtimestamp(now // 60 * 60, UTC)
    )
    site.create(*names)
    return now, {each.tags["lakegc/repository"]: each for each in site.tick("open_round").requests}


def begin(site: Site, request: dg.RunRequest) -> None:
    """Let Dagster record that the mark of a request was begun."""
    cell = str(GcCell(request.tags["lakegc/repository"], request.tags["lakegc/round"]).key)
    site.instance.report_runless_asset_event(dg.AssetMaterialization("namespace_listing", partition=cell))


def run_of(site: Site, request: dg.RunRequest) -> dg.DagsterRun:
    """A run that was started for a request."""
    job = site.defs.resolve_job_def("gc_mark")
    return site.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=request.tags)


def test_who_is_left_out_takes_no_part(site: Site) -> None:
    site.create("alpha", "scratch-1")
    site.configure("  - {match: 'scratch-*', mark: false}\n")
    assert site.tick("open_round").repositories == ["alpha"]


def test_a_bare_repository_takes_no_part_and_the_tick_says_why(site: Site) -> None:
    site.create("alpha", "bare")
    site.server.sandbox.repository("bare").refs.branches.clear()
    assert site.tick("open_round").repositories == ["alpha"]
    site.cursors.clear()
    site.server.sandbox.repository("alpha").refs.branches.clear()
    tick = site.tick("open_round")
    assert tick.requests == [] and "bare: bare: it has no branch" in tick.skipped


def test_a_repository_whose_branches_lakefs_does_not_tell_takes_part_and_its_run_says_why(site: Site) -> None:
    site.create("alpha", "beta")
    site.server.fault = lambda method, path, query: (
        (403, {"message": "insufficient permissions"}) if path.endswith("/beta/branches") else None
    )
    assert site.tick("open_round").repositories == ["alpha", "beta"]


def test_a_repository_that_lakefs_is_too_busy_for_is_asked_about_once_and_holds_up_nobody(site: Site) -> None:
    site.create("alpha", "beta")
    site.server.fault = lambda method, path, query: (
        (503, {"message": "busy"}) if path.endswith("/beta/branches") else None
    )
    before = len(site.server.requests)
    assert site.tick("open_round").repositories == ["alpha", "beta"]
    asked = [request for request in site.server.requests[before:] if "/beta/branches" in str(request)]
    assert len(asked) == 1


def test_nobody_taking_part_is_no_round(site: Site) -> None:
    site.create("alpha")
    site.configure("  - {match: '*', mark: false}\n")
    tick = site.tick("open_round")
    assert tick.requests == [] and "none of 1 repositories takes part. alpha: lakegc.yaml says" in tick.skipped
    site.configure("  - {match: '*'}\n")
    assert site.tick("open_round").repositories == ["alpha"]  # the slot was not used up


def test_a_lakefs_without_a_repository_fails_the_tick(site: Site) -> None:
    with pytest.raises(LakegcError, match=r"lists no repository at all.*fs:ListRepositories"):
        site.tick("open_round")
    assert site.cursors == {}


def test_a_lakefs_that_refuses_opens_no_round_and_is_asked_again(site: Site) -> None:
    site.create("alpha", "beta")
    site.server.fault = lambda method, path, query: (403, {"message": "insufficient permissions"})
    with pytest.raises(LakegcError, match="403"):
        site.tick("open_round")
    assert site.cursors == {} and site.options.grid.marks_of(site.instance) == []
    site.server.fault = None
    assert site.tick("open_round").repositories == ["alpha", "beta"]


def test_a_confirmed_mark_is_swept_for_good_and_only_where_the_policy_says_so(site: Site) -> None:
    site.configure(
        "  - {match: beta, sweep: false}\n  - {match: gamma, sweep: true, mark: false}\n  - {match: '*', sweep: true}\n"
    )
    for name in ("alpha", "beta", "gamma"):
        site.says_marked(name, "m1", started=NIGHT, ready=NIGHT)
    (request,) = site.tick("sweep_confirmed").requests
    assert str(request.partition_key) == "m1|alpha"
    assert request.run_config == {"ops": {"swept_report": {"config": {"dry_run": False}}}}
    assert request.tags["lakegc/sweep_requested"] == "m1"


def test_the_sweep_of_a_round_has_the_tag_of_its_store_so_that_the_queue_can_limit_both(site: Site) -> None:
    site.create("alpha")
    (asked,) = site.tick("open_round").requests
    site.instance.create_run_for_job(
        site.defs.resolve_job_def("gc_mark"), status=dg.DagsterRunStatus.SUCCESS, tags=asked.tags
    )
    site.says_marked("alpha", asked.tags["lakegc/round"], started=NIGHT, ready=NIGHT)
    site.says_marked("beta", asked.tags["lakegc/round"], started=NIGHT, ready=NIGHT)  # of no round
    found = {request.tags["lakegc/repository"]: request.tags for request in site.tick("sweep_confirmed").requests}
    assert found["alpha"]["lakegc/store"] == asked.tags["lakegc/store"] == "local://alpha"
    assert "lakegc/store" not in found["beta"]


def test_only_the_newest_mark_is_swept_and_not_before_it_may_be(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.says_marked("alpha", "m1", started=NIGHT - 48 * HOUR, ready=NIGHT - 48 * HOUR)
    site.says_marked("alpha", "m2", started=NIGHT, ready=NIGHT + 24 * HOUR)
    site.says_marked("alpha", "m0", started=NIGHT - 72 * HOUR, ready=NIGHT - 72 * HOUR)  # resumed last, begun first
    assert "mark m2 may be swept from 2026-11-22 02:00 UTC" in site.tick("sweep_confirmed").skipped
    monkeypatch.setenv("LAKEGC_NOW", str(NIGHT + 25 * HOUR))
    assert [str(key) for key in site.tick("sweep_confirmed").keys] == ["m2|alpha"]


def test_a_mark_that_waits_for_a_persons_word_is_not_swept_and_the_guard_is_named(site: Site) -> None:
    site.says_marked("alpha", "m1", started=NIGHT, ready=NIGHT, stopped_by="blast-radius")
    tick = site.tick("sweep_confirmed")
    assert not tick.requests and "mark m1 is stopped by blast-radius: look at its checks, do what" in tick.skipped
    site.says_marked("alpha", "m2", started=NIGHT + HOUR, ready=NIGHT + HOUR)
    assert [str(key) for key in site.tick("sweep_confirmed").keys] == ["m2|alpha"]


def test_a_sweep_that_was_asked_for_is_not_asked_for_again_though_it_refused(site: Site) -> None:
    site.says_marked("alpha", "m1", started=NIGHT, ready=NIGHT)
    (request,) = site.tick("sweep_confirmed").requests
    result = site.run("gc_sweep", request)
    assert not result.success  # there is no such repository: the run itself judges
    site.run_keys.clear()
    assert f"swept, or refused, by run {result.run_id}" in site.tick("sweep_confirmed").skipped
    site.says_marked("alpha", "m2", started=NIGHT + HOUR, ready=NIGHT + HOUR)
    assert [str(key) for key in site.tick("sweep_confirmed").keys] == ["m2|alpha"]


@pytest.mark.parametrize("policy", ["sweep: false", "sweep: true, mark: false"])
def test_a_sweep_that_was_asked_for_is_refused_once_lakegc_yaml_does_not_want_it(site: Site, policy: str) -> None:
    site.create("alpha")
    site.says_marked("alpha", "m1", started=NIGHT, ready=NIGHT)
    (request,) = site.tick("sweep_confirmed").requests
    site.configure(f"  - {{match: '*', safety: none, {policy}}}\n")
    refused = "The sensor asked for the sweep of mark m1 of alpha; meanwhile lakegc.yaml does not say"
    assert refused in failure_of(site.run("gc_sweep", request), "swept_report")
    by_hand = site.run("gc_sweep", partition_key=request.partition_key, run_config=request.run_config)
    assert "alpha has no mark m1" in failure_of(by_hand, "swept_report")


@pytest.mark.parametrize("job", ["gc_mark", "gc_sweep", "gc_restore"])
def test_nothing_is_swept_beside_a_run_that_works_on_the_same_repository(
    site: Site, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEGC_NOW", str(time.time()))  # of Dagster's own records, too
    for name in ("alpha", "beta"):
        site.says_marked(name, "m1", started=NIGHT, ready=NIGHT)
    at_work = site.instance.create_run_for_job(
        site.defs.resolve_job_def(job),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition/repository": "alpha", "dagster/partition/mark_id": "m2"},
    )
    assert site.tick("sweep_confirmed").repositories == ["beta"]
    site.run_keys.clear()
    site.instance.report_run_canceled(at_work)
    assert site.tick("sweep_confirmed").repositories == ["alpha", "beta"]


def test_a_sweep_is_asked_for_although_the_next_mark_is_queued_or_an_old_run_has_died(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setenv("LAKEGC_NOW", str(now))
    for name in ("alpha", "beta"):
        site.says_marked(name, "m1", started=NIGHT, ready=NIGHT)
    site.queued("alpha", "20261122T0200Z")
    site.instance.create_run_for_job(
        site.defs.resolve_job_def("gc_mark"),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition/repository": "beta", "dagster/partition/mark_id": "m0"},
    )
    assert site.tick("sweep_confirmed").repositories == ["alpha"]
    monkeypatch.setenv("LAKEGC_NOW", str(now + 25 * HOUR))
    assert site.tick("sweep_confirmed").repositories == ["beta"]


@pytest.mark.parametrize("told", [{}, dict.fromkeys((STARTED, READY, EXPIRED), "soon")])
def test_a_mark_that_was_reported_by_hand_is_not_swept(site: Site, told: dict[str, str]) -> None:
    cell = GcCell("alpha", "m1")
    cell.register(site.instance)
    by_hand = dg.AssetMaterialization("expired_addresses", partition=str(cell.key), metadata=told)
    site.instance.report_runless_asset_event(by_hand)
    assert "alpha: has no complete mark that Dagster knows" in site.tick("sweep_confirmed").skipped


def test_a_retired_partition_is_not_swept(site: Site) -> None:
    site.says_marked("alpha", "m1", started=NIGHT, ready=NIGHT)
    site.instance.delete_dynamic_partition(str(site.options.grid.marks.name), "m1")
    assert site.tick("sweep_confirmed").requests == []


def test_both_sensors_and_schedules_are_off_until_somebody_turns_them_on(site: Site) -> None:
    assert {each.name for each in site.defs.sensors or ()} == {"open_round", "sweep_confirmed"}
    assert {each.default_status for each in site.defs.sensors or ()} == {dg.DefaultSensorStatus.STOPPED}
    schedules = [each for each in site.defs.schedules or () if isinstance(each, dg.ScheduleDefinition)]
    assert {each.name: each.cron_schedule for each in schedules} == {
        "retire_marks": "0 12 * * *",
        "watch_rounds": "0 8 * * *",
    }
    assert {each.default_status for each in schedules} == {dg.DefaultScheduleStatus.STOPPED}
