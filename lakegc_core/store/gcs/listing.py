"""Reading the pages of GCS's object lists, and refusing those that do not add up.

Here: one request for a page, and what turns it into Arrow columns. Not here: which pages there are, and when a request
is repeated (`store`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from google.api_core.exceptions import from_http_response
from google.auth.transport.requests import AuthorizedSession

from lakegc_core.errors import IncompleteError
from lakegc_core.store.base import LISTING_SCHEMA, Level
from lakegc_core.store.remote import below, listed

_FIELDS = "kind,items(name,size,updated,generation),prefixes,nextPageToken"
_KIND = "storage#objects"  # what an answer to a listing says it is, even an empty one


@dataclass(frozen=True)
class Lists:
    """The lists of one bucket of the service at `url`."""

    session: AuthorizedSession
    root: str  # for messages
    url: str
    bucket: str
    page_size: int
    timeout: tuple[float, float]  # seconds: to connect, to read

    def page(self, asked: Mapping[str, str | None]) -> dict[str, Any]:
        """One page as it came. IncompleteError for an answer that is no list."""
        url = f"{self.url}/storage/v1/b/{quote(self.bucket, safe='')}/o"
        parameters = {"maxResults": str(self.page_size), "fields": _FIELDS, **asked}
        answer = self.session.get(url, params=parameters, timeout=self.timeout)
        if answer.status_code != 200:
            raise from_http_response(answer)
        try:
            page = answer.json()
        except ValueError:
            page = None
        if not isinstance(page, dict) or page.get("kind") != _KIND:
            raise IncompleteError(f"{self.root}: the store's answer was no list of objects")
        return page


def read_page(page: dict[str, Any], wanted: str, cut: int, where: str) -> Level:
    """The objects and prefixes of one page, without the first `cut` characters of their names.

    `wanted` is the prefix that was asked for; `where` names the listing in errors.
    """
    items = page.get("items", [])
    folders = below(page.get("prefixes", []), wanted, cut, where)
    try:
        names = below([item["name"] for item in items], wanted, cut, where)
        sizes = pa.array([item["size"] for item in items], pa.string()).cast(pa.int64())
        times = pa.array([item["updated"] for item in items], pa.string()).cast(
            LISTING_SCHEMA.field("last_modified").type
        )
        generations = [str(item["generation"]) for item in items]
    except (KeyError, TypeError, ValueError) as error:
        raise IncompleteError(f"{where}: the store listed an object without size, time or generation") from error
    return Level(listed(names, sizes, times, generations), tuple(folders))
