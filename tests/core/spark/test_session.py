"""How a session of Spark begins, beside the command or as a platform has started it, and what an interrupt does."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.errors import PySparkRuntimeError

from lakegc_core.errors import LakegcError, SettingsError
from lakegc_core.spark import session as module
from lakegc_core.spark import versions
from lakegc_core.spark.session import session, session_soon
from tests.support.waiting import STARTS, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C does in the end what it did before, and logs are kept again."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("interrupts")
def test_a_session_on_this_machine_starts_while_the_command_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks something of it waits, and meets the error if it did not start."""
    may_start, begun = threading.Event(), list[str]()

    def starts(master: str, conf: object = None, *, quick: bool = False) -> Any:
        begun.append(threading.current_thread().name)
        assert may_start.wait(STARTS)
        if master == "local[0]":
            raise SettingsError("no such master")
        return SimpleNamespace(version=f"{master} {quick}")

    monkeypatch.setattr(module, "session", starts)
    monkeypatch.setattr(module, "_stands", lambda: False)
    monkeypatch.setattr(versions, "may_start_apart", lambda: True)
    sound, wrong = session_soon("local[2]", quick=True), session_soon("local[0]")
    may_start.set()
    assert sound.version == "local[2] True"
    with pytest.raises(SettingsError, match="no such master"):
        wrong.range(1)
    assert threading.current_thread().name not in begun
    assert session_soon("spark://there:7077").version == "spark://there:7077 False"
    monkeypatch.setattr(versions, "may_start_apart", lambda: False)
    assert session_soon("local[2]").version == "local[2] False"
    monkeypatch.setattr(versions, "may_start_apart", lambda: True)
    monkeypatch.setattr(module, "_stands", lambda: True)
    assert session_soon("local[2]").version == "local[2] False"
    assert set(begun[2:]) == {threading.current_thread().name}, "else it stands before the command goes on"


