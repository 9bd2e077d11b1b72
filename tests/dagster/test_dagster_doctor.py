"""The job that asks the doctor: what it says of lakeFS and its repositories, and of the Dagster that asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from lakegc_core.doctor.finding import Finding, Level
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.doctor import instance_findings
from tests.dagster.conftest import Site, open_site
from tests.dagster.test_upkeep import metadata

ONE_EACH = {"key": "dagster/partition/repository", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
SOUND: dict[str, Any] = {
    "telemetry": {"enabled": False},
    "run_monitoring": {"enabled": True},
    "run_retries": {"enabled": True, "max_retries": 1, "retry_on_asset_or_op_failure": False},
    "concurrency": {"runs": {"max_concurrent_runs": 4, "tag_concurrency_limits": [ONE_EACH]}},
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Site]:
    with open_site(tmp_path, monkeypatch, instance) as found:
        found.create("alpha", "beta")
        found.configure("  - {match: '*'}\n")
        yield found


def found_in(folder: Path, settings: dict[str, Any], *, sweeps: bool = False) -> dict[str, Finding]:
    """What is found in an instance with these settings, by name."""
    folder.mkdir(exist_ok=True)
    (folder / "dagster.yaml").write_text(yaml.safe_dump(settings))
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        return {finding.name: finding for finding in instance_findings(instance, LakegcConfig(), sweeps=sweeps)}


def test_settings_of_a_team_leave_only_what_is_switched_off(tmp_path: Path) -> None:
    found = found_in(tmp_path, SOUND)
    assert set(found) == {"switched-off"} and "sweep" not in found["switched-off"].what
    wanted = found_in(tmp_path, SOUND, sweeps=True)["switched-off"]
    assert "sweep_confirmed" in wanted.what and "Nothing is swept" in wanted.why


@pytest.mark.parametrize(
    ("change", "name", "level"),
    [
        ({"run_monitoring": {"enabled": False}}, "no-run-monitoring", Level.WARNING),
        ({"run_retries": {"enabled": True, "max_retries": 1}}, "retries-of-refusals", Level.WARNING),
        ({"concurrency": {"runs": {"max_concurrent_runs": 4}}}, "runs-not-kept-apart", Level.NOTE),
        (
            {"concurrency": {"runs": {"tag_concurrency_limits": [ONE_EACH | {"limit": 2}]}}},
            "runs-not-kept-apart",
            Level.NOTE,
        ),
        (
            {"concurrency": {"runs": {"tag_concurrency_limits": [ONE_EACH | {"value": "alpha"}]}}},
            "runs-not-kept-apart",
            Level.NOTE,
        ),
        (
            {
                "concurrency": {},
                "run_coordinator": {
                    "module": "dagster._core.run_coordinator",
                    "class": "DefaultRunCoordinator",
                },
            },
            "no-run-queue",
            Level.WARNING,
        ),
    ],
)
def test_each_setting_that_is_not_as_lakegc_needs_it_is_named(
    tmp_path: Path, change: dict[str, Any], name: str, level: Level
) -> None:
    found = found_in(tmp_path, SOUND | change)
    assert set(found) == {"switched-off", name} and found[name].level is level


def test_an_instance_that_forgets_is_named(instance: dg.DagsterInstance) -> None:
    assert "instance-forgets" in {finding.name for finding in instance_findings(instance, LakegcConfig())}


def test_the_job_shows_what_was_found_of_dagster_and_of_each_repository(site: Site) -> None:
    site.server.sandbox.repository("beta").set_rules(7, {"gone": 3})
    result = site.run("gc_doctor")
    told = metadata(result, "doctor")
    assert result.success, told
    lines = [line for line in told["findings"].splitlines() if " beta " in line]
    assert lines and any("Dagster" in line for line in told["findings"].splitlines())
    assert told["in_short"].endswith("found.") and told["warnings"] >= 1 and told["alarms"] == 0


def test_the_job_fails_with_the_alarms_of_the_repository_that_is_asked_for(site: Site) -> None:
    site.server.sandbox.repository("alpha").delete_rules()
    config = {"ops": {"doctor": {"config": {"repository": "alpha"}}}}
    result = site.run("gc_doctor", run_config=config)
    assert not result.success
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    said = failed.step_failure_data.user_failure_data
    assert said is not None and str(said.description).startswith("The doctor is alarmed:\n- alpha: ")
