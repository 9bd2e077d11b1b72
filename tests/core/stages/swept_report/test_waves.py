"""The waves of a sweep: when one is sent, and executors whose clocks are hours wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.spark.session import run_tasks
from lakegc_core.stages.swept_report import deletion
from tests.support.lake import NOW, lake, quick
from tests.support.swept import Swept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3600.0


@pytest.fixture
def swept(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Swept]:
    with lake(tmp_path) as found, quick(spark):
        yield Swept(spark, found, monkeypatch)


@pytest.mark.parametrize("ahead", [-2 * HOUR, 2 * HOUR])
def test_a_sweep_on_executors_whose_clocks_are_two_hours_wrong_takes_one_wave(swept: Swept, ahead: float) -> None:
    there = str(NOW.timestamp() + ahead)

    def elsewhere(spark: SparkSession, items: Any, task: Any, **options: Any) -> list[Any]:
        def on_the_executor(item: Any) -> Iterator[Any]:
            os.environ["LAKEGC_NOW"] = there  # the next task takes over the driver's again
            yield from task(item)

        return run_tasks(spark, items, on_the_executor, **options)

    swept.patch.setattr(deletion, "run_tasks", elsewhere)
    swept.each_wave(deletion.run_wave)
    assert swept.sweep().outcomes["deleted"] == 3
    assert (swept.left(), swept.waves, swept.looks) == ([], 1, 2)
