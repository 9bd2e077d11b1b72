"""An S3 server in memory, as plain as S3's documents have it, for dialects that no server at hand speaks.

Here: objects of one bucket, pages of lists, conditions of writes and deletes; no signatures, no rights, no uploads in
parts. What a dialect does otherwise is a hook in front (`s3_dialects`). Servers of `servers.py` are real ones.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import quote_plus, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tests.support.proxy import Answer, Hook, Proxy, Request, pass_on
from tests.support.servers import ACCESS_KEY, SECRET_KEY, S3Server

BUCKET = "lake"
PAGE = 100  # keys, so that tests need few objects to see several pages
_UNKNOWN = ("versioning", "lifecycle", "encryption", "object-lock", "uploads", "partNumber", "uploadId")


@dataclass(frozen=True)
class Stored:
    """One object."""

    data: bytes
    modified: datetime

    @property
    def etag(self) -> str:
        """The content's MD5, in quotes."""
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'

    @property
    def headers(self) -> dict[str, str]:
        """What HEAD shows."""
        modified = format_datetime(self.modified, usegmt=True)
        return {"ETag": self.etag, "Last-Modified": modified, "Content-Length": str(len(self.data))}


def xml(name: str, *fields: str, status: int = 200) -> Answer:
    """A page of S3."""
    body = f"<?xml version='1.0' encoding='UTF-8'?><{name}>{''.join(fields)}</{name}>"
    return Answer(status, {"Content-Type": "application/xml"}, body.encode())


def error(status: int, code: str) -> Answer:
    """A refusal, in S3's form."""
    return xml("Error", f"<Code>{code}</Code><Message>{code}</Message>", status=status)


