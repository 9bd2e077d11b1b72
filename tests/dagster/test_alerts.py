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
from lakegc_dagster.resources import LakegcResource
from tests.dagster.conftest import Site, open_site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Site]:
    with open_site(tmp_path, monkeypatch, instance) as found:
        yield found


def told(site: Site, result: dg.ExecuteInProcessResult, options: LakegcConfig) -> list[str]:
    said: list[str] = []
    context = dg.build_run_status_sensor_context(
        sensor_name="failures",
        dagster_event=result.get_run_failure_event(),
        dagster_instance=site.instance,
        dagster_run=result.dagster_run,
    )
    failure_alert(options, said.append)(context.for_run_failure())
    return said


def test_a_failed_sweep_is_told_with_its_own_sentence_and_only_by_its_own_team(site: Site) -> None:
    GcCell("alpha", "m1").register(site.instance)
    result = site.run("gc_sweep", partition_key=GcCell("alpha", "m1").key)
    (text,) = told(site, result, site.options)
    first, step, run = text.splitlines()
    assert first == "lakegc · alpha · m1"
    assert step.startswith("swept_report: GET /repositories/alpha was answered with 404")
    assert run == result.run_id
    assert told(site, result, LakegcConfig(key_prefix=("other",))) == []


def test_a_team_mounts_it_all_in_a_project_of_its_own() -> None:
    config = LakegcConfig(key_prefix=("lake",), backup=True, round_cron="30 1 * * *")
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
