"""A recording of a real lakeFS server, laid out, served and opened as lakegc sees it.

Here: what every test that marks or sweeps a recording needs. Not here: how a recording answers (`golden_replay`),
how servers are started (`servers`), and what is right (each recording's `outcome.json`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from azure.storage.blob import ContainerClient

from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import MarkContext, RepositoryContext, begin_mark, open_repository
from lakegc_core.names import STAGES
from lakegc_core.store.azure.store import AzureConfig
from lakegc_core.store.gcs.store import GCSConfig
from lakegc_core.store.local import LocalConfig
from lakegc_core.store.s3.store import S3Config
from lakegc_core.tables.parts import read_part
from tests.support import azurite, gcs_server, servers
from tests.support.golden_replay import Recording, ReplayServer, lay_out

GOLDEN = Path(__file__).parents[1] / "golden"
KEEP_ALL = "keep-all-commits"
LAKEFS_KEY = "AKIAREPLAYEDLAKEFS"
LAKEFS_SECRET = "replayed/lakefs+secret=9876543210"
AWS = {
    "AWS_ACCESS_KEY_ID": servers.ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY,
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
AZURE = {"AZURE_STORAGE_KEY": azurite.ACCOUNT_KEY}
"""What Python workers must find in their environment; endpoints travel in the tasks."""


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """These variables, until the block ends."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass
class Replay:
    """A recording that is laid out and served. `folder` is its store's, `root` the namespace in it.

    On Azurite and the emulator of Google's store they are what was put there; what has become of it is told by `files`
    and `read_below` everywhere.
    """

    recording: Recording
    folder: Path
    root: Path
    server: ReplayServer
    s3: servers.S3Server | None
    azure: azurite.AzureServer | None = None
    gcs: gcs_server.GCSServer | None = None

    @property
    def unheld(self) -> frozenset[str]:
        """The listed keys that were left out, because the store of this replay is a folder: foreign ones."""
        return frozenset() if self.azure or self.gcs else self.recording.unheld

    @property
    def repository(self) -> str:
        return self.recording.repository

    @property
    def min_age(self) -> timedelta:
        return timedelta(seconds=self.recording.cutoff_for_replay[1])

    @property
    def rules(self) -> str | None:
        """The explicit mode that a repository without rules needs."""
        return KEEP_ALL if self.recording.about["rules"] is None else None

    def variables(self) -> dict[str, str]:
        """The environment in which a command sees this recording as it was."""
        found = {
            "LAKEGC_UNSAFE": "yes",
            "LAKEGC_NOW": str(self.recording.cutoff_for_replay[0]),
            "LAKECTL_SERVER_ENDPOINT_URL": self.server.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": LAKEFS_KEY,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": LAKEFS_SECRET,
        }
        found |= self.s3.environment() if self.s3 else {}
        found |= {"STORAGE_EMULATOR_HOST": self.gcs.endpoint} if self.gcs else {}
        return found | AWS | (self.azure.environment() if self.azure else {})

    def open(
        self,
        *,
        lakefs: str | None = None,
        store: str | None = None,
        attempts: int | None = None,
        settings: Settings | None = None,
    ) -> RepositoryContext:
        """The repository. `lakefs` and `store` are endpoints to use instead; `attempts` bounds those at the store."""
        settings = settings or Settings(server=ServerSettings(lakefs or self.server.url, LAKEFS_KEY, LAKEFS_SECRET))
        context = open_repository(
            settings, self.repository, client=LakeFSClient(settings.server, sleep=lambda seconds: None)
        )

        def changed(config: Any) -> Any:
            if not isinstance(config, S3Config | AzureConfig | GCSConfig):
                return config
            return replace(
                config,
                endpoint_url=store or config.endpoint_url,
                max_attempts=attempts or config.max_attempts,
            )

        return replace(
            context,
            data=changed(context.data),
            outputs=changed(context.outputs),
            workspace=changed(context.workspace),
        )

    def begin(self, mark_id: str, context: RepositoryContext | None = None, **options: Any) -> MarkContext:
        """A mark, begun or resumed, that judges as the recording did. `options` are those of `begin_mark`."""
        chosen = {"min_age": self.min_age, "safety_level": "none", "rules": self.rules} | options
        return begin_mark(context or self.open(), mark_id, **chosen)

    def right(self, *, tags: bool = True) -> set[str]:
        """The garbage."""
        outcome = self.recording.outcome
        return set(outcome["garbage_when_tags_are_protected" if tags else "garbage"])

    def files(self) -> dict[str, int]:
        """Sizes of all that lies in the namespace, by key, but for lakegc's own artifacts and reports."""
        own = ("_lakefs/retention/gc/lakegc/", "_lakefs/retention/gc/unified/")
        return {key: size for key, size in self._sizes().items() if not key.startswith(own)}

    def read_below(self, prefix: str) -> dict[str, bytes]:
        """What lies below `prefix` (ending in `/`) of the namespace, by the rest of its key."""
        keys = [key for key in self._sizes() if key.startswith(prefix)]
        return {key.removeprefix(prefix): self._read(key) for key in keys}

    # Not through lakegc's own stores: they are what is tested.

    def _sizes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        if self.azure is not None:
            base = name_prefix(self.recording)
            blobs = azure_container(self.azure).list_blobs(name_starts_with=base)
            return {blob.name.removeprefix(base): blob.size for blob in blobs}
        if self.gcs is not None:
            base = name_prefix(self.recording)
            return {name.removeprefix(base): size for name, size in gcs_server.sizes(self.gcs, base).items()}
        for folder, _, names in os.walk(self.root):
            base = os.path.relpath(folder, self.root)
            for name in names:
                key = name if base == "." else f"{base}/{name}"
                found[key] = os.stat(f"{folder}/{name}").st_size  # noqa: PTH116
        return found

    def _read(self, key: str) -> bytes:
        name = name_prefix(self.recording) + key
        if self.azure is not None:
            return bytes(azure_container(self.azure).download_blob(name).readall())
        if self.gcs is not None:
            return gcs_server.get(self.gcs, name) or b""
        return (self.root / key).read_bytes()


