"""Which Spark the resource gives: its own settings before those of lakegc.yaml."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dagster_pyspark import LazyPySparkResource

from lakegc_dagster.resources import LakegcResource
from tests.support.waiting import STARTS

SETTING = "spark.sql.files.maxPartitionBytes"
ASK = f"""
from dagster_pyspark import LazyPySparkResource
from lakegc_dagster.resources import LakegcResource
own = {{"spark": {{"master": "local[1]", "{SETTING.removeprefix("spark.")}": 4096}}}}
found = LakegcResource(config_file="lakegc.yaml", pyspark=LazyPySparkResource(spark_config=own)).spark
print(found.sparkContext.master, found.conf.get("{SETTING}"), found.conf.get("spark.app.name"))
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "lakegc.yaml"
    file.write_text(f'spark: {{master: "local[2]", conf: {{{SETTING}: 8192, spark.app.name: ours}}}}\n')
    return file


def test_settings_of_the_resource_win_over_the_file_however_deep_they_are_written(spark: Any, settings: Path) -> None:
    before = spark.conf.get(SETTING)
    try:
        resource = LakegcResource(config_file=str(settings))
        assert resource.spark.conf.get(SETTING) == "8192"
        nested = LazyPySparkResource(spark_config={"spark": {"sql": {"files.maxPartitionBytes": 4096}}})
        own = LakegcResource(config_file=str(settings), pyspark=nested)
        assert own.spark.conf.get(SETTING) == "4096"
    finally:
        spark.conf.set(SETTING, before)


@pytest.mark.slow
def test_the_master_of_the_resource_wins_over_the_file(settings: Path) -> None:
    """In a process of its own: a process has one session."""
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=settings.parent, capture_output=True, text=True, timeout=STARTS, check=False
    )
    assert done.stdout.split() == ["local[1]", "4096", "ours"], done.stderr
