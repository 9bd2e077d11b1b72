"""How fast a sweep deletes, beside what plain clients get out of the same store in the same run; and what it needs.

Here: the delete phase of lakegc (a plan, waves of tasks on Spark `local[2]`, lease, journal) on SeaweedFS and on a
folder, against boto3 with 1 to 16 threads and plain unlinking, in turn and twice, forwards and backwards; and how much
memory the driver needs for a small and for a large sweep. Not here: the mark, what decides that an object may go, and
listing (`listing.py`).

Sizes by environment: LAKEGC_BENCH_OBJECTS (32,000 a sweep), LAKEGC_BENCH_MEMORY (`10000,100000`; empty: not measured).
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
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from benchmarks.filling import fill
from lakegc_core import clock
from lakegc_core.marks.lease import Lease
from lakegc_core.policy.namespace import Namespace
from lakegc_core.spark.session import session
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep.deletion import PLAN_SCHEMA, Deletion, Piece, run_wave
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.parts import Part, PartWriter, list_parts
from lakegc_sandbox.files.names import Names
from tests.support.replays import AWS, environment
from tests.support.servers import S3Server, seaweedfs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS = (1, 4, 8, 16)
ROUNDS = 2
ROWS_A_PART = 10_000
_OLD = datetime.now(UTC) - timedelta(days=9)
Row = dict[str, Any]


class Rate(NamedTuple):
    """Objects a second, and objects a second of processor time of all that took part: client, Spark and store.

    The latter is worth a look when others were busy on the machine. It counts, for all ways alike, what the store has
    still to tidy up after the way before.
    """

    wall: float
    cpu: float


def run() -> list[Row]:
    """One row a way of deleting: its rates in the worst and the best round, and what share of the best plain one's."""
    objects = int(os.environ.get("LAKEGC_BENCH_OBJECTS", "32000"))
    with environment(AWS):
        spark = session("local[2]", {"spark.sql.shuffle.partitions": "4"})
        with tempfile.TemporaryDirectory(prefix="lakegc-bench-") as folder:
            with seaweedfs(Path(folder)) as server:
                rows = _on_s3(spark, server, objects)
            rows += _on_a_folder(spark, Path(folder) / "local", 2 * objects)
    sizes = os.environ.get("LAKEGC_BENCH_MEMORY", "10000,100000")
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
    """lakegc in the midst of the plain clients, each on fresh objects; plain clients get half as many."""
    ways: list[tuple[str, Callable[[], Rate]]] = [
        (f"s3 boto3, {threads} threads", lambda n=threads: _plain_s3(server, objects // 2, n)) for threads in THREADS
    ]
    ways.insert(len(ways) // 2, ("s3 lakegc sweep", lambda: _sweep_s3(spark, server, objects)))
    return _in_turn(ways)


def _plain_s3(server: S3Server, objects: int, threads: int) -> Rate:
    root = uuid.uuid4().hex
    keys = [f"{root}/{address}" for address in addresses(objects)]
    fill(server, keys)
    return _rate(objects, lambda: _boto3(server, keys, threads))


def _sweep_s3(spark: SparkSession, server: S3Server, objects: int) -> Rate:
    found, root = addresses(objects), uuid.uuid4().hex
    fill(server, [f"{root}/{address}" for address in found])
    config = server.config(root)
    rate = _sweep(spark, config, config, found)
    left = sum(batch.num_rows for batch in connect(config).list("data/"))
    if left:
        raise RuntimeError(f"{left} of {objects} objects are left")
    return rate


def _boto3(server: S3Server, keys: Sequence[str], threads: int) -> None:
    client = server.client()

    def delete(start: int) -> None:
        batch = [{"Key": key} for key in keys[start : start + 1000]]
        answer = client.delete_objects(Bucket=server.bucket, Delete={"Objects": batch, "Quiet": True})
        if answer.get("Errors"):
            raise RuntimeError(str(answer["Errors"][0]))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(delete, range(0, len(keys), 1000)))


# --- a folder ---


def _on_a_folder(spark: SparkSession, root: Path, objects: int) -> list[Row]:
    def plain() -> Rate:
        folder = root / uuid.uuid4().hex
        paths = [f"{folder}/{address}" for address in make_files(folder, objects)]
        return _rate(objects, lambda: [os.unlink(path) for path in paths])  # noqa: PTH108

    def ours() -> Rate:
        folder = root / uuid.uuid4().hex
        config = LocalConfig(str(folder))
        return _sweep(spark, config, config, make_files(folder, objects))

    return _in_turn([("local os.unlink, 1 thread", plain), ("local lakegc sweep", ours)])


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


def _sweep(spark: SparkSession, data: StoreConfig, artifacts: StoreConfig, found: Sequence[str]) -> Rate:
    """From the first task to the last outcome on record."""
    home = "_lakefs/retention/gc/lakegc/bench"
    parts = [_plan_part(artifacts, home, found[at : at + ROWS_A_PART]) for at in range(0, len(found), ROWS_A_PART)]
    plan = DatasetFolder(artifacts, home).dataset("plan", parts, PLAN_SCHEMA)
    lease = Lease(artifacts, f"{home}/lease.json", "bench")
    lease.take()
    now = clock.now().timestamp()
    work = Deletion(
        data=data,
        journal=DatasetFolder(artifacts, f"{home}/outcomes"),
        attempt=1,
        namespace=Namespace("s3://bench/lake"),
        cutoff=now - 3600,
        until=now + 3600,
        lease=lease.proof,
    )
    _warm(spark, data)
    left: list[Piece] = []
    rate = _rate(
        len(found), lambda: left.extend(run_wave(spark, [Piece(source) for source in plan.sources], work).left)
    )
    told = sum(part.rows for part in list_parts(artifacts, f"{home}/outcomes"))
    lease.give_back()
    if left or told != len(found):
        raise RuntimeError(f"{told} of {len(found)} objects have an outcome")
    return rate


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


def _rate(objects: int, work: Callable[[], object]) -> Rate:
    began, used = time.perf_counter(), _processor_seconds()
    work()
    return Rate(objects / (time.perf_counter() - began), objects / (_processor_seconds() - used))


def _processor_seconds() -> float:
    """Processor time of this process and all that it has started, ended ones too. Linux only."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended meanwhile
                told = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)], ticks[int(entry.name)] = int(told[1]), sum(map(int, told[11:15]))
    mine, found = {os.getpid()}, {os.getpid()}
    while found:
        found = {process for process, parent in parents.items() if parent in found} - mine
        mine |= found
    return sum(ticks[process] for process in mine) / os.sysconf("SC_CLK_TCK")


def _in_turn(ways: list[tuple[str, Callable[[], Rate]]]) -> list[Row]:
    """Each way once a round, every other round backwards, so that none has always the fresher store."""
    rates: dict[str, list[Rate]] = {name: [] for name, _ in ways}
    for number in range(ROUNDS):
        for name, rate in ways if number % 2 == 0 else reversed(ways):
            rates[name].append(rate())
    plain = [told for name, told in rates.items() if "lakegc" not in name]
    best = [Rate(*(max(column) for column in zip(*found, strict=True))) for found in zip(*plain, strict=True)]
    return [_row(name, told, best) for name, told in rates.items()]


def _row(what: str, rates: Sequence[Rate], best: Sequence[Rate]) -> Row:
    """`best`: the best plain rates of each round."""
    row: Row = {"what": what}
    for name, column in (("rate", 0), ("rate_cpu", 1)):
        found = [rate[column] for rate in rates]
        shares = [rate[column] / top[column] for rate, top in zip(rates, best, strict=True)]
        row |= {
            name: f"{min(found):,.0f} to {max(found):,.0f}",
            f"{name}_of_best": f"{min(shares):.2f} to {max(shares):.2f}",
        }
    return row
