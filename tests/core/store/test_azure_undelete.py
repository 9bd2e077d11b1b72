"""A delete of lakegc is taken back on Azure: by soft delete, or by a version.

Azurite has neither. `Keeping` stands before it and answers as Microsoft documents it: lists with `deleted` and
`versions`, Undelete Blob, and copies whose source is a version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest

from lakegc_core.errors import ObjectNotFoundError, PreconditionFailedError
from lakegc_core.store.base import Deleted, ObjectInfo, Store, head_if_there
from tests.support.proxy import Answer, Forward, Request
from tests.support.store_faults import Faulty

KEY, HOUR = "data/ä b", timedelta(hours=1)


@dataclass
class Keeping:
    """An account that keeps what `delete` took. `store` is the same place without it."""

    store: Store
    base: str  # of the names of blobs
    versions: bool
    kept: list[tuple[ObjectInfo, bytes, datetime]] = field(default_factory=list)

    def delete(self, key: str) -> None:
        self.kept.append((self.store.head(key), self.store.read(key), datetime.now(UTC)))
        assert self.store.delete_many([key]) == ["deleted"]

    def __call__(self, request: Request, forward: Forward) -> Answer:
        source = request.header("x-ms-copy-source") or ""
        if request.method == "GET" and "deleted" in request.query.get("include", ""):
            return Answer(200, {"Content-Type": "application/xml"}, self._page().encode())
        if request.method == "PUT" and request.query.get("comp") == "undelete":
            self._put(-1)
            return Answer(200, {}, b"")
        if "versionid" in source:
            assert request.header("If-None-Match") == "*", "never over a blob that shows"
            if head_if_there(self.store, self.kept[-1][0].address) is not None:
                return Answer(409, {"x-ms-error-code": "BlobAlreadyExists"}, b"")
            (version,) = parse_qs(urlsplit(source).query)["versionid"]
            self._put(int(version.partition("#")[2]))
            done = {"ETag": '"0x1"', "x-ms-copy-id": "1", "x-ms-copy-status": "success"}
            return Answer(202, done | {"Last-Modified": format_datetime(datetime.now(UTC), usegmt=True)}, b"")
        return forward(request)

    def _put(self, number: int) -> None:
        self.store.write(self.kept[number][0].address, self.kept[number][1])

    def _page(self) -> str:
        blobs = [self._blob(*each, number) for number, each in enumerate(self.kept)]
        if self.kept and (shown := head_if_there(self.store, self.kept[-1][0].address)):
            blobs.append(self._blob(shown, b"", None, len(self.kept)))
        return f"<EnumerationResults><Blobs>{''.join(blobs)}</Blobs><NextMarker/></EnumerationResults>"

    def _blob(self, info: ObjectInfo, data: bytes, gone_at: datetime | None, number: int) -> str:
        def time(name: str, at: datetime) -> str:
            return f"<{name}>{format_datetime(at, usegmt=True)}</{name}>"

        state = f"<VersionId>2026-11-26T00:00:00Z#{number}</VersionId>" if self.versions else ""
        if gone_at is None:
            state += "<IsCurrentVersion>true</IsCurrentVersion>" if self.versions else ""
        elif not self.versions:
            state += "<Deleted>true</Deleted>"
        times = time("Last-Modified", info.last_modified)
        times += time("DeletedTime", gone_at) if gone_at and not self.versions else ""
        size = f"<Content-Length>{info.size}</Content-Length><Etag>{info.etag}</Etag>"
        return (
            f"<Blob><Name>{escape(self.base + info.address)}</Name>{state}<Properties>{times}{size}</Properties></Blob>"
        )


@pytest.fixture(params=["soft delete", "versions"])
def account(request: pytest.FixtureRequest, faulty_azure: Faulty) -> Keeping:
    """An account that keeps what is deleted, with a deleted blob, and a deleted one whose name begins the same."""
    found = Keeping(faulty_azure.direct, f"{faulty_azure.config.prefix}/", request.param == "versions")
    faulty_azure.direct.write(f"{KEY} too", b"a neighbour")
    faulty_azure.direct.write(KEY, b"first")
    found.delete(f"{KEY} too")
    found.delete(KEY)
    faulty_azure.proxy.hook = found
    return found


def deleted(**changes: object) -> Deleted:
    """A delete of about now."""
    now = datetime.now(UTC)
    fields = {"address": KEY, "size": 5, "written_before": now + HOUR, "since": now - HOUR, "until": now + HOUR}
    return Deleted(**(fields | changes))  # type: ignore[arg-type]


def test_the_blob_shows_again_and_no_other(account: Keeping, faulty_azure: Faulty) -> None:
    faulty_azure.store.undelete(deleted())
    assert faulty_azure.store.read(KEY) == b"first" and head_if_there(faulty_azure.store, f"{KEY} too") is None


def test_a_blob_of_another_size_or_time_stays_deleted_and_so_does_what_others_deleted(
    account: Keeping, faulty_azure: Faulty
) -> None:
    before = datetime.now(UTC) - HOUR / 2
    of_time = () if account.versions else ({"until": before}, {"since": before + HOUR})
    for change in ({"size": 6}, {"written_before": before}, *of_time):
        with pytest.raises(PreconditionFailedError):
            faulty_azure.store.undelete(deleted(**change))
    assert head_if_there(faulty_azure.store, KEY) is None


def test_a_blob_that_somebody_wrote_since_is_left_alone(account: Keeping, faulty_azure: Faulty) -> None:
    faulty_azure.direct.write(KEY, b"other")
    with pytest.raises(PreconditionFailedError, match="an object lies there"):
        faulty_azure.store.undelete(deleted())
    assert faulty_azure.store.read(KEY) == b"other"


def test_a_blob_that_the_account_keeps_no_more_is_missing(account: Keeping, faulty_azure: Faulty) -> None:
    account.kept.pop()
    with pytest.raises(ObjectNotFoundError, match="neither a soft-deleted blob nor a version"):
        faulty_azure.store.undelete(deleted())
