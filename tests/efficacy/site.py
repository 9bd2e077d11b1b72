"""A lakeFS on a real object store, and lakegc at work on it, round after round.

Here: the servers, rounds of one mark and one sweep, and the judge, who asks lakeFS's object API alone what is live.
Not here: histories (`nights`), and what is demanded of a round (the tests).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import requests
from azure.storage.blob import BlobBlock

from lakegc_core import pipeline
from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import MarkContext, begin_mark, open_repository
from lakegc_core.stages import swept_report
from lakegc_core.store.base import StoreConfig
from lakegc_core.sweep.result import SweepResult
from lakegc_sandbox import Repository, Sandbox, SandboxServer
from tests.support import oracle
from tests.support.azurite import AzureServer, azurite
from tests.support.proxy import Proxy, proxy
from tests.support.replays import AWS, AZURE, azure_container, environment
from tests.support.servers import S3Server, seaweedfs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = timedelta(days=1)
LATER = timedelta(hours=2)
"""How far ahead of the stores' clocks the first round is: all that was written is older than the minimum age then."""

MIN_AGE = timedelta(hours=1)


@dataclass(frozen=True)
class Bucket:
    """A real store. `look` and `put_in_parts` use the vendor's own client, not lakegc's and not through a proxy."""

    blockstore: str
    root: str  # of namespaces, with its scheme and no slash at its end
    endpoint: str
    config: Callable[[str], StoreConfig]
    look: Callable[[str], dict[str, int]]  # prefix -> sizes by full key
    put_in_parts: Callable[[str, bytes], str]  # full key, content -> ETag


