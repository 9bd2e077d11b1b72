"""JSON artifacts: how they are written, read and sealed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from lakegc_core.errors import MarkError


def digest(value: Any) -> str:
    """SHA-256, in hex, of a value in its one JSON form."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=list).encode()).hexdigest()


def encode(value: Mapping[str, Any]) -> bytes:
    """A JSON artifact as lakegc writes it, for people to read as well."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=list).encode() + b"\n"


def decode(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object in `data`; MarkError if it is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise MarkError(f"{where} is not a JSON object. It was damaged or is not lakegc's: make a new mark.")
    return value
