"""The proxy through which faults are made: a request of a client that dies in the middle of it."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from tests.support.proxy import proxy
from tests.support.waiting import STARTS


def test_a_request_that_does_not_come_whole_reaches_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        with proxy(f"http://127.0.0.1:{server.getsockname()[1]}") as between:
            address = urlsplit(between.endpoint)
            with socket.create_connection((address.hostname, address.port), timeout=STARTS) as client:
                client.sendall(b"PUT /a HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf")
                client.shutdown(socket.SHUT_WR)
                assert client.recv(1) == b"", "the proxy hangs up"
            assert not between.requests and not between.under_way
            try:
                server.accept()
            except BlockingIOError:
                return
            raise AssertionError("the server was asked")
