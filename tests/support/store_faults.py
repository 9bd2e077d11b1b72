"""How each protocol says what, and the faults that tests put between lakegc and a store.

Here: hooks for `tests/support/proxy.py`, and what the three protocols call the same thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lakegc_core.store.base import Store
from tests.support.proxy import Answer, Forward, Hook, Proxy, Request


@dataclass(frozen=True)
class Protocol:
    """One protocol. `busy` is how its servers ask for fewer requests, `busy_code` its name in an outcome."""

    kind: str
    busy: Answer
    busy_code: str
    is_list: Callable[[Request], bool]


def _xml(status: int, code: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>Please reduce your request rate</Message></Error>"
    return Answer(status, {"Content-Type": "application/xml", "x-ms-error-code": code}, body.encode())


_RATE = b'{"error": {"code": 429, "message": "slow down", "errors": [{"reason": "rateLimitExceeded"}]}}'

PROTOCOLS = {
    each.kind: each
    for each in (
        Protocol("seaweedfs", _xml(503, "SlowDown"), "SlowDown", lambda request: "list-type" in request.query),
        Protocol("azurite", _xml(503, "ServerBusy"), "ServerBusy", lambda request: request.query.get("comp") == "list"),
        Protocol(
            "gcs",
            Answer(429, {"Content-Type": "application/json"}, _RATE),
            "rateLimitExceeded",
            lambda request: request.method == "GET" and "prefix" in request.query,
        ),
    )
}


@dataclass(frozen=True)
class Faulty:
    """One root of a server, seen directly and through a proxy."""

    protocol: Protocol
    direct: Store
    config: Any  # of the store behind the proxy
    store: Store
    proxy: Proxy

    def listed(self) -> list[str]:
        """What a listing through the proxy yields."""
        return [key for batch in self.store.list() for key in batch.column("address").to_pylist()]

    def busy(self, request: Request, forward: Forward) -> Answer:
        """The hook that throttles every request."""
        return self.protocol.busy

    def altering(self, change: Callable[[bytes], bytes]) -> Hook:
        """Changes the body of every list page."""

        def hook(request: Request, forward: Forward) -> Answer | None:
            answer = forward(request)
            return replace(answer, body=change(answer.body)) if self.protocol.is_list(request) else answer

        return hook


def delete_result(*found: tuple[str, str]) -> Hook:
    """The answer to deletes of many objects with these (key, code), whatever was asked; "": deleted. Passes on other
    requests. S3 and GCS share its form."""
    rows = "".join(
        f"<Error><Key>{key}</Key><Code>{code}</Code></Error>" if code else f"<Deleted><Key>{key}</Key></Deleted>"
        for key, code in found
    )
    return answering_many(
        Answer(200, {"Content-Type": "application/xml"}, f"<DeleteResult>{rows}</DeleteResult>".encode())
    )


def answering_many(answer: Answer) -> Hook:
    """The same answer for every delete of many objects; passes on other requests."""
    return lambda request, forward: (
        answer if request.method == "POST" and "delete" in request.query else forward(request)
    )


NO_RESULT = [
    (200, b""),
    (200, b"<p>login</p>"),
    (200, b"{}"),
    (200, b"<ListBucketResult/>"),
    (200, b"<DeleteResult><E"),
    (204, b""),
    (202, b""),
    (206, b""),
    (206, b"<DeleteResult/>"),
]
"""Status and body of successes that say nothing of a delete of many objects."""


def answering(answer: Answer) -> Hook:
    """The same answer for every request, none of which reaches the server."""
    return lambda request, forward: answer
