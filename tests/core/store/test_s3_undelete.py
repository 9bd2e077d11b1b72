"""A delete of lakegc is taken back in a bucket that keeps versions, and nobody else's delete or object is touched."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakegc_core.errors import IncompleteError, LakegcError, ObjectNotFoundError, PreconditionFailedError, StoreError
from lakegc_core.store.base import Deleted, Store, head_if_there
from tests.support.proxy import Answer, Forward, Request
from tests.support.servers import S3Server
from tests.support.store_faults import Faulty

KEY, HOUR = "data/ä b", timedelta(hours=1)


@dataclass(frozen=True)
class Bucket:
    """A bucket that keeps versions, with one object below `ns` and a neighbour whose name begins the same."""

    store: Store
    client: Any
    name: str

    def listed(self, kind: str) -> list[Any]:
        """The `Versions` or `DeleteMarkers` of the object."""
        page = self.client.list_object_versions(Bucket=self.name, Prefix=f"ns/{KEY}")
        return [each for each in page.get(kind, []) if each["Key"] == f"ns/{KEY}"]

    def both(self) -> list[Any]:
        return [*self.listed("Versions"), *self.listed("DeleteMarkers")]


@pytest.fixture
def bucket(seaweed: S3Server) -> Bucket:
    client, name = seaweed.client(), f"versioned-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=name)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    store = seaweed.config("ns", bucket=name).connect()
    store.write(KEY, b"first")
    store.write(f"{KEY} too", b"a neighbour")
    return Bucket(store, client, name)


def deleted(**changes: Any) -> Deleted:
    """A delete of about now."""
    now = datetime.now(UTC)
    return replace(Deleted(KEY, len(b"first"), now + HOUR, now - HOUR, now + HOUR), **changes)


@pytest.mark.parametrize("times", [1, 2])
def test_the_object_shows_again_however_often_its_delete_was_sent(bucket: Bucket, times: int) -> None:
    for _ in range(times):
        bucket.store.delete_many([KEY, f"{KEY} too"])
    bucket.store.undelete(deleted())
    assert bucket.store.read(KEY) == b"first"
    assert head_if_there(bucket.store, f"{KEY} too") is None


def test_a_delete_of_another_time_stays(bucket: Bucket) -> None:
    bucket.store.delete_many([KEY])
    now = datetime.now(UTC)
    for change in ({"until": now - HOUR / 2}, {"since": now + HOUR / 2}):
        with pytest.raises(PreconditionFailedError, match="somebody else deleted it"):
            bucket.store.undelete(deleted(**change))
    assert head_if_there(bucket.store, KEY) is None and len(bucket.listed("DeleteMarkers")) == 1


@pytest.mark.parametrize("gone", [False, True])
def test_what_was_written_since_is_left_alone_also_if_it_was_deleted_again(bucket: Bucket, gone: bool) -> None:
    bucket.store.delete_many([KEY])
    bucket.store.write(KEY, b"other")  # of the same size
    if gone:
        bucket.store.delete_many([KEY])
    before = bucket.both()
    cutoff = min(each["LastModified"] for each in bucket.listed("DeleteMarkers"))
    with pytest.raises(PreconditionFailedError, match="not the deleted object" if gone else "an object lies there"):
        bucket.store.undelete(deleted(written_before=cutoff))
    assert bucket.both() == before


def test_an_object_of_another_size_is_not_the_deleted_one(bucket: Bucket) -> None:
    bucket.store.delete_many([KEY])
    with pytest.raises(PreconditionFailedError, match="5 bytes"):
        bucket.store.undelete(deleted(size=6))
    assert head_if_there(bucket.store, KEY) is None


def test_a_version_that_the_bucket_let_expire_is_missing(bucket: Bucket) -> None:
    bucket.store.delete_many([KEY])
    (version,) = bucket.listed("Versions")
    bucket.client.delete_object(Bucket=bucket.name, Key=version["Key"], VersionId=version["VersionId"])
    with pytest.raises(ObjectNotFoundError, match="no version left"):
        bucket.store.undelete(deleted())


@pytest.mark.parametrize("change", [rb"", rb"<VersionId>null</VersionId>"])
def test_a_delete_marker_that_cannot_be_told_from_a_version_is_never_removed(
    faulty_s3: Faulty, bucket: Bucket, change: bytes
) -> None:
    bucket.store.delete_many([KEY])
    store: Store = replace(faulty_s3.config, bucket=bucket.name, prefix="ns").connect()

    def without(request: Request, forward: Forward) -> Answer:
        assert request.method != "DELETE"
        answer = forward(request)
        return replace(answer, body=re.sub(rb"<VersionId>.*?</VersionId>", change, answer.body))

    faulty_s3.proxy.hook = without
    with pytest.raises(IncompleteError, match="without an id of its own"):
        store.undelete(deleted())
    assert len(bucket.both()) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(200, {}, b"<ListBucketResult/>"), IncompleteError),
        (Answer(204, {}, b""), IncompleteError),
        (Answer(404, {}, b"<Error><Code>NoSuchKey</Code></Error>"), StoreError),
        (Answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>"), StoreError),
    ],
)
def test_a_list_that_was_refused_or_is_none_does_not_say_that_no_version_is_left(
    faulty_s3: Faulty, answer: Answer, error: type[LakegcError]
) -> None:
    faulty_s3.proxy.hook = lambda request, forward: answer if "versions" in request.query else forward(request)
    with pytest.raises(error) as caught:
        faulty_s3.store.undelete(deleted())
    assert not isinstance(caught.value, ObjectNotFoundError)
