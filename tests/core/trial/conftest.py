"""Stands at which `lakegc try` is given: an embedded lakeFS that creates repositories over REST, on a store."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakegc_core.cli import main, trial
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.local import LocalConfig
from lakegc_sandbox import Repository, Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.azurite import azurite
from tests.support.lake import quick
from tests.support.replays import environment
from tests.support.servers import seaweedfs
from tests.support.waiting import asks_again_at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OnStore(Sandbox):
    """A sandbox that puts the bytes of every repository where its namespace says. `at`: the store of a namespace."""

    def __init__(self, root: Path, blockstore: str, at: Callable[[str], StoreConfig]) -> None:
        super().__init__(root, blockstore=blockstore)
        self._at = at

    def create_repository(self, name: str, namespace: str | None = None, **more: Any) -> Repository:
        assert namespace
        return super().create_repository(name, namespace, store=self._at(namespace), **more)


STRICT = {
    "repositories": [
        {"match": "*", "safety": "full", "min_age": "48h", "holds": ["branch:*"], "backup": "required"},
    ],
    "neighbours": {"strict": True},
}


@dataclass(frozen=True)
class Stand:
    """`place`: a prefix of its own, with its scheme. `store`: rooted there."""

    server: SandboxServer
    place: str
    store: StoreConfig
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run `lakegc try`: its exit code, its stdout, its stderr."""
        code = main(["try", *arguments])
        out, err = self.capsys.readouterr()
        return code, out, err

    def left(self) -> str:
        """Run a trial that breaks off, and return the place that it names for its removal."""
        code, _, err = self.run(self.place, "--quiet")
        assert code != 0
        return err.rpartition("lakegc try --remove ")[2].splitlines()[0]

    def write(self, key: str, data: bytes = b"x") -> None:
        connect(self.store).write(key, data)

    @property
    def keys(self) -> set[str]:
        """All that lies below the place."""
        return {key for batch in connect(self.store).list() for key in batch.column("address").to_pylist()}

    @property
    def repositories(self) -> set[str]:
        return set(self.server.sandbox.repositories)


@contextmanager
def standing(
    sandbox: Sandbox, place: str, store: StoreConfig, home: Path, capsys: Any, **lakegc_yaml: Any
) -> Iterator[Stand]:
    """A stand without a word of the operator that anything may be unsafe. lakegc.yaml has what would stop any other
    sweep, or let it wait."""
    home.mkdir(exist_ok=True)
    file = home / "lakegc.yaml"
    file.write_text(yaml.safe_dump(STRICT | lakegc_yaml))
    with SandboxServer(sandbox) as server, pytest.MonkeyPatch.context() as patch:
        asks_again_at_once(patch)
        variables = {
            "HOME": str(home),
            "LAKEGC_CONFIG": str(file),
            "LAKECTL_SERVER_ENDPOINT_URL": server.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ACCESS_KEY,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        with environment(variables):
            yield Stand(server, place, store, capsys)


@contextmanager
def in_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Stand]:
    """On blockstore local."""
    root = tmp_path / "lakefs"
    (root / "eval").mkdir(parents=True)
    stores = [{"match": "local://", "root": str(root)}]
    store = LocalConfig(str(root / "eval"))
    with standing(Sandbox(root), "local://eval", store, tmp_path / "home", capsys, stores=stores) as found:
        yield found


@contextmanager
def on_s3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Stand]:
    """On SeaweedFS."""
    prefix = f"{uuid.uuid4().hex}/eval"
    with seaweedfs(tmp_path) as weed, environment(weed.environment()):
        sandbox = OnStore(tmp_path, "s3", lambda uri: weed.config(uri.removeprefix(f"s3://{weed.bucket}/")))
        place = f"s3://{weed.bucket}/{prefix}"
        with standing(sandbox, place, weed.config(prefix), tmp_path / "home", capsys) as found:
            yield found


@contextmanager
def on_azure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Stand]:
    """On Azurite."""
    with azurite(tmp_path) as server, environment({"AZURE_STORAGE_KEY": server.account_key}):
        sandbox = OnStore(tmp_path, "azure", lambda uri: server.config(uri.removeprefix(server.namespace(""))))
        stores = [{"match": server.namespace(""), "endpoint": server.endpoint}]
        place = server.namespace("eval")
        with standing(sandbox, place, server.config("eval"), tmp_path / "home", capsys, stores=stores) as found:
            yield found


STORES = {"local": in_folder, "s3": on_s3, "azure": on_azure}


@pytest.fixture
def stand(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Stand]:
    """On a real store, as a test asks; else on blockstore local."""
    with STORES[getattr(request, "param", "local")](tmp_path, capsys) as found:
        yield found


@pytest.fixture(scope="module")
def sparing(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of the whole run, quick on few rows; `lakegc try` uses it."""
    with quick(spark), pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "spark_of", lambda *_, **__: spark)
        yield spark


def json_of(text: str) -> dict[str, Any]:
    """The one JSON object of a command's stdout."""
    assert text.count("\n") == 1, "exactly one line"
    found: dict[str, Any] = json.loads(text)
    return found
