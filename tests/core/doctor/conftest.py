"""Repositories that are sound, on a folder and on S3: a test breaks one thing, and the doctor names it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.config.credentials import S3Access
from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.doctor.examine import examine
from lakegc_core.doctor.finding import Diagnosis, Finding, Level
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import RepositoryContext, open_repository
from lakegc_core.store.s3.store import S3Config
from lakegc_sandbox import Repository, Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from lakegc_sandbox.api.wire import Json
from tests.support.servers import S3Server, seaweedfs

READER, READER_SECRET = "READERSKEY", "readers/secret+0123456789"


def fill(repository: Repository) -> Repository:
    """Two months of history, and rules that fit it."""
    repository.set_rules(14, {"main": 30})
    for days in (50, 20, 2):
        repository.upload("main", f"a/{days}", b"data", age=timedelta(days=days))
        repository.commit("main", f"of {days} days ago")
    repository.upload("main", "staged", b"staged")
    return repository


@dataclass(frozen=True)
class Patient:
    """A served repository `lake`. `settings` reach its server and its store."""

    server: SandboxServer
    settings: Settings
    folder: Path | None = None  # of the namespace, on `local`
    s3: S3Server | None = None
    store: S3Config | None = None

    @property
    def repository(self) -> Repository:
        return self.server.sandbox.repository("lake")

    @property
    def client(self) -> LakeFSClient:
        return LakeFSClient(self.settings.server, sleep=lambda seconds: None)

    def at(self, **changes: Any) -> Patient:
        """The same patient under other settings."""
        return replace(self, settings=replace(self.settings, **changes))

    def policy(self, **more: Any) -> Patient:
        """The same patient under another policy."""
        return self.at(repositories=(RepositoryPolicy(match="*", **more),))

    def open(self) -> RepositoryContext:
        return open_repository(self.settings, "lake", client=self.client)

    def examine(self) -> Diagnosis:
        return examine(self.settings, "lake", client=self.client)

    def finding(self, name: str) -> Finding:
        """The one finding of that name."""
        found = [each for each in self.examine().findings if each.name == name]
        assert len(found) == 1, self.examine().findings
        return found[0]

    def files(self) -> dict[str, int]:
        """Keys and sizes of all in the namespace, but for what lakeFS writes when it prepares and dumps."""
        if self.folder is not None:
            every = {path.relative_to(self.folder).as_posix(): path for path in self.folder.rglob("*")}
            found = {key: path.stat().st_size for key, path in every.items() if path.is_file()}
        else:
            assert self.s3 is not None and self.store is not None
            pages = self.s3.client().get_paginator("list_objects_v2")
            pages = pages.paginate(Bucket=self.store.bucket, Prefix=f"{self.store.prefix}/")
            objects = [each for page in pages for each in page.get("Contents", ())]
            found = {each["Key"].removeprefix(f"{self.store.prefix}/"): each["Size"] for each in objects}
        own = "_lakefs/retention/gc/lakegc/"
        return {key: size for key, size in found.items() if key.startswith(own) or not key.startswith("_lakefs/")}


def refuse(path: str, status: int = 401, body: Json = None) -> Callable[..., tuple[int, Json] | None]:
    """A fault of the sandbox: calls whose path ends so are refused."""
    said = body if body is not None else {"message": "insufficient permissions"}
    return lambda method, asked, query: (status, said) if asked.endswith(path) else None


def worst(diagnosis: Diagnosis) -> list[Finding]:
    """All that is above a note."""
    return [finding for finding in diagnosis.every_finding if finding.level is not Level.NOTE]


@pytest.fixture
def on_folder(tmp_path: Path) -> Iterator[Patient]:
    """A sound repository on blockstore `local`."""
    with SandboxServer(Sandbox(tmp_path / "lakefs")) as server:
        fill(server.sandbox.create_repository("lake", age=timedelta(days=60)))
        settings = Settings(server=ServerSettings(server.url, ACCESS_KEY, SECRET_KEY))
        yield Patient(server, settings, folder=tmp_path / "lakefs" / "lake")


@pytest.fixture(scope="session")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """SeaweedFS, with a key that may only list and read."""
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs"), readers={READER: READER_SECRET}) as server:
        yield server


@pytest.fixture
def on_s3(weed: S3Server, tmp_path: Path) -> Iterator[Patient]:
    """A sound repository in a bucket with others."""
    yield from patient_at(weed, weed.config(f"{uuid.uuid4().hex}/ns"), tmp_path)


@pytest.fixture
def on_bucket(weed: S3Server, tmp_path: Path) -> Iterator[Patient]:
    """A sound repository in a bucket of its own."""
    bucket = f"lake-{uuid.uuid4().hex[:8]}"
    weed.client().create_bucket(Bucket=bucket)
    yield from patient_at(weed, weed.config("ns", bucket=bucket), tmp_path)


def patient_at(weed: S3Server, store: S3Config, folder: Path) -> Iterator[Patient]:
    """A sound repository whose bytes lie in a store of S3."""
    with SandboxServer(Sandbox(folder, blockstore="s3")) as server:
        namespace = f"s3://{store.bucket}/{store.prefix}"
        fill(server.sandbox.create_repository("lake", namespace, store=store, age=timedelta(days=60)))
        yield Patient(server, s3_settings(server.url, weed.endpoint, weed), s3=weed, store=store)


def s3_settings(lakefs: str, endpoint: str, weed: S3Server, key: str = "", secret: str = "") -> Settings:
    """Settings by which lakeFS and S3 are reached, with the server's own key or another one."""
    access = S3Access(
        region="us-east-1", access_key_id=key or weed.access_key, secret_access_key=secret or weed.secret_key
    )
    return Settings(
        server=ServerSettings(lakefs, ACCESS_KEY, SECRET_KEY),
        stores=(StoreMapping("s3://", endpoint=endpoint),),
        s3=access,
    )
