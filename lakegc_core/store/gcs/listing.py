"""Reads the pages of GCS's object lists, and refuses those that do not add up.

Here: one request for a page, and what turns it into Arrow columns. Not here: which pages there are, and when a request
is repeated (`store`).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import requests

from lakegc_core.errors import IncompleteError
from lakegc_core.store.base import LISTING_SCHEMA, Level
from lakegc_core.store.gcs.access import error_of
from lakegc_core.store.remote import below, listed

FIELDS = "kind,items(name,size,updated,generation),prefixes,nextPageToken"
_KIND = "storage#objects"  # what an answer to a listing says it is, even an empty one


def page_of(answer: requests.Response, root: str) -> dict[str, Any]:
    """One page as it came. IncompleteError for an answer that is no list."""
    if answer.status_code != 200:
        raise error_of(answer)
    try:
        page = answer.json()
    except ValueError:
        page = None
    if not isinstance(page, dict) or page.get("kind") != _KIND:
        raise IncompleteError(f"{root}: the store's answer was no list of objects")
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
