"""What the store tests run against: each server once a session, a fresh prefix a test, faults on demand."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lakegc_core.store.base import Store, StoreConfig
from lakegc_core.store.local import LocalConfig
from lakegc_core.store.s3 import S3Config
from tests.proxy import Answer, Forward, Hook, Proxy, Request, proxy
from tests.servers import S3Server, rclone_s3, seaweedfs

KINDS = ("seaweedfs", "rclone", "local")
RCLONE_DIRECTORY_CACHE = 1.2  # seconds until it sees files put behind its back


@dataclass(frozen=True)
class Place:
    """A fresh, empty root of one kind of store. `folder` holds its files, where there are any."""

    kind: str
    config: StoreConfig
    store: Store
    folder: Path | None
    server: S3Server | None

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
            time.sleep(RCLONE_DIRECTORY_CACHE)

    def addresses(self, prefix: str = "") -> list[str]:
        """What a listing yields, in its order."""
        return [key for batch in self.store.list(prefix) for key in batch.column("address").to_pylist()]


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


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty root on each kind of store in turn, under a prefix with a space and an accent."""
    name = f"näme space-{uuid.uuid4().hex[:12]}"
    if request.param == "local":
        (tmp_path / name).mkdir()
        local = LocalConfig(str(tmp_path / name))
        return Place("local", local, local.connect(), tmp_path / name, None)
    server: S3Server = request.getfixturevalue("seaweed" if request.param == "seaweedfs" else "rclone")
    config = server.config(name)
    folder = server.folder / name if server.folder else None
    return Place(request.param, config, config.connect(), folder, server)


def local(folder: Path) -> Place:
    """A root over this folder, which may be missing."""
    config = LocalConfig(str(folder))
    return Place("local", config, config.connect(), folder, None)


@dataclass(frozen=True)
class Faulty:
    """One root of SeaweedFS, seen directly and through a proxy."""

    direct: Store
    config: S3Config
    store: Store
    proxy: Proxy

    def listed(self) -> list[str]:
        """What a listing through the proxy yields."""
        return [key for batch in self.store.list() for key in batch.column("address").to_pylist()]


@pytest.fixture
def faulty(seaweed: S3Server) -> Iterator[Faulty]:
    """SeaweedFS behind a proxy, asked twice at most."""
    prefix = uuid.uuid4().hex
    with proxy(seaweed.endpoint) as between:
        config = seaweed.config(prefix, endpoint_url=between.endpoint, max_attempts=2, read_timeout=1.0)
        yield Faulty(seaweed.config(prefix).connect(), config, config.connect(), between)


def altering(change: Callable[[bytes], bytes]) -> Hook:
    """Changes the body of every list page."""

    def hook(request: Request, forward: Forward) -> Answer | None:
        answer = forward(request)
        return replace(answer, body=change(answer.body)) if "list-type" in request.query else answer

    return hook


def slow_down(request: Request, forward: Forward) -> Answer:
    """S3's way of asking for fewer requests."""
    body = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate</Message></Error>"
    return Answer(503, {"Content-Type": "application/xml"}, body)


def delete_errors(*found: tuple[str, str]) -> Hook:
    """DeleteObjects' answer with these (key, code), whatever was asked."""
    rows = "".join(f"<Error><Key>{key}</Key><Code>{code}</Code></Error>" for key, code in found)
    body = f"<DeleteResult>{rows}</DeleteResult>".encode()
    return lambda request, forward: Answer(200, {"Content-Type": "application/xml"}, body)


def malformed_batch(request: Request, forward: Forward) -> Answer:
    """Refuses DeleteObjects, as for a key no XML can hold; lets all else through."""
    if request.method != "POST":
        return forward(request)
    return Answer(400, {"Content-Type": "application/xml"}, b"<Error><Code>MalformedXML</Code></Error>")


# How a list page of three objects can be spoilt, and a word of the error it must give.
PAGES = {
    "an object too few": (
        lambda body: re.sub(rb"<Contents>.*?</Contents>", b"", body, count=1),
        "announced 3",
    ),
    "all objects gone": (lambda body: re.sub(rb"<Contents>.*</Contents>", b"", body), "announced 3"),
    "more, but not where": (
        lambda body: body.replace(b"<IsTruncated>false", b"<IsTruncated>true"),
        "not where",
    ),
    "no word of an end": (lambda body: re.sub(rb"<IsTruncated>.*?</IsTruncated>", b"", body), "the last one"),
    "the same page for ever": (
        lambda body: body.replace(
            b"<IsTruncated>false</IsTruncated>",
            b"<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>",
        ),
        "circles",
    ),
    "an object without a size": (
        lambda body: re.sub(rb"<Size>.*?</Size>", b"", body, count=1),
        "without key",
    ),
    "keys of another place": (lambda body: re.sub(rb"<Key>[^/]*/", b"<Key>elsewhere/", body), "not below"),
    "XML that breaks off": (lambda body: body[: len(body) // 2], "500"),
}
