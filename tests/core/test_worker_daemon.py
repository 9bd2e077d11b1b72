"""Python workers on one machine are forks of a process that has imported what they need, and that has no threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import worker_daemon
from lakegc_core.spark import Json, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Spark's own daemon is used")

_TRY = """
import os, sys, threading
from lakegc_core import worker_daemon
os.execv = lambda *command: sys.exit(f"{command[1][1:]}")
if sys.argv[1] == "threads":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
import pyspark.daemon
pyspark.daemon.manager = lambda: sys.exit(f"forks from {worker_daemon._threads()} thread")
worker_daemon.main()
"""


def test_a_worker_finds_imported_what_it_needs(spark: SparkSession) -> None:
    def task(item: int) -> Iterator[Json]:
        parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode().split("\0")
        yield {"parent": parent, "imported": [name for name in worker_daemon._NEEDED if name in sys.modules]}

    (found,) = run_tasks(spark, [1], task)
    assert worker_daemon.__name__ in found["parent"]
    assert found["imported"] == list(worker_daemon._NEEDED)


@pytest.mark.parametrize(
    ("threads", "says"), [("none", "forks from 1 thread"), ("threads", "['-m', 'pyspark.daemon', 'threads']")]
)
def test_with_threads_it_becomes_sparks_own_daemon(threads: str, says: str) -> None:
    done = subprocess.run([sys.executable, "-c", _TRY, threads], capture_output=True, text=True, timeout=120)
    assert done.stderr.strip().splitlines()[-1] == says
