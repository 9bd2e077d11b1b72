"""A loopback server that answers as a test scripts it, and what lakeFS says in it."""

from __future__ import annotations

import base64
import json
import re
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lakegc_core.config.settings import ServerSettings
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.listed_objects import NOT_TEXT

KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYsecret"
TOKEN = base64.b64encode(f"{KEY}:{SECRET}".encode()).decode()
R = "/repositories/repo"
COMMIT = "c" * 64
PREPARED = {
    "run_id": "run1",
    "gc_commits_location": "s3://b/ns/_lakefs/retention/gc/commits/run_id=run1/commits.csv",
    "gc_addresses_location": "s3://b/ns/_lakefs/retention/gc/addresses/",
}
REFS = {"commits_meta_range_id": "c1", "branches_meta_range_id": "b1", "tags_meta_range_id": "t1"}
REPOSITORY = {
    "id": "repo",
    "storage_id": "",
    "storage_namespace": "s3://b/ns",
    "default_branch": "main",
    "creation_date": 1700000000,
    "read_only": False,
}


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Say:
    """One scripted answer: a JSON value or bytes. `cut`: the body ends early. `drop`: no answer at all."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    drop: bool = False


Script = Say | list[Say] | Callable[[Asked], Say]


class QuietServer(ThreadingHTTPServer):
    """Says nothing about a client that hung up."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Scripted:
    """A server on loopback. `on` scripts one answer for ever, a list (its last for ever), or a function."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.slept: list[float] = []
        self._scripts: dict[tuple[str, str], Script] = {}
        self._counts: dict[tuple[str, str], int] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                url = urlsplit(self.path)
                query = parse_qs(url.query, True, errors="surrogateescape")
                asked = Asked(
                    method=self.command,
                    path=url.path.removeprefix("/api/v1"),
                    query={key: values[-1] for key, values in query.items()},
                    headers=dict(self.headers.items()),
                    body=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                )
                say = outer._say(asked)
                if say.drop:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                data = say.body if isinstance(say.body, bytes) else json.dumps(say.body).encode()
                self.send_response(say.status)
                for name, value in say.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2] if say.cut else data)
                self.close_connection = self.close_connection or say.cut

            do_GET = do_POST = _serve

            def log_message(self, *_: object) -> None:
                pass

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def _say(self, asked: Asked) -> Say:
        self.asked.append(asked)
        script = self._scripts.get((asked.method, asked.path))
        if script is None:
            return Say(404, {"message": "not found"})
        if isinstance(script, Say):
            return script
        if isinstance(script, list):
            at = self._counts.get((asked.method, asked.path), 0)
            self._counts[asked.method, asked.path] = at + 1
            return script[min(at, len(script) - 1)]
        return script(asked)

    def on(self, method: str, path: str, script: Script) -> Scripted:
        self._scripts[method, path] = script
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def client(self) -> LakeFSClient:
        return LakeFSClient(ServerSettings(self.url, KEY, SECRET), sleep=self.slept.append)

    def count(self, method: str, path: str) -> int:
        return sum((asked.method, asked.path) == (method, path) for asked in self.asked)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def page(results: list[Any], more: bool = False, offset: str = "", announced: int | None = None) -> Say:
    pagination = {
        "has_more": more,
        "next_offset": offset,
        "results": len(results) if announced is None else announced,
        "max_per_page": 1000,
    }
    return Say(200, {"pagination": pagination, "results": results})


def refused(status: int, message: str = "no") -> Say:
    return Say(status, {"message": message})


def told(path: bytes) -> str:
    """A path in lakeFS's answers, as Go has it: a replacement for each byte."""
    return re.sub("[\udc80-\udcff]", NOT_TEXT, path.decode("utf-8", "surrogateescape"))


def shows_bytes(server: Scripted, paths: list[bytes]) -> None:
    """As lakeFS shows paths that are not UTF-8: other characters stand in paths and offsets, and it sorts bytes."""

    def listed(asked: Asked) -> Say:
        after, prefix = (asked.query.get(name, "").encode("utf-8", "surrogateescape") for name in ("after", "prefix"))
        left = [path for path in sorted(paths) if path > after and path.startswith(prefix)]
        names = [told(path) for path in left[: int(asked.query["amount"])]]
        found = [
            {"path": name, "physical_address": f"s3://b/{name}", "size_bytes": 1, "checksum": ""} for name in names
        ]
        return page(found, len(left) > len(found), names[-1] if names else "")

    server.on("GET", f"{R}/refs/main/objects/ls", listed)
