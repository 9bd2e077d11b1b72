"""JSON artifacts: how they are written, read and sealed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from lakegc_core.errors import MarkError, ObjectNotFoundError
from lakegc_core.names import Json
from lakegc_core.store.base import Store

_OF_SWEEP = re.compile(r"([^/]+)/sweeps/")  # in the key of a file; the group is the id of the mark


def digest(value: Any) -> str:
    """SHA-256, in hex, of a value in its one JSON form."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=list).encode()).hexdigest()


def sealed(value: Mapping[str, Any]) -> Json:
    """The value as it will be read back, with the digest of that."""
    read_back: Json = json.loads(encode(value))
    return read_back | {"digest": digest(read_back)}


def unsealed(value: Json, changed: str, **expected: Any) -> Json:
    """A sealed value without its digest; MarkError, which says `changed`, if the digest is another than that of the
    rest, or if a key does not hold what is expected of it."""
    rest = {key: each for key, each in value.items() if key != "digest"}
    if value.get("digest") != digest(rest) or any(rest.get(key) != each for key, each in expected.items()):
        raise MarkError(changed)
    return rest


def encode(value: Mapping[str, Any]) -> bytes:
    """A JSON artifact as lakegc writes it, for people to read as well."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=list).encode() + b"\n"


def decode(data: bytes, where: str) -> Json:
    """The JSON object in `data`; MarkError if it is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise MarkError(f"{where} is not a JSON object. It was damaged or is not lakegc's: {_repair(where)}.")
    return value


def read_json(store: Store, key: str) -> Json | None:
    """The JSON object that lies at a key; None if nothing lies there. MarkError for anything else."""
    try:
        return decode(store.read(key), key)
    except ObjectNotFoundError:
        return None


def read_sealed(store: Store, key: str, changed: str, **expected: Any) -> Json | None:
    """The same `unsealed`."""
    found = read_json(store, key)
    return None if found is None else unsealed(found, changed, **expected)


def _repair(where: str) -> str:
    """What to do about a damaged file: another mark stands in for one of a mark, not for the record of a sweep."""
    mark = _OF_SWEEP.search(where)
    if not mark:
        return "make a new mark"
    return f"run `lakegc verify REPO {mark[1]}`, and bring the file back from a copy of the artifacts"
