"""A small lake to crash in: what lies in it, how a collector starts on it, dies and starts again, and the judgement.

Where a collector dies is `crashing`'s business. Everything is real: the sandbox serves lakeFS, the store is a folder, a
victim is the command itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from lakegc_core import pipeline
from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import MarkContext, begin_mark, open_repository
from lakegc_core.names import STAGES
from lakegc_core.policy.safety import LEASE
from lakegc_core.stages import swept_report
from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep.result import SweepResult
from lakegc_core.tables.parts import list_parts, read_part
from lakegc_sandbox import Layout, Repository, Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from lakegc_sandbox.model.refs import GoneError
from tests.support import oracle
from tests.support.crashing import Crash, MortalConfig, Script
from tests.support.lake import QUICK, quick
from tests.support.waiting import STARTS, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "lake"
MARK = "m1"
MIN_AGE = timedelta(days=1)
ARTIFACTS = "_lakefs/retention/gc/lakegc"
REPORTS = "_lakefs/retention/gc/unified"
_ROOT = Path(__file__).parents[2]
_CONFIG = {"spark": {"master": "local[2]", "conf": QUICK | {"spark.driver.memory": "1g"}}}
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a life of seconds


@dataclass
class Lake:
    """A served repository on a folder, with garbage in it, and a session to collect it with."""

    spark: SparkSession
    server: SandboxServer
    repository: Repository
    folder: Path  # of scripts, copies and victims

    # --- what is there, and what is right ---

    @property
    def root(self) -> Path:
        return self.server.sandbox.root / NAME

    def stored(self) -> dict[str, int]:
        """Sizes of all objects by key, without lakeFS's metadata and lakegc's artifacts."""
        return {key: (self.root / key).stat().st_size for key in oracle.stored(self.repository)}

    def garbage(self) -> set[str]:
        world = oracle.world_of(self.repository, MIN_AGE // timedelta(microseconds=1))
        return oracle.garbage(world, tags=True)

    def readable(self) -> set[tuple[str, str]]:
        """What reads on branches and tags."""
        refs, found = self.repository.refs, set()
        for ref in (*refs.branches, *refs.tags):
            for path, _ in self.repository.objects(ref):
                try:
                    self.repository.read(ref, path)
                except GoneError:
                    continue
                found.add((ref, path))
        return found

    def revive(self) -> None:
        """Branch off the oldest commit with data: what it shows is live again, as far as it is still there."""
        first = next(commit.id for commit in self.repository.refs.commits.values() if commit.message == "old")
        self.repository.create_branch("revived", first)

    def artifact(self, name: str) -> Path:
        """A file of the mark's artifacts."""
        return self.root / ARTIFACTS / "marks" / MARK / name

    def keep(self, name: str) -> None:
        """Keep a copy of the namespace."""
        shutil.copytree(self.root, self.folder / f"kept-{name}")

    def bring_back(self, name: str) -> None:
        """Put the namespace back as it was."""
        shutil.rmtree(self.root)
        shutil.copytree(self.folder / f"kept-{name}", self.root)

    # --- a collector in this process ---

    def begin(self, mark_id: str = MARK, script: Script | None = None) -> MarkContext:
        server = ServerSettings(self.server.url, ACCESS_KEY, SECRET_KEY)
        client = LakeFSClient(server, sleep=lambda seconds: None)
        repository = open_repository(Settings(server=server), NAME, client=client)
        if script is not None:
            assert isinstance(repository.data, LocalConfig)
            mortal = MortalConfig(repository.data.path, script, script.deaths)
            repository = replace(repository, data=mortal, outputs=mortal, workspace=mortal)
        return begin_mark(repository, mark_id, min_age=MIN_AGE, safety_level="none")

    def mark(self, script: Script | None = None) -> MarkContext:
        context = self.begin(script=script)
        pipeline.mark(self.spark, context)
        return context

    def sweep(self, script: Script | None = None) -> SweepResult:
        return swept_report(self.spark, self.begin(script=script))

    def script(self, step: str, **more: Any) -> Script:
        """A script with a folder of its own."""
        folder = self.folder / f"script-{len(list(self.folder.glob('script-*')))}"
        folder.mkdir()
        return Script(str(folder), step, **more)

    # --- a collector in a process of its own ---

    def victim(self, *arguments: str, script: Script) -> subprocess.Popen[str]:
        """The command, armed by the script."""
        armed = {"CRASH_SCRIPT": json.dumps(asdict(script))}
        return command(*arguments, folder=self.folder, server=self.server, variables=armed)

    def marking(self, script: Script, mark_id: str = MARK) -> subprocess.Popen[str]:
        age = f"{int(MIN_AGE.total_seconds())}s"
        return self.victim("mark", NAME, "--mark-id", mark_id, "--safety", "none", "--min-age", age, script=script)

    def sweeping(self, script: Script) -> subprocess.Popen[str]:
        return self.victim("sweep", NAME, MARK, "--yes", script=script)

    @contextmanager
    def at_request(self, path: str, act: Callable[[], object], number: int = 1) -> Iterator[Counter[str]]:
        """Act when lakeFS is asked so (method, and the path within the repository) for the n-th time."""
        seen: Counter[str] = Counter()

        def fault(method: str, asked: str, query: Mapping[str, str]) -> None:
            name = f"{method} {re.sub(f'^/repositories/{NAME}', '', asked)}"
            seen[re.sub("[0-9a-f]{64}", "ID", name)] += 1
            if seen[path] == number and name.startswith(path):
                seen[path] += 1
                act()

        self.server.fault = fault
        try:
            yield seen
        finally:
            self.server.fault = None

    # --- the judgement ---

    def check_mark(self, before: dict[str, int]) -> None:
        """A whole mark stands, it found exactly the garbage, and the lists for people say the same."""
        context = self.begin()
        manifests = context.mark.chain()
        right = self.garbage()
        found = list(pipeline.expired_of(context))
        assert len(found) == len(set(found)) and set(found) == right
        facts = manifests["expired_addresses"].facts
        assert facts["listed"]["objects"] == len(before) and facts["listed"]["bytes"] == sum(before.values())
        assert facts["expired"] == {"objects": len(right), "bytes": sum(before[key] for key in right)}
        assert facts["missing"] == 0
        lists = [line for file in self.artifact("deleted.text").glob("part-*") for line in _lines(file)]
        assert sorted(lists) == sorted(right)
        assert self.stored() == before
        self.check_lease_is_free()

    def check_swept(self, before: dict[str, int], right: set[str], result: SweepResult | None = None) -> None:
        """Each object has exactly one final outcome, and all sums agree with what the store holds now.

        `result`: of the start that ended the sweep; None if it died just after that.
        """
        final = self.final_outcomes()
        assert set(final) == right, "an outcome for each, and for nothing else"
        gone = {address for address, outcome in final.items() if outcome in ("deleted", "already_gone", "lost")}
        assert gone == before.keys() - self.stored().keys(), "the journal and the store disagree"
        report = json.loads(self.artifact("sweeps/1/report.json").read_bytes())
        assert {name: count for name, count in report["outcomes"].items() if count} == dict(Counter(final.values()))
        ours = {row["address"] for row in self.journal() if row["outcome"] == "deleted"}
        ours |= {address for address, outcome in final.items() if outcome == "deleted"}
        assert report["bytes_deleted"] == sum(before[address] for address in ours)
        assert [path.name for path in self.artifact("sweeps").iterdir()] == ["1"]
        if result is not None:
            assert (report["outcomes"], report["planned"]) == (dict(result.outcomes), result.planned)
        self.check_reports()
        self.check_lease_is_free()

    def check_reports(self) -> None:
        """lakeFS's own report names what was planned: no more, though a killed attempt had planned otherwise."""
        plan = json.loads(self.artifact("sweeps/1/plan.json").read_bytes())
        planned = [
            address
            for part in plan["parts"]
            for address in pq.read_table(self.root / plan["folder"] / part["name"])["address"].to_pylist()
        ]
        folder = self.root / REPORTS / MARK
        tables = [pq.read_table(file)["address"].to_pylist() for file in (folder / "deleted").glob("*.parquet")]
        assert sorted(address for table in tables for address in table) == sorted(planned)
        lists = [line for file in (folder / "deleted.text").glob("*.txt") for line in _lines(file)]
        assert sorted(lists) == sorted(planned)
        assert json.loads((folder / "summary.json").read_bytes())["num_deleted_objects"] == len(planned)

    def journal(self) -> list[dict[str, Any]]:
        config = LocalConfig(str(self.root))
        folder = f"{ARTIFACTS}/marks/{MARK}/sweeps/1/outcomes"
        parts = list_parts(config, folder)
        return [row for part in parts for batch in read_part(config, folder, part) for row in batch.to_pylist()]

    def final_outcomes(self) -> dict[str, str]:
        """By address, what its last attempt says: one thing. Gone after an unanswered delete is deleted by it."""
        rows = self.journal()
        last: dict[str, int] = {}
        for row in rows:
            last[row["address"]] = max(row["attempt"], last.get(row["address"], 0))
        final: dict[str, set[str]] = {}
        for row in rows:
            if row["attempt"] == last[row["address"]]:
                final.setdefault(row["address"], set()).add(row["outcome"])
        for address, outcomes in final.items():
            if outcomes == {"already_gone", "failed:no_answer"}:
                final[address] = {"deleted"}
        assert all(len(outcomes) == 1 for outcomes in final.values()), final
        return {address: outcomes.pop() for address, outcomes in final.items()}

    def check_lease_is_free(self) -> None:
        lease = json.loads((self.root / ARTIFACTS / "lease.json").read_bytes())
        assert lease["expires_at"] == 0.0

    def finished_stages(self) -> dict[str, bytes]:
        """The manifests that stand."""
        files = {stage: self.artifact(f"{stage}/manifest.json") for stage in STAGES}
        return {stage: file.read_bytes() for stage, file in files.items() if file.exists()}


