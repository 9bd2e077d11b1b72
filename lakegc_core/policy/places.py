"""The place to which lakeFS would resolve a namespace or an address: the one reading of every name. Pure.

lakeFS parses with Go's `net/url` and joins by rules of each blockstore, so that many spellings name one place. Whoever
asks "is this mine, whose is it, do these overlap, where do I write" asks here. A name that lakeFS would refuse to
resolve has no place (`place_of` is None); `readings` then tells everything that it may be.
`tests/core/policy/spellings` holds what a real lakeFS made of each spelling.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

S3, GS, AZURE, LOCAL = "s3", "gs", "azure", "local"
KINDS = {"s3": S3, "gs": GS, "http": AZURE, "https": AZURE, "local": LOCAL}
"""The kind of store by scheme."""

ANYWHERE = "*"
"""Stands for a bucket that a spelling does not tell."""

ALIAS = r"(?:-s3alias|--(?:op|ol|xa)-s3|\.mrap)"
"""The end of the alias of an access point, which S3 takes in the place of a bucket's name. AWS alone knows of which."""

ODD_SEGMENTS = r"(?s)(^|/)\.{0,2}(/|$)|\\"
"""Paths that some store, or a client on the way, may fold: they have an empty, a `.` or a `..` segment, or a backslash,
which is a slash to Azure's clients and to SeaweedFS."""

ODD_PATH = r"(?s)^[^/?]*//[^/]*.*([%?\\]|/\.{0,2}(/|$))"
"""Full addresses whose path has several readings: it has escapes, a query, a backslash or odd segments."""

NAMES_A_SCHEME = r"^[A-Za-z][A-Za-z0-9+.-]*:"

