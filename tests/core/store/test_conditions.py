"""Deletes that name an ETag: what a store proves of them, and what becomes of an object that was written over.

SeaweedFS and Azurite keep to such conditions. AWS's own way with them is that of `fake_s3`, by S3's documents; Google's
that of the server before the emulator, which by itself passes them over, as rclone does.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import Any

import pytest

from lakegc_core.store.base import DELETE_PROBES, Store
from tests.core.store.conftest import KINDS, Place
from tests.support.fake_s3 import error, fake_s3
from tests.support.gcs_server import GCSServer
from tests.support.proxy import Answer, Forward, Hook, Request, answer_lost, failing, pass_on
from tests.support.s3_dialects import DIALECTS
from tests.support.servers import S3Server
from tests.support.store_faults import Faulty, delete_result

KEEP_TO_THEM = ("seaweedfs", "azurite", "gcs")
MANY, ONE = "a delete of many objects", "a delete of one object"
WRONG_TAKEN = "that named another ETag deleted the object"
OWN = "that named the object's own ETag, as it was listed, was answered with"


def etags(store: Store, *keys: str) -> dict[str, str]:
    """The ETags of these keys, as a listing has them."""
    rows = [row for batch in store.list() for row in batch.to_pylist()]
    return {row["address"]: row["etag"] for row in rows if row["address"] in keys}


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_store_proves_on_both_sides_whether_its_deletes_keep_to_an_etag(place: Place) -> None:
    faults = {"rclone": f"{MANY} {WRONG_TAKEN}", "local": "a file system deletes by name alone"}
    assert place.store.delete_fault() == faults.get(place.kind)
    assert place.addresses() == [], "nothing stays of what was written to find out"


def test_an_emulator_that_passes_over_the_generation_is_found_out(gcs_without_batches: GCSServer) -> None:
    store = gcs_without_batches.config(uuid.uuid4().hex).connect()
    assert store.delete_fault() == f"{ONE} {WRONG_TAKEN}"


@pytest.mark.parametrize("place", KEEP_TO_THEM, indirect=True)
def test_what_was_written_over_since_it_was_listed_stays_and_the_rest_goes(place: Place) -> None:
    store = place.store
    for key in ("data/a", "data/b", "data/gone"):
        store.write(key, b"1")
    named = etags(store, "data/a", "data/b", "data/gone")
    store.write("data/a", b"2")
    store.delete_many(["data/gone"])
    assert store.delete_many(list(named), etags=named) == ["changed", "deleted", "already_gone"]
    assert place.addresses() == ["data/a"] and store.read("data/a") == b"2"
    assert store.delete_many(["data/a"]) == ["deleted"], "without an ETag whatever lies there goes"


def without_etags(request: Request) -> Request:
    """A delete of many objects that names keys alone."""
    return replace(request, body=re.sub(rb"<ETag>.*?</ETag>", b"", request.body))


def without_if_match(request: Request) -> Request:
    headers = {name: value for name, value in request.headers.items() if name.lower() != "if-match"}
    return replace(request, headers=headers) if request.method == "DELETE" else request


def refusing(code: str, status: int = 400) -> Hook:
    """No request of one who names an ETag is taken."""
    return lambda request, forward: (
        error(status, code)
        if b"<ETag>" in request.body or (request.method == "DELETE" and request.header("If-Match"))
        else forward(request)
    )


def misspelt(request: Request, forward: Forward) -> Answer:
    """Compares another spelling of the ETag than it lists."""
    return forward(replace(request, body=re.sub(rb"(?<=<ETag>)", b"0", request.body)))


BELIEFS: dict[str, tuple[Hook, str | None]] = {
    "as AWS documents it": (pass_on, None),
    "passes conditions over": (
        lambda request, forward: forward(without_if_match(without_etags(request))),
        f"{MANY} {WRONG_TAKEN}",
    ),
    "keeps to them for one object, not for many": (
        lambda request, forward: forward(without_etags(request)),
        f"{MANY} {WRONG_TAKEN}",
    ),
    "keeps to them for many objects, not for one": (
        lambda request, forward: forward(without_if_match(request)),
        f"{ONE} {WRONG_TAKEN}",
    ),
    "refuses the element": (
        refusing("MalformedXML"),
        f"{MANY} that named another ETag was answered with failed:NotTogether",
    ),
    "refuses the condition": (
        refusing("NotImplemented", 501),
        f"{MANY} that named another ETag was answered with failed:NotTogether",
    ),
    "compares another spelling than it lists": (misspelt, f"{MANY} {OWN} failed:PreconditionFailed"),
    "lists weak ETags": (DIALECTS["weak ETags"].make(), None),
    "lists unquoted ETags": (DIALECTS["unquoted ETags"].make(), None),
    "lists no ETags": (
        DIALECTS["no ETags"].make(),
        f"{MANY} has no ETag to name: the store lists none that tells one object from another",
    ),
}


@pytest.mark.parametrize("belief", BELIEFS)
def test_no_store_is_believed_that_keeps_to_half_of_it(belief: str) -> None:
    hook, fault = BELIEFS[belief]
    with fake_s3(hook) as (server, running):
        store = server.config("ns").connect()
        assert store.delete_fault() == fault
        kept = [key for key in running.objects if DELETE_PROBES in key]
    assert kept == [], "what was written to try it is gone, also where there is a fault"


def test_a_key_that_may_not_write_there_is_told_so_and_nothing_is_deleted() -> None:
    def forbid(request: Request, forward: Forward) -> Answer:
        return error(403, "AccessDenied") if request.method == "PUT" else forward(request)

    with fake_s3(forbid) as (server, running):
        fault = server.config("ns").connect().delete_fault()
    assert fault is not None and fault.startswith("it could not be tried: ") and "AccessDenied" in fault
    assert not any(request.method in ("POST", "DELETE") for request in running.requests)


@pytest.mark.parametrize(
    ("kind", "key"), [("faulty_s3", "data/a"), ("faulty_s3", "data/a\x01"), ("faulty_azure", "data/a")]
)
def test_a_delete_whose_answer_was_lost_is_not_taken_for_a_change(
    request: pytest.FixtureRequest, kind: str, key: str
) -> None:
    """Once it is repeated there is no object. SeaweedFS, of one key, and Azurite say then that the condition fails."""
    faulty: Faulty = request.getfixturevalue(kind)
    faulty.direct.write(key, b"1")
    named = {key: faulty.direct.head(key).etag or ""}
    faulty.proxy.hook = failing(1, answer_lost)
    assert faulty.store.delete_many([key], etags=named) == ["deleted"]
    faulty.proxy.hook = pass_on
    assert faulty.store.delete_many([key], etags=named) == ["already_gone"], "nothing was in doubt here"


def test_an_object_that_was_written_after_a_lost_delete_stays(faulty_s3: Faulty) -> None:
    faulty_s3.direct.write("data/a", b"1")
    named = etags(faulty_s3.direct, "data/a")

    def written_after(request: Request, forward: Forward) -> None:
        answer_lost(request, forward)
        faulty_s3.direct.write("data/a", b"2")

    faulty_s3.proxy.hook = failing(1, written_after)
    assert faulty_s3.store.delete_many(["data/a"], etags=named) == ["changed"]
    assert faulty_s3.direct.read("data/a") == b"2"


def test_a_store_that_refuses_the_etag_that_it_shows_has_not_said_that_the_object_changed(faulty_s3: Faulty) -> None:
    """As one that spells the ETags of uploads in parts in two ways: nothing is known of the object."""
    faulty_s3.direct.write("data/a", b"1")
    named = etags(faulty_s3.direct, "data/a")
    faulty_s3.proxy.hook = delete_result((f"{faulty_s3.config.prefix}/data/a", "PreconditionFailed"))
    assert faulty_s3.store.delete_many(["data/a"], etags=named) == ["failed:PreconditionFailed"]
    assert faulty_s3.store.delete_many(["data/a"]) == ["failed:PreconditionFailed"], "nobody named an ETag"


def test_a_conflict_is_asked_for_once_more(faulty_s3: Faulty) -> None:
    faulty_s3.direct.write("data/a\x01", b"1")
    faulty_s3.proxy.hook = failing(1, lambda request, forward: error(409, "ConditionalRequestConflict"))
    named = {"data/a\x01": faulty_s3.direct.head("data/a\x01").etag or ""}
    assert faulty_s3.store.delete_many(["data/a\x01"], etags=named) == ["deleted"]


@pytest.mark.parametrize(("for_good", "alone"), [(False, False), (True, False), (True, True)])
def test_where_versions_are_kept_the_one_that_shows_is_compared(
    seaweed: S3Server, monkeypatch: pytest.MonkeyPatch, for_good: bool, alone: bool
) -> None:
    client, bucket = seaweed.client(), f"versioned-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    store: Any = seaweed.config("ns", bucket=bucket, delete_versions=for_good).connect()
    monkeypatch.setattr(store._deletes, "goes_alone", lambda key: alone)
    assert store.delete_fault() is None
    store.write("data/a", b"1")
    first = etags(store, "data/a")
    store.write("data/a", b"2")
    listed = etags(store, "data/a")
    assert store.delete_many(["data/a"], etags=first) == ["changed"] and store.read("data/a") == b"2"
    assert store.delete_many(["data/a"], etags=listed) == ["deleted"]
    assert store.delete_many(["data/a"], etags=listed) == ["already_gone"]
    kept = client.list_object_versions(Bucket=bucket, Prefix="ns/data/").get("Versions", [])
    assert len(kept) == (0 if for_good else 2)
