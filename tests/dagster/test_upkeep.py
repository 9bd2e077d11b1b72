"""The jobs beside the assets: old marks are retired together with their partitions, and missed rounds are said."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from lakegc_core.marks import quarantine
from lakegc_core.marks.catalogue import list_marks
from lakegc_core.marks.context import RepositoryContext, open_repository
from lakegc_core.marks.lease import NAME, Lease
from lakegc_core.marks.retire import list_retired
from lakegc_core.store.base import connect
from lakegc_dagster import records, upkeep
from lakegc_dagster.config import SWEEP, LakegcConfig
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.repository import LAST_MARK
from lakegc_dagster.rounds import latest_slot, round_id
from tests.dagster.conftest import Site, failure_of, open_site
from tests.support.old_marks import DAY, START, TODAY, write_mark, write_sweep
from tests.support.replays import environment

NOW = START + TODAY * DAY  # 2026-12-30 14:13 UTC
SLOT = NOW - 12.2 * 3600 - 0.0  # a little after two at night


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Site]:
    with open_site(tmp_path, monkeypatch, instance) as found:
        monkeypatch.setenv("LAKEGC_NOW", str(NOW))
        yield found


def opened(site: Site, repository: str) -> RepositoryContext:
    return open_repository(site.lakegc.settings(), repository)


def marked(site: Site, repository: str, *days: int) -> None:
    """Marks of these days, in the store and among the partitions, by the name of their day."""
    context = opened(site, repository)
    for day in days:
        place = {"repository": repository, "storage_namespace": context.namespace.uri}
        write_mark(context.artifacts(f"m{day:02}"), day, **place)
        GcCell(repository, f"m{day:02}").register(site.instance, site.options.grid)


def metadata(result: dg.ExecuteInProcessResult, op: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for event in result.all_events:
        if event.is_successful_output and event.step_key == op:
            found = {name: value.value for name, value in event.step_output_data.metadata.items()}
    return found


def known(site: Site) -> list[str]:
    return site.options.grid.marks_of(site.instance)


def test_old_marks_go_from_every_store_and_their_partitions_once_nobody_holds_them(site: Site) -> None:
    site.create("alpha", "beta")
    site.configure("  - {match: '*', keep_marks: 2}\n")
    marked(site, "alpha", 1, 2, 3)
    marked(site, "beta", 2, 3, 4)
    result = site.run("gc_retire")
    assert result.success
    assert [each["mark_id"] for each in list_marks(opened(site, "alpha"))] == ["m03", "m02"]
    assert [each["mark_id"] for each in list_retired(opened(site, "alpha"))] == ["m01"]
    assert [each["mark_id"] for each in list_retired(opened(site, "beta"))] == ["m02"]
    assert set(known(site)) == {"m02", "m03", "m04"}  # alpha still has m02
    assert metadata(result, "retire")["retired_marks"] == 2
    assert metadata(result, "retire")["partitions_removed"] == ["m01"]
    assert metadata(site.run("gc_retire"), "retire")["retired_marks"] == 0


def test_copies_without_a_record_that_reads_fail_the_run_by_name_and_keep_no_other_from_going(site: Site) -> None:
    site.create("alpha")
    site.configure("  - {match: '*', keep_marks: 2}\n")
    context = opened(site, "alpha")
    for mark_id, age in (("m01", 1.0), ("m02", 1.0)):
        with environment({"LAKEGC_NOW": str(START)}):
            quarantine.begin(context, mark_id, 1, age)
        connect(quarantine.place_of(context, mark_id)).write("data/a", b"abc")
    connect(context.workspace).write(f"{context.home}/quarantine/m01/quarantine.json", b"{}")
    marked(site, "alpha", 1, 2, 3, 4)
    result = site.run("gc_retire")
    said = failure_of(result, "retire")
    assert "these copies in quarantine stay until somebody acts: mark m01" in said and "m02" not in said
    assert quarantine.quarantined(context) == ["m01"]
    assert [each["mark_id"] for each in list_retired(context)] == ["m02"], "m01 stays with its copies"


def test_a_dry_run_removes_neither_marks_nor_partitions(site: Site) -> None:
    site.create("alpha")
    marked(site, "alpha", 1, 2, 3)
    config = {"ops": {"retire": {"config": {"dry_run": True, "keep": 2}}}}
    result = site.run("gc_retire", run_config=config)
    assert metadata(result, "retire")["retired_marks"] == 1 and metadata(result, "retire")["artifacts_deleted"] == 0
    assert list_retired(opened(site, "alpha")) == [] and len(known(site)) == 3


def test_a_sweep_that_nobody_closes_is_said_because_later_marks_stay_for_it(site: Site) -> None:
    site.create("alpha", "beta")
    site.configure("  - {match: '*', keep_marks: 2}\n")
    for name in ("alpha", "beta"):
        marked(site, name, 1, 2, 3, 4)
    write_sweep(opened(site, "alpha").artifacts("m01"), deleted=1, over=False)
    for name in ("alpha", "beta"):
        write_sweep(opened(site, name).artifacts("m02"), deleted=1, day=3)
    said = failure_of(site.run("gc_retire"), "retire")
    over = "no mark that was swept since goes until these sweeps are over: mark m01: sweep 1 of it is not over"
    assert f"- alpha: {over}" in said
    assert "beta" not in said
    assert [each["mark_id"] for each in list_marks(opened(site, "alpha"))] == ["m04", "m03", "m02", "m01"]
    assert [each["mark_id"] for each in list_retired(opened(site, "beta"))] == ["m02", "m01"]


def test_a_repository_that_fails_is_said_and_holds_up_nobody_but_its_own_partitions(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SECONDS_A_WAIT", 0)
    site.create("alpha", "broken", "busy")
    site.configure("  - {match: '*', keep_marks: 2}\n")
    for name in ("alpha", "broken", "busy"):
        marked(site, name, 1, 2, 3)
    site.says_marked("busy", "m01", started=START, ready=START)
    other = opened(site, "busy")
    lease = Lease(other.workspace, f"{other.home}/{NAME}", "sweep busy m03")
    lease.take()
    site.server.fault = lambda method, path, query: (
        (403, {"message": "not yours"}) if path == "/repositories/broken" and method == "GET" else None
    )
    try:
        result = site.run("gc_retire")
    finally:
        lease.give_back()
    assert not result.success
    said = failure_of(result, "retire")
    assert "- broken: GET /repositories/broken was answered with 403" in said
    assert "- busy: " in said and "sweep busy m03" in said
    assert [each["mark_id"] for each in list_retired(opened(site, "alpha"))] == ["m01"]
    assert list_retired(other) == []
    assert "m01" in known(site)  # by Dagster's records the busy one may still have it


def test_what_a_deleted_repository_left_in_a_workspace_is_named_with_its_folder(site: Site) -> None:
    """Copies in quarantine, too, would lie there for ever, and nobody would say so."""
    site.create("alpha")
    site.configure("  - {match: '*', workspace: 'local://work'}\n")
    for name in ("alpha", "gone", "clean"):
        GcCell(name, "m1").register(site.instance, site.options.grid)
    left = site.server.sandbox.root / "work/gone/quarantine/m1"
    left.mkdir(parents=True)
    assert site.run("gc_retire").success
    (left / "quarantine.json").write_text("{}")
    said = failure_of(site.run("gc_retire"), "retire")
    assert "- gone: it is no repository of this lakeFS any more, and local://" in said and "/work/gone/ holds" in said
    assert "clean" not in said and "alpha" not in said


@pytest.mark.parametrize("typed", ["", ".", "there/marks", "../work/there", "There"])
def test_a_partition_whose_name_no_repository_can_have_leads_to_no_folder_that_somebody_is_told_to_delete(
    site: Site, typed: str
) -> None:
    site.configure("  - {match: '*', workspace: 'local://work'}\n")
    site.create("there")
    GcCell("there", "m01").register(site.instance)
    site.instance.add_dynamic_partitions(str(site.options.grid.repositories.name), [typed])
    marks = site.server.sandbox.root / "work" / "there" / "marks"
    marks.mkdir(parents=True)
    (marks / "mark.json").write_text("{}")
    (site.server.sandbox.root / "work" / "There").mkdir()
    (site.server.sandbox.root / "work" / "There" / "file").write_text("")
    assert site.run("gc_retire").success


def test_marks_of_a_repository_at_work_are_retired_once_its_collector_is_done(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.create("busy", "last")
    site.configure("  - {match: '*', keep_marks: 2}\n")
    for name in ("busy", "last"):
        marked(site, name, 1, 2, 3)
    busy = opened(site, "busy")
    lease = Lease(busy.workspace, f"{busy.home}/{NAME}", "sweep busy m03")
    lease.take()

    def waits(seconds: float) -> None:
        assert [each["mark_id"] for each in list_retired(opened(site, "last"))] == ["m01"], "nobody waits for it"
        lease.give_back()

    monkeypatch.setattr(upkeep, "time", SimpleNamespace(sleep=waits))
    assert site.run("gc_retire").success
    assert [each["mark_id"] for each in list_retired(busy)] == ["m01"]


def test_a_partition_that_a_run_is_for_stays(site: Site) -> None:
    site.create("alpha")
    for mark_id in ("20261001T0200Z", "20261002T0200Z"):
        GcCell("alpha", mark_id).register(site.instance)
    site.instance.create_run_for_job(
        site.defs.resolve_job_def("gc_mark"),
        status=dg.DagsterRunStatus.STARTING,
        tags={"dagster/partition/repository": "alpha", "dagster/partition/mark_id": "20261002T0200Z"},
    )
    assert site.run("gc_retire").success
    assert known(site) == ["20261002T0200Z"]


def test_a_repository_that_missed_its_round_is_named(site: Site) -> None:
    site.create("alpha", "beta", "gamma", "scratch")
    site.configure("  - {match: scratch, mark: false}\n")
    site.says_marked("alpha", "20261230T0200Z", started=SLOT, ready=SLOT)
    site.says_marked("beta", "20261228T0200Z", started=SLOT - 2 * DAY, ready=SLOT)
    result = site.run("gc_watch")
    assert not result.success
    said = failure_of(result, "watch")
    assert "- beta: beta was marked last as 20261228T0200Z, 2.0 days before round" in said
    assert "- gamma: gamma was never marked" in said
    assert "alpha" not in said and "scratch" not in said


def test_a_repository_that_no_round_ever_marked_shows_it_on_its_own_page_unless_its_mark_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    names = ("alpha", "broken", "gamma", "scratch")
    with open_site(tmp_path, monkeypatch, instance, LakegcConfig(repositories=names)) as site:
        monkeypatch.setenv("LAKEGC_NOW", str(NOW))
        site.create(*names, "nameless")
        site.configure("  - {match: scratch, mark: false}\n")
        site.says_marked("alpha", "20261228T0200Z", started=SLOT - 2 * DAY, ready=SLOT)
        key = dg.AssetCheckKey(site.options.repository_key("broken"), LAST_MARK)
        told = dg.AssetCheckEvaluation(
            asset_key=key.asset_key, check_name=key.name, passed=False, description="no rules", metadata={"mark": "m1"}
        )
        site.instance.report_runless_asset_event(told)
        for slot in ("20261230T0200Z", "20261231T0200Z"):
            assert not site.run("gc_watch").success
            said = {name: last_mark(site, name) for name in names}
            assert said == {
                "alpha": "",
                "broken": "no rules",
                "gamma": f"gamma was never marked, though round {slot} was due. See docs/runbook.md#rounds-missed.",
                "scratch": "",
            }
            monkeypatch.setenv("LAKEGC_NOW", str(NOW + DAY))


def last_mark(site: Site, repository: str) -> str:
    """The last words of the check of a repository; empty if there are none."""
    key = dg.AssetCheckKey(site.options.repository_key(repository), LAST_MARK)
    found = site.instance.get_latest_asset_check_evaluation_record(key)
    evaluation: Any = found.evaluation if found else None
    return f"{evaluation.description}" if evaluation else ""


def test_rounds_that_were_kept_are_no_failure(site: Site) -> None:
    site.create("alpha")
    site.configure("  - {match: '*'}\n")
    site.says_marked("alpha", "20261230T0200Z", started=SLOT, ready=SLOT)
    assert site.run("gc_watch").success


def test_a_slot_that_opens_while_the_watch_looks_is_nobodys_fault_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    eight = datetime(2026, 12, 30, 8, 0, 3, tzinfo=UTC).timestamp()
    with open_site(tmp_path, monkeypatch, instance, LakegcConfig(round_cron="0 * * * *")) as site:
        monkeypatch.setenv("LAKEGC_NOW", str(eight))
        site.create("alpha")
        site.configure("  - {match: '*'}\n")
        site.says_marked("alpha", "20261230T0600Z", started=eight - 2 * 3_600, ready=eight)
        assert "days before round 20261230T0700Z" in failure_of(site.run("gc_watch"), "watch")
        site.says_marked("alpha", "20261230T0700Z", started=eight - 3_600, ready=eight)
        assert site.run("gc_watch").success


def test_a_bare_repository_has_no_round_to_miss(site: Site) -> None:
    site.create("bare")
    assert not site.run("gc_watch").success
    site.server.sandbox.repository("bare").refs.branches.clear()
    assert site.run("gc_watch").success


def test_a_run_that_is_at_work_excuses_a_missed_round_for_a_day_and_no_longer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()  # of Dagster's own records, too
    monkeypatch.setenv("LAKEGC_NOW", str(now))
    before = latest_slot(site.options.round_cron, datetime.fromtimestamp(now - DAY, UTC))
    site.create("alpha")
    site.says_marked("alpha", round_id(before), started=before.timestamp(), ready=before.timestamp())
    run = site.instance.create_run_for_job(
        site.defs.resolve_job_def("gc_mark"),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition/repository": "alpha", "dagster/partition/mark_id": "20261230T0200Z"},
    )
    monkeypatch.setenv("LAKEGC_NOW", str(now + 23 * 3_600))
    assert site.run("gc_watch").success
    monkeypatch.setenv("LAKEGC_NOW", str(time.time() + 2 * DAY))
    said = failure_of(site.run("gc_watch"), "watch")
    assert f"Run {run.run_id} has not ended for more than a day: if its process is dead, terminate it" in said


def test_the_run_of_tonight_that_is_queued_behind_a_dead_run_excuses_nobody(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setenv("LAKEGC_NOW", str(now))
    site.create("alpha")
    dead = dg.DagsterRun("gc_mark", status=dg.DagsterRunStatus.STARTED, tags={"dagster/partition/repository": "alpha"})
    site.instance.run_storage.add_historical_run(dead, datetime.fromtimestamp(now - 3 * DAY, UTC))
    assert f"Run {dead.run_id} has not ended" in failure_of(site.run("gc_watch"), "watch")
    site.queued("alpha", "20261230T0200Z")
    assert f"Run {dead.run_id} has not ended" in failure_of(site.run("gc_watch"), "watch")


def test_a_repository_that_lakegc_yaml_wants_swept_and_nobody_sweeps_is_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()  # of Dagster's own records, too
    monkeypatch.setenv("LAKEGC_NOW", str(now))
    site.create("alpha", "beta", "gamma", "delta")
    site.configure("  - {match: beta, sweep: false}\n  - {match: '*', sweep: true}\n")
    long_ago = now - 2 * 3_600
    for name, ready, expired in (
        ("alpha", now, 5),
        ("beta", long_ago, 5),
        ("gamma", long_ago, 0),
        ("delta", now + DAY, 5),
    ):
        site.says_marked(name, "m1", started=now, ready=ready, expired=expired)
    assert site.run("gc_watch").success
    site.says_marked("alpha", "m1", started=now, ready=long_ago)
    assert site.run("gc_watch").success, "the sensor has an hour after the mark is complete"
    monkeypatch.setattr("lakegc_dagster.rounds.ASKED_WITHIN", timedelta(minutes=-1))
    said = failure_of(site.run("gc_watch"), "watch")
    assert "- alpha: lakegc.yaml says `sweep: true`, mark m1 may be swept since" in said
    assert not {"beta", "gamma", "delta"} & set(said.replace(":", " ").split())
    (asked,) = site.tick("sweep_confirmed").requests
    site.instance.create_run_for_job(
        site.defs.resolve_job_def("gc_sweep"),
        status=dg.DagsterRunStatus.FAILURE,
        tags={**asked.tags, "dagster/partition/repository": "alpha", "dagster/partition/mark_id": "m1"},
    )
    assert site.run("gc_watch").success


def test_a_mark_that_ends_shortly_before_the_watch_hides_no_sweep_that_nobody_asked_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large repository that is so each morning; where rounds are an hour apart, at each watch."""
    site.create("alpha")
    site.configure("  - {match: '*', sweep: true}\n")
    long_ago = time.time() - DAY
    site.says_marked("alpha", "m1", started=long_ago, ready=long_ago)
    an_hour_ago = time.time()  # of Dagster's own records, too
    site.says_marked("alpha", "m2", started=an_hour_ago, ready=an_hour_ago)
    monkeypatch.setenv("LAKEGC_NOW", str(an_hour_ago + 3_600))
    assert "mark m1 may be swept since" in failure_of(site.run("gc_watch"), "watch")


