"""HEADs and GETs as boto3 sends them, for a tenth of its work. boto3 asks again if an answer is not clear at once.

A request that the client itself has sent shows how it reaches the bucket and signs. Requests are made here only if the
same signature comes out here, with the same headers and for the same URL. Only a 200 with all that an object has
counts, with a whole body; errors, redirects, repeats and their words stay boto3's.

Not here: how a message goes over a connection (`wire`), what HEAD tells (`bucket`).
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from botocore.utils import get_environ_proxies, percent_encode

from lakegc_core.errors import LakegcError
from lakegc_core.store.base import PROBE_KEY, ObjectInfo
from lakegc_core.store.pace import Turn
from lakegc_core.store.remote import REPEATED, THROTTLED
from lakegc_core.store.s3.access import SDK_ERRORS, Access
from lakegc_core.store.s3.bucket import Bucket
from lakegc_core.store.s3.wire import Answer, NoAnswerError, Wire

T = TypeVar("T")

_DOUBTS = 20  # unclear answers in a row after which only boto3 asks this bucket
_CLEAR = REPEATED | {404}  # they say nothing against this way
_ALGORITHM, _NO_BODY = "AWS4-HMAC-SHA256", hashlib.sha256(b"").hexdigest()
_UNSIGNED = {"user-agent", "amz-sdk-invocation-id", "amz-sdk-request"}
_PORTS = {"http": 80, "https": 443}


class QuickWay:
    """The quick way to one bucket. Safe to share between threads. Timeouts in seconds."""

    def __init__(self, bucket: Bucket, access: Access, connect_timeout: float, read_timeout: float) -> None:
        self._bucket, self._access, self._timeouts = bucket, access, (connect_timeout, read_timeout)
        self._lock, self._sent = threading.Lock(), None
        self._route: _Route | None = None
        self._learnt, self._doubts = False, 0
        bucket.client.meta.events.register("before-send.s3.HeadObject", self._keep)

    def head(self, key: str, turn: Turn) -> ObjectInfo | None:
        """The object, if the store clearly shows one; None says nothing. `turn.throttled`: it asked for fewer requests.

        Never raises for what the store or the network does.
        """
        return self._asked("HEAD", key, turn, lambda answer: self._bucket.read(key, answer.headers))

    def read(self, key: str, turn: Turn) -> bytes | None:
        """The bytes of the object, if the store clearly sends them all; else as `head`."""
        return self._asked("GET", key, turn, lambda answer: answer.body)

    def _asked(self, method: str, key: str, turn: Turn, meaning: Callable[[Answer], T]) -> T | None:
        route = self._found()
        if route is None or self._doubts >= _DOUBTS:
            return None
        try:
            name = percent_encode(self._bucket.base + key, safe="/~")
        except UnicodeError:
            return None
        if not name:
            return None
        try:
            answer = route.ask(method, name, self._access.credentials.get_frozen_credentials())
            turn.throttled = answer.status in THROTTLED
            if answer.status == 200:
                found = meaning(answer)
                self._doubts = 0
                return found
            if answer.status in _CLEAR:
                return None
        except (NoAnswerError, OSError, LakegcError, *SDK_ERRORS):
            pass  # boto3 has the words for it
        self._doubts += 1
        return None

    def _keep(self, request: Any, **_: Any) -> None:
        """The last HEAD that boto3 sent for the probe."""
        if urlsplit(request.url).path.endswith(PROBE_KEY):
            self._sent = request

    def _found(self) -> _Route | None:
        if not self._learnt and self._doubts < _DOUBTS:
            with self._lock:
                if not self._learnt:
                    self._learn()
        return self._route

    def _learn(self) -> None:
        """Learn the route, if there is one. A probe that is not answered says nothing: the next request learns it."""
        try:
            self._bucket.answer("head_object", PROBE_KEY, Key=self._bucket.base + PROBE_KEY)
            probe = percent_encode(self._bucket.base + PROBE_KEY, safe="/~")
            self._route = _route(self._sent, probe, self._access, self._timeouts) if self._sent is not None else None
            self._learnt = True
        except (LakegcError, UnicodeError, OSError, *SDK_ERRORS):
            self._doubts += 1


@dataclass(frozen=True)
class _Route:
    """A way for requests to reach a bucket: `path` is what comes before the name of an object."""

    host: str
    path: str
    region: str
    service: str
    agent: str
    wire: Wire

    def ask(self, method: str, name: str, credentials: Any) -> Answer:
        """Send one request. `name`: of the object, percent-encoded. NoAnswerError or OSError if no answer comes."""
        signed = self.signed(method, name, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), credentials)
        lines = [f"{method} {self.path}{name} HTTP/1.1", f"host: {self.host}", f"user-agent: {self.agent}"]
        lines += [f"{header}: {value}" for header, value in signed.items()]
        return self.wire.ask("\r\n".join([*lines, "", ""]).encode())

    def signed(self, method: str, name: str, moment: str, credentials: Any) -> dict[str, str]:
        """The headers that sign a request without a body at a moment, in AWS's version 4."""
        headers = {"host": self.host, "x-amz-content-sha256": _NO_BODY, "x-amz-date": moment}
        if credentials.token:
            headers["x-amz-security-token"] = credentials.token
        names = ";".join(headers)
        canonical = "".join(f"{header}:{value}\n" for header, value in headers.items())
        request = f"{method}\n{self.path}{name}\n\n{canonical}\n{names}\n{_NO_BODY}"
        scope = f"{moment[:8]}/{self.region}/{self.service}/aws4_request"
        text = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(_key(credentials.secret_key, scope), text.encode(), "sha256").hex()
        who = f"Credential={credentials.access_key}/{scope}"
        del headers["host"]
        return headers | {"authorization": f"{_ALGORITHM} {who}, SignedHeaders={names}, Signature={signature}"}


@functools.lru_cache(maxsize=8)
def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for each in scope.split("/"):
        key = hmac.digest(key, each.encode(), "sha256")
    return key


def _route(sent: Any, probe: str, access: Access, timeouts: tuple[float, float]) -> _Route | None:
    """The way in which the client sent this HEAD of the probe; None if it is unsigned, or no `_Route` describes it."""
    where = urlsplit(sent.url)
    headers = {name.lower(): _text(value) for name, value in sent.headers.items()}
    scope = headers.get("authorization", "").partition("Credential=")[2].partition(",")[0].split("/")
    is_plain = where.scheme in _PORTS and not where.query and where.path.endswith(f"/{probe}") and len(scope) == 5
    if (
        not is_plain
        or access.credentials is None
        or not where.hostname
        or get_environ_proxies(sent.url).get(where.scheme)
    ):
        return None
    context = ssl.create_default_context(cafile=access.certificates()) if where.scheme == "https" else None
    standard = _PORTS[where.scheme]
    route = _Route(
        where.netloc.removesuffix(f":{standard}"),
        where.path.removesuffix(probe),
        scope[2],
        scope[3],
        headers.get("user-agent", ""),
        Wire(where.hostname, where.port or standard, context, *timeouts),
    )
    same = route.signed("HEAD", probe, headers.get("x-amz-date", ""), access.credentials.get_frozen_credentials())
    return route if {name: value for name, value in headers.items() if name not in _UNSIGNED} == same else None


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
