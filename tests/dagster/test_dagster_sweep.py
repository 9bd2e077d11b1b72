"""The whole chain in Dagster, over a replayed lakeFS: what is deleted, what refuses, and what people see of it."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakegc_core import clock
from lakegc_core.copies import backup as copies
from lakegc_core.errors import LeaseHeldError
from lakegc_core.marks.artifacts import HOME
from lakegc_core.marks.context import open_mark, open_repository
from lakegc_core.marks.lease import NAME, Lease
from lakegc_core.names import STAGES
from lakegc_core.policy.guards import GUARDS
from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.result import SweepResult
from lakegc_dagster import failures
from lakegc_dagster.metadata.shown import SHOWN
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.resources import LakegcResource
from tests.dagster.conftest import PRICE, SECRET, Lake, failure_of, open_lake


@dataclass(frozen=True)
class Marked:
    """A lake, what lay in it at first, and the run that marked it and swept it dry."""

    lake: Lake
    before: set[str]
    result: dg.ExecuteInProcessResult


@pytest.fixture(scope="module")
def marked(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Marked]:
    """Ten files on three branches, six of them garbage; all six assets materialised once, with the default config."""
    with pytest.MonkeyPatch.context() as env, dg.DagsterInstance.ephemeral() as instance:
        for lake in open_lake("local_unified_gc", tmp_path_factory.mktemp("unified"), env, instance):
            before = lake.objects()
            yield Marked(lake, before, lake.run("gc", "m1", mark={"safety": "none"}))


@pytest.fixture
def rich(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Lake]:
    """Every kind of history and of object; more than a tenth of it is garbage."""
    yield from open_lake("local_rich", tmp_path, monkeypatch, instance)


def test_all_six_assets_materialise_and_the_default_deletes_nothing(marked: Marked) -> None:
    result = marked.result
    assert result.success
    assert marked.lake.objects() == marked.before
    done = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events() if event.asset_key}
    assert done == set(STAGES), "a dry run is no sweep"
    failed = [check for check in result.get_asset_check_evaluations() if not check.passed]
    # The recorded server lists other repositories, of which nothing was recorded: a warning.
    assert {check.check_name: check.severity for check in failed} == {"neighbours": dg.AssetCheckSeverity.WARN}
    assert len(list(result.get_asset_check_evaluations())) == len(GUARDS)
    told = _observed(result)
    assert told["dry_run"] is True and told["planned"] == len(marked.lake.garbage)
    sizes = {path: (marked.lake.root / path).stat().st_size for path in marked.lake.garbage}
    assert told["planned_bytes"] == sum(sizes.values()) > 0
    assert told["in_short"].startswith("Dry run: nothing was deleted. ")


def test_every_asset_shows_counts_bytes_and_tables(marked: Marked) -> None:
    for stage in STAGES:
        found = _metadata(marked.result, stage)
        assert {"dagster/row_count", "seconds", "artifact_bytes", "digest", "artifacts"} <= set(found)
        assert found["summary"].startswith("| ")
        datasets = rows_of(found["datasets"])
        assert found["dagster/row_count"] == datasets[0]["rows"] > 0 and datasets[0]["files"] > 0
        lines = found["artifacts"].split("  \n")
        assert "".join(line.strip("`") for line in lines).endswith(f"/_lakefs/retention/gc/lakegc/marks/m1/{stage}")
        assert max(map(len, lines)) <= 50  # with its backticks: what the page of a partition has room for
        name = marked.lake.repository
        assert found["lakefs"] == f"[{name}]({os.environ['LAKECTL_SERVER_ENDPOINT_URL']}/repositories/{name})"
    expired = _metadata(marked.result, "expired_addresses")
    assert expired["expired_objects"] == len(marked.lake.garbage)
    assert expired["expired_bytes"] > 0
    guards = {row["guard"]: (row["holds"], row["severity"]) for row in rows_of(expired["guards"])}
    assert guards == {guard.name: ("yes", "") for guard in GUARDS} | {"neighbours": ("no", "WARN")}
    assert "| folder | objects | bytes |" in expired["largest_prefixes"]
    assert {"outcome": "deleted", "objects": 0, "size": "0 B", "meaning": "gone from the store"} in rows_of(
        _observed(marked.result)["outcomes"]
    )
    causes = rows_of(expired["largest_causes"])
    assert sum(row["objects"] for row in causes) == len(marked.lake.garbage)
    assert sum(row["bytes"] for row in causes) == expired["expired_bytes"]


def test_the_first_that_each_asset_shows_is_a_sentence_about_what_it_found(marked: Marked) -> None:
    said = {}
    for stage in (*STAGES, "swept_report"):
        found = _observed(marked.result) if stage == "swept_report" else _metadata(marked.result, stage)
        assert next(iter(found)) == "in_short"
        said[stage] = found["in_short"]
    garbage = f"{len(marked.lake.garbage):,} objects"
    assert "are garbage" in said["expired_addresses"]
    assert garbage in said["expired_addresses"] and garbage in said["swept_report"]
    assert "Dry run: nothing was deleted" in said["swept_report"]
    assert "commits are retained" in said["retention_commits"] and "lie in the namespace" in said["namespace_listing"]


def test_everything_that_the_marking_assets_show_is_short_enough_to_be_shown_in_place(marked: Marked) -> None:
    for stage in STAGES:
        texts = {name: value for name, value in _metadata(marked.result, stage).items() if isinstance(value, str)}
        long = {name for name, value in texts.items() if len(value) >= SHOWN}
        assert not long
    assert "█" in _metadata(marked.result, "expired_addresses")["by_age"]


def test_a_sweep_without_a_mark_refuses(marked: Marked) -> None:
    alone = marked.lake.run("gc_sweep", "m2", sweep={"dry_run": False})
    assert not alone.success
    assert "has no mark m2" in failure_of(alone, "swept_report")
    assert marked.lake.objects() == marked.before


def test_a_malformed_partition_typed_into_the_ui_fails_before_anything_is_asked(marked: Marked) -> None:
    lake, key = marked.lake, dg.MultiPartitionKey({"repository": "No such name", "mark_id": "m1"})
    lake.instance.add_dynamic_partitions("lakegc_repository", ["No such name"])
    result = lake.defs.resolve_job_def("gc_mark").execute_in_process(
        partition_key=key, instance=lake.instance, raise_on_error=False
    )
    assert "no name of a lakeFS repository" in failure_of(result, "namespace_listing")


def test_a_repository_that_lakefs_does_not_know_fails_at_once(marked: Marked) -> None:
    result = marked.lake.run("gc_mark", "m1", repository="nobody-knows-it")
    assert not result.success
    assert "nobody-knows-it" in failure_of(result, "namespace_listing")


def test_the_secret_of_the_server_is_in_no_event_and_no_metadata(
    marked: Marked, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody listens
    failed = marked.lake.run("gc_sweep", "m1")
    assert failure_of(failed, "swept_report")
    runs = marked.lake.instance.get_runs()
    seen = [dg.serialize_value(entry) for run in runs for entry in marked.lake.instance.all_logs(run.run_id)]
    assert len(seen) > 100
    seen += [repr(marked.lake.defs.resources), *capfd.readouterr()]
    for secret in (SECRET, base64.b64encode(f"AKIAREPLAY:{SECRET}".encode()).decode()):
        assert not any(secret in text for text in seen)


def test_objects_that_could_not_be_deleted_fail_the_sweep_and_what_was_done_stays_on_record(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_done = SweepResult(
        marked.lake.repository, "m1", 1, {"deleted": 4, "lost": 1, "failed:denied": 2}, 40, 7, 1.0, None
    )
    monkeypatch.setattr("lakegc_core.pipeline.swept_report", lambda *args, **kwargs: half_done)
    result = marked.lake.run("gc_sweep", "m1", sweep={"dry_run": False})
    assert not result.success
    assert "2 objects could not be deleted" in failure_of(result, "swept_report")
    (observed,) = result.get_asset_observation_events()
    assert observed.asset_observation_data.asset_observation.metadata["deleted"].value == 4
    assert "1 objects were found referenced after" in failure_of(result, "swept_report")


def test_a_sweep_that_is_terminated_says_where_what_it_did_is_on_record_and_how_to_go_on(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminated(*_: Any, **__: Any) -> SweepResult:
        raise KeyboardInterrupt

    lake = marked.lake
    monkeypatch.setattr("lakegc_core.pipeline.swept_report", terminated)
    run = lake.run("gc_sweep", "m1", sweep={"dry_run": False})
    said = [entry.user_message for entry in lake.instance.all_logs(run.run_id)]
    told = "What this sweep deleted is on record in mark m1. To go on with it, launch the same again; to end it"
    assert any(text.startswith(told) and f"`lakegc sweep {lake.repository} m1 --close`" in text for text in said)


def test_the_budget_of_a_run_is_part_of_its_config_and_a_sweep_that_it_stops_does_not_fail(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {"objects": 2, "bytes": 5_000_000}
    stopped = SweepResult(
        marked.lake.repository, "m1", 1, {"deleted": 4, "over_budget": 2}, 40, 4, 1.0, None, over_budget=left
    )
    given: list[Budget] = []

    def swept(*_: Any, budget: Budget, **__: Any) -> SweepResult:
        given.append(budget)
        return stopped

    monkeypatch.setattr("lakegc_core.pipeline.swept_report", swept)
    result = marked.lake.run("gc_sweep", "m1", sweep={"dry_run": False, "most_bytes": "2TB", "most_objects": 4})
    assert result.success and given == [Budget(2 * 10**12, 4)]
    found = _metadata(result, "swept_report")
    assert found["stopped_by_budget"] is True and (found["over_budget"], found["over_budget_bytes"]) == (2, 5_000_000)
    assert "2 objects, 5.0 MB are left: stopped by its budget" in found["in_short"]


def test_a_step_that_waited_for_the_lease_past_its_time_of_day_has_no_time_until_the_next_day(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Budget] = []

    def swept(*_: Any, budget: Budget, **__: Any) -> SweepResult:
        given.append(budget)
        if len(given) == 1:  # and twenty minutes later:
            monkeypatch.setenv("LAKEGC_NOW", str(clock.now().timestamp() + 1200))
            monkeypatch.setattr("lakegc_dagster.records.time", lambda: time.time() + 1200)
            raise LeaseHeldError("Another collector works on this repository")
        return SweepResult(marked.lake.repository, "m1", 1, {}, 0, 0, 1.0, None)

    monkeypatch.setattr("lakegc_core.pipeline.swept_report", swept)
    monkeypatch.setattr(failures, "SECONDS_A_WAIT", 0)
    until = (clock.now() + timedelta(minutes=10)).replace(second=0, microsecond=0)
    result = marked.lake.run("gc_sweep", "m1", sweep={"dry_run": False, "until": f"{until:%H:%M}"})
    assert result.success and [budget.until for budget in given] == [until.timestamp()] * 2


def test_a_sweep_that_dagster_runs_again_by_itself_past_its_time_of_day_has_no_time_until_the_next_day(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Budget] = []

    def swept(*_: Any, budget: Budget, **__: Any) -> SweepResult:
        given.append(budget)
        if len(given) == 1:
            raise RuntimeError("killed")
        return SweepResult(marked.lake.repository, "m1", 1, {}, 0, 0, 1.0, None)

    monkeypatch.setattr("lakegc_core.pipeline.swept_report", swept)
    began = clock.now()
    until = (began + timedelta(minutes=10)).replace(second=0, microsecond=0)
    config = {"dry_run": False, "until": f"{until:%H:%M}"}
    killed = marked.lake.run("gc_sweep", "m1", sweep=config)
    monkeypatch.setenv("LAKEGC_NOW", str(began.timestamp() + 1200))
    record_of, parent = dg.DagsterInstance.get_run_record_by_id, {"dagster/parent_run_id": killed.run_id}

    def begun_earlier(instance: dg.DagsterInstance, run_id: str) -> Any:
        record = record_of(instance, run_id)
        return record._replace(start_time=record.start_time - 1200) if run_id == killed.run_id else record

    monkeypatch.setattr(dg.DagsterInstance, "get_run_record_by_id", begun_earlier)
    assert marked.lake.run("gc_sweep", "m1", sweep=config, tags=parent | {"dagster/retry_number": "1"}).success
    assert marked.lake.run("gc_sweep", "m1", sweep=config, tags=parent).success  # by a person, who may wait until then
    assert [budget.until for budget in given] == [until.timestamp()] * 2 + [until.timestamp() + 86_400]


def test_told_to_delete_it_deletes_exactly_the_garbage_and_a_second_sweep_finds_nothing(marked: Marked) -> None:
    lake = marked.lake
    result = lake.run("gc_sweep", "m1", sweep={"dry_run": False})
    assert result.success
    assert marked.before - lake.objects() == lake.garbage
    swept, found = _metadata(result, "swept_report"), _metadata(marked.result, "expired_addresses")
    assert swept["deleted"] == len(lake.garbage)
    assert swept["bytes_deleted"] == found["expired_bytes"]
    cost = pytest.approx(swept["bytes_deleted"] / 1e9 * PRICE, rel=1e-3)
    assert swept["freed_per_month"] == found["garbage_per_month"] == cost
    assert swept["currency"] == "EUR" and "EUR a month" in swept["in_short"]
    assert "freed_per_month" not in _observed(marked.result)  # a dry run
    again = lake.run("gc_sweep", "m1", sweep={"dry_run": False})
    assert again.success
    assert _metadata(again, "swept_report")["deleted"] == 0
    assert marked.before - lake.objects() == lake.garbage


def test_a_guard_that_needs_a_persons_word_only_warns_and_stops_the_sweep_in_its_run_and_in_any_other(
    rich: Lake,
) -> None:
    """More than a tenth of this repository is garbage, which level `standard` does not let pass."""
    before = rich.objects()
    marked = rich.run("gc_mark", "m1", mark={"safety": "standard"})
    assert marked.success
    failed = {check.check_name: check.severity for check in marked.get_asset_check_evaluations() if not check.passed}
    assert failed == dict.fromkeys(("blast_radius", "neighbours"), dg.AssetCheckSeverity.WARN)
    found = _metadata(marked, "expired_addresses")
    assert found["stopped_by"] == "blast-radius" and "Guard blast-radius will refuse a sweep" in found["in_short"]
    result = rich.run("gc", "m1", mark={"safety": "standard"}, sweep={"dry_run": False})
    assert not result.success and rich.objects() == before
    assert "blast-radius: 26.1% of lakeFS's objects" in failure_of(result, "swept_report")
    alone = rich.run("gc_sweep", "m1", sweep={"dry_run": False})
    assert not alone.success
    assert "blast-radius: 26.1% of lakeFS's objects" in failure_of(alone, "swept_report")
    assert rich.objects() == before
    tried = rich.run("gc_sweep", "m1")
    assert tried.success, "a dry run shows what would go, and warns"
    told = _observed(tried)
    assert told["planned"] == len(rich.garbage) and "until a person accepts blast-radius" in told["in_short"]
    assert "26.1% of lakeFS's objects" in told["refused_by"] and "accept: {blast-radius: " in told["if_it_was_meant"]
    accept = {"blast_radius": "the drop was meant"}
    dry = rich.run("gc_sweep", "m1", sweep={"accept": accept})
    assert _observed(dry)["planned"] == len(rich.garbage) and "refused_by" not in _observed(dry)
    early = rich.run("gc_sweep", "m1", sweep={"dry_run": False, "accept": accept})
    assert "Sweep it in 15 minutes or later" in failure_of(early, "swept_report")
    assert rich.objects() == before
    rich.forward(20 * 60)
    wrong = rich.run("gc_sweep", "m1", sweep={"dry_run": False, "accept": {"order": "please"}})
    assert "cannot be accepted" in failure_of(wrong, "swept_report")
    accepted = rich.run("gc_sweep", "m1", sweep={"dry_run": False, "accept": accept})
    assert accepted.success
    assert before - rich.objects() == rich.garbage


def test_the_sweep_itself_refuses_although_every_check_is_green(rich: Lake) -> None:
    """The mark was judged by level `none`; since then lakegc.yaml asks for more."""
    before = rich.objects()
    marked = rich.run("gc_mark", "m1", mark={"safety": "none"})
    stopped = [check for check in marked.get_asset_check_evaluations() if not check.passed]
    assert marked.success and {check.check_name for check in stopped} <= {"neighbours"}
    config = Path(os.environ["LAKEGC_CONFIG"])
    config.write_text(config.read_text().replace('match: "*",', 'match: "*", safety: standard,'))
    rich.forward(20 * 60)
    swept = rich.run("gc_sweep", "m1", sweep={"dry_run": False})
    assert "blast-radius" in failure_of(swept, "swept_report")
    assert rich.objects() == before


def test_what_lies_in_quarantine_comes_back_although_lakegc_yaml_names_a_place_for_backups(
    rich: Lake, tmp_path: Path
) -> None:
    config = Path(os.environ["LAKEGC_CONFIG"])
    policy = f'{{match: "*", quarantine: 7d, backup_to: "{tmp_path}/spare", '
    config.write_text(config.read_text().replace('{match: "*", ', policy))
    before = rich.objects()
    assert rich.run("gc", "m1", mark={"safety": "none"}, sweep={"dry_run": False}).success
    assert before - rich.objects() == rich.garbage
    result = rich.run("gc_restore", "m1")
    assert result.success, failure_of(result, "restore")
    assert rich.objects() == before


def test_a_restore_without_a_place_says_how_to_name_that_of_a_backup_that_another_tool_made(
    rich: Lake, tmp_path: Path
) -> None:
    """It lies where lakegc.yaml says, and no record tells of it."""
    config = Path(os.environ["LAKEGC_CONFIG"])
    config.write_text(config.read_text().replace('{match: "*", ', f'{{match: "*", backup_to: "{tmp_path}/spare", '))
    assert rich.run("gc_mark", "m1", mark={"safety": "none"}).success
    assert "If another tool made the backup, give its place as `place`" in failure_of(
        rich.run("gc_restore", "m1"), "restore"
    )


def test_a_backup_that_was_made_by_hand_is_brought_back_from_where_it_was_made_to(
    rich: Lake, spark: Any, tmp_path: Path
) -> None:
    """lakegc.yaml names no place for backups; the record of this one does."""
    before = rich.objects()
    assert rich.run("gc_mark", "m1", mark={"safety": "none"}).success
    mark = open_mark(open_repository(LakegcResource().settings(), rich.repository), "m1")
    copies.backup(spark, mark, str(tmp_path / "by-hand"))
    assert rich.run("gc_sweep", "m1", sweep={"dry_run": False}).success
    assert before - rich.objects() == rich.garbage
    result = rich.run("gc_restore", "m1")
    assert result.success, failure_of(result, "restore")
    assert rich.objects() == before


def test_a_step_waits_while_another_collector_works_and_then_goes_on(
    rich: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Lease(LocalConfig(str(rich.root)), f"{HOME}/{NAME}", "sweep rich m0")
    assert other.take()
    takes_over, asked = Lease._takes_over, 0

    def takes_over_later(lease: Lease) -> bool:
        nonlocal asked
        asked += 1
        try:
            return takes_over(lease)
        finally:
            if asked == 2:
                other.give_back()

    monkeypatch.setattr(failures, "SECONDS_A_WAIT", 0)
    monkeypatch.setattr(Lease, "_takes_over", takes_over_later)
    result = rich.run("gc_mark", "m1", mark={"safety": "none"})
    waits = [event for event in result.all_events if event.is_step_up_for_retry]
    assert result.success and [event.step_key for event in waits] == ["namespace_listing"] * 2
    assert "Another collector works on this repository: `sweep rich m0`" in str(waits[0].step_retry_data.error)


def test_a_run_that_waited_in_vain_for_another_collector_ends_with_the_reason(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Lease(LocalConfig(str(marked.lake.root)), f"{HOME}/{NAME}", "sweep rich m0")
    assert other.take()
    monkeypatch.setattr(failures, "SECONDS_A_WAIT", 0)
    monkeypatch.setattr(failures, "WAITS_FOR_LEASE", 2)
    for job, mark_id in (("gc_mark", "m2"), ("gc_sweep", "m1")):
        result = marked.lake.run(job, mark_id)
        assert len([event for event in result.all_events if event.is_step_up_for_retry]) == 2
        ended = result.get_run_failure_event().job_failure_data.error
        assert ended and "Failure: Another collector works on this repository: `sweep rich m0`" in ended.message
    other.give_back()


def rows_of(table: dg.TableMetadataValue) -> list[dict[str, Any]]:
    """The rows of a table."""
    return [dict(record.data) for record in table.records]


def _observed(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """The one observation of a dry run."""
    (event,) = result.get_asset_observation_events()
    found = event.asset_observation_data.asset_observation
    assert found.asset_key == dg.AssetKey("swept_report") and found.partition
    return {name: value.value for name, value in found.metadata.items()}


def _metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    (event,) = [event for event in result.get_asset_materialization_events() if event.asset_key == dg.AssetKey(asset)]
    assert str(event.partition) == str(GcCell(*reversed(str(event.partition).split("|"))).key)
    return {name: value.value for name, value in event.materialization.metadata.items()}