def test_the_watch_names_sweeps_that_guards_stop_and_does_not_fail_before_days_have_passed(
    site: Site,
) -> None:
    site.create("alpha", "beta")
    site.configure("  - {match: alpha, sweep: true}\n")
    for name in ("alpha", "beta"):
        site.says_marked(name, "20261230T0200Z", started=SLOT, ready=SLOT, stopped_by="blast-radius")
    result = site.run("gc_watch")
    found = metadata(result, "watch")
    assert result.success and (found["stopped"], found["overdue"]) == (1, 0)
    (row,) = found["stopped_by_guards"].records
    assert row.data == {"repository": "alpha", "stopped by": "blast-radius"}


def test_a_watch_that_fails_names_the_sweeps_that_guards_stop_too(site: Site) -> None:
    site.create("alpha", "late")
    site.configure("  - {match: '*', sweep: true}\n")
    site.says_marked("alpha", "20261230T0200Z", started=SLOT, ready=SLOT, stopped_by="blast-radius")
    (failed,) = [event for event in site.run("gc_watch").all_events if event.is_step_failure]
    found = failed.step_failure_data.user_failure_data.metadata
    assert (found["stopped"].value, found["overdue"].value) == (1, 1)
    assert found["stopped_by_guards"].value.records[0].data["repository"] == "alpha"


