"""A proxy's hook before a real S3 server that shows ETags as encryption with KMS does.

S3 gives an object under SSE-KMS (or DSSE-KMS, SSE-C) an ETag of 32 hex digits that is no digest of its content: it
differs for identical objects, and a listing does not say which kind it shows. HEAD does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html import unescape
from urllib.parse import unquote, urlsplit

from tests.support.proxy import Answer, Forward, Request

_CONTENTS = re.compile(r"<Contents>.*?</Contents>", re.S)
_KEY = re.compile(r"<Key>(.*?)</Key>", re.S)
_ETAG = re.compile(r"<ETag>(.*?)</ETag>", re.S)
_HEADERS = {"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-aws-kms-key-id": "arn:aws:kms:k"}


@dataclass
class Disguise:
    """The hook. `encrypted` says of the path of an object (`bucket/key`) whether it is under KMS; data alone may be.

    What is encrypted shows so in listings and in the answers to PUT, GET and HEAD.
    """

    encrypted: Callable[[str], bool]
    shown: set[str] = field(default_factory=set)  # objects whose ETag was disguised in a listing

    def __call__(self, request: Request, forward: Forward) -> Answer:
        url = urlsplit(request.path)
        path = unquote(url.path).lstrip("/")
        answer = forward(request)
        if answer.status >= 300:
            return answer
        if request.method == "GET" and "list-type" in request.query:
            return replace(answer, body=self._listing(path.rstrip("/"), answer.body.decode()).encode())
        if (
            request.method not in ("GET", "HEAD", "PUT")
            or not self._applies(path)
            or request.header("x-amz-copy-source")
        ):
            return answer
        headers = {
            name: f'"{self.etag(path, value)}"' if name.lower() == "etag" else value
            for name, value in answer.headers.items()
        }
        return replace(answer, headers=headers | _HEADERS)

    def etag(self, path: str, real: str) -> str:
        """The ETag of an object under KMS: always the same for one object, of one kind with what the store says."""
        _, dash, parts = real.strip('"').partition("-")
        return hashlib.md5(f"under KMS {path}".encode(), usedforsecurity=False).hexdigest() + dash + parts

    def _applies(self, path: str) -> bool:
        return "/data/" in path and self.encrypted(path)

    def _listing(self, bucket: str, page: str) -> str:
        def disguised(found: re.Match[str]) -> str:
            contents = found.group()
            key, real = _KEY.search(contents), _ETAG.search(contents)
            assert key is not None and real is not None
            path = f"{bucket}/{unquote(unescape(key[1]))}"
            if not self._applies(path):
                return contents
            self.shown.add(path)
            etag = self.etag(path, unescape(real[1]))
            return contents.replace(real.group(), f"<ETag>&quot;{etag}&quot;</ETag>")

        return _CONTENTS.sub(disguised, page)
