"""The faults of a document against the model that it must follow, in sentences, whatever the document is about.

Each sentence names the key by its path, what was found, what is allowed, and what to do. A free text that was found is
never repeated: it may be a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

Schema = Mapping[str, Any]
"""A JSON Schema, or a part of one."""

_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument", "invalid_key")
_WORDS = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "keys and values",
}
_FREE = {"string", "array", "object"}
"""Types that allow free text: a text that was found there may be a secret in the wrong place."""


def problems(error: ValidationError, schema: Schema, *, advice: str = "") -> list[str]:
    """Every problem that a validation found, as a sentence without a full stop; `schema` is the model's.

    `advice`: what to do where a key with a value of a wrong kind might as well be left out.
    """
    return [_sentence(schema, each, advice) for each in error.errors(include_url=False)]


def part(schema: Schema, place: Sequence[str | int]) -> Schema:
    """The schema of one place in the document, references followed; empty if there is none."""
    node = _resolved(schema, schema)
    for step in place:
        below = node.get("items") if isinstance(step, int) else node.get("properties", {}).get(step)
        node = _resolved(schema, below or node.get("additionalProperties") or {})
    return node


def _resolved(schema: Schema, node: Schema) -> Schema:
    """A node without references and without `or null`."""
    for either in node.get("anyOf", ()):
        if either.get("type") != "null":
            return _resolved(schema, {**node, **either, "anyOf": ()})
    if "$ref" in node:
        return _resolved(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    return node


def _sentence(schema: Schema, error: ErrorDetails, advice: str) -> str:
    kind, found, context = error["type"], error["input"], error.get("ctx", {})
    place = (*error["loc"], *context.get("below", ()))
    above = part(schema, place[:-1])
    if kind in _UNKNOWN_KEY:
        return _at(place[:-1]) + _unknown_key(schema, above, str(place[-1]))
    if kind == "missing":
        described = part(schema, place).get("description")
        return f"{_at(place[:-1])}`{place[-1]}` is missing" + (f". {described.rstrip('.')}" if described else "")
    if "error" in context:
        return f"{_at(place)}{context['error']}"
    node = part(schema, place)
    what = f"`{_path(place)}`" if place else "the document"
    wrong = "is empty" if kind == "string_too_short" else f"must be {_allowed(node)}, not {_found(node, found)}"
    optional = place and place[-1] in above.get("properties", {}) and place[-1] not in above.get("required", ())
    return f"{what} {wrong}{advice if optional else ''}"


def _unknown_key(schema: Schema, above: Schema, key: str) -> str:
    known = list(above.get("properties", ()))
    near = difflib.get_close_matches(key, known, n=1)
    meant = f" (did you mean `{near[0]}`?)" if near else _elsewhere(schema, key)
    comment = f" ({above['$comment']})" if "$comment" in above else ""
    return f"unknown key `{key}`{meant}; allowed are {', '.join(known)}{comment}"


def _elsewhere(schema: Schema, key: str) -> str:
    """Where the key belongs, if a key of the document, or the entries of its list, have it."""
    for name in schema.get("properties", ()):
        if key in part(schema, (name,)).get("properties", ()):
            return f" (it belongs below `{name}`)"
        if key in part(schema, (name, 0)).get("properties", ()):
            return f" (it belongs into the entries of `{name}`)"
    return ""


def _allowed(node: Schema) -> str:
    if "enum" in node:
        return f"one of {', '.join(node['enum'])}"
    if "const" in node:
        return str(node["const"])
    *more, last = (_WORDS[kind] for kind in _kinds(node))
    words = f"{', '.join(more)} or {last}" if more else last
    if "minimum" in node:
        return f"{words} of at least {node['minimum']}"
    if "exclusiveMinimum" in node:
        return f"{words} above {node['exclusiveMinimum']}"
    return words


def _kinds(node: Schema) -> Sequence[str]:
    kind = node.get("type", "string")
    return (kind,) if isinstance(kind, str) else kind


def _found(node: Schema, value: object) -> str:
    if isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str):
        return repr(value) if node.keys() & {"enum", "const"} or _FREE.isdisjoint(_kinds(node)) else "a text"
    if isinstance(value, Mapping):
        return "keys and values"
    return "null" if value is None else f"a {type(value).__name__}"


def _at(place: Sequence[str | int]) -> str:
    return f"`{_path(place)}`: " if place else ""


def _path(place: Sequence[str | int]) -> str:
    """As people write it: `repositories[1].min_age`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
