"""Which ETags of listings are digests, and what HEADs of a real S3 server say against it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakegc_core.store.etags import Heads, ask_heads, digest_by_etag
from tests.support.disguise import Disguise
from tests.support.proxy import Answer, Forward, Request
from tests.support.servers import S3Server
from tests.support.store_faults import Faulty

MD5 = "900150983cd24fb0d6963f7d28e17f72"  # of abc


@pytest.mark.parametrize(
    "etag",
    [None, "", f"{MD5}-1", MD5[1:], f"{MD5}0", MD5.upper(), f"{MD5}\n", f'"{MD5}"', "0x8D4BCC2E4835CD0", "g" * 32],
)
def test_an_etag_of_another_form_is_no_digest(etag: str | None) -> None:
    assert digest_by_etag(etag) is None


def test_an_etag_of_32_hex_digits_is_the_digest() -> None:
    assert digest_by_etag(MD5) == f"md5:{MD5}"


def test_what_lakegc_yaml_says_holds_for_a_bucket_and_never_for_a_directory_bucket(seaweed: S3Server) -> None:
    said = seaweed.config("ns", etags_are_md5=True)
    assert said.connect().listed_digests
    assert not replace(said, bucket="lake--use1-az4--x-s3").connect().listed_digests


# --- what HEADs say ---


@pytest.fixture
def bucket(faulty_s3: Faulty) -> Iterator[Faulty]:
    """Three objects on SeaweedFS behind a proxy."""
    for name in "abc":
        faulty_s3.direct.write(f"data/{name}", name.encode())
    yield faulty_s3


def rows(bucket: Faulty) -> list[tuple[str, int, str]]:
    """What a listing shows."""
    return [(row["address"], row["size"], row["etag"]) for batch in bucket.store.list() for row in batch.to_pylist()]


def test_where_every_head_shows_the_listed_digest_nothing_contradicts(bucket: Faulty) -> None:
    assert ask_heads(bucket.store, rows(bucket)) == Heads(3)
    assert ask_heads(bucket.store, []) == Heads()


def test_an_object_under_kms_contradicts_and_is_named(bucket: Faulty) -> None:
    bucket.proxy.hook = Disguise(lambda path: path.endswith("/b"))
    found = ask_heads(bucket.store, rows(bucket))
    assert found.shown == 3 and not found.failure
    assert "/data/b is listed with the ETag" in found.contradiction and "no MD5, as under KMS" in found.contradiction


def test_an_object_under_a_customers_key_contradicts(seaweed: S3Server, bucket: Faulty) -> None:
    where = {"Bucket": seaweed.bucket, "Key": f"{bucket.config.prefix}/data/b", "Body": b"b"}
    seaweed.client().put_object(**where, SSECustomerAlgorithm="AES256", SSECustomerKey="k" * 32)
    found = ask_heads(bucket.store, rows(bucket))
    assert "/data/b is listed with the ETag" in found.contradiction and "a customer's key" in found.contradiction


def test_another_etag_at_head_than_in_the_listing_contradicts(bucket: Faulty) -> None:
    """As gateways have it that list something else than digests."""
    disguise = Disguise(lambda path: path.endswith("/c"))

    def listings(request: Request, forward: Forward) -> Answer:
        return disguise(request, forward) if "list-type" in request.query else forward(request)

    bucket.proxy.hook = listings
    found = ask_heads(bucket.store, rows(bucket))
    shown = hashlib.md5(b"c", usedforsecurity=False).hexdigest()
    assert "/data/c is listed with" in found.contradiction and found.contradiction.endswith(f"HEAD shows {shown}.")


def test_what_was_written_over_or_deleted_since_says_nothing(bucket: Faulty) -> None:
    listed = rows(bucket)
    bucket.direct.write("data/a", b"longer")
    bucket.direct.delete_many(["data/b"])
    assert ask_heads(bucket.store, listed) == Heads(1)


@pytest.mark.parametrize("status", [403, 500])
def test_a_head_that_fails_contradicts_nothing(bucket: Faulty, status: int) -> None:
    listed = rows(bucket)
    bucket.proxy.hook = lambda request, forward: (
        Answer(status, {}, b"") if request.path.endswith(("/a", "/b")) else forward(request)
    )
    found = ask_heads(bucket.store, listed)
    assert (found.shown, found.contradiction) == (1, "") and str(status) in found.failure


def test_a_store_that_answers_400_to_everything_contradicts_nothing(bucket: Faulty) -> None:
    listed = rows(bucket)
    bucket.proxy.hook = lambda request, forward: Answer(400, {}, b"")
    found = ask_heads(bucket.store, listed)
    assert (found.shown, found.contradiction) == (0, "") and "400" in found.failure
