"""What the walk walks through: six small repositories on an embedded lakeFS, and `dagster dev` over them.

Here: their histories, their settings, starting and ending it all, and what lies in their namespaces. What people do in
the UI belongs in `walker`.
"""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakegc_dagster.rounds import round_id
from lakegc_dagster.sandbox_ui import HOST, dagster_dev, free_port, prepare_home, surroundings
from lakegc_sandbox import Repository, Sandbox, SandboxServer
from lakegc_sandbox.history import build_demo
from tests.support.lake import QUICK
from tests.support.servers import ServerStartError
from tests.support.waiting import STARTS, until

REPOSITORIES = ("analytics", "events", "damaged", "finance", "orders", "logs")
LATE = "late"  # has an asset of its own, and is there once `never_mark` was called
MARKS = 3
_POLICY = """\
spark: {{master: "local[2]", conf: {{{conf}}}}}
neighbours: {{ignore: ['*']}}  # they import nothing from one another
repositories:
  - {{match: finance, safety: full, mark: false}}  # nobody collected here yet: blast-radius refuses. No rounds
  - {{match: orders, safety: none, mark: false}}  # no rounds: two runs at a time are enough for a busy machine
  - {{match: "*", safety: none}}
"""
# No run lasts for long enough to repay what the JVM's second compiler costs at its start.
_JAVA = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@dataclass(frozen=True)
class Site:
    """A running UI over a running lakeFS."""

    url: str
    sandbox: Sandbox
    marks: tuple[str, ...]
    log: Path

    def files(self) -> dict[str, set[str]]:
        """By repository, what lies in its namespace beside lakeFS's metadata and lakegc's artifacts."""
        found = {}
        for name in REPOSITORIES:
            root = self.sandbox.root / name
            every = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
            found[name] = {key for key in every if not key.startswith("_lakefs/")}
        return found

    def never_mark(self) -> None:
        """Let lakeFS have a repository of long ago that took part in no round."""
        _small(self.sandbox, LATE)


@contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    """The site, its data below `folder`, until the block ends. ServerStartError if Dagster does not come up."""
    sandbox = Sandbox(folder / "lake", seed=1)
    build_demo(sandbox, "analytics")
    for name in REPOSITORIES[1:]:
        _small(sandbox, name)
    sandbox.repository("logs").delete_rules()
    _damage(sandbox.repository("damaged"), folder / "lake" / "damaged")
    now = datetime.now(UTC)
    marks = tuple(round_id(now + timedelta(minutes=number)) for number in range(MARKS))
    conf = {"spark.driver.memory": "1g", **QUICK}
    policy = _POLICY.format(conf=", ".join(f'{name}: "{value}"' for name, value in conf.items()))
    log, port = folder / "dagster.log", free_port(0)
    with SandboxServer(sandbox) as server, log.open("wb") as out:
        home = prepare_home(folder / "dagster", REPOSITORIES, marks, policy)
        with dagster_dev(port, os.environ | surroundings(home, server, (*REPOSITORIES, LATE)) | _JAVA, out) as child:
            site = Site(f"http://{HOST}:{port}", sandbox, marks, log)
            _await(site, child)
            yield site


def _small(sandbox: Sandbox, name: str) -> None:
    """One commit, a rule, and three objects that nothing refers to."""
    repository = sandbox.create_repository(name, age=timedelta(days=100))
    repository.upload("main", "tables/a.parquet", b"1" * 1_000, age=timedelta(days=90))
    repository.commit("main", "one table", date=datetime.now(UTC) - timedelta(days=90))
    repository.set_rules(7)
    for number in range(3):
        address = f"data/left-behind-{number:09}"
        repository.files.write(address, b"2" * 500, (datetime.now(UTC) - timedelta(days=80)).timestamp())


def _damage(repository: Repository, namespace: Path) -> None:
    """Cut the ends off the range files that its commits refer to; metaranges stay whole."""
    whole = {commit.meta_range_id for commit in repository.refs.commits.values()}
    cut = 0
    for file in (namespace / "_lakefs").iterdir():
        if file.is_file() and len(file.name) == 64 and file.name not in whole:
            file.write_bytes(file.read_bytes()[:-20])
            cut += 1
    assert cut, "no range file was found"


def _await(site: Site, child: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        assert child.poll() is None, "it has ended"
        try:
            with urllib.request.urlopen(f"{site.url}/server_info", timeout=60):
                return True
        except OSError:
            return False

    try:
        until(answers, "dagster dev answers", 2 * STARTS, pause=0.5)
    except AssertionError as error:
        tail = site.log.read_text(errors="replace")[-3000:]
        raise ServerStartError(f"dagster dev did not come up: {error}\n{tail}") from None
