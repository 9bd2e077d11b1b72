"""Spark as lakegc uses it: one session, DataFrames only, and tasks that run Python on the executors.

`java` says which Java runs it, `shipping` how executors get lakegc. What the stages do is not here.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from lakegc_core import clock, errors
from lakegc_core.errors import LakegcError, SettingsError
from lakegc_core.names import Json
from lakegc_core.spark import java, preload, shipping, versions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

Item = TypeVar("Item")
Make = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

CONNECT = "sc://"
"""The beginning of the address of a Spark Connect server, which stands where a master would."""

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable that spark-submit gives a Python program, and platforms that run one the same way."""

FEW = 20_000
"""Rows that may pass through the driver to every task: some megabytes at most."""

_RESULT = "result string"
_NOT_STARTED = "JAVA_GATEWAY_EXITED"
_DAEMON = "spark.python.daemon.module"
_SPECULATION = "spark.speculation"
_DEFAULTS = {
    "spark.app.name": "lakegc",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.adaptive.enabled": "true",
    # Else Spark notes the line of Python behind each column: a sixth of a small sweep, for messages about wrong SQL.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


def session(master: str = "local[*]", conf: Mapping[str, str] | None = None, *, quick: bool = False) -> SparkSession:
    """The process's Spark session, started if there is none; one that stands is taken, whatever its master.

    `master` may be the address of a Spark Connect server. Under spark-submit, its own master counts instead. `conf`
    holds any `spark.*` settings and wins over lakegc's defaults, but not over what makes all versions of Spark decide
    alike, nor over what lets a delete be sent once. Credentials do not belong there: stores are reached from Python,
    with configurations that travel in the tasks. Tasks are given this package. `quick`: for little work, see
    `java.prepare`; whoever gives the driver's Java options of their own decides alone. SettingsError if lakegc does not
    run on this version of Spark.
    """
    own, stands = {**(conf or {}), _SPECULATION: "false", **versions.ALIKE}, _stands()
    if stands or master.startswith(CONNECT):
        del own[_SPECULATION]  # the session would say so and do as it did: see `may_run_twice`
    if _is_given() and not master.startswith(CONNECT):
        master = ""  # its own counts, which the builder would override; Java and its settings are chosen as well
    forks = _import_spark(master, own)
    import pyspark

    versions.check(pyspark.__version__)
    from pyspark.sql import SparkSession

    if master.startswith(CONNECT):  # memory, logs and Python are the server's
        builder = SparkSession.builder.remote(master)
    else:
        if python := own.get("spark.pyspark.python"):
            os.environ["PYSPARK_PYTHON"] = python  # only spark-submit looks at the setting itself
        told = any(key.startswith("spark.driver.") and key.endswith("JavaOptions") for key in own)
        if master:
            prepare_environment(master, quick=quick and not told)
        builder = SparkSession.builder.master(master) if master else SparkSession.builder
    for key, value in (_defaults(master, forks=forks) | own).items():
        builder = builder.config(key, value)
    with _interrupted_later(), _refused_master(master):
        started = builder.getOrCreate()
    versions.check(started.version)  # of a server, or of a session that a platform has started
    shipping.ship(started)
    return started


def _defaults(master: str, *, forks: bool) -> dict[str, str]:
    """lakegc's own settings for a master; an empty one is somebody else's. `forks`: of its tasks, see `preload`."""
    if master.startswith(CONNECT):
        return {key: value for key, value in _DEFAULTS.items() if key.startswith("spark.sql.")}
    if not master.startswith("local"):
        return dict(_DEFAULTS)
    log = Path(__file__).with_name("log4j2.properties")
    return {
        **_DEFAULTS,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log.as_uri()}",
        **({_DAEMON: preload.__name__} if forks else {}),
    }


def _import_spark(master: str, conf: Mapping[str, str]) -> bool:
    """Import all of PySpark that a session needs, and let what its tasks need be imported beside it. True if tasks run
    in forks of this process's own."""
    forks = sys.platform == "linux" and master.startswith("local") and _DAEMON not in conf
    if forks:
        preload.warm_up()
    if "pandas" not in sys.modules:
        # Spark's Python side wants it for the first job, and this thread waits for the JVM meanwhile.
        threading.Thread(target=importlib.import_module, args=("pandas",)).start()
    from pyspark.sql import functions  # noqa: F401

    return forks


def session_soon(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, *, quick: bool = False
) -> SparkSession:
    """A `session`; on this machine one that starts beside this thread. Java takes seconds, in which a command can read
    marks, list, and wait for lakeFS. What is asked of it waits until it stands; if it cannot start, that is its error.
    """
    if _is_given() or not master.startswith("local"):
        return session(master, conf, quick=quick)  # who named a wrong master learns it at once
    # Here: two threads that import modules which import each other get half of one.
    _import_spark(master, dict(conf or {}))
    if not versions.may_start_apart():
        return session(master, conf, quick=quick)
    return cast("SparkSession", _Soon(lambda: session(master, conf, quick=quick)))


