"""A process that marks and sweeps garbage which lies in a folder already, and says how much memory its driver took.

Run by `sweep.py`: `python -m benchmarks.sweep_memory FOLDER`, with the garbage in FOLDER/local/lake. In local mode the
JVM is the driver's and the executors' in one, so that its heap is an upper bound of what a driver needs.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakegc_core import pipeline
from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.marks.context import begin_mark, open_repository
from lakegc_core.spark.session import session
from lakegc_core.stages import swept_report
from lakegc_sandbox.api.server import SandboxServer
from lakegc_sandbox.lakefs import Sandbox


def main(folder: str) -> None:
    """Print one JSON object: objects deleted, seconds, and megabytes at their peak."""
    os.environ["LAKEGC_UNSAFE"] = "yes"
    sandbox = Sandbox(Path(folder) / "local", seed=1)
    repository = sandbox.create_repository("lake", age=timedelta(days=30))
    repository.set_rules(7)
    repository.upload("main", "table/live", b"live", age=timedelta(days=20))
    repository.commit("main", "live", date=datetime.now(UTC) - timedelta(days=20))
    spark = session("local[2]")
    with SandboxServer(sandbox) as server:
        settings = Settings(server=ServerSettings(server.url, server.access_key, server.secret_key))
        context = begin_mark(open_repository(settings, "lake"), "m1", min_age=timedelta(days=1), safety_level="none")
        before = _peak()
        began = time.perf_counter()
        pipeline.mark(spark, context)
        marked = time.perf_counter()
        result = swept_report(spark, context)
        swept = time.perf_counter()
        if result.trouble:
            raise RuntimeError(result.trouble)
        found = {
            "objects": result.outcomes["deleted"],
            "seconds": round(swept - began, 1),
            "rate": round(result.outcomes["deleted"] / (swept - marked)),
            "python_mb": _peak(),
            "python_before_mb": before,
            "jvm_heap_mb": _heap(spark),
        }
    print(json.dumps(found))


def _peak() -> int:
    """Peak resident memory of this process, the driver's Python, in megabytes."""
    told = Path("/proc/self/status").read_text()
    return int(told.partition("VmHWM:")[2].split()[0]) >> 10


def _heap(spark: Any) -> int:
    """What the JVM holds when its garbage is gone, in megabytes: what would grow, if anything did."""
    gc.collect()  # Python's references to objects of the JVM
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    for _ in range(3):
        spark._jvm.java.lang.System.gc()
    return int(runtime.totalMemory() - runtime.freeMemory()) >> 20


if __name__ == "__main__":
    main(sys.argv[1])