class FakeS3(Proxy):
    """The server. `hook` stands before it, as before a real one; `forward` answers."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9")
        self.objects: dict[str, Stored] = {}
        self._lock = threading.Lock()

    def forward(self, request: Request) -> Answer:
        """Answer as S3 does."""
        with self._lock:
            answer = self._answer(request)
        date = format_datetime(datetime.now(UTC), usegmt=True)
        return Answer(answer.status, {"Date": date} | answer.headers, answer.body)

    def _answer(self, request: Request) -> Answer:
        bucket, _, key = unquote(urlsplit(request.path).path).lstrip("/").partition("/")
        query = request.query
        if (request.header("Host") or "").startswith(f"{BUCKET}."):
            bucket, key = BUCKET, unquote(urlsplit(request.path).path)[1:]
        if bucket != BUCKET:
            return error(404, "NoSuchBucket")
        if any(name in query for name in _UNKNOWN):
            return error(501, "NotImplemented")
        if key:
            return getattr(self, f"_{request.method.lower()}")(request, key)  # type: ignore[no-any-return]
        if request.method == "POST" and "delete" in query:
            return self._delete_many(request)
        return self._versions(query) if "versions" in query else self._list(query)

    def _put(self, request: Request, key: str) -> Answer:
        old = self.objects.get(key)
        if request.header("If-None-Match") and old:
            return error(412, "PreconditionFailed")
        wanted = request.header("If-Match")
        if wanted and not old:
            return error(404, "NoSuchKey")
        if wanted and old and wanted != old.etag:
            return error(412, "PreconditionFailed")
        data, source = request.body, request.header("x-amz-copy-source")
        if source:
            found = self.objects.get(unquote(source).lstrip("/").partition("/")[2])
            if found is None:
                return error(404, "NoSuchKey")
            data = found.data
        self.objects[key] = Stored(data, datetime.now(UTC))
        etag = self.objects[key].etag
        return xml("CopyObjectResult", f"<ETag>{escape(etag)}</ETag>") if source else Answer(200, {"ETag": etag}, b"")

    def _get(self, request: Request, key: str) -> Answer:
        found = self.objects.get(key)
        return Answer(200, found.headers, found.data) if found else error(404, "NoSuchKey")

    def _head(self, request: Request, key: str) -> Answer:
        found = self.objects.get(key)
        return Answer(200, found.headers, b"") if found else Answer(404, {}, b"")

    def _delete(self, request: Request, key: str) -> Answer:
        code = self._remove(key, request.header("If-Match"))
        return error(404 if code == "NoSuchKey" else 412, code) if code else Answer(204, {}, b"")

    def _remove(self, key: str, etag: str | None) -> str:
        """Delete an object, if it has this ETag, in quotes or without; the code of an error, or "" if there is none."""
        found = self.objects.get(key)
        if etag is not None and found is None:
            return "NoSuchKey"
        if etag is not None and found is not None and etag.strip('"') != found.etag.strip('"'):
            return "PreconditionFailed"
        self.objects.pop(key, None)
        return ""

    def _delete_many(self, request: Request) -> Answer:
        page = ElementTree.fromstring(request.body)
        named = [(each.findtext("{*}Key") or "", each.findtext("{*}ETag")) for each in page.iterfind("{*}Object")]
        if len(named) > 1000:
            return error(400, "MalformedXML")
        rows = []
        for key, etag in named:
            told = f"<Key>{escape(key)}</Key>"
            code = self._remove(key, etag)
            rows.append(f"<Error>{told}<Code>{code}</Code></Error>" if code else f"<Deleted>{told}</Deleted>")
        return xml("DeleteResult", *rows)

    def _list(self, query: dict[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token", query.get("start-after", ""))
        rows: dict[str, str] = {}  # by what pages are cut at: a key or a common prefix
        for key in sorted(self.objects):
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key[: cut + 1] if cut >= 0 else key
            if not key.startswith(prefix) or name <= after or name in rows:
                continue
            if len(rows) == PAGE:
                return self._page(query, rows, more=True)
            rows[name] = _common(name) if cut >= 0 else self._contents(key)
        return self._page(query, rows, more=False)

    def _page(self, query: dict[str, str], rows: dict[str, str], *, more: bool) -> Answer:
        return xml(
            "ListBucketResult",
            f"<Name>{BUCKET}</Name><EncodingType>url</EncodingType><MaxKeys>{PAGE}</MaxKeys>",
            f"<IsTruncated>{str(more).lower()}</IsTruncated><KeyCount>{len(rows)}</KeyCount>",
            f"<NextContinuationToken>{escape(list(rows)[-1])}</NextContinuationToken>" if more else "",
            *rows.values(),
        )

    def _contents(self, key: str) -> str:
        found = self.objects[key]
        return (
            f"<Contents><Key>{quote_plus(key, safe='/')}</Key><LastModified>{_moment(found)}</LastModified>"
            f"<ETag>{escape(found.etag)}</ETag><Size>{len(found.data)}</Size></Contents>"
        )

    def _versions(self, query: dict[str, str]) -> Answer:
        rows = [
            f"<Version><Key>{quote_plus(key, safe='/')}</Key><VersionId>null</VersionId><IsLatest>true</IsLatest>"
            f"<LastModified>{_moment(self.objects[key])}</LastModified></Version>"
            for key in sorted(self.objects)
            if key.startswith(query.get("prefix", ""))
        ]
        head = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
        return xml("ListVersionsResult", head, *rows)


def _common(name: str) -> str:
    return f"<CommonPrefixes><Prefix>{quote_plus(name, safe='/')}</Prefix></CommonPrefixes>"


def _moment(found: Stored) -> str:
    return found.modified.strftime("%Y-%m-%dT%H:%M:%S.") + f"{found.modified.microsecond // 1000:03}Z"


@contextmanager
def fake_s3(hook: Hook = pass_on) -> Iterator[tuple[S3Server, FakeS3]]:
    """A server on a free port of loopback, which speaks S3 with this hook before it."""
    running = FakeS3()
    running.hook = hook
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        yield S3Server(running.endpoint, ACCESS_KEY, SECRET_KEY, BUCKET, Path()), running
    finally:
        running.stop()
        thread.join(10)
