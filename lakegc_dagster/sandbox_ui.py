"""`make ui`, or `python -m lakegc_dagster.sandbox_ui`: the Dagster UI over the sandbox lakeFS, partitions and all.

Two repositories with the same two months behind them: what `demo` is allowed, `careful` is refused. Everything listens
on loopback and is gone when it ends; nothing of anybody's own Dagster or lakeFS is touched.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import dagster as dg

from lakegc_dagster.partitions import GcCell
from lakegc_dagster.rounds import round_id
from lakegc_sandbox.api.server import SandboxServer
from lakegc_sandbox.history import build_demo
from lakegc_sandbox.lakefs import Sandbox

HOST = "127.0.0.1"
PORT = 3000
REPOSITORIES = ("demo", "careful")

_POLICY = """\
spark: {conf: {spark.driver.memory: 1g}}
repositories:
  - {match: demo, safety: none}  # may be swept at once: a throw-away repository
  - {match: careful, safety: full}  # nobody has collected here yet, so the check of the blast radius refuses
"""
_INSTANCE = """\
telemetry: {enabled: false}
nux: {enabled: false}
concurrency:
  runs:
    max_concurrent_runs: 2
    tag_concurrency_limits:
      - {key: dagster/partition/repository, value: {applyLimitPerUniqueValue: true}, limit: 1}
run_retries: {retry_on_asset_or_op_failure: false}
"""
_HINT = """
  Dagster           {url}/asset-groups
  lakeFS (sandbox)  {lakefs}   repositories: {repositories}

  "Materialize all" in the graph, choose a mark and a repository, launch.
  `demo` runs through, and deletes when the launchpad says `dry_run: false` for swept_report.
  `careful` runs through with a warning: its dry run shows what would go. With `dry_run: false` it refuses.
  Ctrl-C ends everything.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; return the exit code of `dagster dev`."""
    parser = argparse.ArgumentParser(
        prog="python -m lakegc_dagster.sandbox_ui", description="The Dagster UI on a sandbox lakeFS."
    )
    parser.add_argument("--port", type=int, help=f"port on {HOST} (default: {PORT}, or a free one if that is taken)")
    parser.add_argument("--dir", metavar="DIR", help="folder for lake and Dagster home (default: a temporary one)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell that starts this in the background ignores SIGINT for it, and Dagster would inherit that and never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="lakegc-ui-") as fresh:
        folder = Path(options.dir or fresh).resolve()
        try:
            return serve(folder, options.port or free_port(PORT))
        except KeyboardInterrupt:
            return 130


def serve(folder: Path, port: int) -> int:
    """Start the sandbox, make its partitions known, and run `dagster dev` over both."""
    sandbox = Sandbox(folder / "lake")
    for name in REPOSITORIES:
        build_demo(sandbox, name)
    now = datetime.now(UTC)
    marks = [round_id(now + timedelta(minutes=number)) for number in range(2)]  # short enough for every dialog
    with SandboxServer(sandbox) as server:
        home = prepare_home(folder / "dagster", REPOSITORIES, marks, _POLICY)
        url = f"http://{HOST}:{port}"
        print(_HINT.format(url=url, lakefs=server.url, repositories=", ".join(REPOSITORIES)), flush=True)
        with dagster_dev(port, os.environ | surroundings(home, server, REPOSITORIES)) as child:
            return child.wait()


def surroundings(home: Path, server: SandboxServer, repositories: Sequence[str]) -> dict[str, str]:
    """The environment in which Dagster finds the sandbox and this home, and nothing of anybody's own. `repositories`:
    those that have an asset of their own."""
    return {
        "DAGSTER_HOME": str(home),
        "HOME": str(home.parent),  # nobody's ~/.lakectl.yaml
        "LAKECTL_SERVER_ENDPOINT_URL": server.url,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": server.access_key,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": server.secret_key,
        "LAKEGC_CONFIG": str(home / "lakegc.yaml"),
        "LAKEGC_DAGSTER_REPOSITORIES": ",".join(repositories),
        "LAKEGC_DAGSTER_BACKUP": "no",
        "LAKEGC_UNSAFE": "yes",  # safety level `none`, for a sandbox
    }


def prepare_home(home: Path, repositories: Sequence[str], marks: Sequence[str], policy: str) -> Path:
    """A Dagster home with settings, `policy` as its lakegc.yaml, and each repository's partition at each mark."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text(_INSTANCE)
    (home / "lakegc.yaml").write_text(policy)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for repository in repositories:
            for mark_id in marks:
                GcCell(repository, mark_id).register(instance)
    return home


def free_port(wanted: int) -> int:
    """The port itself if nobody listens on it, else a free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise OSError(f"no free port on {HOST}")


@contextmanager
def dagster_dev(
    port: int, environment: Mapping[str, str], log: IO[bytes] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`dagster dev` as a child of its own, which ends its own children when it is told to end, as it is afterwards."""
    where = ["-w", "workspace.yaml"] if Path("workspace.yaml").is_file() else ["-m", "lakegc_dagster.definitions"]
    command = [sys.executable, "-m", "dagster", "dev", *where, "-h", HOST, "-p", str(port)]
    child = subprocess.Popen(command, env=dict(environment), start_new_session=True, stdout=log, stderr=log)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)  # the session that was made for it, and nothing else
                child.wait()


if __name__ == "__main__":
    sys.exit(main())