def command(
    *arguments: str,
    folder: Path,
    server: SandboxServer,
    variables: Mapping[str, str],
    settings: Mapping[str, Any] | None = None,
) -> subprocess.Popen[str]:
    """`lakegc` as a process of its own, whose home is `folder`; `settings` are more of lakegc.yaml's."""
    mine = {
        "PYTHONPATH": f"{Path(__file__).parent / 'crash_shim'}:{_ROOT}",
        "HOME": str(folder),
        "JAVA_TOOL_OPTIONS": _QUICK_JAVA,
        "LAKECTL_SERVER_ENDPOINT_URL": server.url,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ACCESS_KEY,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET_KEY,
        "LAKEGC_UNSAFE": "yes",
        **variables,
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEGC_")} | mine
    (folder / "lakegc.yaml").write_text(json.dumps(_CONFIG | dict(settings or {})), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "lakegc_core.cli", *arguments, "--quiet"],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def build(sandbox: Sandbox) -> Repository:
    """A repository with two generations of a table, of which one has expired, and odds and ends in staging."""
    repository = sandbox.create_repository(NAME, age=timedelta(days=90))
    repository.set_rules(7)

    def write(days: float, paths: list[str], size: int, branch: str = "main") -> None:
        for number, path in enumerate(paths):
            repository.upload(branch, path, bytes([number]) * (size + number), age=timedelta(days=days))

    def date(days: float) -> datetime:
        return datetime.fromtimestamp(sandbox.clock(), UTC) - timedelta(days=days)

    table = [f"t/{number:02d}" for number in range(12)]
    write(60, table, 100)
    repository.commit("main", "old", date=date(60))
    repository.tag("v1", "main")
    repository.delete_tag("v1")
    write(40, table, 300)
    repository.commit("main", "new", date=date(40))
    repository.tag("v2", "main")
    write(20, table[:4], 500)
    repository.commit("main", "newer", date=date(20))
    repository.create_branch("dev", "main")
    write(6, ["dropped/a", "dropped/b", "dropped/c", "dropped/d", "dropped/e"], 700, "dev")
    repository.reset("dev", "dropped/")
    write(5, ["staged/a", "staged/b"], 900, "dev")
    write(0.1, ["young"], 1100, "dev")
    repository.reset("dev", "young")
    repository.files.write("README.md", b"not lakeFS's", date(50).timestamp())
    return repository


@contextmanager
def lake(spark: SparkSession, folder: Path, clock: Callable[[], float] = time.time) -> Iterator[Lake]:
    """The lake, built, served and gone with the block; the session is quick until then."""
    sandbox = Sandbox(folder / "local", clock=clock, seed=1, layout=Layout(range_modulus=5))
    repository = build(sandbox)
    work = folder / "work"
    work.mkdir()
    with quick(spark), SandboxServer(sandbox) as server:
        yield Lake(spark, server, repository, work)


def dies(work: Callable[[Script], object], script: Script) -> bool:
    """Run until the store dies; False if it never did."""
    before = script.deaths
    try:
        work(script)
    except (Crash, Exception):
        if script.deaths == before:
            raise
    return script.deaths > before


def killed(victim: subprocess.Popen[str], script: Script) -> None:
    """Wait until the victim is dead by kill -9, and all that it had started as well; else end it, and fail."""
    try:
        said = victim.communicate(timeout=2 * STARTS)
    finally:
        victim.kill()
        left = outlive(Path(script.folder))
    assert victim.returncode == -signal.SIGKILL, said
    assert not left, f"left behind: {left}"


def outlive(folder: Path) -> list[str]:
    """The processes of a victim that do not end by themselves; they are ended then."""
    try:
        until(lambda: not _descendants(folder), "all that a victim had started has ended")
    except AssertionError:
        found = _descendants(folder)
        for process in found:
            os.kill(process, signal.SIGKILL)
        return list(found.values())
    return []


def _descendants(folder: Path) -> dict[int, str]:
    """Processes whose environment names this script: no others have it."""
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                if str(folder).encode() in (process / "environ").read_bytes():
                    found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
            except OSError:
                continue
    return found


LATER = LEASE.total_seconds() + 60
"""Seconds after which a dead collector's lease is free."""
