"""Speaks to lakeFS: one session, basic auth, retries, errors in sentences, pages. It names no calls.

It retries 429, 5xx and lost connections: every call of `client` may be sent twice without harm. A call that may not has
`attempts=1`. It prints no header, and searches the server's text for the credentials before it repeats the text.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any, TypeVar
from urllib.parse import quote

import requests
from pydantic import TypeAdapter, ValidationError
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth
from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry

from lakegc_core import __version__
from lakegc_core.backoff import Backoff
from lakegc_core.config.settings import ServerSettings
from lakegc_core.config.urls import API
from lakegc_core.errors import IncompleteError, ServerError, SettingsError
from lakegc_core.lakefs import advice
from lakegc_core.lakefs.models import Page
from lakegc_core.shapes import problems

ATTEMPTS = 6  # the first one and five more: about half a minute of a server that is away
PAGE = 1000  # elements a page, lakeFS's maximum
UNKNOWN_CALL = "invalid API endpoint"  # what lakeFS answers, by 404 or 500, to a call that its version lacks
UNRESOLVED = re.compile(
    r"could not parse URI: |^(invalid storage scheme|expected storage type) .*: invalid address$"
    r"|(^|: )bad path traversal blocked$|^forbidden$"
)
"""What it answers, by 500, where it cannot resolve an address that it is to show. The last two: on `local`."""

_STORE_REFUSES = re.compile(r"\b(InvalidRange|NoSuchBucket|ContainerNotFound)\b")
"""What it answers, by 500, in the store's words: an object is shorter than its entry says, or a bucket is gone."""

_BACKOFF = Backoff(first=0.5, longest=15.0)
_LONGEST_RETRY_AFTER = 120.0  # seconds
_LOST = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
_TLS_REFUSED = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # the last two: no TLS
_log = logging.getLogger(__name__)
T = TypeVar("T")