def test_a_repository_that_missed_its_round_and_is_not_swept_either_has_both_said(site: Site) -> None:
    site.create("alpha")
    site.configure("  - {match: '*', sweep: true}\n")
    for day in (6, 4, 2):
        at = SLOT - day * DAY
        site.says_marked("alpha", f"m{9 - day}", started=at, ready=at, stopped_by="blast-radius")
    said = failure_of(site.run("gc_watch"), "watch")
    assert "- alpha: alpha was marked last as m7, 2.0 days before round" in said
    assert "nothing was swept (marks that guards stopped: 3)" in said


def test_records_of_no_partitions_are_none_and_not_all(site: Site) -> None:
    cell, key = GcCell("alpha", "m1"), site.options.key(SWEEP)
    site.instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=str(cell.key)))
    for partitions, count in (([], 0), ([str(cell.key)], 1), (None, 1)):
        which = dg.AssetRecordsFilter(asset_key=key, asset_partitions=partitions)
        assert len(list(records._records(site.instance, which))) == count


def test_the_watch_fails_by_name_once_all_sweeps_that_were_asked_for_have_failed_for_days(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep judges anew, so that it may refuse what the mark let pass."""
    monkeypatch.setenv("LAKEGC_NOW", str(SLOT + 3_600))
    site.create("alpha", "beta")
    site.configure("  - {match: '*', sweep: true}\n")
    for name in ("alpha", "beta"):
        for day in (4, 3, 1, 0):
            mark_id, at = f"m{9 - day}", SLOT - day * DAY
            site.says_marked(name, mark_id, started=at, ready=at, stopped_by="clocks" if day == 3 else "")
            (asked,) = [each for each in site.tick("sweep_confirmed").requests if name in each.run_key] or [None]
            if asked is not None:
                tags = {"dagster/partition/repository": name, "dagster/partition/mark_id": mark_id}
                status = dg.DagsterRunStatus.FAILURE
                sweep = site.defs.resolve_job_def("gc_sweep")
                site.instance.create_run_for_job(sweep, status=status, tags={**asked.tags, **tags})
    swept = dg.AssetMaterialization(site.options.key(SWEEP), partition=str(GcCell("beta", "m8").key))
    site.instance.report_runless_asset_event(swept)
    said = failure_of(site.run("gc_watch"), "watch")
    counts = "(marks that guards stopped: 1, sweeps that failed or were refused: 3)"
    assert "- alpha: " in said and f"for 4 days nothing was swept {counts}; the last sweep was of mark m9" in said
    assert "beta:" not in said


def test_marks_that_find_nothing_after_a_stopped_one_end_its_fault(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard did its work, and what it stopped is live again."""
    monkeypatch.setenv("LAKEGC_NOW", str(SLOT + 3_600))
    site.create("alpha")
    site.configure("  - {match: '*', sweep: true}\n")
    for day in (5, 4, 1, 0):
        at, was_stopped = SLOT - day * DAY, day == 5
        guard, expired = ("blast-radius", 5) if was_stopped else ("", 0)
        site.says_marked("alpha", f"m{9 - day}", started=at, ready=at, expired=expired, stopped_by=guard)
    assert site.run("gc_watch").success


def test_a_run_at_work_hides_no_sweeps_that_fail_for_days_but_of_the_mark_that_it_is_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each night's sweep fails after hours, and the watch looks meanwhile."""
    monkeypatch.setenv("LAKEGC_NOW", str(time.time()))  # runs are created by the real clock
    site.create("alpha", "beta", "gamma")
    site.configure("  - {match: '*', sweep: true}\n")
    work = (("alpha", "gc_sweep", "m9"), ("beta", "gc_mark", "m10"), ("gamma", "gc_sweep", "m5"))
    for name, job, mark_id in work:
        for day in (4, 0):
            at, stopped_by = time.time() - day * DAY, "" if name == "gamma" and not day else "clocks"
            site.says_marked(name, f"m{9 - day}", started=at, ready=at, stopped_by=stopped_by)
        tags = {"dagster/partition/repository": name, "dagster/partition/mark_id": mark_id}
        of = site.defs.resolve_job_def(job)
        site.instance.create_run_for_job(of, status=dg.DagsterRunStatus.STARTED, tags=tags)
    said = failure_of(site.run("gc_watch"), "watch").splitlines()
    for name in ("alpha", "beta"):
        (line,) = [
            each for each in said if each.startswith(f"- {name}: lakegc.yaml says `sweep: true`, and for 4 days")
        ]
        assert line.endswith(" is at work on it now")
    assert not any("gamma" in each for each in said), "this one may come to its end"


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("one runs", ""),
        ("two have begun", "(sweeps that failed or were refused: 1)"),  # the lease lets the last one work alone
        ("one waits in the queue", "(marks that guards stopped: 1)"),
    ],
)
def test_a_sweep_that_runs_for_days_is_none_that_failed_and_those_that_died_or_wait_are(
    site: Site, monkeypatch: pytest.MonkeyPatch, case: str, said: str
) -> None:
    then, now = time.time(), time.time() + 4 * DAY  # runs are created by the real clock
    monkeypatch.setenv("LAKEGC_NOW", str(now))
    site.create("alpha")
    site.configure("  - {match: '*', sweep: true}\n")
    waits = case == "one waits in the queue"
    for number in range(2 if case == "two have begun" else 1):
        mark_id = f"m{number}"
        stopped_by = "clocks" if waits else ""
        site.says_marked("alpha", mark_id, started=then + number, ready=then, stopped_by=stopped_by)
        if waits:
            site.queued("alpha", mark_id)
            continue
        (asked,) = site.tick("sweep_confirmed").requests
        tags = {**asked.tags, "dagster/partition/repository": "alpha", "dagster/partition/mark_id": mark_id}
        job = site.defs.resolve_job_def("gc_sweep")
        site.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags)
    site.says_marked("alpha", "m9", started=now, ready=now + DAY)
    done = site.run("gc_watch")
    assert done.success is not bool(said)
    assert not said or f"for 4 days nothing was swept {said}" in failure_of(done, "watch")


