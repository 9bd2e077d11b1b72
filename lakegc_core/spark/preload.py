"""The processes from which Spark forks its Python workers on one machine, with all imported that they need.

Spark's own daemon imports nothing, so that every worker spends seconds on pandas, pyarrow and lakegc; and a session
starts several daemons. Here one process of the driver imports all that while the JVM starts; a daemon that Spark starts
hands its pipes over to a fork of it. To fork is only safe without threads: the libraries are told to start none, and
where one has all the same, the daemon is Spark's own. Which session uses it is said in `spark`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
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
    "lakegc_core.stages.expired_addresses.clean",
    "lakegc_core.stages.committed_addresses.stage",
    "lakegc_core.stages.expired_addresses.stage",
    "lakegc_core.stages.namespace_listing.stage",
    "lakegc_core.stages.retention_commits.stage",
    "lakegc_core.stages.swept_report.stage",
    "lakegc_core.stages.uncommitted_addresses.stage",
    "lakegc_core.store.s3.store",
)
_ADDRESS = "LAKEGC_WARM_WORKERS"
"""Where the warm process listens: a socket in a folder of the driver's own."""

# What keeps OpenBLAS (in numpy) and jemalloc (in pyarrow, which does not use it) from starting threads as they load.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
_LENGTH = 8  # bytes that say how long the rest of a message is
_warm: subprocess.Popen[bytes] | None = None


def warm_up() -> None:
    """Let a process begin to import what workers need; it ends with this one. Call before Spark's JVM starts."""
    global _warm
    if _warm is not None and _warm.poll() is None:
        return
    folder = tempfile.mkdtemp(prefix="lakegc-workers-")
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(f"{folder}/socket")
    except OSError:  # a path too long for a socket: every daemon imports for itself
        listener.close()
        shutil.rmtree(folder)
        return
    os.environ[_ADDRESS] = f"{folder}/socket"
    listener.listen()  # who asks before all is imported waits
    command = [sys.executable, "-m", __name__, _ADDRESS, folder, str(listener.fileno())]
    # It ends when its stdin does, however this process comes to its end; Ctrl-C is for this one to deal with.
    with listener:
        _warm = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[listener.fileno()],
        )


def main() -> None:
    """What `python -m lakegc_core.spark.preload pyspark.worker` does: Spark's protocol, from warm forks."""
    if sys.argv[1:2] == [_ADDRESS]:
        _serve(Path(sys.argv[2]), int(sys.argv[3]))
    elif not _hand_over(os.environ.get(_ADDRESS, "")):
        if not _import():
            os.execv(sys.executable, [sys.executable, "-m", _SPARKS_OWN, *sys.argv[1:]])
        importlib.import_module(_SPARKS_OWN).manager()


def _import() -> bool:
    """Import what workers need; False if that started threads, so that this process must not fork."""
    os.environ.update(_NO_THREADS)
    gc.disable()  # until all is there: it would walk through the same modules again and again
    for name in _NEEDED:
        importlib.import_module(name)
    import pyarrow as pa

    pa.array([1])  # looks for pandas the first time
    gc.collect()
    gc.freeze()  # workers share these pages until they write to them
    gc.enable()
    return _threads() == 1


def _threads() -> int:
    """Threads of this process, those of libraries too where the system tells."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


def _serve(folder: Path, listening: int) -> None:
    """The warm process: a fork of it becomes each daemon that asks, until the driver is gone."""
    try:
        with socket.socket(fileno=listening) as listener:
            if not _import():
                return
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for daemons that have ended
            while True:
                ready, _, _ = select.select([listener, sys.stdin], [], [])
                if sys.stdin in ready:
                    return
                connection, _ = listener.accept()
                if not os.fork():
                    listener.close()
                    _become_daemon(connection)
                connection.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _become_daemon(connection: socket.socket) -> None:
    """In the fork: take over the pipes and the environment of the daemon that asks, and be it. Does not return."""
    code = 1
    try:
        length, pipes, _, _ = socket.recv_fds(connection, _LENGTH, 3)
        with connection.makefile("rb") as file:
            told = json.loads(file.read(int.from_bytes(length, "big")))
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
            os.close(pipe)
        os.environ.clear()
        os.environ.update(told["environment"])
        os.chdir(told["folder"])
        sys.argv = told["arguments"]
        sys.path += [path for path in told["path"] if path not in sys.path]
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connection.sendall(b"!")
        importlib.import_module(_SPARKS_OWN).manager()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        os._exit(code)


def _hand_over(address: str) -> bool:
    """Let the warm process at this address be the daemon in place of this one, and wait for its end. False: there is
    none."""
    told = {"environment": dict(os.environ), "folder": str(Path.cwd()), "arguments": sys.argv, "path": sys.path}
    data = json.dumps(told).encode()
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address)
            socket.send_fds(connection, [len(data).to_bytes(_LENGTH, "big")], [0, 1, 2])
            connection.sendall(data)
            if not connection.recv(1):
                return False
            connection.recv(1)  # nothing, at its end
            return True
    except OSError:
        return False


if __name__ == "__main__":
    main()
