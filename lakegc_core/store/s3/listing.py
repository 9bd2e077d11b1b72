"""Reads the pages of S3's ListObjectsV2, and refuses those that do not add up.

Here: what turns one answer into Arrow columns. Not here: asking for pages, and which there are (`store`).

botocore builds a tree of Python objects for every listed object, and that is what bounds a listing. So the objects are
taken out of the body before botocore sees it, which takes a tenth of that; everything else in the answer (errors,
truncation, tokens, common prefixes) stays botocore's. botocore also judges an answer that is no list, or no XML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus
from xml.etree import ElementTree

import pyarrow as pa
from botocore.utils import parse_timestamp

from lakegc_core.errors import IncompleteError, StoreError
from lakegc_core.store.base import LISTING_SCHEMA, Level
from lakegc_core.store.remote import bare, below, listed
from lakegc_core.store.xml_pages import local_name

PAGE_FIELD = "LakegcObjects"  # where the objects ride in botocore's parsed answer
# Wildcards, because botocore calls handlers of wildcard names before those of exact names, and its own `s3.*`
# handler would parse the whole body just to see that it is no error. Another order is slower, not wrong.
_EVENT = "before-parse.*.*"

_Row = dict[str, str | None]  # what a page says of one object, by the names of the fields
_MOMENT = LISTING_SCHEMA.field("last_modified").type


def install(events: Any) -> None:
    """Keep the objects of list pages from a botocore client, by its event system."""
    events.register_first(_EVENT, _before_parse, unique_id="lakegc-list-pages")


def _before_parse(operation_model: Any, response_dict: Any, customized_response_dict: dict[str, Any], **_: Any) -> None:
    if operation_model.name != "ListObjectsV2" or response_dict["status_code"] != 200:
        return
    try:
        page = ElementTree.fromstring(response_dict["body"])
    except ElementTree.ParseError:  # botocore asks again
        return
    if local_name(page) == "ListBucketResult":
        objects = [each for each in page if local_name(each) == "Contents"]
        page[:] = [each for each in page if local_name(each) != "Contents"]
        response_dict["body"] = ElementTree.tostring(page)
        customized_response_dict[PAGE_FIELD] = [{local_name(field): field.text for field in each} for each in objects]


def read_page(answer: Mapping[str, Any], wanted: str, cut: int, where: str) -> Level:
    """The objects and common prefixes of one parsed answer, checked against each other.

    `wanted` is the prefix that was asked for; the first `cut` characters of keys are cut off; `where` names the listing
    in errors.
    """
    rows: list[_Row] | None = answer.get(PAGE_FIELD)
    if rows is None:
        raise IncompleteError(f"{where}: the store's answer was no list of objects")
    missing = [each for each in rows if not (each.get("Key") and each.get("LastModified") and _is_size(each))]
    if missing:
        raise IncompleteError(f"{where}: the store listed an object without key, size or time: {missing[0]}")
    decode = decoder(answer)
    keys = [decode(str(row["Key"])) for row in rows]
    prefixes = [decode(found["Prefix"]) for found in answer.get("CommonPrefixes") or ()]
    announced = answer.get("KeyCount")
    # Some stores count objects alone, or nothing. Only a page that holds less than it announces has lost something.
    if announced is not None and announced > len(keys) + len(prefixes):
        raise IncompleteError(
            f"{where}: the store announced {announced} keys in a page and sent {len(keys)} and"
            f" {len(prefixes)} prefixes; the listing cannot be trusted. Try again, or look at what lies"
            " between lakegc and the store"
        )
    addresses, folders = below(keys, wanted, cut, where), below(prefixes, wanted, cut, where)
    try:
        moments = _moments([str(row["LastModified"]) for row in rows])
    except ValueError as error:
        raise IncompleteError(f"{where}: the store listed a time that cannot be read: {error}") from None
    etags = [bare(row.get("ETag")) for row in rows]
    return Level(listed(addresses, [int(str(row["Size"])) for row in rows], moments, etags), tuple(folders))


def _is_size(row: _Row) -> bool:
    return (row.get("Size") or "").isdecimal()


def decoder(answer: Mapping[str, Any]) -> Callable[[str], str]:
    """The function that undoes the encoding of keys that the answer says it has; the one asked for does not count."""
    encoding = answer.get("EncodingType")
    if encoding == "url":
        # S3 writes a space as `+` and a plus as `%2B`, as in forms. What is not UTF-8 is readable, but never equal to
        # an address lakeFS knows.
        return lambda key: unquote_plus(key, errors="backslashreplace")
    if not encoding:
        return str
    raise StoreError(f"the store lists keys in an unknown encoding {encoding!r}: it cannot be used")


def _moments(texts: Sequence[str]) -> pa.Array:
    try:
        return pa.array(texts, pa.string()).cast(_MOMENT)
    except pa.ArrowInvalid:  # not as S3 writes it: botocore knows more forms
        return pa.array([utc(parse_timestamp(text)) for text in texts], _MOMENT)


def utc(moment: datetime) -> datetime:
    """A time that S3 gave, which is in UTC where it does not say so."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