def test_a_mark_of_days_ago_that_needs_no_sweep_or_cannot_be_swept_yet_is_no_sweep_that_failed(site: Site) -> None:
    """Where rounds are rare, the newest mark is of days ago."""
    site.create("swept", "empty", "waits")
    site.configure("  - {match: '*', sweep: true}\n")
    at = SLOT - 5 * DAY
    site.says_marked("swept", "m1", started=at, ready=at)
    (asked,) = site.tick("sweep_confirmed").requests
    tags = {**asked.tags, "dagster/partition/repository": "swept", "dagster/partition/mark_id": "m1"}
    job = site.defs.resolve_job_def("gc_sweep")
    site.instance.create_run_for_job(job, status=dg.DagsterRunStatus.SUCCESS, tags=tags)
    swept = dg.AssetMaterialization(site.options.key(SWEEP), partition=str(GcCell("swept", "m1").key))
    site.instance.report_runless_asset_event(swept)
    site.says_marked("empty", "m1", started=at, ready=at, expired=0)
    site.says_marked("waits", "m1", started=at, ready=SLOT + DAY)
    (said,) = [each for each in site.run("gc_watch").all_events if each.is_step_failure]
    found = said.step_failure_data.user_failure_data.metadata
    assert (found["unswept"].value, found["overdue"].value) == (0, 3), "the site has a round each night"


def test_the_watch_fails_by_name_once_guards_have_stopped_all_sweeps_of_a_repository_for_days(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEGC_NOW", str(SLOT + 3_600))
    site.create("alpha", "beta", "gamma", "delta")
    site.configure("  - {match: delta, sweep: false}\n  - {match: '*', sweep: true}\n")
    for name in ("alpha", "beta", "gamma", "delta"):
        for day in (4, 3, 1, 0):
            at, stopped_by = SLOT - day * DAY, "" if name == "beta" and day == 1 else "blast-radius"
            site.says_marked(name, f"m{9 - day}", started=at, ready=at, stopped_by=stopped_by)
    swept = dg.AssetMaterialization(site.options.key(SWEEP), partition=str(GcCell("gamma", "m6").key))
    site.instance.report_runless_asset_event(swept)
    said = failure_of(site.run("gc_watch"), "watch")
    assert (
        "- alpha: " in said
        and "for 4 days nothing was swept (marks that guards stopped: 4); guards stop the last one, m9, by" in said
    )
    assert "- beta: " in said and "(marks that guards stopped: 3)" in said, "a mark that nobody asked for ends nothing"
    assert "gamma:" not in said and "delta:" not in said