class _Soon:
    """Stands for a session that is being started: every attribute is the session's."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        starter = ThreadPoolExecutor(1, "spark")
        self._started = starter.submit(start)
        starter.shutdown(wait=False)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._interrupt)  # Spark sets its own in the main thread alone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._started.result(), name)

    def _interrupt(self, number: int, frame: object) -> None:
        """Stop the jobs that run, as Spark does on Ctrl-C: tasks would go on deleting until Java ends."""
        if self._started.done() and self._started.exception() is None:
            self._started.result().sparkContext.cancelAllJobs()
        raise KeyboardInterrupt


@contextmanager
def _refused_master(master: str) -> Iterator[None]:
    """SettingsError where Java started and refused a master other than this machine: Spark's own error blames Java."""
    try:
        yield
    except RuntimeError as error:  # PySparkRuntimeError is one
        if _NOT_STARTED not in str(error) or master.startswith("local"):
            raise
        raise SettingsError(
            f"Spark did not start with master {master!r} (spark.master in lakegc.yaml). The line with `Exception` "
            "above says why. Correct the setting, or leave it out for local[*]."
        ) from None


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Delay Ctrl-C until the block ends: otherwise a Java that starts and that nobody knows yet would stay behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts: list[int] = []

    def note(number: int, frame: object) -> None:
        interrupts.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # else Spark has put its own there
            signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt


def _stands() -> bool:
    """True if this process has a session, of whatever thread. Does not import Spark to learn that."""
    spark = sys.modules.get("pyspark.sql")
    if spark is None:
        return False
    context = sys.modules["pyspark"].SparkContext._active_spark_context
    return context is not None or spark.SparkSession.getActiveSession() is not None


def _is_given() -> bool:
    """True if somebody else chose Java and the master: a session stands, or spark-submit has begun one."""
    return SUBMITTED in os.environ or _stands()


def may_run_twice(spark: SparkSession) -> bool:
    """True if Spark may run a second attempt of a task beside the first, as a session of somebody else's may be told.
    Both have the same effects, and one of them is not heard."""
    return str(spark.conf.get(_SPECULATION, "false")).lower() == "true"


def prepare_environment(master: str = "local[*]", *, quick: bool = False) -> None:
    """Set Java and the executors' Python where the environment leaves them open. Call before the first session."""
    if master.startswith("local"):
        # Workers would otherwise run the `python3` of PATH, which need not have lakegc.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    java.prepare(quick=quick and master.startswith("local"))


def run_tasks(
    spark: SparkSession,
    items: Sequence[Item],
    task: Callable[[Item], Iterator[Json]],
    *,
    width: int | None = None,
) -> list[Json]:
    """Run `task` on every item on the executors; return all that the tasks yield, in no order.

    Results are collected to the driver, so a task yields few and small ones: names of parts, counts, never objects.
    `width` limits how many tasks there are, and so how many run side by side. Each is sent all items: give it where
    they may be thousands.
    """
    if not items:
        return []
    slices = min(len(items), width) if width else len(items)
    numbers = spark.range(0, len(items), 1, slices)
    ready, clocks = tuple(items), clock.ambient()

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(clocks)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for result in task(ready[number]):
                    yield _row(result)

    return collect_results(numbers.mapInArrow(body, _RESULT))


def run_here(items: Sequence[Item], task: Callable[[Item], Iterator[Json]], threads: int) -> list[Json]:
    """What `run_tasks` does, in so many threads of this process: for little work, for which Spark need not stand."""
    with ThreadPoolExecutor(threads) as pool:
        return [_as_told(result) for results in pool.map(lambda item: list(task(item)), items) for result in results]


def begin_task(clocks: dict[str, str]) -> None:
    """First thing in a task: take over the driver's clock, and spare Python's garbage collector what is imported.

    Spark runs it after every task, which takes longer than many a task if it walks all modules each time.
    """
    gc.freeze()
    clock.adopt(clocks)


def run_on_rows(rows: DataFrame | Mapped, task: Callable[[Iterator[pa.RecordBatch]], Iterator[Json]]) -> list[Json]:
    """Run `task` over the batches of every partition of `rows`; return the few small results that it yields. `Few` rows
    are one partition, and no job begins."""
    clocks, make = clock.ambient(), None
    if isinstance(rows, Mapped):
        if isinstance(rows.of, Few):
            return [_as_told(result) for result in task(rows.here())]
        rows, make = rows.of, rows.make

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(clocks)
        for result in task(make(batches) if make else batches):
            yield _row(result)

    return collect_results(rows.mapInArrow(body, _RESULT))


