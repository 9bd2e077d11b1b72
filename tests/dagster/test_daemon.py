"""Dagster's own daemon, as a team runs it: it ticks the round sensor, and runs a backfill from the command line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakegc_dagster.partitions import GcCell
from lakegc_dagster.rounds import slot_of
from tests.dagster.conftest import ROOT, Site, open_site
from tests.support.waiting import STARTS, until

pytestmark = pytest.mark.slow

WORKSPACE = ("-w", str(ROOT / "workspace.yaml"))
PATIENCE = 1_800.0  # seconds: each run is a process with a JVM of its own


@pytest.fixture
def site(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with (
        dg.DagsterInstance.from_config(str(home)) as instance,
        open_site(tmp_path, monkeypatch, instance) as found,
    ):
        monkeypatch.setenv("LAKEGC_CONFIG", str(found.config_file))
        yield found


def dagster(*arguments: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "dagster", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=STARTS
    )
    assert found.returncode == 0, found.stderr[-3000:]


def test_a_round_and_a_backfill_run_in_the_daemon_and_delete_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.create("alpha", "broken")
    site.server.sandbox.repository("broken").delete_rules()
    GcCell("alpha", "m1").register(site.instance)
    before = site.files("alpha")
    monkeypatch.setenv("LAKEGC_NOW", str(time.time()))  # it stands still: no second round comes due
    dagster("sensor", "start", "open_round", *WORKSPACE)
    dagster("job", "backfill", *WORKSPACE, "-l", "lakegc", "-j", "gc_mark", "--partitions", "m1|alpha", "--noprompt")
    log = (tmp_path / "daemon.log").open("w")
    daemon = subprocess.Popen(
        [sys.executable, "-m", "dagster._daemon", "run", *WORKSPACE],
        cwd=ROOT,
        env=dict(os.environ),
        stdout=log,
        stderr=log,
    )
    try:
        runs = finished(site, 3)
    finally:
        daemon.terminate()
        daemon.wait(timeout=STARTS)
    status = {run.tags["dagster/partition"]: run.status for run in runs}
    (slot,) = {key.split("|")[0] for key in status} - {"m1"}
    assert slot_of(slot) is not None
    assert status == {
        f"{slot}|alpha": dg.DagsterRunStatus.SUCCESS,
        f"{slot}|broken": dg.DagsterRunStatus.FAILURE,
        "m1|alpha": dg.DagsterRunStatus.SUCCESS,
    }
    (of_sensor,) = (run for run in runs if run.tags["dagster/partition"] == f"{slot}|alpha")
    assert of_sensor.tags["dagster/partition/repository"] == "alpha" and of_sensor.tags["lakegc/round"] == slot
    assert site.files("alpha") == before


def finished(site: Site, count: int) -> list[dg.DagsterRun]:
    """The runs of the instance, once so many have ended."""
    over = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]

    def ended() -> list[dg.DagsterRun]:
        runs = list(site.instance.get_runs(dg.RunsFilter(statuses=over)))
        return runs if len(runs) >= count else []

    return until(ended, f"{count} runs have ended", PATIENCE, pause=2)
