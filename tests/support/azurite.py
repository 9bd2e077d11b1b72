"""Azurite, Microsoft's own emulator of Azure Blob Storage: installed at first use (`npm.py`), started, and made old."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from azure.core.exceptions import AzureError, ResourceExistsError

from lakegc_core.errors import StoreError
from lakegc_core.store.azure.store import AzureConfig
from tests.support.npm import NODE, installed
from tests.support.servers import started

VERSION = "3.36.0"
ACCOUNT = "devstoreaccount1"  # the recordings' own
ACCOUNT_KEY = b64encode(b"lakegc/test+azure=0123456789").decode()
STOP_SECONDS = 120.0  # it writes its tables when it stops


@dataclass(frozen=True)
class AzureServer:
    """A running Azurite and the one container made for the test."""

    endpoint: str
    container: str
    log: Path
    account: str = ACCOUNT
    account_key: str = field(default=ACCOUNT_KEY, repr=False)

    def config(self, prefix: str = "", **changes: Any) -> AzureConfig:
        """The store under `prefix` of the container, with explicit credentials. `changes` replace fields."""
        config = AzureConfig(
            account=self.account,
            container=self.container,
            prefix=prefix,
            endpoint_url=self.endpoint,
            account_key=self.account_key,
        )
        return replace(config, **changes)

    def namespace(self, prefix: str) -> str:
        """The storage namespace of a repository here, as lakeFS writes it."""
        return f"https://{self.account}.blob.core.windows.net/{self.container}/{prefix}"

    def environment(self) -> dict[str, str]:
        """What Azure's own tools take, with the place of the account in it."""
        parts = {
            "DefaultEndpointsProtocol": "http",
            "AccountName": self.account,
            "AccountKey": self.account_key,
            "BlobEndpoint": self.endpoint,
        }
        return {"AZURE_STORAGE_CONNECTION_STRING": ";".join(f"{name}={value}" for name, value in parts.items())}


@contextmanager
def azurite(
    tmp: Path, container: str = "lakegc-test", *, options: Sequence[str] = (), scheme: str = "http"
) -> Iterator[AzureServer]:
    """Azurite with its data in `tmp`, which may hold that of an earlier one. `options` are more of its own."""
    script = installed("azurite", VERSION) / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    data = tmp / "azurite"
    data.mkdir(parents=True, exist_ok=True)

    def command(ports: Sequence[int]) -> list[str]:
        return [
            NODE,
            str(script),
            "--blobHost=127.0.0.1",
            f"--blobPort={ports[0]}",
            f"--location={data}",
            "--disableTelemetry",
            "--skipApiVersionCheck",
            "--silent",
            *options,
        ]

    def server(ports: Sequence[int], log: Path) -> AzureServer:
        return AzureServer(f"{scheme}://127.0.0.1:{ports[0]}/{ACCOUNT}", container, log)

    accounts = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with started(command, 1, tmp, "azurite", server, _try, variables=accounts, stop_seconds=STOP_SECONDS) as running:
        yield running


def _try(server: AzureServer) -> None:
    store = server.config(max_attempts=1).connect()
    try:
        store.container.client.create_container()
    except ResourceExistsError:
        return
    except AzureError as error:
        raise StoreError(type(error).__name__) from None


def make_old(tmp: Path, times: Mapping[str, float]) -> None:
    """Give the blobs of a stopped Azurite other times: blob name to unix seconds. It takes none from clients."""
    tables = tmp / "azurite" / "__azurite_db_blob__.json"
    content = json.loads(tables.read_text(encoding="utf-8"))
    (blobs,) = (table["data"] for table in content["collections"] if table["name"] == "$BLOBS_COLLECTION$")
    left = set(times)
    for blob in blobs:
        if blob["name"] in left:
            left.remove(blob["name"])
            when = datetime.fromtimestamp(times[blob["name"]], UTC).isoformat(timespec="milliseconds")
            blob["properties"]["lastModified"] = blob["properties"]["creationTime"] = when.replace("+00:00", "Z")
    if left:
        raise KeyError(f"Azurite holds no blob {sorted(left)[0]!r}")
    tables.write_text(json.dumps(content), encoding="utf-8")
