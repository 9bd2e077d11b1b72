"""A fresh `dg` project takes lakegc by the commands that its people would type, and a repository is marked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakegc_core.names import STAGES
from lakegc_dagster.config import LakegcConfig
from tests.dagster.conftest import ROOT, Site, open_site
from tests.support.dg_project import KEYS, TYPE, Project, new_project, package_metadata, tick
from tests.support.waiting import STARTS

pytestmark = pytest.mark.slow


@pytest.fixture
def site(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with (
        dg.DagsterInstance.from_config(str(home)) as instance,
        open_site(tmp_path, monkeypatch, instance, LakegcConfig(key_prefix=("analytics",))) as found,
    ):
        yield found


def test_a_fresh_project_adds_lakegc_by_the_commands_of_dg_and_marks_a_repository(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_project(tmp_path / "project", monkeypatch)

    def run(*arguments: str) -> str:
        found = subprocess.run(arguments, cwd=project.root, capture_output=True, text=True, timeout=2 * STARTS)
        assert found.returncode == 0, found.stdout + found.stderr[-3000:]
        return found.stdout

    paths = (package_metadata(tmp_path).parent, ROOT, project.root)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    command = str(Path(sys.executable).parent / "dg")
    assert TYPE in run(command, "list", "components")
    run(command, "scaffold", "defs", TYPE, "analytics")
    yaml = project.folder / "analytics" / "defs.yaml"
    yaml.write_text(yaml.read_text() + f"  config_file: {os.path.relpath(site.config_file, yaml.parent)}\n")
    assert "All definitions loaded successfully" in run(command, "check", "defs")
    for key, value in zip(KEYS, (site.server.url, site.server.access_key, site.server.secret_key), strict=True):
        monkeypatch.setenv(f"LAKEFS_ANALYTICS_{key.upper()}", value)
    for variable in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"LAKECTL_CREDENTIALS_{variable}")
    site.create("alpha")
    (request,) = site_round(site, project)
    said = run(command, "launch", "--job", "analytics_gc_mark", "--partition", str(request.partition_key))
    assert site.server.secret_key not in said
    for asset in STAGES:
        cells = site.instance.get_materialized_partitions(dg.AssetKey(["analytics", asset]))
        assert cells == {str(request.partition_key)}, asset


def site_round(site: Site, project: Project) -> list[dg.RunRequest]:
    """What the project's own round asks for, with its partitions there."""
    result = tick(project.load(), "analytics_open_round", site.instance)
    for each in result.dynamic_partitions_requests or []:
        site.instance.add_dynamic_partitions(each.partitions_def_name, list(each.partition_keys))
    return list(result.run_requests or [])
