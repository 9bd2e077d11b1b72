"""Reads the pages of Azure's List Blobs fast, and refuses those that do not add up.

Here: how the raw pages are got from under the SDK, and what turns one into Arrow columns. Not here: asking for pages
(`store`).

The SDK builds a dozen Python objects for every listed blob, and that is what bounds a listing. So each page is taken
from the HTTP answer itself, and the SDK, which signs and repeats the requests, gets an empty one.
"""

from __future__ import annotations

import io
import threading
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes, urlsplit
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.compute as pc
import requests

from lakegc_core.errors import IncompleteError, StoreError
from lakegc_core.store.base import LISTING_SCHEMA, Level
from lakegc_core.store.remote import bare, below, listed

_EMPTY_PAGE = b'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs /><NextMarker /></EnumerationResults>'
_DATE = "%a, %d %b %Y %H:%M:%S GMT"
_Row = tuple[int, str, str | None]  # size, time as sent, ETag without quotes


class Pages(threading.local):
    """The last list page that each thread received. Install `keep` as a response hook of a `requests` session."""

    body: bytes | None = None

    def keep(self, response: requests.Response, *_: Any, **__: Any) -> requests.Response:
        """Take the page out of an answer to List Blobs; every other answer passes as it is."""
        asked = parse_qs(urlsplit(response.url).query)
        if response.status_code != 200 or asked.get("comp") != ["list"] or asked.get("restype") != ["container"]:
            return response
        self.body = response.content
        response.close()
        empty = requests.Response()
        empty.status_code, empty.reason, empty.url = response.status_code, response.reason, response.url
        empty.request, empty.headers = response.request, response.headers.copy()
        for name in ("Content-Length", "Content-Encoding", "Transfer-Encoding"):
            empty.headers.pop(name, None)
        empty.raw = io.BytesIO(_EMPTY_PAGE)
        return empty

    def take(self, where: str) -> bytes:
        """This thread's last page, once."""
        body, self.body = self.body, None
        if body is None:
            raise StoreError(f"{where}: the store's answer was no list of blobs")
        return body


def read_page(body: bytes, wanted: str, cut: int, where: str) -> tuple[Level, str]:
    """The blobs and prefixes of one page, and the marker of the next page (empty: there is none).

    `wanted` is the prefix that was asked for; the first `cut` characters of names are cut off; `where` names the
    listing in errors. Directories of accounts with a hierarchical namespace are no objects, and are left out.
    """
    blobs, marker = parts_of(body, where)
    keys: list[str] = []
    rows: list[_Row] = []
    prefixes: list[str] = []
    for blob in blobs:
        name = name_of(blob.find("Name"), where)
        if blob.tag == "BlobPrefix":
            prefixes.append(name)
        elif row := _row(blob, name, where):
            keys.append(name)
            rows.append(row)
    addresses, folders = below(keys, wanted, cut, where), below(prefixes, wanted, cut, where)
    return Level(_batch(addresses, rows, where), tuple(folders)), marker


def read_folders(body: bytes, where: str) -> tuple[list[str], str]:
    """The names of the directories of one page, of an account with a hierarchical namespace, and the marker of the next
    page."""
    blobs, marker = parts_of(body, where)
    told = ((each, each.find("Properties")) for each in blobs)
    directories = (blob for blob, found in told if found is not None and _is_directory(blob, found))
    return [name_of(each.find("Name"), where) for each in directories], marker


def parts_of(body: bytes, where: str) -> tuple[ElementTree.Element, str]:
    """The listed blobs of a page, and the marker of the next page."""
    try:
        tree = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise IncompleteError(f"{where}: a page is not XML that can be read ({error}); the listing broke off") from None
    blobs, marker = tree.find("Blobs"), tree.find("NextMarker")
    if blobs is None or marker is None:
        raise IncompleteError(f"{where}: a page does not say whether it is the last one")
    return blobs, marker.text or ""


def _row(blob: ElementTree.Element, name: str, where: str) -> _Row | None:
    """Size, time and ETag of one listed blob; None for a directory."""
    found = blob.find("Properties")
    if found is None:
        raise IncompleteError(f"{where}: the store listed {name!r} without a size or a time")
    if _is_directory(blob, found):
        return None
    size, modified, etag = (found.findtext(field) for field in ("Content-Length", "Last-Modified", "Etag"))
    if not size or not size.isdecimal() or not modified:
        raise IncompleteError(f"{where}: the store listed {name!r} without a size or a time")
    return int(size), modified, bare(etag)


def _batch(keys: list[str], rows: list[_Row], where: str) -> pa.RecordBatch:
    sizes, times, etags = zip(*rows, strict=True) if rows else ((), (), ())
    try:
        naive = pc.strptime(pa.array(times, pa.string()), format=_DATE, unit="us")
        moments = naive.cast(LISTING_SCHEMA.field("last_modified").type)
    except pa.ArrowInvalid as error:
        raise IncompleteError(f"{where}: the store listed a blob whose time cannot be read: {error}") from None
    return listed(keys, sizes, moments, etags)


def name_of(found: ElementTree.Element | None, where: str) -> str:
    """The name of a listed blob, decoded."""
    if found is None or not found.text:
        raise IncompleteError(f"{where}: the store listed a blob without a name")
    if found.get("Encoded") != "true":  # it is, where XML cannot hold the name
        return found.text
    return unquote_to_bytes(found.text).decode("utf-8", "backslashreplace")


def _is_directory(blob: ElementTree.Element, found: ElementTree.Element) -> bool:
    folder = blob.findtext("Metadata/hdi_isfolder") or blob.findtext("Metadata/Hdi_isfolder") or ""
    return found.findtext("ResourceType") == "directory" or folder.lower() == "true"
