"""Tasks of the collector in the test's own process: quicker, for tests that are not about how tasks are spread."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.spark import tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_here(spark: SparkSession, items: Sequence[Any], task: Callable[[Any], Iterator[Any]], **_: Any) -> list[Any]:
    """`lakegc_core.spark.tasks.run_tasks`, in this process."""
    return [json.loads(json.dumps(result)) for item in items for result in task(item)]


def tasks_run_here(patch: pytest.MonkeyPatch) -> None:
    """Let every room run its tasks in this process. What maps the rows of a frame stays Spark's."""
    for name, module in list(sys.modules.items()):
        ours = name.startswith("lakegc_core.") and module is not tasks
        if ours and getattr(module, "run_tasks", None) is tasks.run_tasks:
            patch.setattr(module, "run_tasks", run_here)
