"""The story of `lakegc demo`, and the embedded lakeFS of `lakegc sandbox`: a lake with a past, really marked and swept.

Nothing here is special to lakegc's own code: the demo asks the sandbox over REST and reads its files from a folder, as
it would with a real lakeFS. Only the clock is set forward, because a full sweep waits for a day.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lakegc_core import pipeline
from lakegc_core.answers.explain import explain
from lakegc_core.answers.whatif import Wish, whatif
from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.errors import LakegcError, SettingsError
from lakegc_core.lakefs.client import READS, LakeFSClient
from lakegc_core.marks.context import MarkContext, begin_mark, open_repository
from lakegc_core.marks.ids import new_mark_id
from lakegc_core.names import Stage
from lakegc_core.spark.session import session
from lakegc_core.sweep.result import SweepResult
from lakegc_core.views import answers, explained, report, screen
from lakegc_core.views.progress import Reporter
from lakegc_sandbox.api.server import SandboxServer
from lakegc_sandbox.history import build_demo
from lakegc_sandbox.lakefs import Sandbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ACCESS_KEY, _SECRET_KEY = "lakegc-sandbox", "lakegc-sandbox-secret"
_KEPT, _GARBAGE = "tables/customers/part-00000.parquet", "models/forecast/fold-3.parquet"
_GONE = 410


@contextmanager
def _clock_at(moment: datetime) -> Iterator[None]:
    """Let the collector believe that it is another time."""
    before = {name: os.environ.get(name) for name in ("LAKEGC_NOW", "LAKEGC_UNSAFE")}
    os.environ |= {"LAKEGC_NOW": str(moment.timestamp()), "LAKEGC_UNSAFE": "yes"}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def demo(folder: str | None, reporter: Reporter, *, as_json: bool = False) -> int:
    """Build a lake with two months of history, mark it, sweep it a day later, and read every object afterwards."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="lakegc-demo-") as fresh:
            return _demo(Path(fresh), reporter, as_json=as_json)
    return _demo(Path(folder), reporter, as_json=as_json)


def _demo(folder: Path, reporter: Reporter, *, as_json: bool) -> int:
    out = sys.stderr if as_json else sys.stdout

    def tell(text: str = "") -> None:
        print(text, file=out, flush=True)

    tell("1. A lakeFS repository with two months of history: branches, a tag, staged and dropped uploads")
    sandbox = _sandbox_in(folder)
    name = _history_in(sandbox)
    with SandboxServer(sandbox, access_key=_ACCESS_KEY, secret_key=_SECRET_KEY) as server:
        server_settings = ServerSettings(server.url, _ACCESS_KEY, _SECRET_KEY)
        settings = Settings(server=server_settings, repositories=(RepositoryPolicy(match="*", safety="full"),))
        client = LakeFSClient(server_settings)
        story = _Story(sandbox, name, client, _paths(client, name), reporter, tell)
        tell(
            f"   {len(story.paths):,} objects are visible on {sum(1 for _ in client.branches(name))} branches; all read"
        )
        story.check_reads()
        spark = session("local[*]", {"spark.driver.memory": "1g"})
        context = begin_mark(
            open_repository(settings, name, client=client, say=reporter.say), new_mark_id(sandbox_now(sandbox))
        )
        review = story.mark(spark, context)
        garbage = set(pipeline.expired_of(context))
        story.ask(spark, context)
        result = story.sweep(spark, context, review)
        story.read_afterwards(garbage)
        spark.stop()
    if as_json:
        found = {"mark": review.report, "sweep": report.sweep_report(result), "objects_read": len(story.paths)}
        print(json.dumps(found))
    return 1 if result.failed else 0


def _sandbox_in(folder: Path) -> Sandbox:
    """A sandbox in a folder, in which nothing is written yet. SettingsError if the folder cannot be read, or holds
    anything, such as an earlier demo."""
    with _folder_is_usable(folder):
        if folder.exists() and any(folder.iterdir()):
            raise SettingsError(f"{folder} is not empty. A sandbox begins in a new folder: name another one (--dir).")
        return Sandbox(folder)


def _history_in(sandbox: Sandbox) -> str:
    """Write the demo's history. Returns the name of its repository. SettingsError if the folder cannot be written."""
    with _folder_is_usable(sandbox.root):
        return build_demo(sandbox)


@contextmanager
def _folder_is_usable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"The sandbox cannot write to {folder}: {error.strerror or error}. Name another folder: --dir."
        ) from error