_KNOWN = {*KINDS, "mem", "memory"}  # to lakeFS; on S3 it does not look which of them an address names
_GO_PATH_SAFE = "$&+,/:;=@-_.~"  # what Go's URL type leaves unescaped in a path
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_HOST = re.compile(r"""(?:[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>"]|[^\x00-\x7f]|%[89A-Fa-f][0-9A-Fa-f]|%25)*""", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_PORT = re.compile(r":[0-9]*", re.ASCII)
_BUCKET = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_SLASH_AND_DOT = np.frombuffer(b"/.", np.uint8)
_HEAD = re.compile(r"(?s)(?:[^/?:]*:)?/*([^/?]*)[/?]?(.*)")


@dataclass(frozen=True)
class Url:
    """A URL as Go's `url.ParseRequestURI` takes it apart. `host`: without user info, with a port. `raw`: the path as
    lakeFS uses it, decoded only where it is written in the usual encoding; `path`: decoded."""

    scheme: str
    host: str
    raw: str
    path: str


@dataclass(frozen=True)
class Place:
    """A place in a store. `bucket`: the bucket; on Azure the account; "" on local. `key`: without leading slash; on
    Azure it begins with the container; on local it is the path below the server's folder, or an absolute one."""

    kind: str
    bucket: str
    key: str

    @property
    def store(self) -> tuple[str, str]:
        """Values that places share if they may lie in one store: the kind, and the bucket without a port, in lower
        case."""
        return self.kind, self.bucket.partition(":")[0].lower()


def parse(text: str) -> Url | None:
    """The parts of a text by Go's `url.ParseRequestURI`; None if that refuses the text."""
    if not text or _CONTROL.search(text):
        return None
    if text == "*":
        return Url("", "", "*", "*")
    scheme, rest = "", text
    if found := _SCHEME.match(text):
        scheme, rest = found[1].lower(), text[found.end() :]
    elif text.startswith(":"):
        return None
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        return Url(scheme, "", "", "") if scheme else None  # rootless: opaque to Go
    host = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        user, at, host = authority.rpartition("@")
        if (at and not _USER.fullmatch(user)) or _BAD_ESCAPE.search(user) or not _is_host(scheme, host):
            return None
        host, rest = unquote(host), slash + path
    if _BAD_ESCAPE.search(rest):
        return None
    path = unquote(rest)
    return Url(scheme, host, path if encoded(path) == rest else rest, path)


def encoded(path: str) -> str:
    """A path as Go's URL type encodes it. Only where an address is written so does lakeFS list it decoded."""
    return quote(path, safe=_GO_PATH_SAFE)


def place_of(uri: str, kind: str = "") -> Place | None:
    """The place to which a blockstore of this kind resolves a full address, or the URI of a namespace; None if it does
    not. Without a kind: that of the scheme.

    For a namespace, `key` is the prefix of its keys, as written: `Namespace.path` takes the slash off its end.
    """
    kind = kind or KINDS.get(_scheme_of(uri), "")
    if kind == LOCAL:
        return _local_place(uri)
    url = parse(uri)
    if url is None or not (KINDS.get(url.scheme) == kind or (kind == S3 and url.scheme in _KNOWN)):
        return None
    if kind == AZURE:
        return _azure_place(url)
    bucket, key = url.host, url.raw.removeprefix("/")
    if not bucket:  # the clients of S3 then send the first part of the path in its stead
        bucket, _, key = key.lstrip("/").partition("/")
    return Place(kind, bucket, key) if bucket not in ("", ".", "..") else None


def names_known_place(address: str) -> bool:
    """True if an address is a URL of a kind that lakeFS knows, whatever becomes of it."""
    url = parse(address)
    return url is not None and url.scheme in _KNOWN


def readings(address: str, kind: str) -> Iterator[Place]:
    """Everything that a full address may name on a blockstore of this kind, most likely first; `bucket` ANYWHERE where
    it does not tell which.

    Broader than lakeFS: as written, decoded, cut at a query, without odd segments. Protecting more is free.
    """
    exact = place_of(address, kind)
    found = _HEAD.fullmatch(address)
    assert found is not None  # it matches every text
    authority, rest = found[1].rpartition("@")[2], found[2]
    buckets, paths = ([exact.bucket], [exact.key]) if exact else ([], [])
    buckets += _buckets(authority, kind)
    for path in (rest, rest.partition("?")[0]):
        paths += [path, unquote(path)]
    paths += [path.replace("\\", "/") for path in paths]
    if kind == AZURE:
        paths += [re.sub(r"\?[^/]*", "", path, count=1) for path in paths]  # that of a container, in what is listed
    for bucket in dict.fromkeys(buckets):
        for path in dict.fromkeys(paths):
            yield Place(kind, bucket, path)
            if re.search(ODD_SEGMENTS, path):
                yield Place(kind, bucket, clean(path))


def may_be_any(bucket: str) -> bool:
    """True if the name of a bucket does not tell which bucket it is."""
    return bucket == ANYWHERE or re.search(rf"(?i){ALIAS}$", bucket) is not None


def bucket_of(address: str) -> str:
    """The bucket, or the host on Azure, in which an address may lie: in lower case, without user info and port;
    ANYWHERE if the address does not tell one plainly; "" for a path of local (`local:///…`)."""
    found = _HEAD.fullmatch(address)
    assert found is not None
    host = found[1].rpartition("@")[2].partition(":")[0]
    if _scheme_of(address) == "local":
        return "" if address.startswith("local:///") else host
    return host.lower() if _SCHEME.match(address) and _BUCKET.fullmatch(host) else ANYWHERE


def account_of(host: str) -> str:
    """The storage account of a host on Azure: its first label, whatever domain lakeFS is told to use. The second copy
    of an account is read at a host of its own."""
    return host.partition(":")[0].partition(".")[0].lower().removesuffix("-secondary")


def clean(path: str) -> str:
    """A path without empty and `.` segments, `..` resolved as far as it goes: the rest of a climb is at the front."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif part not in ("", "."):
            kept.append(part)
    return "/".join(kept)


def climbs(path: str) -> bool:
    """True if a cleaned path leads out of where it begins."""
    return path == ".." or path.startswith("../")


def touching(one: str, other: str) -> bool:
    """True if one folder is the other or lies inside it, whatever odd segments they are written with."""
    if climbs(clean(one)) or climbs(clean(other)):
        return True  # where it leads, nobody knows
    mine, theirs = ({f"{path}/".lstrip("/") for path in (each.strip("/"), clean(each))} for each in (one, other))
    return any(a.startswith(b) or b.startswith(a) for a in mine for b in theirs)


def may_have_odd_segments(paths: pa.Array) -> bool:
    """True if any of many paths may have an odd segment, by a search through all their bytes: by far the quickest."""
    written, starts = _written(paths)
    if b"//" in written or b"/." in written or b"\\" in written or (np.diff(starts) == 0).any():
        return True
    letters = np.frombuffer(written, np.uint8)
    first, last = letters[starts[:-1]], letters[starts[1:] - 1]
    return bool(np.isin(first, _SLASH_AND_DOT).any() or (last == _SLASH_AND_DOT[0]).any())


def have(texts: pa.Array, *signs: bytes) -> bool:
    """True if any of many texts has one of the signs."""
    written, _ = _written(texts)
    return any(sign in written for sign in signs)


def _written(texts: pa.Array) -> tuple[bytes, np.ndarray]:
    """All texts, one after the other; and the places where each begins, and where the last one ends."""
    told = texts.cast(pa.string())
    if not len(told):
        return b"", np.zeros(1, np.int32)
    _, offsets, data = told.buffers()
    places = np.frombuffer(offsets, np.int32)[told.offset : told.offset + len(told) + 1]
    return bytes(memoryview(data or b"")[places[0] : places[-1]]), places - places[0]


def _scheme_of(text: str) -> str:
    found = _SCHEME.match(text)
    return found[1].lower() if found else ""


def _is_host(scheme: str, host: str) -> bool:
    """True if Go takes it for a host: the rules of RFC 3986, and where Go's parser departs from them, that parser."""
    if host.startswith("["):
        literal, closed, port = host[1:].rpartition("]")
        return bool(closed) and _is_ipv6(literal) and (not port or bool(_PORT.fullmatch(port)))
    if "[" in host or not _HOST.fullmatch(host):
        return False
    name, colon, port = host.rpartition(":")
    if colon and not (port == "" or _PORT.fullmatch(f":{port}")):
        return False
    return not (":" in name and scheme in ("http", "https"))


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _azure_place(url: Url) -> Place | None:
    account = account_of(url.host)
    container, slash, blob = url.path.strip("/").partition("/")
    container = unquote(container.partition("?")[0])  # a client puts it into a URL as it is
    if not ("." in url.host and account and container) or container in (".", ".."):
        return None
    return Place(AZURE, account, f"{container}{slash}{blob}")


def _local_place(uri: str) -> Place | None:
    """The place on blockstore local, which reads no URL: what follows `local://` is a path, and cleaned."""
    if not uri.startswith("local://"):
        return None
    key = clean(uri.removeprefix("local://"))
    return None if not key or climbs(key) or "\x00" in key else Place(LOCAL, "", key)


def _buckets(authority: str, kind: str) -> list[str]:
    host = authority.partition(":")[0]
    if not _BUCKET.fullmatch(host) or may_be_any(host):
        return [ANYWHERE]
    return [account_of(host)] if kind == AZURE else [host, host.lower()]
