"""A cell registered by one command and materialised by another, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakegc_core.names import STAGES
from tests.dagster.conftest import ROOT, SECRET, Lake, open_lake
from tests.support.waiting import STARTS


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Lake]:
    yield from open_lake("local_unified_gc", tmp_path, monkeypatch, instance)


def test_a_cell_is_registered_by_one_command_and_materialised_by_another_as_a_first_collection(
    lake: Lake, home: Path
) -> None:
    lake.env.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # for a life of seconds
    before = lake.objects()
    registered = _run("-m", "lakegc_dagster.register", lake.repository, "m1")
    assert registered.stdout.strip() == f"m1|{lake.repository}"
    run = _run(
        *("-m", "dagster", "asset", "materialize", "-m", "lakegc_dagster.definitions", "--select", "*"),
        *("--partition", registered.stdout.strip()),
    )
    assert SECRET not in run.stdout + run.stderr
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for asset in STAGES:
            assert instance.get_materialized_partitions(dg.AssetKey(asset)) == {registered.stdout.strip()}
        assert instance.get_materialized_partitions(dg.AssetKey("swept_report")) == set(), "a dry run is no sweep"
        (dry,) = instance.fetch_observations(dg.AssetKey("swept_report"), limit=9).records
        assert dry.partition_key == registered.stdout.strip() and dry.asset_observation
        told = dry.asset_observation.metadata
        assert "blast-radius" in str(told["refused_by"].value), "a first collection: the run is green all the same"
        assert f"Not yet unreferenced for long enough: {len(lake.garbage)} objects." in str(told["in_short"].value)
    assert lake.objects() == before


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    found = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=2 * STARTS
    )
    assert found.returncode == 0, found.stderr[-3000:]
    return found
