"""Requests, answers and routes of the sandbox's REST API, and the shapes lakeFS gives its JSON.

What the endpoints do belongs in `ref_endpoints`, `object_endpoints` and `gc_endpoints`, sockets in `server`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from lakegc_sandbox.files.graveler_writer import Commit, Entry
from lakegc_sandbox.lakefs import Sandbox
from lakegc_sandbox.model.refs import SandboxError
from lakegc_sandbox.model.repository import Repository

MAX_PER_PAGE = 1000
DEFAULT_AMOUNT = 100

Json: TypeAlias = Any  # what json.loads gives


@dataclass(frozen=True)
class Request:
    """One request; `path` without the API's base path, `args` the named parts of it."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    args: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> dict[str, Json]:
        """The body as a JSON object; empty when there is none."""
        try:
            document = json.loads(self.body) if self.body.strip() else {}
        except ValueError as error:
            raise SandboxError(400, f"request body: {error}") from None
        if not isinstance(document, dict):
            raise SandboxError(400, "request body is not an object")
        return document

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in {"true", "1"}

    def required(self, name: str) -> str:
        try:
            return self.query[name]
        except KeyError:
            raise SandboxError(400, f"query parameter '{name}' is required") from None

    @property
    def amount(self) -> int:
        """The number of results of a page."""
        text = self.query.get("amount", "")
        try:
            amount = int(text) if text else DEFAULT_AMOUNT
        except ValueError:
            raise SandboxError(400, "amount is not a number") from None
        return min(amount, MAX_PER_PAGE) if amount > 0 else DEFAULT_AMOUNT


@dataclass(frozen=True)
class Answer:
    """One answer: a JSON document, or `body` as it is."""

    status: int
    document: Json = None
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> tuple[bytes, str]:
        """Bytes and content type."""
        if self.body is not None:
            return self.body, self.headers.get("Content-Type", "application/octet-stream")
        if self.document is None:
            return b"", "application/json"
        return json.dumps(self.document, ensure_ascii=False).encode() + b"\n", "application/json"


NO_CONTENT = Answer(204)  # done, nothing to say

REPOSITORY = "/repositories/{repo}"
BRANCH = REPOSITORY + "/branches/{branch}"
REF = REPOSITORY + "/refs/{ref}"

Endpoint = Callable[[Sandbox, Request], Answer]


@dataclass(frozen=True)
class Route:
    """A method and a path pattern such as `/repositories/{repo}/branches`, and who answers."""

    method: str
    pattern: re.Pattern[str]
    endpoint: Endpoint


def route(method: str, template: str, endpoint: Endpoint) -> Route:
    """Parts in braces match one path segment each, still percent-encoded."""
    return Route(method, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template)), endpoint)


def text_of(body: Mapping[str, Json], name: str) -> str:
    """A text that a request must hold."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise SandboxError(400, f"'{name}' is required")
    return value


def repository_of(sandbox: Sandbox, request: Request) -> Repository:
    """The repository the path names."""
    return sandbox.repository(request.args["repo"])


def page(request: Request, names: Iterable[str], show: Callable[[str], Json]) -> Answer:
    """One page of a listing of sorted names: those behind `after` that start with `prefix`."""
    after, prefix = request.query.get("after", ""), request.query.get("prefix", "")
    results: list[Json] = []
    last, more = "", False
    for name in names:
        if name <= after or not name.startswith(prefix):
            continue
        if len(results) == request.amount:
            more = True
            break
        results.append(show(name))
        last = name
    return paged(results, last if more else "")


def paged(results: list[Json], next_offset: str) -> Answer:
    """A page of results; more follow behind `next_offset` unless that is empty."""
    pagination = {
        "has_more": bool(next_offset),
        "max_per_page": MAX_PER_PAGE,
        "next_offset": next_offset,
        "results": len(results),
    }
    return Answer(200, {"pagination": pagination, "results": results})


def repository_json(repository: Repository) -> Json:
    return {
        "creation_date": repository.creation_date,
        "default_branch": repository.default_branch,
        "id": repository.name,
        "read_only": repository.read_only,
        "storage_id": repository.storage_id,
        "storage_namespace": repository.place.namespace,
    }


def commit_json(commit: Commit) -> Json:
    return {
        "committer": commit.committer,
        "creation_date": commit.creation_date // 10**9,
        "generation": commit.generation,
        "id": commit.id,
        "message": commit.message,
        "meta_range_id": commit.meta_range_id,
        "metadata": dict(commit.metadata),
        "parents": list(commit.parents),
        "version": commit.version,
    }


def object_json(path: str, entry: Entry, address: str) -> Json:
    """ObjectStats of an entry. `address`: as it is shown."""
    shown: dict[str, Json] = {
        "checksum": entry.e_tag,
        "content_type": entry.content_type,
        "mtime": entry.last_modified // 10**9,
        "path": path,
        "path_type": "object",
        "physical_address": address,
        "size_bytes": entry.size,
    }
    if entry.metadata:
        shown["metadata"] = dict(entry.metadata)
    return shown


def iso_time(at: float) -> str:
    """A time as task answers show it."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