def azure_container(server: azurite.AzureServer) -> ContainerClient:
    """Azure's own client for the container, not lakegc's."""
    credential = {"account_name": server.account, "account_key": server.account_key}
    return ContainerClient(server.endpoint, server.container, credential=credential)


def name_prefix(recording: Recording) -> str:
    """What names of objects of a recording's namespace begin with, in its container or bucket."""
    path = recording.place.partition("/")[2]
    return f"{path}/" if path else ""


def _laid_out(recording: Recording, root: Path) -> dict[str, tuple[bytes, float]]:
    """Contents and times of all that a recording has, by name, and not only of what a folder can hold."""
    files = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
    found = {key: (path.read_bytes(), path.stat().st_mtime) for key, path in files.items()}
    found |= {row.key: (bytes(row.size), row.last_modified) for row in recording.listing if row.key in recording.unheld}
    return {name_prefix(recording) + key: each for key, each in found.items()}


@contextmanager
def _on_azurite(recording: Recording, target: Path, root: Path) -> Iterator[azurite.AzureServer]:
    """An Azurite that holds what was laid out at `root`, with its times."""
    container, files = recording.place.partition("/")[0], _laid_out(recording, root)
    with azurite.azurite(target.parent, container) as filled, ThreadPoolExecutor(4) as pool:
        blobs = azure_container(filled)
        list(pool.map(lambda name: blobs.upload_blob(name, files[name][0]), files))
    azurite.make_old(target.parent, {name: when for name, (_, when) in files.items()})
    with azurite.azurite(target.parent, container) as server:
        yield server


@contextmanager
def _on_gcs(recording: Recording, target: Path, root: Path) -> Iterator[gcs_server.GCSServer]:
    """An emulator of Google's store that holds what was laid out at `root`, with its times."""
    bucket, files = recording.place.partition("/")[0], _laid_out(recording, root)
    times = {name: when for name, (_, when) in files.items()}
    dated = partial(gcs_server.Dated, times=times)
    with gcs_server.fake_gcs(target.parent, bucket, front=dated) as server, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: gcs_server.put(server, name, files[name][0]), files))
        yield server


def _is_on_azure(server: azurite.AzureServer, prefix: str, key: str) -> bool:
    return bool(azure_container(server).get_blob_client(prefix + key).exists())


def _is_on_gcs(server: gcs_server.GCSServer, prefix: str, key: str) -> bool:
    return gcs_server.get(server, prefix + key) is not None


@contextmanager
def replayed(
    recording: Recording | str, folder: Path, *, server: type[ReplayServer] = ReplayServer
) -> Iterator[Replay]:
    """Lay a recording (or the one of that name in tests/golden) out below `folder`, and serve it.

    S3 recordings lie behind rclone's S3 server, Azure's on Azurite, Google's on an emulator, local ones in a folder.
    The environment is the recording's own until the block ends.
    """
    if isinstance(recording, str):
        recording = Recording.load(GOLDEN / recording)
    target = folder / "store"
    root = lay_out(recording, target)
    s3 = azure = gcs = there = None
    prefix = name_prefix(recording)
    with ExitStack() as stack:
        if recording.scheme == "s3":
            s3 = stack.enter_context(servers.rclone_s3(target, recording.place.partition("/")[0]))
        elif recording.scheme in ("http", "https"):
            azure = stack.enter_context(_on_azurite(recording, target, root))
            there = partial(_is_on_azure, azure, prefix)
        elif recording.scheme == "gs":
            gcs = stack.enter_context(_on_gcs(recording, target, root))
            there = partial(_is_on_gcs, gcs, prefix)
        elif recording.scheme != "local":
            raise NotImplementedError(f"{recording.folder.name}: no server of the tests holds {recording.namespace}")
        running = stack.enter_context(
            server(
                recording,
                target,
                substitute=recording.scheme == "local",
                there=there,
            )
        )
        found = Replay(recording, target, root, running, s3, azure, gcs)
        stack.enter_context(environment(found.variables()))
        yield found


def rows(context: MarkContext, stage: str, dataset: str = "") -> list[dict[str, Any]]:
    """All rows of a stage's dataset, as its manifest names them."""
    parts = context.mark.require(stage).datasets[dataset or stage]
    folder = context.mark.stage_folder(stage, dataset)
    return [row for part in parts for batch in read_part(context.workspace, folder, part) for row in batch.to_pylist()]


__all__ = ["AWS", "AZURE", "GOLDEN", "STAGES", "LocalConfig", "Replay", "environment", "replayed", "rows"]