@dataclass(frozen=True)
class Few:
    """At most FEW rows, which this process reads: a job of Spark takes longer than most of what is done with them. As a
    frame they are read by a task. `none`: there is nothing to read, and Spark knows it."""

    spark: SparkSession
    read: Callable[[], Iterator[pa.RecordBatch]]
    none: bool = False


@dataclass(frozen=True)
class Mapped:
    """Rows of a schema that Python makes of those of a frame, in its tasks; without `make` they are the frame's own.
    Of a `Few` it makes them in this process, by the same functions.

    Their writer does both in one worker; as a frame they pass through the JVM, to a worker more for each task.
    """

    of: DataFrame | Few
    schema: pa.Schema
    make: Make | None = None

    def then(self, schema: pa.Schema, more: Make, *, holding: int = 0) -> Mapped:
        """The rows that `more` makes of these rows, in the same tasks. `holding`: the number of rows that it keeps in
        memory meanwhile: tasks may hold more of them than this process."""
        source = self if holding <= FEW else self.in_tasks()
        first = source.make
        return Mapped(source.of, schema, more if first is None else lambda batches: more(first(batches)))

    def here(self) -> Iterator[pa.RecordBatch]:
        """`Few` rows, in this process."""
        return self.reader()()

    def reader(self) -> Callable[[], Iterator[pa.RecordBatch]]:
        """What reads `Few` rows, also where there is no session: tasks may be given it."""
        assert isinstance(self.of, Few), "these rows are read by tasks"
        read, make = self.of.read, self.make
        return (lambda: make(read())) if make else read

    def few(self, most: int) -> bool:
        """True if this process can read the rows, and finds at most so many."""
        return isinstance(self.of, Few) and sum(batch.num_rows for batch in self.here()) <= most

    def in_tasks(self) -> Mapped:
        """The same rows, also few ones in a task of Spark."""
        if not isinstance(self.of, Few):
            return self
        read, clocks = self.reader(), clock.ambient()

        def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            begin_task(clocks)
            for _ in batches:
                yield from read()

        return Mapped(self.of.spark.range(0, 1, 1, 1), self.schema, body)

    def as_frame(self) -> DataFrame:
        """The rows, for Spark to go on with."""
        from pyspark.sql.pandas.types import from_arrow_schema

        if isinstance(self.of, Few):
            if self.of.none:
                return versions.frame_of(self.of.spark, self.schema.empty_table())
            return self.in_tasks().as_frame()
        return self.of.mapInArrow(self.make, from_arrow_schema(self.schema)) if self.make else self.of


def both(one: Mapped, other: Mapped) -> Mapped:
    """The rows of two that have the same columns."""
    here, there = one.of, other.of
    if isinstance(here, Few) and isinstance(there, Few):
        readers = (one.reader(), other.reader())

        def read() -> Iterator[pa.RecordBatch]:
            for each in readers:
                yield from each()

        return Mapped(Few(here.spark, read, none=here.none and there.none), one.schema)
    return Mapped(one.as_frame().unionByName(other.as_frame()), one.schema)


def many(frame: DataFrame, rows: int | None = None) -> DataFrame:
    """The right side of a join, which may be large; `rows`: how many there are at most, where that is known.

    Spark takes what Python reads for a few rows, whatever its size, and would collect it on the driver to send it to
    every task. lakegc lets it do so only with few rows, where it saves the shuffle of both sides.
    """
    return frame.hint("broadcast" if rows is not None and rows <= FEW else "shuffle_hash")


def moment(seconds: float) -> Column:
    """A column that holds this moment (unix seconds) as a timestamp."""
    from pyspark.sql import functions as F

    return F.lit(datetime.fromtimestamp(seconds, UTC))


def collect_results(frame: DataFrame) -> list[Json]:
    """Collect a frame of JSON results; an error of lakegc raised in a task is raised here as itself."""
    return [json.loads(row[0]) for row in collected(frame)]


def collected(frame: DataFrame) -> list[Row]:
    """The rows of a frame, of which there are few; errors as with `collect_results`."""
    with clear_errors():
        return list(frame.collect())


def count_of(frame: DataFrame) -> int:
    """The number of rows of a frame; errors as with `collect_results`."""
    with clear_errors():
        return int(frame.count())


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn the long trace of a failed Spark job back into the lakegc error that a task raised, where there is one."""
    try:
        yield
    except LakegcError:
        raise
    except Exception as error:
        for name, message in reversed(re.findall(r"lakegc_core(?:\.\w+)*\.(\w+): (.*)", str(error))):
            kind = errors.ServerError if name == "LakeFSError" else getattr(errors, name, None)
            if isinstance(kind, type) and issubclass(kind, LakegcError):
                raise kind(message) from None
        raise


def _as_told(result: Json) -> Json:
    """A result as tasks elsewhere would tell it."""
    told: Json = json.loads(json.dumps(result))
    return told


def _row(result: Json) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"result": [json.dumps(result)]})
