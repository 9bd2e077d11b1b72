"""Spark elsewhere, on loopback: a standalone cluster of a master and workers, a Connect server, a Python for executors.

Here: starting and stopping them. Not here: what runs on them. The executors' Python has every third-party package of
this interpreter, and nothing that is installed in an editable way: lakegc is not among them.
"""

from __future__ import annotations

import os
import socket
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
import requests

from lakegc_core.spark import java
from tests.support.servers import started

HOME = Path(pyspark.__file__).parent
STOP_SECONDS = 120.0  # a worker ends its executors first
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class Cluster:
    """A running cluster. `workers`: the folders in which their executors run. `web` tells the master's state."""

    master: str
    web: str
    log: Path
    workers: tuple[Path, ...] = ()

    def alive(self) -> int:
        """How many workers the master knows to be alive."""
        return int(requests.get(f"{self.web}/json/", timeout=60).json()["aliveworkers"])


def executors_python(folder: Path) -> Path:
    """An interpreter that has this one's third-party packages, without lakegc."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # Folders on the path; the .pth files in these folders, which bring in checkouts, are not read.
    third_party = [each for each in sys.path if each.endswith("site-packages")]
    (site / "third-party.pth").write_text("\n".join(third_party), encoding="utf-8")
    return folder / "bin" / "python"


@contextmanager
def cluster(folder: Path, workers: int, environment: Mapping[str, str]) -> Iterator[Cluster]:
    """A master and workers of one core each, their files in `folder`, until the block ends.

    `environment` goes to the workers, and so to their executors, and to nobody else.
    """
    java.prepare()
    common = {
        "JAVA_HOME": os.environ["JAVA_HOME"],
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _QUICK,
        "PYTHONPATH": "",
    }

    def spark_class(name: str, *arguments: str) -> list[str]:
        return [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments]

    def master_command(ports: Sequence[int]) -> list[str]:
        return spark_class("master.Master", "--port", str(ports[0]), "--webui-port", str(ports[1]))

    def master(ports: Sequence[int], log: Path) -> Cluster:
        return Cluster(f"spark://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}", log)

    def answers(running: Cluster) -> None:
        running.alive()

    with ExitStack() as stack:
        head = stack.enter_context(
            started(master_command, 2, folder, "master", master, answers, variables=common, stop_seconds=STOP_SECONDS)
        )
        homes = tuple(folder / f"worker-{number}" for number in range(1, workers + 1))
        for number, home in enumerate(homes, 1):

            def command(ports: Sequence[int], home: Path = home) -> list[str]:
                own = ("--work-dir", str(home), "--cores", "1", "--memory", "1g", "--webui-port", str(ports[0]))
                return spark_class("worker.Worker", *own, head.master)

            def joined(running: Cluster, number: int = number) -> None:
                if running.alive() < number:
                    raise OSError(f"the master knows fewer than {number} workers")

            stack.enter_context(
                started(
                    command,
                    1,
                    folder,
                    home.name,
                    lambda ports, log: head,
                    joined,
                    variables=common | environment,
                    stop_seconds=STOP_SECONDS,
                )
            )
        yield Cluster(head.master, head.web, head.log, homes)


CONNECT_JARS = sorted(HOME.glob("jars/spark-connect_*.jar"))
"""The server of Spark Connect; PySpark 3.5 comes without it."""


@contextmanager
def connect_server(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """A Spark Connect server with tasks of its own, until the block ends: its address, `sc://HOST:PORT`."""
    java.prepare()
    common = {"JAVA_HOME": os.environ["JAVA_HOME"], "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}

    def command(ports: Sequence[int]) -> list[str]:
        conf = {"grpc.binding.address": "127.0.0.1", "grpc.binding.port": str(ports[0])}
        own = [each for name, value in conf.items() for each in ("--conf", f"spark.connect.{name}={value}")]
        submit = [
            str(HOME / "bin" / "spark-submit"),
            "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer",
        ]
        return [*submit, "--master", "local[2]", "--driver-java-options", _QUICK, *own, "spark-internal"]

    def address(ports: Sequence[int], log: Path) -> str:
        return f"sc://127.0.0.1:{ports[0]}"

    def answers(found: str) -> None:
        socket.create_connection(("127.0.0.1", int(found.rpartition(":")[2])), timeout=60).close()

    variables = common | {"PYTHONPATH": ""} | environment
    with started(command, 1, folder, "connect", address, answers, variables=variables) as found:
        yield found
