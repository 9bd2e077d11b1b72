"""Python workers on one machine are forks of a process that has imported what they need, and that has no threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakegc_core.names import Json
from lakegc_core.spark import preload, shipping
from lakegc_core.spark.tasks import run_tasks
from tests.support.waiting import STARTS, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Spark's own daemon is used")

ROOT = Path(__file__).parents[3]

_TRY = """
import sys, threading
from lakegc_core.spark import preload
if sys.argv[1] == "threads":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(preload._import())
"""


_WARM = """
import os, pathlib, socket, sys
from lakegc_core.spark import preload
if sys.argv[1] == "threads":
    preload._import = lambda: False
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[2])
    listener.listen()
    preload._serve(pathlib.Path(sys.argv[2]).parent, listener.detach())
else:
    print(preload.warm_up().pid, os.environ["LAKEGC_WARM_WORKERS"], flush=True)
    sys.stdin.read()
"""


def _daemon(
    address: str, variables: Mapping[str, str] = MappingProxyType({}), folder: Path | None = None
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", preload.__name__, "pyspark.worker"]
    environment = os.environ | {"LAKEGC_WARM_WORKERS": address, "A_SETTING": "of the daemon's"} | dict(variables)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=folder)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_daemon_is_a_fork_of_the_warm_process_and_both_end_with_their_pipes() -> None:
    with subprocess.Popen([sys.executable, "-c", _WARM, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as driver:
        assert driver.stdin and driver.stdout
        pid, address = driver.stdout.readline().split()
        daemon = _daemon(address.decode())
        assert daemon.stdin and daemon.stdout
        assert int.from_bytes(daemon.stdout.read(4), "big") > 0, "its port is told through the daemon's own pipe"
        (fork,) = _children(int(pid))
        assert b"A_SETTING=of the daemon's" in Path(f"/proc/{daemon.pid}/environ").read_bytes()
        daemon.stdin.close()
        assert daemon.wait(STARTS) == 0
        _goes(Path(f"/proc/{fork}"))
        driver.stdin.close()
        driver.wait(STARTS)
        _goes(Path(address.decode()).parent)


def test_the_warm_process_and_a_daemon_take_nothing_from_the_folder_in_which_they_start(tmp_path: Path) -> None:
    """Whoever stands in a clone of lakegc's sources works with the lakegc that began."""
    (tmp_path / "lakegc_core").mkdir()
    (tmp_path / "lakegc_core/__init__.py").write_text("raise SystemExit('another lakegc')")
    command = [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{_WARM}", "-"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as driver:
        assert driver.stdin and driver.stdout
        pid, address = driver.stdout.readline().split()
        daemon = _daemon(address.decode(), shipping.search_path(), tmp_path)
        assert daemon.stdin and daemon.stdout
        assert int.from_bytes(daemon.stdout.read(4), "big") > 0
        assert len(_children(int(pid))) == 1
        daemon.stdin.close()
        assert daemon.wait(STARTS) == 0


def _goes(path: Path) -> None:
    until(lambda: not path.exists(), f"{path} is gone")


@pytest.mark.parametrize("other", ["gone", "threads"])
def test_without_a_warm_process_that_may_fork_a_daemon_is_sparks_own(tmp_path: Path, other: str) -> None:
    address = tmp_path / "folder" / "socket"
    address.parent.mkdir()
    warm = None
    if other == "threads":
        warm = subprocess.Popen([sys.executable, "-c", _WARM, other, str(address)], stdin=subprocess.PIPE)
    daemon = _daemon(str(address))
    assert daemon.stdin and daemon.stdout
    assert int.from_bytes(daemon.stdout.read(4), "big") > 0
    assert not _children(daemon.pid)
    assert b"pyspark.daemon" in Path(f"/proc/{daemon.pid}/cmdline").read_bytes()
    daemon.stdin.close()
    daemon.wait(STARTS)
    assert warm is None or warm.wait(STARTS) == 0


def test_a_worker_finds_imported_what_it_needs(spark: SparkSession) -> None:
    def task(item: int) -> Iterator[Json]:
        parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode().split("\0")
        imported = [name for name in preload._NEEDED if name in sys.modules]
        yield {"parent": parent, "imported": imported, "memory": pa.default_memory_pool().backend_name}

    (found,) = run_tasks(spark, [1], task)
    assert found["memory"] == "system", "what is freed goes back"
    assert preload.__name__ in found["parent"]
    assert found["imported"] == list(preload._NEEDED)


@pytest.mark.parametrize(("threads", "may_fork"), [("none", "True"), ("threads", "False")])
def test_what_is_imported_starts_no_threads_and_with_any_it_does_not_fork(threads: str, may_fork: str) -> None:
    command = [sys.executable, "-c", _TRY, threads]
    assert subprocess.run(command, capture_output=True, text=True, timeout=STARTS).stdout.split() == [may_fork]


@pytest.mark.parametrize(("said", "taken"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_a_command_gives_memory_back_unless_the_environment_says_otherwise(said: str | None, taken: str) -> None:
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: print(sys.modules['pyarrow'].default_memory_pool().backend_name))\n"
        "from lakegc_core.cli import command\n"
        "sys.exit(command(['mark', 'nowhere']))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "ARROW_DEFAULT_MEMORY_POOL"}
    environment |= {"ARROW_DEFAULT_MEMORY_POOL": said} if said else {}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == [taken], done.stderr
