"""A small HTTP proxy in front of a real server, through which a test can watch and spoil single requests.

Here: passing requests on byte for byte, recording them, and the ways an answer can go wrong. Not here: what
any protocol means by them, and answers of its own invention, but for the error pages a test asks for.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Request:
    """One request as it came in. `path` is raw, with its query."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = field(repr=False)

    @property
    def query(self) -> dict[str, str]:
        """The query, decoded; the last one of a repeated name."""
        parsed = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[-1] for name, values in parsed.items()}

    def header(self, name: str) -> str | None:
        """A header by name, whatever its case."""
        return next((value for key, value in self.headers.items() if key.lower() == name.lower()), None)


@dataclass(frozen=True)
class Answer:
    """One answer. With `announced`, Content-Length lies, and the connection breaks off after the body."""

    status: int
    headers: dict[str, str]
    body: bytes = field(repr=False)
    announced: int | None = None


Forward = Callable[[Request], Answer]
Hook = Callable[[Request, Forward], Answer | None]
"""Gets each request and the way to the real server. None hangs up without an answer; sleep in it to delay."""


def pass_on(request: Request, forward: Forward) -> Answer | None:
    """The hook that spoils nothing."""
    return forward(request)


def failing(times: int, fault: Hook) -> Hook:
    """The first `times` requests get the fault, all others the real answer."""
    left = iter(range(times))

    def hook(request: Request, forward: Forward) -> Answer | None:
        return fault(request, forward) if next(left, None) is not None else forward(request)

    return hook


def answer_lost(request: Request, forward: Forward) -> None:
    """The server gets the request, and nobody its answer."""
    forward(request)


def cut_off(request: Request, forward: Forward) -> Answer:
    """The connection breaks off in the middle of the body."""
    answer = forward(request)
    return replace(answer, body=answer.body[: len(answer.body) // 2], announced=len(answer.body))


class Proxy:
    """A running proxy. Set `hook` at any time; `requests` holds all that came, in order of arrival."""

    def __init__(self, upstream: str) -> None:
        self.hook: Hook = pass_on
        self.requests: list[Request] = []
        self.under_way: set[int] = set()  # the requests that are not answered yet, whoever still waits for them
        self._upstream = urlsplit(upstream)
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def forward(self, request: Request) -> Answer:
        """Send a request to the real server and return its answer."""
        upstream = http.client.HTTPConnection(self._upstream.hostname or "", self._upstream.port, timeout=300)
        try:
            # The Host header stays the client's: signatures cover it.
            upstream.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name.lower() == "content-length":  # a hook may have taken another body
                    upstream.putheader(name, str(len(request.body)))
                elif name.lower() not in ("connection", "expect"):
                    upstream.putheader(name, value)
            upstream.endheaders(request.body or None)
            answer = upstream.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            upstream.close()

    def run(self) -> None:
        """Serve until `stop`."""
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        """End `run` and free the port."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or a client waits 40 ms for the second packet

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                if len(body) < length:  # who sent it is dead; the server would wait for the rest
                    self.close_connection = True
                    return
                request = Request(self.command, self.path, dict(self.headers.items()), body)
                proxy.requests.append(request)
                proxy.under_way.add(id(request))
                try:
                    answer = proxy.hook(request, proxy.forward)
                finally:
                    proxy.under_way.discard(id(request))
                if answer is None:
                    self.close_connection = True
                    return
                # The length of a HEAD answer is that of the body it does not have.
                announced = answer.announced if answer.announced is not None else len(answer.body)
                self.send_response_only(answer.status)
                for name, value in answer.headers.items():
                    if self.command == "HEAD" or name.lower() not in ("content-length", "transfer-encoding"):
                        self.send_header(name, value)
                if self.command != "HEAD" and answer.status not in (204, 304):
                    self.send_header("Content-Length", str(announced))
                self.end_headers()
                self.wfile.write(answer.body)
                if announced != len(answer.body):
                    self.close_connection = True

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

            def log_message(self, format: str, *args: object) -> None:
                """Quiet: `requests` holds what came."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is nothing to report."""


@contextmanager
def proxy(upstream: str, hook: Hook = pass_on) -> Iterator[Proxy]:
    """A proxy in front of `upstream` (`http://host:port`), on a free port of loopback."""
    running = Proxy(upstream)
    running.hook = hook
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        running.stop()
        thread.join(10)