@dataclass(frozen=True)
class _Story:
    """The chapters of the demo over one lake. `paths`: what its branches show, as (branch, path)."""

    sandbox: Sandbox
    repository: str
    client: LakeFSClient
    paths: list[tuple[str, str]]
    reporter: Reporter
    tell: Callable[[str], None]

    def mark(self, spark: SparkSession, context: MarkContext) -> pipeline.Review:
        """Mark the lake."""
        self.tell(
            "\n2. lakegc mark: what is there, what is staged, which commits count, what they refer to, the difference\n"
        )
        with self.reporter.watch(spark, "mark"):
            review = pipeline.mark(spark, context)
        self.tell(screen.mark_screen(review.report, every_guard=True).rstrip())
        return review

    def ask(self, spark: SparkSession, context: MarkContext) -> None:
        """Ask why two objects are kept and gone, and what another rule would free."""
        self.tell(
            "\n3. Questions, answered from the mark: why is this kept or gone, and what would another rule free?\n"
        )
        for what in (f"lakefs://{self.repository}/main/{_KEPT}", _GARBAGE):
            found = explain(lambda: spark, context, what).as_json()
            self._quote([f"explain {self.repository} {what}", *explained.explain_screen(found).splitlines()[2:], ""])
        found = whatif(spark, context, Wish({"main": 7})).as_json() | {"price": None}
        self._quote([f"whatif {self.repository} --rule main=7", *answers.whatif_lines(found)[1:]])

    def _quote(self, lines: list[str]) -> None:
        self.tell("\n".join(f"   {line}".rstrip() for line in lines))

    def sweep(self, spark: SparkSession, context: MarkContext, review: pipeline.Review) -> SweepResult:
        """Sweep the mark a day later, and accept what guards say of a first collection."""
        accepted = {
            verdict.name: "demo: two months of garbage at once" for verdict in review.verdicts if not verdict.passed
        }
        if accepted:
            refused = ", ".join(accepted)
            self.tell(
                f"\n   {refused} would stop a sweep: a first collection takes two months of garbage at once.\n"
                "   Below, the demo accepts it by name, as an operator does with --accept and --because."
            )
        later = sandbox_now(self.sandbox) + timedelta(hours=25)
        self.tell(
            "\n4. A day later (level `full` waits for 24 h), lakegc sweep: guards, a fresh look, plan, delete, report\n"
        )
        with _clock_at(later), self.reporter.watch(spark, Stage.SWEPT_REPORT):
            result = pipeline.sweep(spark, context, accepted=accepted)
        self.tell(screen.sweep_screen(report.sweep_report(result)))
        return result

    def read_afterwards(self, garbage: set[str]) -> None:
        """Read what is visible, and show that what was swept is gone."""
        self.tell("\n5. Afterwards")
        self.check_reads()
        self.tell(f"   all {len(self.paths):,} visible objects still read")
        self.tell(f"   {self._show_gone(garbage)}")

    def check_reads(self) -> None:
        """Read one byte of everything that branches show."""
        for branch, path in self.paths:
            status = self.client.read_byte(self.repository, branch, path)
            if status not in READS:
                raise LakegcError(
                    f"{path} on {branch} answers {status}: a live object does not read. Please report this."
                )

    def _show_gone(self, garbage: set[str]) -> str:
        """An old commit still names its objects; one whose data was swept answers 410."""
        for commit_id in self.sandbox.repository(self.repository).refs.commits:
            for page in self.client.objects(self.repository, commit_id):
                for stats in page:
                    if any(stats.physical_address.endswith(address) for address in garbage):
                        status = self.client.read_byte(self.repository, commit_id, stats.path)
                        if status != _GONE:
                            raise LakegcError(f"{stats.path} at {commit_id[:12]} was swept, yet answers {status}.")
                        return f"a swept object answers {status} Gone: {stats.path} at expired commit {commit_id[:12]}"
        raise LakegcError("No expired commit names a swept object; the demo's history does not show what it should.")


def sandbox_now(sandbox: Sandbox) -> datetime:
    """The present by the sandbox's clock."""
    return datetime.fromtimestamp(sandbox.clock(), UTC)


def _paths(client: LakeFSClient, repository: str) -> list[tuple[str, str]]:
    return [
        (branch.name, stats.path)
        for branch in client.branches(repository)
        for page in client.objects(repository, branch.name)
        for stats in page
    ]


def serve(folder: str | None, port: int, reporter: Reporter) -> int:
    """Serve a sandbox lakeFS with the demo's history until interrupted; print how to reach it."""
    with tempfile.TemporaryDirectory(prefix="lakegc-sandbox-") as fresh:
        sandbox = _sandbox_in(Path(folder or fresh))
        try:  # before anything is written
            server = SandboxServer(sandbox, port=port, access_key=_ACCESS_KEY, secret_key=_SECRET_KEY)
        except OSError as error:
            raise SettingsError(
                f"--port {port} cannot be served: {error.strerror}. Without --port, a free one is taken."
            ) from None
        name = _history_in(sandbox)
        print(f"export LAKECTL_SERVER_ENDPOINT_URL={server.url}")
        print(f"export LAKECTL_CREDENTIALS_ACCESS_KEY_ID={_ACCESS_KEY}")
        print(f"export LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY={_SECRET_KEY}")
        print(f"# repository: {name}   try: lakegc mark {name}", flush=True)
        reporter.say("The sandbox forgets everything when it ends. Ctrl-C ends it.")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0
