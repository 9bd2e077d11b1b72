"""The process from which Spark forks its Python workers on one machine, with all imported that they need.

Spark's own imports nothing, so that every worker spends seconds on pandas, pyarrow and lakegc; and a task may need
several of them at once. To fork is only safe without threads: the libraries are told to start none, and where one has
all the same, this becomes Spark's own daemon. Which session uses it is said in `spark`.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
from pathlib import Path

_SPARKS_OWN = "pyspark.daemon"
_NEEDED = (
    "pyspark.worker",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "lakegc_core.stages.candidates",
    "lakegc_core.stages.committed_addresses",
    "lakegc_core.stages.expired_addresses",
    "lakegc_core.stages.namespace_listing",
    "lakegc_core.stages.retention_commits",
    "lakegc_core.stages.swept_report",
    "lakegc_core.stages.uncommitted_addresses",
)


# What keeps OpenBLAS (in numpy) and jemalloc (in pyarrow, which does not use it) from starting threads as they load.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def main() -> None:
    """What `python -m lakegc_core.worker_daemon pyspark.worker` does: Spark's protocol, from warm forks."""
    os.environ.update(_NO_THREADS)
    for name in _NEEDED:
        importlib.import_module(name)
    import pyarrow as pa

    pa.array([1])  # looks for pandas the first time
    if _threads() > 1:
        os.execv(sys.executable, [sys.executable, "-m", _SPARKS_OWN, *sys.argv[1:]])
    gc.collect()
    gc.freeze()  # workers share these pages until they write to them
    importlib.import_module(_SPARKS_OWN).manager()


def _threads() -> int:
    """Threads of this process, those of libraries too where the system tells."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


if __name__ == "__main__":
    main()
