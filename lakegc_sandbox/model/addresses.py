"""The address that lakeFS shows of an entry, or its words where it cannot resolve the entry's own."""

from __future__ import annotations

import json
import posixpath

from lakegc_core.policy.places import parse
from lakegc_sandbox.files.graveler_writer import FULL, RELATIVE, Entry
from lakegc_sandbox.model.objects import Place
from lakegc_sandbox.model.refs import SandboxError

_SHOWN_SCHEMES = {"http": "https", "memory": "mem"}
_SCHEMES = ("s3", "mem", "memory", "local", "gs", "http", "https")


def shown_address(place: Place, entry: Entry, *, refusal: int = 500) -> str:
    """The full address of an entry, as lakeFS shows it. SandboxError if lakeFS cannot resolve it: see `resolve`.

    Full addresses on `local` come out with the base folder twice, as in lakeFS.
    """
    if entry.address_type == RELATIVE:
        return place.qualify(entry.address)
    if entry.address_type == FULL:
        resolve(place, entry.address, refusal=refusal)
    if place.local_base is not None:
        return f"local://{place.local_base}/{entry.address.removeprefix('local://').lstrip('/')}"
    return _resolved(entry.address)


def _resolved(address: str) -> str:
    """An address as lakeFS spells it: without user info and query, decoded if it is written in the usual encoding."""
    url = parse(address)
    if url is None or url.scheme not in _SCHEMES:
        return address
    key = url.raw.removeprefix("/")
    place = f"{url.host}/{key}" if url.host else key.removeprefix("/")
    return f"{_SHOWN_SCHEMES.get(url.scheme, url.scheme)}://{place}"


def resolve(place: Place, address: str, *, refusal: int) -> None:
    """SandboxError in lakeFS's words if lakeFS cannot resolve a full address.

    `refusal`: the status where that counts as a mistake of the caller, 500 in listings. What is no URL gets 500 always.
    """
    url = parse(address)
    if url is None:
        why = 'invalid URL escape "%"' if "%" in address else "invalid URI for request" if address else "empty url"
        raise SandboxError(500, f"could not parse URI: parse {json.dumps(address, ensure_ascii=False)}: {why}")
    if url.scheme not in _SCHEMES:
        raise SandboxError(refusal, f"invalid storage scheme {url.scheme}: invalid address")
    if place.namespace.startswith("gs://") and url.scheme != "gs":
        raise SandboxError(refusal, "expected storage type gs: invalid address")
    if place.local_base is not None and address.startswith("local://"):
        path = address.removeprefix("local://")
        if not path.startswith("/") or posixpath.normpath(path) != path:
            raise SandboxError(500, "bad path traversal blocked")
        if not path.startswith(place.local_base):
            raise SandboxError(500 if refusal == 500 else 403, "forbidden")