def test_the_thread_that_starts_a_session_and_runs_its_first_job_imports_nothing_of_spark() -> None:
    """The command imports it meanwhile, and two threads that import modules which import each other get half of one."""
    code = """
        import sys, threading
        from lakegc_core.spark import session as module

        missing, first_job_is_over = [], threading.Event()
        def watched(whole):
            def run(*given, **named):
                before = set(sys.modules)
                found = whole(*given, **named)
                missing.extend(name for name in sys.modules.keys() - before if name.startswith("pyspark"))
                return found
            return run

        module.session = watched(module.session)
        first_job = watched(module._run_first_job)
        module._run_first_job = lambda spark: (first_job(spark), first_job_is_over.set())
        conf = {"spark.sql.shuffle.partitions": "1", "spark.speculation": "true"}
        spark = module.session_soon("local[1]", conf, quick=True)
        first_job_is_over.wait()
        assert spark.sparkContext.statusTracker().getJobIdsForGroup(), "a job ran before anybody asked for one"
        assert spark.range(3).count() == 3
        assert not module.may_run_twice(spark), "whatever `conf` says"
        print(sorted(name for name in missing if not name.startswith("pyspark.testing")))
        spark.stop()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=STARTS, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells which process a thread has started")
def test_a_process_that_ends_while_spark_starts_does_not_wait_for_it_and_leaves_no_java(tmp_path: Path) -> None:
    """Here Spark never stands."""
    submit, started = tmp_path / "bin/spark-submit", tmp_path / "started"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\necho $$ > {started}.part\nmv {started}.part {started}\nexec sleep 100000\n")
    submit.chmod(0o755)
    (tmp_path / "jars").mkdir()
    (tmp_path / f"jars/spark-core_2.13-{pyspark.__version__}.jar").touch()
    code = f"""
        import time
        from pathlib import Path
        from lakegc_core.spark.session import session_soon

        spark = session_soon("local[1]", quick=True)
        while not Path({str(started)!r}).exists():
            assert not spark._started.done(), spark._started.exception()
            time.sleep(0.01)
        print("refused")
    """
    environment = os.environ | {"SPARK_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=STARTS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "refused\n", "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "jars", "started"}, "no folder of Spark's either"


def test_a_session_that_stands_keeps_its_own_settings_and_its_tasks_take_the_drivers_lakegc(tmp_path: Path) -> None:
    """As a platform or a program of somebody else's starts it; in its folder lies another lakegc."""
    (tmp_path / "lakegc_core").mkdir()
    (tmp_path / "lakegc_core/__init__.py").touch()
    code = f"""
        import os, sys
        sys.path.insert(0, {str(ROOT)!r})
        from lakegc_core.spark import java
        from lakegc_core.spark import session as module
        from lakegc_core.spark.tasks import run_tasks

        java.prepare(quick=True)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession

        own = {{"spark.sql.shuffle.partitions": "7", "spark.speculation": "true", "spark.ui.enabled": "false"}}
        builder = SparkSession.builder.master("local[1]")
        for key, value in own.items():
            builder = builder.config(key, value)
        stands = builder.getOrCreate()
        module.java = None  # nobody would start one
        spark = module.session_soon("local[*]", {{"spark.speculation": "false"}})
        def task(item):
            import lakegc_core
            yield {{"from": list(lakegc_core.__path__)}}
        print(spark is stands, spark.conf.get("spark.sql.shuffle.partitions"), module.may_run_twice(spark))
        print(run_tasks(spark, [1], task))
        spark.stop()
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(code)]
    environment = {name: each for name, each in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=STARTS, check=False
    )
    assert done.stdout.splitlines() == ["True 7 True", str([{"from": [str(ROOT / "lakegc_core")]}])], done.stderr


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_stops_the_jobs_of_a_session_that_another_thread_started(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = list[str]()
    context = SimpleNamespace(cancelAllJobs=lambda: stopped.append("all"))
    may_start = threading.Event()

    def starts(*_: object, **__: object) -> Any:
        assert may_start.wait(STARTS)
        return SimpleNamespace(sparkContext=context, version="4")

    monkeypatch.setattr(module, "session", starts)
    monkeypatch.setattr(module, "_stands", lambda: False)
    monkeypatch.setattr(versions, "may_start_apart", lambda: True)
    spark = session_soon("local[2]")
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert not stopped, "there are none before it stands"
    assert not logging.getLogger().isEnabledFor(logging.CRITICAL), "connections that break are no news"
    may_start.set()
    assert spark.version == "4"
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert stopped == ["all"]


def test_spark_does_not_look_for_the_line_of_python_behind_each_column(spark: SparkSession) -> None:
    """That takes longer than all else which this process does for a small sweep."""
    from pyspark.errors import utils
    from pyspark.sql import functions as F

    assert F.lit(1) is not None
    assert not getattr(utils, "is_debugging_enabled", lambda: False)()  # Spark 3.5 does not know it


@pytest.mark.parametrize(("conf", "quick"), [({}, True), ({"spark.driver.extraJavaOptions": "-ea"}, False)])
def test_whoever_gives_java_options_of_their_own_gets_none_for_little_work(
    monkeypatch: pytest.MonkeyPatch, conf: dict[str, str], quick: bool
) -> None:
    def stop(master: str, *, quick: bool) -> None:
        raise LakegcError(f"quick: {quick}")

    monkeypatch.setattr(module, "prepare_environment", stop)
    monkeypatch.setattr(module, "_stands", lambda: False)
    with pytest.raises(LakegcError, match=f"quick: {quick}"):
        session("local[1]", {"spark.python.daemon.module": "pyspark.daemon", **conf}, quick=True)


def test_a_master_that_spark_refuses_is_named_with_its_setting_and_java_is_not_blamed() -> None:
    exited = PySparkRuntimeError(None, "JAVA_GATEWAY_EXITED", {})  # 3.5 names them otherwise
    with (
        pytest.raises(SettingsError, match=r"'yarn' \(spark\.master in .*for local\[\*\]"),
        module._refused_master("yarn"),
    ):
        raise exited
    with pytest.raises(PySparkRuntimeError), module._refused_master("local[*]"):
        raise exited
    with pytest.raises(RuntimeError, match="another"), module._refused_master("yarn"):
        raise RuntimeError("another")


def test_a_master_that_reads_as_none_is_named_with_its_setting() -> None:
    """Java starts for it, and stops then: no fault of lakegc."""
    unread = Exception(
        "An error occurred while calling x.\n: a.B: Could not parse Master URL: 'localhost:7077'\n\tat a"
    )
    refused = pytest.raises(SettingsError, match=r"'localhost:7077' \(spark\.master in .*such as spark://HOST:7077")
    with refused, module._refused_master("localhost:7077"):
        raise unread


def test_a_standalone_master_that_does_not_answer_is_named_before_java_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def begins(*_: object) -> None:
        raise AssertionError("Spark is imported")

    monkeypatch.setattr(module, "_is_given", lambda: False)
    monkeypatch.setattr(module, "_stands", lambda: False)
    monkeypatch.setattr(module, "_import_spark", begins)
    with socket.socket() as taken, socket.socket() as other:
        places = []
        for each in (taken, other):
            each.bind(("127.0.0.1", 0))  # and nobody listens
            places.append(f"127.0.0.1:{each.getsockname()[1]}")
        master = f"spark://{','.join(places)}"
        with pytest.raises(LakegcError) as refused:
            session_soon(master)
        said = str(refused.value)
        assert said.startswith(
            f"Spark's master {master!r} (spark.master in lakegc.yaml) does not answer: {places[0]}: "
        )
        assert f"; {places[1]}: Connection refused. Start it, or correct the setting" in said
        other.listen()
        with pytest.raises(AssertionError, match="is imported"):
            session_soon(master)  # one of them answers


@pytest.mark.parametrize(
    "master", ["spark://", "spark://host", "spark://host:x", "spark://host:70000", "spark://:7077"]
)
def test_a_standalone_master_without_host_or_port_is_wrong_usage(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_given", lambda: False)
    monkeypatch.setattr(module, "_stands", lambda: False)
    with pytest.raises(SettingsError, match=r"Spark knows no master .* such as spark://HOST:7077"):
        session(master)


@pytest.mark.slow
def test_under_spark_submit_its_master_counts_and_tasks_run_there(tmp_path: Path) -> None:
    """As on EMR and other platforms that start Python with it."""
    program = tmp_path / "program.py"
    program.write_text(
        "from lakegc_core.spark.session import session\n"
        "from lakegc_core.spark.tasks import run_tasks\n"
        "spark = session('local[2]', {'spark.sql.shuffle.partitions': '3'})\n"
        "print(spark.conf.get('spark.master'), run_tasks(spark, [7], lambda item: iter([{'item': item}])))\n"
    )
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    begin = (  # with the packaged Java, where there is no other
        "import os, sys; from lakegc_core.spark import java\n"
        "java.prepare(quick=False)\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin, str(submit), "--master", "local[3]", str(program)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=STARTS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "local[3] [{'item': 7}]"


MOMENTS: dict[str, Callable[[int], bool]] = {
    "something was started": lambda leader: len(_group(leader)) > 1,
    "Java has begun": lambda leader: bool(_threads_of_java(leader)),
    "Java is at work": lambda leader: _threads_of_java(leader) > 20,
    "Spark is there": lambda leader: _threads_of_java(leader) > 40,
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupt_while_java_starts_leaves_no_java_behind(moment: str) -> None:
    program = (
        "from lakegc_core.spark.session import session\n"
        "print('begins', flush=True)\n"
        "session('local[1]')\n"
        "while True: pass\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as begun:
        assert begun.stdout is not None and begun.stdout.readline()
        try:
            until(lambda: MOMENTS[moment](begun.pid), moment, STARTS, pause=0.01)
            os.killpg(begun.pid, signal.SIGINT)
            begun.wait(STARTS)
            until(lambda: not _group(begun.pid), "all that it had started has ended")
        finally:
            for process in _group(begun.pid):
                os.kill(process, signal.SIGKILL)


def _group(leader: int) -> list[int]:
    """The processes of a group, but for those that only wait to be forgotten."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            told = stat.read_text().rpartition(")")[2].split()
            if int(told[2]) == leader and told[0] not in "ZX":
                found.append(int(stat.parent.name))
    return found


def _threads_of_java(leader: int) -> int:
    """How many threads the Java of a group has; 0: there is none yet."""
    for process in _group(leader):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/comm").read_text().strip() == "java":
                return len(list(Path(f"/proc/{process}/task").iterdir()))
    return 0
