"""A lakeFS of a test's own: an S3 namespace whose bytes lie in a folder, so that a test chooses every date.

Here: starting it, opening marks of it, leaving objects in it. What happens in it belongs to the tests.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks import neighbours
from lakegc_core.marks.context import MarkContext, RepositoryContext, begin_mark, open_repository
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.local import LocalConfig
from lakegc_sandbox import Layout, Repository, Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.replays import environment
from tests.support.tasks import tasks_run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2025, 3, 31, 12, tzinfo=UTC)
MIN_AGE = timedelta(days=1)
CUTOFF = (NOW - MIN_AGE).timestamp()
NO_SPARK: Any = None  # for stages that end before any job begins
QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""What makes Spark quick on a handful of rows."""


@dataclass(frozen=True)
class Lake:
    """A served sandbox at NOW. `folder` is where the bucket's bytes lie."""

    server: SandboxServer
    folder: Path
    policies: tuple[RepositoryPolicy, ...] = ()

    @property
    def sandbox(self) -> Sandbox:
        return self.server.sandbox

    def create(self, name: str, namespace: str = "") -> Repository:
        """A repository of a hundred days ago, in a namespace of its own."""
        return self.sandbox.create_repository(name, namespace or f"s3://bucket/{name}", age=timedelta(days=100))

    def files(self, name: str) -> Path:
        """The folder of a repository's namespace."""
        return self.folder / self.sandbox.repository(name).place.namespace.removeprefix("s3://")

    def place_of(self, namespace: Namespace, *_: object, **__: object) -> LocalConfig:
        """The folder in which a namespace lies."""
        return LocalConfig(str(self.folder / namespace.authority / namespace.path))

    @property
    def client(self) -> LakeFSClient:
        server = ServerSettings(self.server.url, ACCESS_KEY, SECRET_KEY)
        return LakeFSClient(server, sleep=lambda seconds: None)

    def open(self, name: str, **more: Any) -> RepositoryContext:
        """A repository, its stores being the folder."""
        server = ServerSettings(self.server.url, ACCESS_KEY, SECRET_KEY)
        settings = Settings(**{"server": server, "repositories": self.policies} | more)
        store = LocalConfig(str(self.files(name)))
        opened = open_repository(settings, name, client=self.client)
        return replace(opened, data=store, outputs=store, workspace=store)

    def begin(self, name: str, mark_id: str, **options: Any) -> MarkContext:
        """A mark, begun or resumed. `options` are those of `begin_mark`."""
        return begin_mark(self.open(name), mark_id, **{"min_age": MIN_AGE, "safety_level": "none"} | options)


def leave(repository: Repository, key: str, days: float, data: bytes = b"left behind") -> str:
    """An object under this key, so many days old, which nothing refers to."""
    repository.files.write(key, data, (NOW - timedelta(days=days)).timestamp())
    return key


def saved(found: Lake, name: str) -> Callable[[], None]:
    """What makes a repository, its files and the time again what they are now.

    Ranges that came later stay, as nobody's: the sandbox writes none twice.
    """
    repository, files, copy = found.sandbox.repository(name), found.files(name), found.folder / f"saved-{name}"
    database, now, ranges = repository.backup(), os.environ["LAKEGC_NOW"], files / "_lakefs"
    shutil.copytree(files, copy)

    def rewind() -> None:
        os.environ["LAKEGC_NOW"] = now  # until the lake ends
        repository.restore(database)
        for each in (*files.iterdir(), *ranges.iterdir()):
            if each.is_dir() and each != ranges:
                shutil.rmtree(each)
            elif each.is_file() and each.parent != ranges:
                each.unlink()
        shutil.copytree(copy, files, dirs_exist_ok=True)

    return rewind


@contextmanager
def lake(folder: Path, **options: Any) -> Iterator[Lake]:
    """A sandbox on S3 with its bytes below `folder`, at NOW for it and for the collector. `options`: the sandbox's."""
    options = {"blockstore": "s3", "clock": NOW.timestamp, "seed": 1, "layout": Layout(range_modulus=3)} | options
    with ExitStack() as stack:
        stack.enter_context(environment({"LAKEGC_UNSAFE": "yes", "LAKEGC_NOW": str(NOW.timestamp())}))
        found = Lake(stack.enter_context(SandboxServer(Sandbox(folder, **options))), folder.resolve())
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(neighbours, "config_for", found.place_of)
        tasks_run_here(patch)
        yield found


@contextmanager
def quick_session(**more: str) -> Iterator[SparkSession]:
    """The session of a whole run of tests, quick on few rows.

    Its Python workers are reached by Unix sockets: over TCP each job waits 40 ms for a delayed acknowledgement.
    """
    from lakegc_core.spark.session import session

    sockets = "spark.python.unix.domain.socket"
    with TemporaryDirectory(prefix="sockets-", dir="/tmp", ignore_cleanup_errors=True) as folder:  # paths are short
        yield session("local[2]", {**QUICK, f"{sockets}.enabled": "true", f"{sockets}.dir": folder, **more})


@contextmanager
def quick(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, quick on few rows until the block ends."""
    before = {name: spark.conf.get(name) for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    try:
        yield spark
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