@dataclass
class Site:
    """A repository of the sandbox on a bucket."""

    spark: SparkSession
    bucket: Bucket
    server: SandboxServer
    repository: Repository
    now: float
    rounds: int = 0
    etags: Literal["md5"] | None = None  # what lakegc.yaml promises of the store
    swept: list[SweepResult] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.repository.name

    # --- what is there, and what is right ---

    def stored(self) -> dict[str, int]:
        """Sizes of the objects below `data/`, by key in the namespace."""
        base = f"{self.name}/"
        return {key.removeprefix(base): size for key, size in self.bucket.look(f"{base}data/").items()}

    def shown(self, ref: str) -> Mapping[str, str]:
        """Key by path of all that a reference shows, as `objects/ls` tells, to the last page."""
        inside = self.repository.place.namespace_slash
        where = f"{self.server.url}/api/v1/repositories/{self.name}/refs/{quote(ref, safe='')}/objects/ls"
        found: dict[str, str] = {}
        after = ""
        while True:
            query: dict[str, str | int] = {"after": after, "amount": 1000}
            login = (self.server.access_key, self.server.secret_key)
            answer = requests.get(where, params=query, auth=login, timeout=60)
            answer.raise_for_status()
            page = answer.json()
            found |= {row["path"]: row["physical_address"].removeprefix(inside) for row in page["results"]}
            if not page["pagination"]["has_more"]:
                return found
            after = page["pagination"]["next_offset"]

    def live(self) -> set[str]:
        """Every key that a branch shows, or a commit that counts."""
        refs = self.repository.refs
        world = oracle.World(
            now=int(self.now * 10**6),
            commits={
                commit.id: oracle.Version(commit.parents, commit.creation_date // 1000)
                for commit in refs.commits.values()
            },
            heads={branch.name: branch.commit_id for branch in refs.branches.values()},
            tags=dict(refs.tags),
            rules=self.repository.rules,
        )
        asked = oracle.counting(world, tags=True) | set(refs.branches)
        return {key for ref in asked for key in self.shown(ref).values()}

    def hidden(self) -> set[str]:
        """Keys that branches show and the dump of staged objects does not name."""
        refs = self.repository.refs
        named = {entry.address for name in refs.branches for _, _, entry in self.repository.uncommitted(name)}
        committed = {key for branch in refs.branches.values() for key in self.shown(branch.commit_id).values()}
        return {key for name in refs.branches for key in self.shown(name).values()} - named - committed

    # --- lakegc ---

    def begin(self, mark_id: str) -> MarkContext:
        credentials = ServerSettings(self.server.url, self.server.access_key, self.server.secret_key)
        mapping = StoreMapping(self.bucket.root, endpoint=self.bucket.endpoint, etags=self.etags)
        settings = Settings(server=credentials, stores=(mapping,), lease="external")
        context = open_repository(settings, self.name, client=LakeFSClient(credentials))
        return begin_mark(context, mark_id, min_age=MIN_AGE, safety_level="none")

    def wait(self, duration: timedelta) -> None:
        """Let time pass for lakeFS and the collector."""
        self.now += duration.total_seconds()
        os.environ["LAKEGC_NOW"] = str(self.now)

    def round(self, *, between: Callable[[], object] = lambda: None) -> SweepResult:
        """One mark and one sweep, a day after those before; `between` happens in between."""
        self.wait(DAY if self.rounds else LATER)
        self.rounds += 1
        context = self.begin(f"m{self.rounds}")
        pipeline.mark(self.spark, context)
        between()
        self.swept.append(swept_report(self.spark, context))
        return self.swept[-1]

    # --- what clients do ---

    def link(self, branch: str, path: str, data: bytes, *, size: int | None = None, checksum: str = "") -> str:
        """Put an object under a new address and link it; the size and checksum may be claimed. Its key."""
        repository = self.repository
        address = repository.physical_address(branch, age=timedelta(days=2))
        repository.put(address, data)
        checksum = checksum or hashlib.md5(data, usedforsecurity=False).hexdigest()
        claimed = len(data) if size is None else size
        repository.stage(branch, path, address, size=claimed, checksum=checksum)
        return address.removeprefix(repository.place.namespace_slash)


@contextmanager
def site(spark: SparkSession, bucket: Bucket, folder: Path, name: str) -> Iterator[Site]:
    """A repository under rules of seven days, created two months ago, and served."""
    began = time.time()
    found: list[Site] = []
    sandbox = Sandbox(folder, blockstore=bucket.blockstore, clock=lambda: found[0].now if found else began, seed=1)
    with ExitStack() as stack:
        stack.enter_context(environment({"LAKEGC_UNSAFE": "yes", "LAKEGC_NOW": str(began)}))
        server = stack.enter_context(SandboxServer(sandbox))
        repository = sandbox.create_repository(name, f"{bucket.root}/{name}", store=bucket.config(name), age=60 * DAY)
        repository.set_rules(7)
        found.append(Site(spark, bucket, server, repository, began))
        yield found[0]


@contextmanager
def s3_behind_proxy(folder: Path) -> Iterator[tuple[Bucket, Proxy]]:
    """A real S3 server behind a proxy, which everybody talks to."""
    with ExitStack() as stack:
        running: list[Proxy] = []

        def through(endpoint: str) -> str:
            running.append(stack.enter_context(proxy(endpoint)))
            return running[0].endpoint

        bucket = stack.enter_context(s3_bucket(folder, through))
        yield bucket, running[0]


@contextmanager
def s3_bucket(folder: Path, through: Callable[[str], str] = lambda endpoint: endpoint) -> Iterator[Bucket]:
    """SeaweedFS. `through` may put a proxy before it: lakeFS and lakegc are given the endpoint that it returns."""
    with environment(AWS), seaweedfs(folder) as server:
        endpoint = through(server.endpoint)
        client = server.client()

        def look(prefix: str) -> dict[str, int]:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=server.bucket, Prefix=prefix)
            return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", ())}

        yield Bucket(
            "s3",
            f"s3://{server.bucket}",
            endpoint,
            lambda prefix: server.config(prefix, endpoint_url=endpoint),
            look,
            lambda key, data: _put_in_parts(server, client, key, data),
        )


def _put_in_parts(server: S3Server, client: Any, key: str, data: bytes) -> str:
    """A multipart upload of one part: its ETag ends in `-1`."""
    here = {"Bucket": server.bucket, "Key": key}
    upload = client.create_multipart_upload(**here)["UploadId"]
    part = client.upload_part(**here, UploadId=upload, PartNumber=1, Body=data)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    etag: str = client.complete_multipart_upload(**here, UploadId=upload, MultipartUpload=parts)["ETag"]
    return etag.strip('"')


@contextmanager
def azure_bucket(folder: Path) -> Iterator[Bucket]:
    """Azurite."""
    with environment(AZURE), azurite(folder) as server:
        blobs = azure_container(server)
        yield Bucket(
            "azure",
            server.namespace("").rstrip("/"),
            server.endpoint,
            server.config,
            lambda prefix: {blob.name: blob.size for blob in blobs.list_blobs(name_starts_with=prefix)},
            lambda key, data: _put_in_blocks(server, key, data),
        )


def _put_in_blocks(server: AzureServer, key: str, data: bytes) -> str:
    """Put Block List of two blocks. The checksum is the client's own: the store's ETag tells nothing of the content."""
    blob = azure_container(server).get_blob_client(key)
    half = len(data) // 2
    for name, block in (("a", data[:half]), ("b", data[half:])):
        blob.stage_block(name, block)
    blob.commit_block_list([BlobBlock("a"), BlobBlock("b")])
    return hashlib.md5(data, usedforsecurity=False).hexdigest() + "-2"
