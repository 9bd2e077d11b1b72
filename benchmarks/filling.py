"""Fills a store with small objects fast, so that a benchmark spends its time on what it measures.

SeaweedFS takes a file from its filer as it takes an object through S3, at a quarter of the cost for both sides; a
delete costs it the same. What is measured goes through S3.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.support.servers import S3Server

_CONTENT = b"x" * 64


def fill(server: S3Server, keys: Sequence[str]) -> None:
    """Objects of 64 bytes under these keys, which need no quoting, of the server's bucket. RuntimeError if refused."""
    if server.filer is None:
        raise RuntimeError("this server has no filer: fill it through S3")
    host, local = server.filer, threading.local()

    def put(key: str) -> None:
        connection: http.client.HTTPConnection | None = getattr(local, "connection", None)
        if connection is None:
            connection = local.connection = http.client.HTTPConnection(host)
        connection.request("PUT", f"/buckets/{server.bucket}/{key}", _CONTENT, {"Content-Type": "binary/octet-stream"})
        answer = connection.getresponse()
        answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(f"the filer answered {answer.status} to {key}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, keys))
