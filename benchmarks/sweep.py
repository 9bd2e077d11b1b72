"""How fast a sweep deletes, beside what plain clients get out of the same store in the same run; and what it needs.

Here: the delete phase of lakegc (a plan, waves of tasks on Spark `local[2]`, lease, journal) on SeaweedFS and on a
folder, against boto3 from 1 to 16 threads and plain unlinking; listing against boto3's paginator; and how much memory
the driver needs for a small and for a large sweep. Not here: the mark, and what decides that an object may go.

Sizes by environment: LAKEGC_BENCH_OBJECTS (100,000), LAKEGC_BENCH_MEMORY (`10000,1000000`; empty: not measured).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.lease import Lease
from lakegc_core.namespace import Namespace
from lakegc_core.sandbox.names import Names
from lakegc_core.spark import run_tasks, session
from lakegc_core.stages.deletion import PLAN_SCHEMA, Deletion, Piece, run_wave
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.local import LocalConfig
from lakegc_core.store.parquet import Part, PartWriter, list_parts
from tests.replays import AWS, environment
from tests.servers import S3Server, seaweedfs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS = (1, 2, 4, 8, 16)
ROWS_A_PART = 10_000
_OLD = datetime.now(UTC) - timedelta(days=9)
Row = dict[str, Any]


def run() -> list[Row]:
    """One row a way of deleting or listing: objects a second, and its share of the best plain rate of the run."""
    objects = int(os.environ.get("LAKEGC_BENCH_OBJECTS", "100000"))
    with environment(AWS):
        spark = session("local[2]", {"spark.sql.shuffle.partitions": "4"})
        with tempfile.TemporaryDirectory(prefix="lakegc-bench-") as folder:
            with seaweedfs(Path(folder)) as server:
                rows = [*_listing(server, objects), *_on_s3(spark, server, objects)]
            rows += _on_a_folder(spark, Path(folder) / "local", objects)
    sizes = os.environ.get("LAKEGC_BENCH_MEMORY", "10000,1000000")
    return rows + [_memory(int(size)) for size in sizes.split(",") if size]


def _warm(spark: SparkSession, config: StoreConfig) -> None:
    """Both workers have spoken to the store, as they have in a sweep, whose plan they write."""

    def task(item: int) -> Iterator[Row]:
        connect(config).delete_many([f"data/never-{item}"])
        time.sleep(1)
        yield {"item": item}

    run_tasks(spark, [1, 2], task)


def addresses(objects: int) -> list[str]:
    """As many addresses as lakeFS would give out within some hours: in slices."""
    names, begun = Names(seed=objects), _OLD.timestamp()
    return [names.data_address(begun + number // 5) for number in range(objects)]


# --- S3 ---


def _on_s3(spark: SparkSession, server: S3Server, objects: int) -> list[Row]:
    """Half as many objects for lakegc before the plain clients as after them, so that neither has the fresher store."""
    each = max(1000, objects // len(THREADS) // 2)
    plain: dict[int, list[tuple[int, float]]] = {threads: [] for threads in THREADS}
    ours: list[tuple[int, float]] = []
    for order in (THREADS, THREADS[::-1]):
        ours.append(_sweep_s3(spark, server, objects // 2))
        for threads in order:
            root = uuid.uuid4().hex
            keys = [f"{root}/{address}" for address in addresses(each)]
            _fill(server, keys)
            plain[threads].append((each, _seconds(lambda keys=keys, n=threads: _boto3(server, keys, n))))
    rows = [_row(f"s3 boto3, {threads} threads", took) for threads, took in plain.items()]
    return _against(rows, _row("s3 lakegc sweep", ours))


def _sweep_s3(spark: SparkSession, server: S3Server, objects: int) -> tuple[int, float]:
    found, root = addresses(objects), uuid.uuid4().hex
    _fill(server, [f"{root}/{address}" for address in found])
    config = server.config(root)
    seconds = _sweep(spark, config, config, found)
    left = sum(batch.num_rows for batch in connect(config).list("data/"))
    if left:
        raise RuntimeError(f"{left} of {objects} objects are left")
    return objects, seconds


def _fill(server: S3Server, keys: Sequence[str]) -> None:
    store = server.config().connect()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.write(key, b"x" * 64), keys))


def _boto3(server: S3Server, keys: Sequence[str], threads: int) -> None:
    client = server.client()

    def delete(start: int) -> None:
        batch = [{"Key": key} for key in keys[start : start + 1000]]
        answer = client.delete_objects(Bucket=server.bucket, Delete={"Objects": batch, "Quiet": True})
        if answer.get("Errors"):
            raise RuntimeError(str(answer["Errors"][0]))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(delete, range(0, len(keys), 1000)))


def _listing(server: S3Server, objects: int) -> list[Row]:
    few = min(objects, 20_000)
    _fill(server, [f"list/{address}" for address in addresses(few)])

    def paginator() -> int:
        pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=server.bucket, Prefix="list/data/")
        return sum(len(page.get("Contents", ())) for page in pages)

    store = server.config("list").connect()
    plain = [(few, _seconds(paginator)) for _ in range(3)]
    ours = [(few, _seconds(lambda: sum(batch.num_rows for batch in store.list("data/")))) for _ in range(3)]
    return _against([_row("s3 boto3 paginator", [min(plain)])], _row("s3 lakegc list", [min(ours)]))


# --- a folder ---


def _on_a_folder(spark: SparkSession, root: Path, objects: int) -> list[Row]:
    plain: list[tuple[int, float]] = []
    ours: list[tuple[int, float]] = []
    for number in range(2):
        for took, name in ((plain, "plain"), (ours, "lakegc")):
            found = make_files(root / f"{name}-{number}", objects // 2)
            config = LocalConfig(str(root / f"{name}-{number}"))
            if took is plain:
                paths = [f"{config.path}/{address}" for address in found]
                took.append((len(found), _seconds(lambda paths=paths: [os.unlink(path) for path in paths])))  # noqa: PTH108
            else:
                took.append((len(found), _sweep(spark, config, config, found)))
    return _against([_row("local os.unlink, 1 thread", plain)], _row("local lakegc sweep", ours))


def make_files(root: Path, objects: int) -> list[str]:
    """Empty old files under addresses as lakeFS gives them."""
    found = addresses(objects)
    for folder in {address.rpartition("/")[0] for address in found}:
        (root / folder).mkdir(parents=True)
    old = _OLD.timestamp()
    for address in found:
        path = f"{root}/{address}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        os.utime(path, (old, old))
    return found


# --- the delete phase ---


def _sweep(spark: SparkSession, data: StoreConfig, artifacts: StoreConfig, found: Sequence[str]) -> float:
    """Seconds from the first task to the last outcome on record."""
    home = "_lakefs/retention/gc/lakegc/bench"
    plan = [_plan_part(artifacts, home, found[at : at + ROWS_A_PART]) for at in range(0, len(found), ROWS_A_PART)]
    lease = Lease(artifacts, f"{home}/lease.json", "bench")
    lease.take()
    now = clock.now().timestamp()
    work = Deletion(
        data=data,
        artifacts=artifacts,
        plan_folder=f"{home}/plan",
        journal=f"{home}/outcomes",
        attempt=1,
        namespace=Namespace("s3://bench/lake"),
        cutoff=now - 3600,
        until=now + 3600,
        lease=lease.proof,
    )
    _warm(spark, data)
    began = time.perf_counter()
    left = run_wave(spark, [Piece(part) for part in plan], work)
    seconds = time.perf_counter() - began
    told = sum(part.rows for part in list_parts(artifacts, f"{home}/outcomes"))
    lease.give_back()
    if left or told != len(found):
        raise RuntimeError(f"{told} of {len(found)} objects have an outcome")
    return seconds


def _plan_part(artifacts: StoreConfig, home: str, found: Sequence[str]) -> Part:
    writer = PartWriter(artifacts, f"{home}/plan", PLAN_SCHEMA)
    rows = [{"address": each, "size": 64, "last_modified": _OLD, "etag": None, "since": _OLD} for each in sorted(found)]
    writer.write(pa.RecordBatch.from_pylist(rows, schema=PLAN_SCHEMA))
    (part,) = writer.close()
    return part


# --- memory ---


def _memory(objects: int) -> Row:
    """A mark and a sweep of so many expired objects, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="lakegc-bench-") as folder:
        make_files(Path(folder) / "local" / "lake", objects)
        command = [sys.executable, "-m", "benchmarks.sweep_memory", folder]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    told: Row = json.loads(done.stdout.splitlines()[-1])
    return {"what": "local whole mark and sweep", **told}


# --- rows ---


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _row(what: str, took: Sequence[tuple[int, float]]) -> Row:
    objects, seconds = sum(each[0] for each in took), sum(each[1] for each in took)
    return {"what": what, "objects": objects, "seconds": round(seconds, 3), "rate": round(objects / seconds)}


def _against(plain: list[Row], ours: Row) -> list[Row]:
    best = max(row["rate"] for row in plain)
    return [row | {"of_best_plain": round(row["rate"] / best, 3)} for row in (*plain, ours)]
