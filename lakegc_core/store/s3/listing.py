"""Reading the pages of S3's ListObjectsV2 fast, and refusing those that do not add up.

Here: what turns one answer into Arrow columns. Not here: asking for pages, and which there are (`store`).

botocore builds a tree of Python objects for every listed object, and that is what bounds a listing. So the
objects are cut out of the body before botocore sees it, and read with a few passes of C code; everything else
in the answer (errors, truncation, tokens, common prefixes) stays botocore's. A body the fast way does not
understand to the last tag is left alone, and botocore's own result is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_to_bytes

import pyarrow as pa

from lakegc_core.errors import IncompleteError, StoreError
from lakegc_core.store.base import LISTING_SCHEMA

PAGE_FIELD = "LakegcObjects"  # where the fast objects ride in botocore's parsed answer
# Wildcards, because botocore calls handlers of wildcard names before those of exact names, and its own `s3.*`
# handler would parse the whole body just to see that it is no error. Another order is slower, not wrong.
_EVENT = "before-parse.*.*"

_KEY = re.compile(rb"<Key>([^<]*)</Key>")
_MODIFIED = re.compile(rb"<LastModified>([^<]*)</LastModified>")
_SIZE = re.compile(rb"<Size>([^<]*)</Size>")
_ETAG = re.compile(rb"<ETag>([^<]*)</ETag>")
_ENTITY = re.compile(rb"&(#[0-9]+|#x[0-9a-fA-F]+|[a-z]+);")
_NAMED = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}
_STRANGE = (b"<![CDATA[", b"<!--", b"<!DOCTYPE")


@dataclass(frozen=True)
class Objects:
    """The objects of one page, as sent: keys still in the answer's encoding."""

    keys: list[bytes]
    sizes: pa.Array  # int64
    modified: pa.Array  # timestamp us, UTC
    etags: pa.Array  # string

    def __len__(self) -> int:
        return len(self.keys)


def install(events: Any) -> None:
    """Teach a botocore client, by its event system, to read list pages the fast way."""
    events.register_first(_EVENT, _before_parse, unique_id="lakegc-list-pages")


def _before_parse(operation_model: Any, response_dict: Any, customized_response_dict: dict[str, Any], **_: Any) -> None:
    if operation_model.name != "ListObjectsV2" or response_dict["status_code"] != 200:
        return
    found = split_page(response_dict["body"])
    if found is not None:
        response_dict["body"], customized_response_dict[PAGE_FIELD] = found


def split_page(body: bytes) -> tuple[bytes, Objects] | None:
    """The body without its objects, and the objects. None when the fast way is not sure of all it saw."""
    count = body.count(b"<Contents>")
    if not count or count != body.count(b"<Contents") or count != body.count(b"</Contents>"):
        return None
    if any(mark in body for mark in _STRANGE):
        return None
    head, *rows = body.split(b"<Contents>")
    rest = [head]
    for position, row in enumerate(rows):
        row, closed, after = row.partition(b"</Contents>")
        # Each field within its own object: equal totals alone would let one object lend another its size.
        if not closed or b"<Key>" not in row or b"<LastModified>" not in row or b"<Size>" not in row:
            return None
        if after:
            rest.append(after)
        rows[position] = row
    region = b"\n".join(rows)
    keys, modified, sizes, etags = (regex.findall(region) for regex in (_KEY, _MODIFIED, _SIZE, _ETAG))
    if not len(keys) == len(modified) == len(sizes) == count or len(etags) not in (0, count):
        return None
    try:
        if b"&" in region:
            keys = [_unescape(key) if b"&" in key else key for key in keys]
            etags = [_unescape(etag) if b"&" in etag else etag for etag in etags]
        objects = Objects(
            keys=keys,
            sizes=_text(sizes).cast(pa.int64()),
            modified=_text(modified).cast(LISTING_SCHEMA.field("last_modified").type),
            etags=_text([etag.strip(b'"') for etag in etags] if etags else [None] * count),
        )
    except (ValueError, KeyError, OverflowError):  # Arrow's errors are ValueErrors
        return None
    if objects.sizes.null_count or objects.modified.null_count:
        return None
    return b"".join(rest), objects