class LakeFSError(ServerError):
    """lakeFS answered with an error status.

    `status` is the HTTP status, `message` lakeFS's own, empty if the answer was not in lakeFS's form: then a
    proxy may have answered in its place.
    """

    def __init__(self, sentence: str, status: int = 0, message: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.message = message

    @property
    def is_absent(self) -> bool:
        """True if it is lakeFS that knows no such thing. A 404 that is not in its form may be a proxy's."""
        return self.status == 404 and bool(self.message) and UNKNOWN_CALL not in self.message


@dataclass(frozen=True)
class Request:
    """One call: what is asked for, and which statuses are its answers. `action` is the permission that it takes.

    `content`: bytes to send instead of a JSON `body`. `read_timeout` in seconds, where the settings' is too short.
    `with_body` False: a long body is left unread, at the price of the connection.
    """

    method: str
    path: str
    expect: tuple[int, ...] = (200,)
    action: str = ""
    params: Mapping[str, str] = field(default_factory=dict, hash=False)
    body: Mapping[str, object] | None = field(default=None, hash=False)
    content: bytes | None = field(default=None, hash=False, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    read_timeout: float = 0.0
    attempts: int = ATTEMPTS
    with_body: bool = True

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def odd(self, what: str) -> ServerError:
        """The error of an answer that is not what it must be."""
        return ServerError(
            f"odd answer of lakeFS to {self}: {what}. lakegc stops here rather than guess; "
            "check that the endpoint is a lakeFS server and that nothing between changes its answers"
        )


@dataclass(frozen=True)
class Reply:
    """One answer as it came; the body is empty where it was not asked for."""

    status: int
    body: bytes
    retry_after: str | None = None
    location: str = ""
    date: str = ""

    @property
    def at(self) -> datetime | None:
        """The date of the answer, by the server's clock; None if there is none that reads."""
        try:
            return parsedate_to_datetime(self.date).astimezone(UTC)
        except ValueError:
            return None

    @property
    def is_busy(self) -> bool:
        """True if the same call may be answered otherwise a little later."""
        said = _message(self.body)[0]
        lasts = UNKNOWN_CALL in said or UNRESOLVED.search(said) or _STORE_REFUSES.search(said)
        return (self.status == 429 or self.status >= 500) and not lasts


RAW = ("utf-8", "surrogateescape")
"""The encoding of names in requests, and how bytes that are not UTF-8 are written in a text."""


class Http:
    """One authenticated session with the API of one lakeFS server. Safe to share between threads."""

    def __init__(self, settings: ServerSettings, *, sleep: Callable[[float], None] = time.sleep) -> None:
        settings.require()
        self._settings = settings
        self._sleep = sleep
        key, secret = settings.access_key_id, settings.secret_access_key
        token = base64.b64encode(f"{key}:{secret}".encode()).decode("ascii")
        self._secrets = (token, secret)
        self._session = requests.Session()
        self._session.auth = HTTPBasicAuth(key.encode(), secret.encode())
        self._session.headers["X-Lakefs-Client"] = f"lakegc/{__version__}"
        self._session.headers["User-Agent"] = f"lakegc/{__version__}"
        self._session.headers["Accept"] = "application/json"
        adapter = HTTPAdapter(pool_connections=4, pool_maxsize=32)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)

    def close(self) -> None:
        self._session.close()

    def call(self, request: Request, shape: type[T]) -> T:
        """Ask for a JSON object of a shape that pydantic knows.

        LakeFSError for another status than expected, ServerError if no answer comes, or one of another shape.
        """
        reply = self.send(request)
        reader = _reader(shape)  # type: ignore[arg-type]  # every type is hashable
        try:
            value: T = reader.validate_json(reply.body)
        except ValidationError as error:
            # Not chained: pydantic's own text would repeat what the server said.
            raise request.odd(self._clean(_problem(error, reader, reply.status))) from None
        return value

    def send(self, request: Request) -> Reply:
        """Send until an answer comes that is not worth another try; LakeFSError unless its status is expected."""
        for attempt in range(1, request.attempts + 1):
            try:
                reply = self._ask(request)
            except _LOST as error:
                if attempt == request.attempts or _is_tls_refused(error):
                    raise ServerError(self._unreachable(request, error)) from None
                self._wait(request, attempt, type(error).__name__)
                continue
            except requests.RequestException as error:
                raise ServerError(
                    f"{request} could not be sent to {self._settings.endpoint_url}: {self._clean(str(error))}"
                ) from None
            if reply.status in request.expect:
                return reply
            if attempt == request.attempts or not reply.is_busy:
                raise self._error(request, reply, attempt)
            self._wait(request, attempt, f"status {reply.status}", reply.retry_after)
        raise AssertionError("attempts must be 1 or more")

    def _ask(self, request: Request) -> Reply:
        """Send once."""
        with self._session.request(
            request.method,
            f"{self._settings.endpoint_url}{API}{request.path}",
            params={name: value.encode(*RAW) for name, value in request.params.items()},
            data=request.content,
            json=request.body,
            headers=request.headers,
            timeout=(self._settings.connection_timeout, max(self._settings.read_timeout, request.read_timeout)),
            stream=True,
            # A redirected POST would arrive as a GET, and the credentials somewhere else.
            allow_redirects=False,
        ) as response:
            wanted = request.with_body or response.status_code not in request.expect or _is_short(response)
            return Reply(
                status=response.status_code,
                body=response.content if wanted else b"",
                retry_after=response.headers.get("Retry-After"),
                location=response.headers.get("Location", ""),
                date=response.headers.get("Date", ""),
            )

    def elements(self, request: Request, shape: type[Page[T]]) -> Iterator[T]:
        """Every element of a listing: see `pages`."""
        return chain.from_iterable(self.pages(request, shape))

    def pages(self, request: Request, shape: type[Page[T]]) -> Iterator[list[T]]:
        """The elements of every page of a listing, in order.

        IncompleteError if a page holds fewer elements than it says, ServerError if none leads to the next.
        """
        after = ""
        seen = {after}
        while True:
            page = self.page(request, shape, after=after)
            yield page.results
            if not page.pagination.has_more:
                return
            after = page.pagination.next_offset
            if after in seen:
                raise request.odd(f"there is more after {after!r}, which was the offset of an earlier page")
            seen.add(after)

    def page(self, request: Request, shape: type[Page[T]], *, after: str, amount: int = PAGE) -> Page[T]:
        """One page of a listing: up to `amount` elements that come after `after`.

        IncompleteError if the page holds fewer elements than it says.
        """
        page = self.call(replace(request, params={**request.params, "after": after, "amount": str(amount)}), shape)
        announced = page.pagination.results
        if announced != len(page.results):
            raise IncompleteError(
                f"lakeFS announced {announced} elements on a page of {request} and sent {len(page.results)}; "
                "taken as whole it would hide live data. Try again"
            )
        return page

    def _wait(self, request: Request, attempt: int, why: str, retry_after: str | None = None) -> None:
        wait = max(_BACKOFF.wait(attempt), min(_LONGEST_RETRY_AFTER, _retry_after(retry_after)))
        _log.warning("%s: %s; again in %.1f s", request, why, wait)
        self._sleep(wait)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _unreachable(self, request: Request, error: Exception) -> str:
        if isinstance(error, requests.exceptions.SSLError):
            return f"{self._settings.endpoint_url}: the TLS connection for {request} fails: {advice.on_tls(error)}"
        failed = f"{request} failed {request.attempts} times ({type(error).__name__}). Check"
        if not isinstance(error, requests.ReadTimeout):
            return f"{self._settings.endpoint_url} cannot be reached: {failed} the endpoint, and that lakeFS runs"
        seconds = max(self._settings.read_timeout, request.read_timeout)
        return (
            f"{self._settings.endpoint_url} did not answer within {seconds:g} s: {failed} that lakeFS runs. If it is "
            "only slow, raise `server.read_timeout` in lakegc.yaml above that. Millions of staged deletions make a "
            "branch slow, in lists and in the staged dump: commit or reset it"
        )

    def _error(self, request: Request, reply: Reply, attempts: int) -> LakeFSError:
        message, more = _message(reply.body)
        said = self._clean(message)
        sentence = f"{request} was answered with {reply.status}"
        sentence += f' "{said[:500]}"' if said else ""
        sentence += ", followed by a second JSON document" if more else ""
        what_to_do = advice.on_status(
            reply.status, said, action=request.action, location=reply.location, attempts=attempts
        )
        return LakeFSError(f"{sentence}; {what_to_do}", reply.status, said)


def _is_tls_refused(error: Exception) -> bool:
    """True if TLS failed in a way that the same call meets again. A connection that broke may do better."""
    return isinstance(error, requests.exceptions.SSLError) and any(sign in str(error) for sign in _TLS_REFUSED)


@functools.cache
def _reader(shape: Any) -> TypeAdapter[Any]:
    """Reads a page of 1,000 objects in 1.0 ms; `json.loads` and a check by hand of each key took 2.6 ms."""
    return TypeAdapter(shape)


def _problem(error: ValidationError, reader: TypeAdapter[Any], status: int) -> str:
    """The first problem of an answer, and how many more there are."""
    if error.errors(include_url=False)[0]["type"] == "json_invalid":  # no JSON, no UTF-8, or more than one document
        return f"status {status}, and a body that is not one JSON text"
    first, *more = problems(error, reader.json_schema())
    return f"{first}, and {len(more)} more like that" if more else first


def path(*segments: str) -> str:
    """The path of a call below /api/v1, each segment escaped. SettingsError for a name that cannot be one."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise SettingsError(f"{segment!r} is no name of a repository or a ref of lakeFS: say which is meant.")
    return "".join("/" + quote(segment, safe="") for segment in segments)


def _is_short(response: requests.Response) -> bool:
    """True if reading the body costs less than a new connection."""
    try:
        return int(response.headers.get("Content-Length", "")) <= 65_536
    except ValueError:
        return False


def _message(content: bytes) -> tuple[str, bool]:
    """lakeFS's message in an error's body, and whether a second JSON document follows the first."""
    text = content.decode("utf-8", "replace").strip()
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return "", False
    message = value.get("message") if isinstance(value, dict) else None
    return message if isinstance(message, str) else "", bool(text[end:].strip())


def _retry_after(value: str | None) -> float:
    """Seconds that the server asks to wait, given as a number or as a date; 0 if it does not say."""
    try:
        return float(Retry().parse_retry_after(value)) if value else 0.0
    except (InvalidHeader, ValueError, OverflowError):
        return 0.0
