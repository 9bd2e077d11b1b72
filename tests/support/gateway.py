"""A small HTTP server that takes metrics as a Pushgateway does."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


@dataclass(frozen=True)
class Put:
    """One request."""

    path: str
    content_type: str
    body: str


@dataclass
class Gateway:
    """Listens on a port of loopback while it is entered. `status`: of its answers; `says`: their text."""

    status: int = 200
    says: str = ""
    puts: list[Put] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> Gateway:
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                gateway.puts.append(Put(self.path, self.headers["Content-Type"], body))
                self.send_response(gateway.status)
                self.end_headers()
                self.wfile.write(gateway.says.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