def _text(values: Sequence[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string())


def _unescape(value: bytes) -> bytes:
    return _ENTITY.sub(_entity, value)


def _entity(match: re.Match[bytes]) -> bytes:
    name = match.group(1)
    if name[:2] == b"#x":
        return chr(int(name[2:], 16)).encode()
    return chr(int(name[1:])).encode() if name[:1] == b"#" else _NAMED[name]


def decoder(answer: Mapping[str, Any]) -> Callable[[bytes], bytes]:
    """How to undo the encoding of keys: what the answer says of itself counts, not what was asked for."""
    encoding = answer.get("EncodingType")
    if encoding == "url":
        return _undo_url
    if not encoding:
        return bytes
    raise StoreError(f"the store lists keys in an unknown encoding {encoding!r}: it cannot be used")


def _undo_url(key: bytes) -> bytes:
    # S3 writes a space as `+` and a plus as `%2B`, as in forms.
    return unquote_to_bytes(key.replace(b"+", b" ")) if b"%" in key or b"+" in key else key


def read_page(answer: Mapping[str, Any], key_prefix: str, root: str, where: str) -> tuple[pa.RecordBatch, list[str]]:
    """The objects and common prefixes of one parsed answer, relative to `root`, checked against each other.

    `key_prefix` is what was asked for, `root` the part to cut off; `where` names the listing in errors.
    """
    objects = answer.get(PAGE_FIELD) or _slow(answer.get("Contents") or ())
    decode = decoder(answer)
    keys = [decode(key) for key in objects.keys]
    prefixes = [
        decode(found["Prefix"].encode("utf-8", "surrogatepass")) for found in answer.get("CommonPrefixes") or ()
    ]
    announced = answer.get("KeyCount")
    if announced is not None and announced != len(keys) + len(prefixes):
        raise IncompleteError(
            f"{where}: the store announced {announced} keys in a page and sent {len(keys)} and"
            f" {len(prefixes)} prefixes; the listing cannot be trusted. Try again, or look at what lies"
            " between lakegc and the store"
        )
    wanted = key_prefix.encode()
    for key in (*keys, *prefixes):
        if not key.startswith(wanted):
            raise StoreError(
                f"{where}: the store listed {key.decode('utf-8', 'backslashreplace')!r}, which is not below"
                " what was asked for; it changes keys, and cannot be collected safely"
            )
    cut = len(root.encode())
    addresses = _addresses([key[cut:] for key in keys]) if cut else _addresses(keys)
    batch = pa.RecordBatch.from_arrays(
        [addresses, objects.sizes, objects.modified, objects.etags], schema=LISTING_SCHEMA
    )
    return batch, [prefix[cut:].decode("utf-8", "backslashreplace") for prefix in prefixes]


def _addresses(keys: list[bytes]) -> pa.Array:
    try:
        return _text(keys)
    except ValueError:  # not UTF-8: readable, but never equal to an address lakeFS knows
        return pa.array([key.decode("utf-8", "backslashreplace") for key in keys], pa.string())


def _slow(contents: Sequence[Mapping[str, Any]]) -> Objects:
    """The same columns from botocore's own objects."""
    missing = [one for one in contents if not {"Key", "Size", "LastModified"} <= one.keys()]
    if missing:
        raise IncompleteError(f"the store listed an object without key, size or time: {missing[0]}")
    return Objects(
        keys=[one["Key"].encode("utf-8", "surrogatepass") for one in contents],
        sizes=pa.array([one["Size"] for one in contents], pa.int64()),
        modified=pa.array([_utc(one["LastModified"]) for one in contents], LISTING_SCHEMA.field("last_modified").type),
        etags=pa.array([one["ETag"].strip('"') if one.get("ETag") else None for one in contents], pa.string()),
    )


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
