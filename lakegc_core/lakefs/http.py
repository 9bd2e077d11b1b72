"""How lakeFS is spoken to: one session, basic auth, retries, errors in sentences, pages. It names no calls.

Retried are 429, 5xx and lost connections: every call of `client` may be sent twice without harm. Nothing here
prints a header, and what the server says is searched for the credentials before it is repeated.
"""

from __future__ import annotations

import base64
import email.utils
import json
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth

from lakegc_core import __version__
from lakegc_core.config.settings import API, ServerSettings
from lakegc_core.errors import IncompleteError, ServerError, SettingsError
from lakegc_core.lakefs.models import Answer

ATTEMPTS = 6  # the first one and five more: about half a minute of a server that is away
PAGE = 1000  # elements a page, lakeFS's maximum
UNKNOWN_CALL = "invalid API endpoint"  # what lakeFS answers, by 404 or 500, to a call that its version lacks

_FIRST_WAIT = 0.5  # seconds, doubling
_LONGEST_WAIT = 15.0
_LONGEST_RETRY_AFTER = 120.0
_LOST = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
_log = logging.getLogger(__name__)


class LakeFSError(ServerError):
    """lakeFS answered with an error status.

    `status` is the HTTP status, `message` lakeFS's own, empty if the answer was not in lakeFS's form: then a
    proxy may have answered in its place.
    """

    def __init__(self, sentence: str, status: int = 0, message: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Reply:
    """One answer that is not an error by itself: the status, and the body where it was asked for."""

    status: int
    body: bytes


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

    def call(
        self,
        method: str,
        path: str,
        *,
        expect: int = 200,
        action: str = "",
        params: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        read_timeout: float | None = None,
        attempts: int = ATTEMPTS,
    ) -> Answer:
        """Ask for a JSON object. `action` is the permission it takes; `read_timeout` in seconds.

        LakeFSError for another status than `expect`, ServerError if no answer comes, or no JSON object.
        """
        reply = self.send(
            method,
            path,
            expect=(expect,),
            action=action,
            params=params,
            body=body,
            read_timeout=read_timeout,
            attempts=attempts,
        )
        of = f"{method} {path}"
        try:
            value: object = json.loads(reply.body)
        except ValueError:  # no JSON, no UTF-8, or more than one document
            raise ServerError(
                f"odd answer of lakeFS to {of}: status {reply.status}, and a body that is not one JSON text; "
                "check that the endpoint is a lakeFS server"
            ) from None
        return Answer(of, value)

    def send(
        self,
        method: str,
        path: str,
        *,
        expect: tuple[int, ...],
        action: str = "",
        params: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        read_timeout: float | None = None,
        attempts: int = ATTEMPTS,
        with_body: bool = True,
    ) -> Reply:
        """Send until an answer comes that is not worth another try; LakeFSError unless it is in `expect`.

        `with_body` False: a long body is left unread, at the price of the connection.
        """
        url = f"{self._settings.endpoint_url}{API}{path}"
        timeout = (
            self._settings.connection_timeout,
            max(self._settings.read_timeout, read_timeout or 0.0),
        )
        for attempt in range(1, attempts + 1):
            try:
                with self._session.request(
                    method,
                    url,
                    params=params,
                    json=body,
                    headers=headers,
                    timeout=timeout,
                    stream=True,
                    # A redirected POST would arrive as a GET, and the credentials somewhere else.
                    allow_redirects=False,
                ) as response:
                    status = response.status_code
                    wanted = with_body or status not in expect or _is_short(response)
                    content = response.content if wanted else b""
                    retry_after = response.headers.get("Retry-After")
                    elsewhere = response.headers.get("Location", "")
            except _LOST as error:
                if attempt == attempts:
                    raise ServerError(self._unreachable(method, path, attempt, error)) from None
                self._wait(method, path, attempt, type(error).__name__, None)
                continue
            except requests.RequestException as error:
                raise ServerError(
                    f"{method} {path} could not be sent to {self._settings.endpoint_url}: {self._clean(str(error))}"
                ) from None
            if status in expect:
                return Reply(status, content)
            message, more = _message(content)
            busy = status == 429 or status >= 500
            if busy and UNKNOWN_CALL not in message and attempt < attempts:
                self._wait(method, path, attempt, f"status {status}", retry_after)
                continue
            raise self._error(method, path, status, message, action, attempt, more, elsewhere)
        raise AssertionError("attempts must be 1 or more")

    def pages(self, path: str, *, action: str = "", params: Mapping[str, str] | None = None) -> Iterator[list[Answer]]:
        """Every page of a listing, in order.

        IncompleteError if a page holds fewer elements than it says, ServerError if none leads to the next.
        """
        after = ""
        seen = {after}
        while True:
            results, pagination = self.page(path, after=after, action=action, params=params)
            yield results
            if not pagination.flag("has_more"):
                return
            after = pagination.text("next_offset", "")
            if after in seen:
                raise pagination.odd(f"there is more after {after!r}, which was the offset of an earlier page")
            seen.add(after)

    def page(
        self,
        path: str,
        *,
        after: str,
        amount: int = PAGE,
        action: str = "",
        params: Mapping[str, str] | None = None,
    ) -> tuple[list[Answer], Answer]:
        """One page of a listing: up to `amount` elements that come after `after`, and what the server says of the page.

        IncompleteError if the page holds fewer elements than it says.
        """
        asked = {**(params or {}), "after": after, "amount": str(amount)}
        answer = self.call("GET", path, action=action, params=asked)
        results = answer.each("results")
        pagination = answer.below("pagination")
        announced = pagination.number("results")
        if announced != len(results):
            raise IncompleteError(
                f"lakeFS announced {announced} elements on a page of GET {path} and sent {len(results)}; "
                "taken as whole it would hide live data. Try again"
            )
        return results, pagination

    def _wait(self, method: str, path: str, attempt: int, why: str, retry_after: str | None) -> None:
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
        wait = max(wait, min(_LONGEST_RETRY_AFTER, _retry_after(retry_after)))
        _log.warning("%s %s: %s; again in %.1f s", method, path, why, wait)
        self._sleep(wait)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _unreachable(self, method: str, path: str, attempts: int, error: Exception) -> str:
        what = "did not answer in time" if isinstance(error, requests.Timeout) else "cannot be reached"
        return (
            f"{self._settings.endpoint_url} {what}: {method} {path} failed {attempts} times "
            f"({type(error).__name__}). Check the endpoint, and that lakeFS runs"
        )

    def _error(
        self,
        method: str,
        path: str,
        status: int,
        message: str,
        action: str,
        attempts: int,
        more: bool,
        elsewhere: str,
    ) -> LakeFSError:
        said = self._clean(message)[:500]
        if 200 <= status < 300:
            advice = "this call has another success status: check that the endpoint is a lakeFS server"
        elif 300 <= status < 400:
            target = urlsplit(elsewhere)
            to = f" to {target.scheme}://{target.hostname}" if target.scheme and target.hostname else ""
            advice = f"the endpoint redirects{to}: set the endpoint to where lakeFS itself answers"
        elif status == 401:
            needed = f"its policy allows {action}" if action else "its policy allows this call"
            advice = (
                "lakeFS answers the same to a wrong key and to a missing permission: check the access key, "
                f"and that {needed}"
            )
        elif status == 403:
            advice = "forbidden: the repository is read-only, or its store or a protection refuses"
        elif status == 404:
            advice = "lakeFS does not know this: check the repository's name, and the endpoint"
        elif status == 410:
            advice = "gone: the repository is being deleted, so there is nothing to collect in it"
        elif status == 429 or status >= 500:
            advice = f"asked {attempts} times: try later, and look into the server's log"
        else:
            advice = "lakeFS refuses this call"
        sentence = f"{method} {path} was answered with {status}"
        sentence += f' "{said}"' if said else ""
        sentence += ", followed by a second JSON document" if more else ""
        return LakeFSError(f"{sentence}; {advice}", status, said)


def path(*segments: str) -> str:
    """The path of a call below /api/v1, each segment escaped. SettingsError for a name that cannot be one."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise SettingsError(f"{segment!r} is no name that lakeFS could know")
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
    if not value:
        return 0.0
    try:
        return max(0.0, float(int(value)))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0
