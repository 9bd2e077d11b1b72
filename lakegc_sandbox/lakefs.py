"""The sandbox itself: its repositories, where each one's bytes lie, and the settings of the pretended server.

What happens inside a repository belongs in `repository` and `objects`, HTTP in `server`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import RLock
from urllib.parse import unquote, urlsplit

from lakegc_core.store.base import StoreConfig
from lakegc_sandbox.files.files import Files, FolderFiles, StoreFiles
from lakegc_sandbox.files.names import Names
from lakegc_sandbox.model.gc_prepare import PageLimits
from lakegc_sandbox.model.objects import NOW, USUAL, Layout, Place
from lakegc_sandbox.model.refs import SandboxError
from lakegc_sandbox.model.repository import Repository

BEGINNINGS = {
    "local": ("local://",),
    "s3": ("s3://",),
    "gs": ("gs://",),
    "azure": ("https://", "http://"),
}
"""The beginnings of storage namespaces, by blockstore."""


class Sandbox:
    """A small lakeFS in memory whose objects and metadata files are real.

    `root` is the base folder of blockstore `local`. With blockstore `s3`, `gs` or `azure` every repository brings
    its own namespace and says where its bytes go: through a store of lakegc's, or into a folder an S3 server serves.
    """

    def __init__(
        self,
        root: Path,
        *,
        blockstore: str = "local",
        clock: Callable[[], float] = time.time,
        seed: int | None = None,
        layout: Layout = USUAL,
    ) -> None:
        self.root = root.resolve()
        self.blockstore = blockstore
        self.clock = clock
        self.lock = RLock()
        self.names = Names(seed, layout.shards)
        self.repositories: dict[str, Repository] = {}
        self.grace_period = 86_400  # seconds
        self.version = "1.84.0"
        self.version_context = "lakeFS"  # `lakeFS-Enterprise` on servers of the other edition
        self.storages: dict[str, str] = {}  # id -> kind, of a server with several storages
        self.uncommitted_page = PageLimits()
        self.pending_polls = 0  # how many times a background task answers that it is not done yet
        self._layout = layout

    def create_repository(
        self,
        name: str,
        namespace: str | None = None,
        *,
        store: StoreConfig | None = None,
        folder: Path | None = None,
        default_branch: str = "main",
        age: timedelta = NOW,
    ) -> Repository:
        """Add a repository. `store` must be rooted at the namespace, as `folder` must."""
        namespace = namespace or f"{BEGINNINGS[self.blockstore][0]}{name}"
        if not namespace.startswith(BEGINNINGS[self.blockstore]):
            raise SandboxError(400, f"storage namespace {namespace} is not on blockstore {self.blockstore}")
        files: Files
        if store is not None:
            files = StoreFiles(store)
        else:
            files = FolderFiles((folder or self.root / namespace.partition("://")[2]).resolve())
        with self.lock:
            if name in self.repositories:
                raise SandboxError(409, "repository already exists: not unique")
            place = Place(
                namespace=namespace,
                files=files,
                clock=self.clock,
                names=self.names,
                lock=self.lock,
                find=self.find,
                local_base=str(self.root) if self.blockstore == "local" else None,
                layout=self._layout,
            )
            repository = Repository(name, place, default_branch=default_branch, age=age)
            self.repositories[name] = repository
            return repository

    def repository(self, name: str) -> Repository:
        """The repository of that name."""
        try:
            return self.repositories[name]
        except KeyError:
            raise SandboxError(404, f"repository '{name}' not found: not found") from None

    def delete_repository(self, name: str) -> None:
        """Forget a repository; its files stay, as lakeFS leaves them."""
        with self.lock:
            self.repository(name)
            del self.repositories[name]

    def find(self, address: str) -> tuple[Files, str] | None:
        """The place of a full address, if any repository's store or the base folder can reach it."""
        if address.startswith("local://") and self.blockstore == "local":
            key = address.removeprefix("local://")
            inside = key.removeprefix(str(self.root)) if key.startswith(f"{self.root}/") else key
            return FolderFiles(self.root), inside.lstrip("/")
        for repository in self.repositories.values():
            for prefix in (repository.place.namespace_slash, repository.place.qualify("")):
                if address.startswith(prefix):
                    return repository.files, unquote(address.removeprefix(prefix).partition("?")[0])
        if self.blockstore == "s3" and urlsplit(address).scheme == "s3":
            bucket = self.root / address.removeprefix("s3://").partition("/")[0]
            if bucket.is_dir():
                return FolderFiles(self.root), unquote(address.removeprefix("s3://").partition("?")[0])
        return None
