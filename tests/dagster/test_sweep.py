"""The whole chain in Dagster, over a replayed lakeFS: what is deleted, what refuses, and what people see of it."""

from __future__ import annotations

import base64
from typing import Any

import dagster as dg
import pytest
from conftest import SECRET, Lake, failure_of

from lakegc_core.mark import STAGES
from lakegc_dagster.partitions import GcCell

UNGUARDED = {"safety": "none"}


def test_all_six_assets_materialise_and_a_dry_run_deletes_nothing(unified: Lake) -> None:
    before = unified.objects()
    result = unified.run("gc", "m1", mark=UNGUARDED)
    assert result.success
    assert unified.objects() == before
    done = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events() if event.asset_key}
    assert done == {*STAGES, "swept_report"}
    assert all(check.passed for check in result.get_asset_check_evaluations())
    assert _metadata(result, "swept_report")["dry_run"] is True
    assert _metadata(result, "swept_report")["planned"] == len(unified.garbage)


def test_told_to_delete_it_deletes_exactly_the_garbage_and_a_second_sweep_finds_nothing(unified: Lake) -> None:
    before = unified.objects()
    result = unified.run("gc", "m1", mark=UNGUARDED, sweep={"dry_run": False})
    assert result.success
    assert before - unified.objects() == unified.garbage
    assert _metadata(result, "swept_report")["deleted"] == len(unified.garbage)
    again = unified.run("gc_sweep", "m1", sweep={"dry_run": False})
    assert again.success
    assert _metadata(again, "swept_report")["deleted"] == 0
    assert before - unified.objects() == unified.garbage


def test_every_asset_shows_counts_bytes_and_tables(unified: Lake) -> None:
    result = unified.run("gc", "m1", mark=UNGUARDED)
    for stage in STAGES:
        found = _metadata(result, stage)
        assert {"dagster/row_count", "seconds", "artifact_bytes", "digest", "artifacts"} <= set(found)
        assert found["summary"].startswith("| ")
        assert found["datasets"].startswith("| ")
    expired = _metadata(result, "expired_addresses")
    assert expired["expired_objects"] == len(unified.garbage)
    assert expired["expired_bytes"] > 0
    assert "blast-radius" in expired["guards"]
    assert "| deleted |" in _metadata(result, "swept_report")["outcomes"]


def test_a_failed_check_stops_the_sweep_in_its_run_and_in_any_other(rich: Lake) -> None:
    """More than a tenth of this repository is garbage, which level `standard` does not let pass."""
    before = rich.objects()
    result = rich.run("gc", "m1", mark={"safety": "standard"}, sweep={"dry_run": False})
    assert not result.success
    assert [check.check_name for check in result.get_asset_check_evaluations() if not check.passed] == ["blast_radius"]
    assert not _ran(result, "swept_report")
    rich.forward(20 * 60)  # past the quarter of an hour that `standard` waits: only the guard is left
    alone = rich.run("gc_sweep", "m1", sweep={"dry_run": False})
    assert not alone.success
    assert "blast-radius: 22.6% of the objects" in failure_of(alone, "swept_report")
    assert rich.objects() == before
    wrong = rich.run("gc_sweep", "m1", sweep={"dry_run": False, "accept": {"order": "please"}})
    assert "cannot be accepted" in failure_of(wrong, "swept_report")
    accepted = rich.run("gc_sweep", "m1", sweep={"dry_run": False, "accept": {"blast_radius": "the drop was meant"}})
    assert accepted.success
    assert before - rich.objects() == rich.garbage


def test_a_sweep_without_a_mark_refuses(unified: Lake) -> None:
    before = unified.objects()
    alone = unified.run("gc_sweep", "m1", sweep={"dry_run": False})
    assert not alone.success
    assert "has no mark m1" in failure_of(alone, "swept_report")
    assert unified.objects() == before


def test_a_malformed_partition_typed_into_the_ui_fails_before_anything_is_asked(unified: Lake) -> None:
    key = dg.MultiPartitionKey({"repository": "No such name", "mark_id": "m1"})
    for dimension, name in (("repository", "lakegc_repository"), ("mark_id", "lakegc_mark")):
        unified.instance.add_dynamic_partitions(name, [key.keys_by_dimension[dimension]])
    result = unified.defs.resolve_job_def("gc_mark").execute_in_process(
        partition_key=key, instance=unified.instance, raise_on_error=False
    )
    assert "no name of a lakeFS repository" in failure_of(result, "namespace_listing")


def test_a_repository_that_lakefs_does_not_know_fails_at_once(unified: Lake) -> None:
    result = unified.run("gc_mark", "m1", repository="nobody-knows-it")
    assert not result.success
    assert "nobody-knows-it" in failure_of(result, "namespace_listing")


def test_the_secret_of_the_server_is_in_no_event_and_no_metadata(
    unified: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    result = unified.run("gc", "m1", mark=UNGUARDED)
    unified.env.setenv("LAKECTL_SERVER_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody listens
    unified.env.setattr("lakegc_core.lakefs.http.time.sleep", lambda seconds: None)
    failed = unified.run("gc_sweep", "m1")
    assert result.success
    assert not failed.success
    assert failure_of(failed, "swept_report")
    seen = [dg.serialize_value(entry) for run in (result, failed) for entry in unified.instance.all_logs(run.run_id)]
    seen += [repr(unified.defs), *capfd.readouterr()]
    for secret in (SECRET, base64.b64encode(f"AKIAREPLAY:{SECRET}".encode()).decode()):
        assert not any(secret in text for text in seen)


def _metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    (event,) = [event for event in result.get_asset_materialization_events() if event.asset_key == dg.AssetKey(asset)]
    assert str(event.partition) == str(GcCell(*reversed(str(event.partition).split("|"))).key)
    return {name: value.value for name, value in event.materialization.metadata.items()}


def _ran(result: dg.ExecuteInProcessResult, step: str) -> bool:
    return any(event.is_step_start and event.step_key == step for event in result.all_events)
