"""Spark as lakegc uses it: one session of a process, which lakegc starts or finds.

`java` says which Java runs it, `shipping` how executors get lakegc, `tasks` what runs there.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lakegc_core.errors import LakegcError, SettingsError
from lakegc_core.spark import java, preload, shipping, versions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

CONNECT = "sc://"
"""The beginning of the address of a Spark Connect server, which stands where a master would."""

_STANDALONE = "spark://"
_CONNECTING = 10.0  # seconds

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable that spark-submit gives a Python program, and platforms that run one the same way."""

_NOT_STARTED, _UNREAD = "JAVA_GATEWAY_EXITED", "Could not parse Master URL"
_DAEMON = "spark.python.daemon.module"
_SPECULATION = "spark.speculation"
_STOPPING = 10  # seconds that Java gets to stop jobs after Ctrl-C
_OF_JOBS = ("pyspark.sql.classic.dataframe", "pyspark.sql.pandas.map_ops")
"""What PySpark imports with the first job of a session that starts apart, which Spark 4 can."""
_SMALL_PAGE = "2m"  # Spark's own page, up to 64 MB, is taken by each join and each sort, however few rows they have
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
    if not stands:
        _check_answers(master)
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
    for key, value in (_defaults(master, forks=forks, quick=quick) | own).items():
        builder = builder.config(key, value)
    with _interrupted_later(), _refused_master(master):
        started = builder.getOrCreate()
    versions.check(started.version)  # of a server, or of a session that a platform has started
    shipping.ship(started)
    return started


def _defaults(master: str, *, forks: bool, quick: bool) -> dict[str, str]:
    """lakegc's own settings for a master; an empty one is somebody else's. `forks`: of its tasks, see `preload`.
    `quick`: for little work."""
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
        **({"spark.buffer.pageSize": _SMALL_PAGE} if quick else {}),
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
    for name in _OF_JOBS:
        importlib.import_module(name)
    return cast("SparkSession", _Soon(lambda: session(master, conf, quick=quick)))


class _Soon:
    """Stands for a session that is being started: every attribute is the session's. It begins with a job of its own."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._started: Future[SparkSession] = Future()
        # No process waits at its end for such a thread.
        self._starter = threading.Thread(target=self._run, args=(start,), name="spark", daemon=True)
        self._starter.start()
        atexit.register(self._end)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._interrupt)  # Spark sets its own in the main thread alone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._started.result(), name)

    def _run(self, start: Callable[[], SparkSession]) -> None:
        try:
            found = start()
        except BaseException as error:  # whoever asks for the session meets it
            self._started.set_exception(error)
            return
        self._started.set_result(found)
        _run_first_job(found)

    def _end(self) -> None:
        """End a Java that has not started Spark when the process ends, as after a refusal. PySpark then tidies up.
        Where the system does not tell which process it is, wait for it."""
        if not self._started.done():
            logging.disable()
        while self._starter.is_alive() and not self._started.done():
            with suppress(OSError):
                for child in Path(f"/proc/self/task/{self._starter.native_id}/children").read_text().split():
                    os.kill(int(child), signal.SIGTERM)
            self._starter.join(0.1)

    def _interrupt(self, number: int, frame: object) -> None:
        """Stop the jobs that run, as Spark does on Ctrl-C: tasks would go on deleting until Java ends. What becomes of
        connections to Java is no news then."""
        logging.disable()
        # This thread may be reading an answer of Java's; another one has a connection of its own.
        stopping = threading.Thread(target=self._stop_jobs, daemon=True)
        stopping.start()
        stopping.join(_STOPPING)
        raise KeyboardInterrupt

    def _stop_jobs(self) -> None:
        with suppress(Exception):  # Java may get the signal too, and be gone
            if self._started.done():
                self._started.result().sparkContext.cancelAllJobs()


def _run_first_job(spark: SparkSession) -> None:
    """Run a job like those of stages: the first one of a session takes 2 s longer than others, and a mark waits for
    lakeFS's dump meanwhile."""
    with suppress(Exception):  # a stage will meet what is wrong, and tell it
        rows = spark.range(0, 2, 1, 2).mapInArrow(_same, "id long")
        rows.repartition(2, "id").mapInArrow(_same, "id long").collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _check_answers(master: str) -> None:
    """LakegcError if no standalone master of the setting answers: Spark would try for a minute, and end in a trace of
    Java. SettingsError for one without host or port."""
    if not master.startswith(_STANDALONE):
        return
    tried = []
    for place in master.removeprefix(_STANDALONE).split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise _unread_master(master)
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECTING):
                return
        except OSError as error:
            tried.append(f"{place}: {error.strerror or error}")
    raise LakegcError(
        f"Spark's master {master!r} (spark.master in lakegc.yaml) does not answer: {'; '.join(tried)}. Start it, or "
        "correct the setting, or leave it out for local[*]."
    )


def _unread_master(master: str) -> SettingsError:
    return SettingsError(
        f"Spark knows no master {master!r} (spark.master in lakegc.yaml). Write one such as spark://HOST:7077, or "
        "leave it out for local[*]."
    )


@contextmanager
def _refused_master(master: str) -> Iterator[None]:
    """SettingsError where Spark cannot read a master, and where Java started and refused one other than this machine:
    Spark's own errors blame Java."""
    try:
        yield
    except Exception as error:  # Java's and PySpark's have no class in common
        if _UNREAD in str(error):
            raise _unread_master(master) from None
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
    """Set Java and the executors' Python where the environment leaves them open. Call before the first session.
    SettingsError for a SPARK_HOME on which PySpark here does not run."""
    versions.check_home(os.environ.get("SPARK_HOME"))
    if master.startswith("local"):
        # Workers would otherwise run the `python3` of PATH, which need not have lakegc.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    java.prepare(quick=quick and master.startswith("local"))
