"""A team's Dagster as real processes: Postgres, code server, webserver and daemon, with `deploy/`'s own settings.

Here: starting, killing and ending them, and where their memory is read. What a night does with them belongs in `night`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import requests
import yaml

from lakegc_dagster.sandbox_ui import HOST, surroundings
from lakegc_sandbox import Sandbox, SandboxServer
from tests.soak.definitions import ALERTS, CRON
from tests.soak.pages import LOCATION, Webserver
from tests.soak.postgres import Postgres, postgres
from tests.support.lake import QUICK
from tests.support.servers import ServerStartError, free_ports

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_START_SECONDS = 180.0
_END_SECONDS = 30.0
# No run lasts for long enough to repay what the JVM's second compiler costs at its start.
_JAVA = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_SPARK = {"spark.driver.memory": "512m", **QUICK}


@dataclass
class Process:
    """A program in a session of its own, so that what it has started ends with it."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its log goes on."""
        with self.log.open("ab") as out:
            self.child = subprocess.Popen(
                list(self.command),
                cwd=ROOT,
                env=dict(self.environment),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    def kill(self) -> None:
        """kill -9, and nothing of what it has started."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.child is not None
        self.child.wait()

    def end(self) -> None:
        """Ask it to end; then its whole session."""
        if self.child is None:
            return
        if self.child.poll() is None:
            self.child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(timeout=_END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)  # the session that was made for it, and nothing else
        self.child.wait()

    def memory(self) -> int:
        """Bytes that it has in memory now; 0 if it is not there."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        line = next((each for each in status.splitlines() if each.startswith("VmRSS:")), "VmRSS: 0 kB")
        return int(line.split()[1]) * 1024

    def require(self) -> None:
        """ServerStartError if it has ended by itself."""
        assert self.child is not None
        if self.child.poll() is not None:
            tail = self.log.read_text(errors="replace")[-3000:]
            raise ServerStartError(f"{self.name} ended with {self.child.returncode}. The end of {self.log}:\n{tail}")


@dataclass
class Site:
    """Everything that runs. `instance` reads and writes the same Postgres as the processes do."""

    folder: Path
    lake: SandboxServer
    database: Postgres
    environment: dict[str, str]
    instance: dg.DagsterInstance
    webserver: Webserver
    processes: dict[str, Process] = field(default_factory=dict)

    @property
    def daemon(self) -> Process:
        return self.processes["daemon"]

    @property
    def alerts(self) -> Path:
        """Where the alert writes, a JSON text a line."""
        return self.folder / "alerts"

    def command(self, *arguments: str, **more: str) -> None:
        """Run `lakegc` as an operator of this lake."""
        done = subprocess.run(
            [sys.executable, "-m", "lakegc_core.cli", *arguments],
            cwd=self.folder,
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"lakegc {' '.join(arguments)}: {done.stderr[-3000:]}"


@contextmanager
def open_site(folder: Path, sandbox: Sandbox, *, cron: str, policy: str) -> Iterator[Site]:
    """A site over a sandbox, its files below `folder`, until the block ends. `policy`: lakegc.yaml's repositories.

    NoPostgres if there is none; ServerStartError if something does not come up.
    """
    with ExitStack() as stack:
        database = stack.enter_context(postgres())
        lake = stack.enter_context(SandboxServer(sandbox))
        home, code_port, port = folder / "dagster", *free_ports(2)
        _write_home(home, database, policy)
        whole = os.environ | surroundings(home, lake, ()) | database.environment() | _JAVA
        whole |= {CRON: cron, ALERTS: str(folder / "alerts")}
        outside = {name: value for name, value in whole.items() if not name.startswith(("LAKECTL_", "LAKEGC_"))}
        workspace = _workspace(folder, code_port)
        instance = _instance(stack, home, whole)
        site = Site(folder, lake, database, whole, instance, Webserver(f"http://{HOST}:{port}"))

        def add(name: str, environment: Mapping[str, str], *command: str) -> None:
            process = Process(name, [sys.executable, "-m", *command], environment, folder / f"{name}.log")
            site.processes[name] = process
            stack.callback(process.end)
            process.start()

        location = ["-m", "tests.soak.definitions", "-d", str(ROOT)]
        # As in deploy/docker-compose.yaml: one code server for both, and only it has credentials of lakeFS.
        add("code", whole, "dagster", "code-server", "start", "-h", HOST, "-p", str(code_port), *location)
        add("webserver", outside, "dagster_webserver", "-h", HOST, "-p", str(port), "-w", str(workspace))
        _await(site)
        add("daemon", outside, "dagster._daemon", "run", "-w", str(workspace))
        yield site


def _write_home(home: Path, database: Postgres, policy: str) -> None:
    """`deploy/dagster.yaml` with another port, and a lakegc.yaml."""
    settings = yaml.safe_load((DEPLOY / "dagster.yaml").read_text(encoding="utf-8"))
    settings["storage"]["postgres"]["postgres_db"]["port"] = database.port
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    spark = {"master": "local[2]", "conf": _SPARK}
    (home / "lakegc.yaml").write_text(f"spark: {yaml.safe_dump(spark, default_flow_style=True)}{policy}")


def _workspace(folder: Path, port: int) -> Path:
    """`deploy/workspace.yaml` with the code server of here."""
    found = yaml.safe_load((DEPLOY / "workspace.yaml").read_text(encoding="utf-8"))
    (location,) = found["load_from"]
    assert location["grpc_server"]["location_name"] == LOCATION
    location["grpc_server"] |= {"host": HOST, "port": port}
    file = folder / "workspace.yaml"
    file.write_text(yaml.safe_dump(found), encoding="utf-8")
    return file


def _instance(stack: ExitStack, home: Path, variables: Mapping[str, str]) -> dg.DagsterInstance:
    """The instance, which reads the variables of Postgres while it is opened."""
    names = [name for name in variables if name.startswith("DAGSTER_")]
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: variables[name] for name in names})
    try:
        return stack.enter_context(dg.DagsterInstance.from_config(str(home)))
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _await(site: Site) -> None:
    """Wait until the webserver has the code location."""
    limit, last = time.monotonic() + _START_SECONDS, ""
    while time.monotonic() < limit:
        for process in site.processes.values():
            process.require()
        try:
            told = site.webserver.ask("LocationWorkspaceQuery", name=LOCATION)["workspaceLocationEntryOrError"]
            loaded = told["locationOrLoadError"] or {}
            if loaded.get("__typename") == "RepositoryLocation":
                return
            last = str(loaded)[:3000]
        except (requests.RequestException, RuntimeError) as error:
            last = str(error)
        time.sleep(0.5)
    raise ServerStartError(f"The code location did not come up: {last}")
