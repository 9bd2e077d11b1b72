"""The sandbox behind HTTP on a loopback address: sockets, authentication, errors, and a hook for faults.

What each endpoint answers belongs in `ref_endpoints`, `object_endpoints` and `gc_endpoints`.
"""

from __future__ import annotations

import base64
import hmac
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qsl, unquote, urlsplit

from lakegc_core.errors import LakegcError
from lakegc_sandbox.api.gc_endpoints import gc_routes
from lakegc_sandbox.api.object_endpoints import object_routes
from lakegc_sandbox.api.ref_endpoints import ref_routes
from lakegc_sandbox.api.wire import Answer, Json, Request
from lakegc_sandbox.lakefs import Sandbox
from lakegc_sandbox.model.refs import SandboxError

BASE_PATH = "/api/v1"
ACCESS_KEY = "AKIASANDBOXSANDBOX00"
SECRET_KEY = "sandbox-secret-key"

Fault = Callable[[str, str, Mapping[str, str]], tuple[int, Json] | None]


class SandboxServer:
    """Serves a sandbox. Use as a context manager, or call `start` and `stop`.

    `fault(method, path, query)` is asked before every request; a status and a body (JSON, or bytes as they
    are) answer it in the sandbox's place. `requests` lists method and path of all that came in.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        access_key: str = ACCESS_KEY,
        secret_key: str = SECRET_KEY,
    ) -> None:
        self.sandbox = sandbox
        self.access_key = access_key
        self.secret_key = secret_key
        self.fault: Fault | None = None
        self.requests: list[tuple[str, str]] = []
        self._routes = [*gc_routes(), *ref_routes(), *object_routes()]
        self._http = _Listener((host, port), self)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The URL at which lakeFS clients find it, without the API's base path."""
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> SandboxServer:
        """Serve from a thread of its own."""
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def serve_forever(self) -> None:
        """Serve from this thread, until `stop` is called from another or the process is interrupted."""
        self._http.serve_forever()

    def stop(self) -> None:
        """Stop serving and free the port."""
        if self._thread is not None:
            self._http.shutdown()
            self._thread.join()
            self._thread = None
        self._http.server_close()

    def __enter__(self) -> SandboxServer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def answer(self, request: Request) -> Answer:
        """The answer to one request, errors included."""
        self.requests.append((request.method, request.path))
        if self.fault is not None:
            fault = self.fault(request.method, request.path, request.query)
            if fault is not None:
                status, body = fault
                return Answer(status, body=body) if isinstance(body, bytes) else Answer(status, body)
        if not self._is_authentic(request.headers.get("Authorization", "")):
            return Answer(401, {"message": "error authenticating request"})
        for route in self._routes:
            match = route.pattern.fullmatch(request.path) if route.method == request.method else None
            if match:
                args = {name: unquote(text) for name, text in match.groupdict().items()}
                try:
                    return route.endpoint(self.sandbox, replace(request, args=args))
                except SandboxError as error:
                    return Answer(error.status, {"message": str(error)})
                except (LakegcError, OSError) as error:
                    return Answer(500, {"message": str(error)})
        return Answer(404, {"message": "invalid API endpoint"})

    def _is_authentic(self, header: str) -> bool:
        expected = base64.b64encode(f"{self.access_key}:{self.secret_key}".encode()).decode()
        return hmac.compare_digest(header.encode(), f"Basic {expected}".encode())


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], owner: SandboxServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for headers and body, or clients wait for the second
    server: _Listener

    def _serve(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if url.path.startswith(BASE_PATH + "/"):
            request = Request(
                method=self.command,
                path=url.path.removeprefix(BASE_PATH),
                query=dict(parse_qsl(url.query, keep_blank_values=True)),
                headers={name.title(): text for name, text in self.headers.items()},
                body=body,
            )
            answer = self.server.owner.answer(request)
        else:
            answer = Answer(404, {"message": "invalid API endpoint"})
        content, kind = answer.content()
        headers = {"Content-Type": kind, "Content-Length": str(len(content)), **answer.headers}
        self.send_response(answer.status)
        for name, text in headers.items():
            if answer.status != 204 or name == "Date":
                self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The `Date` header tells the sandbox's time."""
        return super().date_time_string(self.server.owner.sandbox.clock() if timestamp is None else timestamp)

    def log_message(self, format: str, *args: object) -> None:
        """The sandbox keeps quiet; `requests` shows what came in."""

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve
