"""How stores that call themselves S3 differ from it: each dialect is a hook before a server, fake or real.

What a store of a dialect can do is said beside it. `refusal`: a word of the one clear error that lakegc ends with,
where it cannot work on such a store; `conditions`: whether the lease can be held there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import quote, unquote

from tests.support.proxy import Answer, Forward, Hook, Request

XML = {"Content-Type": "application/xml"}
MANY = 100  # keys: more than that in one request for deletes are too many for some stores


@dataclass(frozen=True)
class Dialect:
    """One way to differ. `make` gives a hook with a memory of its own; `cannot` names keys that it cannot hold."""

    make: Callable[[], Hook]
    conditions: bool = True
    probed: bool = True  # whether a probe sees that conditions do not work; the first lease and the doctor see it too
    cannot: tuple[str, ...] = ()
    refusal: str = ""


def _is_list(request: Request) -> bool:
    return "list-type" in request.query


def _is_bulk(request: Request) -> bool:
    return request.method == "POST" and "delete" in request.query


def _error(status: int, code: str) -> Answer:
    headers = XML | {"Date": format_datetime(datetime.now(UTC), usegmt=True)}
    return Answer(status, headers, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())


def _when(wanted: Callable[[Request], bool], odd: Callable[[Request, Forward], Answer]) -> Callable[[], Hook]:
    """Another answer to some requests."""
    return lambda: lambda request, forward: odd(request, forward) if wanted(request) else forward(request)


def _pages(pattern: bytes, by: bytes | Callable[[re.Match[bytes]], bytes]) -> Callable[[], Hook]:
    """Something in pages of lists is written otherwise."""

    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        is_page = request.method == "GET" and (_is_list(request) or "versions" in request.query)
        return replace(answer, body=re.sub(pattern, by, answer.body)) if is_page else answer

    return lambda: hook


def _headers(change: Callable[[dict[str, str]], dict[str, str]]) -> Callable[[], Hook]:
    """Headers are written otherwise."""

    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        return replace(answer, headers=change(answer.headers))

    return lambda: hook


def _without(request: Request, *names: str) -> Request:
    return replace(request, headers={k: v for k, v in request.headers.items() if k.lower() not in names})


def _key_count(count: Callable[[int, int], int]) -> Callable[[], Hook]:
    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        told = count(answer.body.count(b"<Contents>"), answer.body.count(b"<CommonPrefixes>"))
        body = re.sub(rb"<KeyCount>\d+", b"<KeyCount>%d" % told, answer.body)
        return replace(answer, body=body) if _is_list(request) else answer

    return lambda: hook


def _free(answer: Answer) -> Callable[[], Hook]:
    """Writes that need the key to be free get this answer, whether or not it is."""
    return _when(lambda request: request.header("If-None-Match") is not None, lambda request, forward: answer)


def _taken(answer: Answer) -> Callable[[], Hook]:
    """Writes that need the key to be free get this answer where it is not."""

    def odd(request: Request, forward: Forward) -> Answer:
        found = forward(request)
        return answer if found.status == 412 else found

    return _when(lambda request: request.header("If-None-Match") is not None, odd)


def _etags(change: Callable[[str], str | None]) -> Callable[[], Hook]:
    """ETags are shown otherwise, in headers and pages; the store still compares its own."""

    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        headers = {name: value for name, value in answer.headers.items() if name != "ETag"}
        shown = change(answer.headers.get("ETag", ""))
        if shown and "ETag" in answer.headers:
            headers["ETag"] = shown

        def tag(found: re.Match[bytes]) -> bytes:
            told = change(found[1].decode())
            return f"<ETag>{told}</ETag>".encode() if told else b""

        is_page = answer.headers.get("Content-Type") == "application/xml"
        body = re.sub(rb"<ETag>(.*?)</ETag>", tag, answer.body) if is_page else answer.body
        return replace(answer, headers=headers, body=body)

    return lambda: hook


def _one_conflict() -> Hook:
    left = iter([True])

    def hook(request: Request, forward: Forward) -> Answer:
        if request.header("If-None-Match") is not None and next(left, False):
            return _error(409, "ConditionalRequestConflict")
        return forward(request)

    return hook


def _bulk(answer: Answer) -> Callable[[], Hook]:
    """Deletes of many keys are taken and not carried out."""
    return _when(_is_bulk, lambda request, forward: answer)


def _quiet(request: Request, forward: Forward) -> Answer:
    answer = forward(request)
    return replace(answer, body=re.sub(rb"<Deleted>.*</Deleted>", b"", answer.body))


def _half(request: Request, forward: Forward) -> Answer:
    """Carries out the deletes of every second key alone, and names those alone."""
    keys = re.findall(rb"<Object>.*?</Object>", request.body)
    return forward(replace(request, body=b"<Delete>%s</Delete>" % b"".join(keys[::2])))


def _few(request: Request, forward: Forward) -> Answer:
    return _error(400, "MalformedXML") if request.body.count(b"<Object>") > MANY else forward(request)


def _folded(request: Request, forward: Forward) -> Answer:
    def fold(text: str) -> str:
        return quote(re.sub("//+", "/", unquote(text)), safe="/")

    path, mark, query = request.path.partition("?")
    headers = {k: fold(v) if k.lower() == "x-amz-copy-source" else v for k, v in request.headers.items()}
    body = re.sub(rb"(?<=<Key>).*?(?=</Key>)", lambda key: re.sub(rb"//+", b"/", key[0]), request.body)
    changed = replace(request, path=fold(path) + mark + query, headers=headers)
    return forward(replace(changed, body=body) if _is_bulk(request) else changed)


def _dots(request: Request) -> bool:
    return bool({".", ".."} & set(unquote(request.path.partition("?")[0]).split("/")))


def _virtual_only(request: Request, forward: Forward) -> Answer:
    named = (request.header("Host") or "").startswith("lake.")
    return forward(request) if named else _error(403, "SecondLevelDomainForbidden")


_ODD_WRITE = Answer(204, {}, b"")

DIALECTS = {
    "S3 itself": Dialect(lambda: lambda request, forward: forward(request)),
    "KeyCount without prefixes": Dialect(_key_count(lambda keys, prefixes: keys)),
    "KeyCount missing": Dialect(_pages(rb"<KeyCount>\d+</KeyCount>", b"")),
    "KeyCount always zero": Dialect(_key_count(lambda keys, prefixes: 0)),
    "304 where the key is taken": Dialect(_taken(Answer(304, {}, b""))),
    "304 to every If-None-Match": Dialect(_free(Answer(304, {}, b"")), conditions=False, probed=False),
    "400 to If-None-Match": Dialect(_free(_error(400, "InvalidArgument")), conditions=False),
    "501 to If-None-Match": Dialect(_free(_error(501, "NotImplemented")), conditions=False),
    "ignores If-None-Match": Dialect(
        lambda: lambda request, forward: forward(_without(request, "if-none-match")), conditions=False
    ),
    "ignores If-Match": Dialect(lambda: lambda request, forward: forward(_without(request, "if-match")), False),
    "412 to every If-Match": Dialect(
        _when(lambda request: request.header("If-Match") is not None, lambda *_: _error(412, "PreconditionFailed")),
        conditions=False,
    ),
    "one 409 at the first condition": Dialect(_one_conflict),
    "weak ETags": Dialect(_etags(lambda etag: f"W/{etag}")),
    "unquoted ETags": Dialect(_etags(lambda etag: etag.strip('"'))),
    "no ETags": Dialect(_etags(lambda etag: None), conditions=False),
    "versions without an id": Dialect(_pages(rb"<VersionId>null</VersionId>", b"")),
    "no encoding of keys": Dialect(
        _pages(
            rb"<EncodingType>url</EncodingType>|(?<=<Key>).*?(?=</Key>)|(?<=<Prefix>).*?(?=</Prefix>)",
            lambda found: b"" if found[0].startswith(b"<") else _plain(found[0]),
        ),
        cannot=("control",),
    ),
    "quiet whatever is asked": Dialect(_when(_is_bulk, _quiet)),
    "204 to deletes of many": Dialect(_bulk(Answer(204, {}, b""))),
    "202 to deletes of many": Dialect(_bulk(Answer(202, {}, b""))),
    "206 to deletes of many": Dialect(_bulk(Answer(206, {}, b""))),
    "empty 200 to deletes of many": Dialect(_bulk(Answer(200, {}, b""))),
    "half of a DeleteResult": Dialect(_when(_is_bulk, _half)),
    "no deletes of many": Dialect(_bulk(_error(501, "NotImplemented"))),
    "deletes of few": Dialect(_when(_is_bulk, _few)),
    "times without fractions": Dialect(_pages(rb"\.\d+Z</LastModified>", b"Z</LastModified>")),
    "a//b is a/b": Dialect(lambda: _folded, cannot=("double slash",)),
    "no dot segments": Dialect(_when(_dots, lambda *_: _error(400, "InvalidURI"))),
    "no IsTruncated": Dialect(_pages(rb"<IsTruncated>\w+</IsTruncated>", b""), refusal="whether it is the last one"),
    "no NextContinuationToken": Dialect(
        _pages(rb"<NextContinuationToken>.*?</NextContinuationToken>", b""), refusal="but not where"
    ),
    "200 with an error in the list": Dialect(
        _when(_is_list, lambda *_: replace(_error(200, "InternalError"))), refusal="InternalError"
    ),
    "no date": Dialect(_headers(lambda headers: headers | {"Date": ""}), refusal="send the header Date"),
    "204 to writes": Dialect(
        _when(lambda request: request.method == "PUT", lambda *_: _ODD_WRITE), refusal="no answer of S3"
    ),
    "virtual-hosted style only": Dialect(lambda: _virtual_only, refusal="addressing_style = virtual"),
}


def _plain(encoded: bytes) -> bytes:
    """A key as it stands in XML when nobody asked to encode it."""
    plain = unquote(encoded.decode().replace("+", " ")).encode()
    return plain.replace(b"&", b"&amp;").replace(b"<", b"&lt;").replace(b">", b"&gt;")
