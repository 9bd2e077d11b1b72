"""How fast stores are listed: lakegc's S3 store beside boto3's own paginator, and a walk of local folders.

Here: rates on this machine, against a real SeaweedFS on loopback, which shares the processors with the
client. Not here: judgements; `client_cpu_rate` says what the client alone could do.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.filling import fill
from lakegc_core.store.local import LocalConfig
from tests.support.servers import S3Server, seaweedfs

LOCAL_FOLDERS = 20


def run(objects: int = 20_000, local_files: int = 100_000, rounds: int = 3) -> list[dict[str, Any]]:
    """One row a way of listing: seconds (best of the rounds), objects a second and a CPU second."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="lakegc-bench-") as folder:
        with seaweedfs(Path(folder)) as server:
            fill(server, [f"bench/data/slice-{number % 10}/c{number:019}" for number in range(objects)])
            store = server.config("bench").connect()
            rows.append(_measure("s3 lakegc", objects, rounds, lambda: _rows(store.list("data/"))))
            rows.append(_measure("s3 boto3 paginator", objects, rounds, lambda: _paginator(server)))
        root = Path(folder) / "local"
        for number in range(local_files):
            path = root / f"data/{number % LOCAL_FOLDERS}/{number:08}"
            if number < LOCAL_FOLDERS:
                path.parent.mkdir(parents=True)
            path.touch()
        local = LocalConfig(str(root)).connect()
        rows.append(_measure("local lakegc", local_files, rounds, lambda: _rows(local.list("data/"))))
    return rows


def _rows(batches: Iterator[Any]) -> int:
    return sum(batch.num_rows for batch in batches)


def _paginator(server: S3Server) -> int:
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=server.bucket, Prefix="bench/data/")
    return sum(len(page.get("Contents", ())) for page in pages)


def _measure(what: str, expected: int, rounds: int, work: Callable[[], int]) -> dict[str, Any]:
    took: list[tuple[float, float]] = []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), _cpu()
        found = work()
        took.append((time.perf_counter() - wall, _cpu() - cpu))
        if found != expected:
            raise RuntimeError(f"{what} listed {found} objects of {expected}")
    seconds, cpu_seconds = min(took)
    return {
        "what": what,
        "objects": expected,
        "seconds": round(seconds, 3),
        "rate": round(expected / seconds),
        "client_cpu_rate": round(expected / max(cpu_seconds, 1e-9)),
    }


def _cpu() -> float:
    times = os.times()
    return times.user + times.system


def main(arguments: Sequence[str] = ()) -> None:
    """Print the rows as a small table."""
    for row in run(*(int(argument) for argument in arguments)):
        print("  ".join(f"{name}={value}" for name, value in row.items()))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
