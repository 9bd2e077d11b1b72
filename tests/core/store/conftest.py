"""What the store tests run against: each server once a session, a fresh prefix a test."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from lakegc_core.store.azure.store import AzureConfig
from lakegc_core.store.base import Store, StoreConfig
from lakegc_core.store.gcs.store import GCSConfig
from lakegc_core.store.local import LocalConfig
from lakegc_core.store.s3.store import S3Config
from tests.support.azurite import AzureServer, azurite
from tests.support.fake_s3 import PAGE, fake_s3
from tests.support.gcs_server import GCSServer, fake_gcs
from tests.support.npm import NoNetworkError
from tests.support.proxy import proxy
from tests.support.s3_dialects import DIALECTS
from tests.support.servers import S3Server, rclone_s3, seaweedfs
from tests.support.store_faults import PROTOCOLS, Faulty, Protocol

NetworkServer: TypeAlias = S3Server | AzureServer | GCSServer
NetworkConfig: TypeAlias = S3Config | AzureConfig | GCSConfig

KINDS = ("seaweedfs", "rclone", "local", "azurite", "gcs")
WORKING = tuple(name for name, dialect in DIALECTS.items() if not dialect.refusal)
"""Dialects of S3 on which lakegc works: each is a kind of store of its own."""
SERVERS = {"seaweedfs": "seaweed", "rclone": "rclone", "azurite": "azure", "gcs": "gcs"}  # kind to fixture
RCLONE_DIRECTORY_CACHE = 1.2  # seconds until it sees files put behind its back


@dataclass(frozen=True)
class Place:
    """A fresh, empty root of one kind of store. `folder` holds its files, where there are any."""

    kind: str
    config: StoreConfig
    store: Store
    folder: Path | None
    server: NetworkServer | None

    @property
    def many(self) -> int:
        """How many objects fill more than a page here. Azurite is slow, and gets small pages."""
        few = {"azurite": 60, "gcs": 600} | dict.fromkeys(DIALECTS, 6 * PAGE // 5)
        return few.get(self.kind, 1200)

    def fill(self, keys: Sequence[str]) -> None:
        """Make many small objects, by the fastest way there is."""
        if self.folder is None:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda key: self.store.write(key, b"x"), keys))
            return
        for key in keys:
            path = self.folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        if self.kind == "rclone":
            time.sleep(RCLONE_DIRECTORY_CACHE)  # longer does no harm

    def addresses(self, prefix: str = "") -> list[str]:
        """What a listing yields, in its order."""
        return [key for batch in self.store.list(prefix) for key in batch.column("address").to_pylist()]

    def another(self) -> Place:
        """Another empty root in the same store."""
        name = f"other/{uuid.uuid4().hex}"
        if self.server is None:
            assert self.folder is not None
            return local(self.folder.parent / name)
        return remote(self.kind, self.server, name)


def local(folder: Path) -> Place:
    """A root over this folder, which may be missing."""
    config = LocalConfig(str(folder))
    return Place("local", config, config.connect(), folder, None)


def remote(kind: str, server: NetworkServer, name: str) -> Place:
    """A root below this prefix of a server."""
    config: NetworkConfig = server.config(name)
    if not isinstance(server, S3Server):
        config = server.config(name, page_size=25 if kind == "azurite" else 250)
    behind = server.folder if isinstance(server, S3Server) else None
    return Place(kind, config, config.connect(), behind / name if behind else None, server)


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """SeaweedFS, for the whole session."""
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """rclone over a folder, for the whole session."""
    with rclone_s3(tmp_path_factory.mktemp("rclone") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """Azurite, for the whole session."""
    try:
        with azurite(tmp_path_factory.mktemp("azurite")) as server:
            yield server
    except NoNetworkError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GCSServer]:
    """An emulator of Google Cloud Storage, for the whole session."""
    with fake_gcs(tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(scope="session")
def gcs_without_batches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GCSServer]:
    """The emulator as it is: it takes no deletes of many objects."""
    with fake_gcs(tmp_path_factory.mktemp("gcs-without-batches"), together=False) as server:
        yield server


# The servers are in every run, the dialects in that of the slow tests that guard against loss of data.
SLOWLY = tuple(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.safety]) for name in WORKING)


@pytest.fixture(params=(*KINDS, *SLOWLY))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty root on each kind of store in turn, under a prefix with a space and an accent."""
    name = f"näme space-{uuid.uuid4().hex[:12]}"
    if request.param == "local":
        (tmp_path / name).mkdir()
        yield local(tmp_path / name)
    elif request.param in WORKING:
        with fake_s3(DIALECTS[request.param].make()) as (server, _):
            yield remote(request.param, server, name)
    else:
        yield remote(request.param, request.getfixturevalue(SERVERS[request.param]), name)


def behind_proxy(protocol: Protocol, server: NetworkServer) -> Iterator[Faulty]:
    """A fresh root of a server, seen directly and through a proxy; asked twice at most."""
    prefix = uuid.uuid4().hex
    with proxy(server.endpoint) as between:
        place = between.endpoint + server.endpoint[len("http://") :].partition("/")[2].join(("/", "")).rstrip("/")
        config = server.config(prefix, endpoint_url=place, max_attempts=2)
        yield Faulty(protocol, server.config(prefix).connect(), config, config.connect(), between)


@pytest.fixture(params=tuple(PROTOCOLS))
def faulty(request: pytest.FixtureRequest) -> Iterator[Faulty]:
    """A store of each protocol in turn, behind a proxy."""
    yield from behind_proxy(PROTOCOLS[request.param], request.getfixturevalue(SERVERS[request.param]))


@pytest.fixture
def faulty_s3(seaweed: S3Server) -> Iterator[Faulty]:
    """SeaweedFS behind a proxy."""
    yield from behind_proxy(PROTOCOLS["seaweedfs"], seaweed)


@pytest.fixture
def faulty_azure(azure: AzureServer) -> Iterator[Faulty]:
    """Azurite behind a proxy."""
    yield from behind_proxy(PROTOCOLS["azurite"], azure)


@pytest.fixture
def faulty_gcs(gcs: GCSServer) -> Iterator[Faulty]:
    """The emulator of GCS behind a proxy."""
    yield from behind_proxy(PROTOCOLS["gcs"], gcs)
