"""What failed is told in the words of the step that failed, for these definitions alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster_aws.s3 import S3Resource

from lakegc_dagster.alerts import failure_alert
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.records import is_ours
from lakegc_dagster.resources import LakegcResource
from tests.dagster.conftest import Site, open_site

WARN = dg.AssetCheckSeverity.WARN


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Site]:
    with open_site(tmp_path, monkeypatch, instance) as found:
        yield found


def told(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult, options: LakegcConfig) -> list[str]:
    said: list[str] = []
    context = dg.build_run_status_sensor_context(
        sensor_name="failures",
        dagster_event=result.get_run_failure_event(),
        dagster_instance=instance,
        dagster_run=result.dagster_run,
    )
    failure_alert(options, said.append)(context.for_run_failure())
    return said


def test_a_failed_sweep_is_told_with_its_own_sentence_and_only_by_its_own_team(site: Site) -> None:
    GcCell("alpha", "m1").register(site.instance)
    result = site.run("gc_sweep", partition_key=GcCell("alpha", "m1").key)
    (text,) = told(site.instance, result, site.options)
    first, step, run = text.splitlines()
    assert first == "lakegc · alpha · m1"
    assert step.startswith("swept_report: GET /repositories/alpha was answered with 404")
    assert run == result.run_id
    assert told(site.instance, result, LakegcConfig(key_prefix=("other",))) == []


def test_what_cannot_be_told_at_once_is_told_again_because_dagster_names_a_failure_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    GcCell("alpha", "m1").register(site.instance)
    result = site.run("gc_sweep", partition_key=GcCell("alpha", "m1").key)
    waits: list[float] = []
    monkeypatch.setattr("lakegc_dagster.alerts.sleep", waits.append)
    context = dg.build_run_status_sensor_context(
        sensor_name="failures",
        dagster_event=result.get_run_failure_event(),
        dagster_instance=site.instance,
        dagster_run=result.dagster_run,
    ).for_run_failure()
    said: list[str] = []

    def busy(text: str, failures: int) -> None:
        said.append(text)
        if len(said) <= failures:
            raise OSError("the webhook is down")

    failure_alert(site.options, lambda text: busy(text, 2))(context)
    assert len(said) == 3 and len({*said}) == 1 and sum(waits) < 30
    said.clear()
    with pytest.raises(OSError, match="the webhook is down"):  # the tick shows it
        failure_alert(site.options, lambda text: busy(text, 9))(context)
    assert len(said) == 3


def test_a_check_that_stops_a_mark_is_told_in_its_own_words(instance: dg.DagsterInstance) -> None:
    @dg.asset(key="expired_addresses", check_specs=[spec("holds"), spec("shrink")])
    def stage() -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
        yield dg.MaterializeResult()
        yield dg.AssetCheckResult(check_name="shrink", passed=False, severity=WARN, description="A word is needed.")
        yield dg.AssetCheckResult(check_name="holds", passed=False, description="Hold main~1 keeps nothing.")

    job = dg.define_asset_job("gc_mark", selection=[stage])
    defs = dg.Definitions(assets=[stage], jobs=[job])
    result = defs.resolve_job_def("gc_mark").execute_in_process(instance=instance, raise_on_error=False)
    (text,) = told(instance, result, LakegcConfig())
    assert "holds: Hold main~1 keeps nothing." in text.splitlines()
    assert "A word is needed" not in text


def spec(name: str) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(name, asset="expired_addresses", blocking=True)


def test_a_run_of_checks_alone_belongs_to_whom_the_checked_asset_belongs() -> None:
    check = dg.AssetCheckKey(dg.AssetKey(["lakefs", "analytics"]), "last_mark")
    run = dg.DagsterRun("__ASSET_JOB", asset_selection=set(), asset_check_selection={check})  # as the UI launches it
    assert is_ours(run, LakegcConfig(repositories=("analytics",)))
    assert not is_ours(run, LakegcConfig(repositories=("orders",)))


def test_a_team_mounts_it_all_in_a_project_of_its_own() -> None:
    config = LakegcConfig(key_prefix=("lake",), backup=True, round_cron="30 1 * * *", tags={"domain": "lake"})
    lakegc = LakegcResource(config_file="lakegc.yaml", s3=S3Resource(aws_secret_access_key=dg.EnvVar("S3_SECRET")))
    defs = dg.Definitions.merge(
        build_lakegc_definitions(config, resource_overrides={"lakegc": lakegc}),
        dg.Definitions(sensors=[failure_alert(config, print)]),
    )
    dg.Definitions.validate_loadable(defs)
    assert {each.name for each in defs.sensors or ()} == {
        "lake_open_round",
        "lake_sweep_confirmed",
        "lake_failures",
    }
    assert all(each.tags == {"domain": "lake"} for each in defs.sensors or ())
