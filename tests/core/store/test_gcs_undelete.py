"""A delete of lakegc is taken back on Google Cloud Storage: of noncurrent objects, and of soft-deleted ones."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
import requests

from lakegc_core.errors import ObjectNotFoundError, PreconditionFailedError
from lakegc_core.store.base import Deleted, Store, head_if_there
from lakegc_core.store.gcs.undelete import SOFT_DELETED, read_kept
from tests.support.gcs_server import GCSServer
from tests.support.proxy import Answer, Forward, Request
from tests.support.store_faults import Faulty

KEY, HOUR = "data/ä b", timedelta(hours=1)


def soft_delete(request: Request, forward: Forward, before: int = 0) -> Answer | None:
    """Soft delete as Google documents it, over the noncurrent objects of the emulator, which has no soft delete. The
    bucket had versioning `before` this generation."""
    path, query = urlsplit(request.path).path, request.query
    if request.method == "GET" and path.endswith("/o") and {"softDeleted", "versions"} & query.keys():
        asked = urlencode({**{name: query[name] for name in ("prefix",)}, "versions": "true"})
        page = json.loads(forward(replace(request, path=f"{path}?{asked}")).body)
        items: list[dict[str, Any]] = page.pop("items", [])
        soft = "softDeleted" in query
        found = [
            each | {"softDeleteTime": each["timeDeleted"]} if soft else each
            for each in items
            if ("timeDeleted" in each and int(each["generation"]) >= before) is soft
        ]
        return Answer(200, {"Content-Type": "application/json"}, json.dumps(page | {"items": found}).encode())
    if request.method == "POST" and path.endswith("/restore"):
        place = path.removesuffix("/restore")
        if query["ifGenerationMatch"] == "0" and forward(replace(request, method="GET", path=place)).status == 200:
            return Answer(412, {"Content-Type": "application/json"}, b'{"error": {"message": "it is there"}}')
        target = f"{place}/rewriteTo{place.partition('/storage/v1')[2]}?sourceGeneration={query['generation']}"
        answer = forward(replace(request, path=target, body=b"{}"))
        return replace(answer, body=json.dumps(json.loads(answer.body)["resource"]).encode())
    return forward(request)


@pytest.fixture(params=["versions", "soft delete"])
def store(request: pytest.FixtureRequest, faulty_gcs: Faulty, gcs: GCSServer) -> Store:
    """A bucket that keeps what is deleted, with one object and a neighbour whose name begins the same."""
    bucket = f"keeps-{uuid.uuid4().hex[:8]}"
    made = requests.post(
        f"{gcs.endpoint}/storage/v1/b?project=none",
        json={"name": bucket, "versioning": {"enabled": True}},
        timeout=60,
    )
    made.raise_for_status()
    if request.param == "soft delete":
        faulty_gcs.proxy.hook = soft_delete
    found: Store = replace(faulty_gcs.config, bucket=bucket).connect()
    found.write(KEY, b"first")
    found.write(f"{KEY} too", b"a neighbour")
    return found


def deleted(**changes: Any) -> Deleted:
    """A delete of about now."""
    now = datetime.now(UTC)
    return replace(Deleted(KEY, len(b"first"), now + HOUR, now - HOUR, now + HOUR), **changes)


def test_the_object_shows_again_and_no_other(store: Store, faulty_gcs: Faulty) -> None:
    store.delete_many([KEY, f"{KEY} too"])
    store.undelete(deleted())
    assert store.read(KEY) == b"first" and head_if_there(store, f"{KEY} too") is None
    written = [each for each in faulty_gcs.proxy.requests if each.method == "POST" and quote(KEY, safe="") in each.path]
    assert written[-1].query["ifGenerationMatch"] == "0", "which the emulator does not heed: never over a live object"


def test_a_delete_of_another_time_and_an_object_of_another_size_stay_deleted(store: Store) -> None:
    store.delete_many([KEY])
    before = datetime.now(UTC) - HOUR / 2
    for change in ({"until": before}, {"since": before + HOUR}, {"size": 6}, {"written_before": before}):
        with pytest.raises(PreconditionFailedError):
            store.undelete(deleted(**change))
    assert head_if_there(store, KEY) is None


def test_what_was_written_since_is_left_alone_also_if_it_was_deleted_again(store: Store) -> None:
    store.delete_many([KEY])
    cutoff = datetime.now(UTC)
    store.write(KEY, b"other")
    store.delete_many([KEY])
    with pytest.raises(PreconditionFailedError, match="not the deleted object"):
        store.undelete(deleted(written_before=cutoff))
    assert head_if_there(store, KEY) is None


@pytest.mark.parametrize("store", ["soft delete"], indirect=True)
def test_what_a_bucket_kept_when_it_had_versioning_does_not_hide_what_it_soft_deletes_now(
    store: Store, faulty_gcs: Faulty
) -> None:
    before = store.write(KEY, b"older, of another size")
    store.delete_many([KEY])
    store.write(KEY, b"first")
    faulty_gcs.proxy.hook = partial(soft_delete, before=int(before) + 1)
    store.delete_many([KEY])
    store.undelete(deleted())
    assert store.read(KEY) == b"first"
    with pytest.raises(PreconditionFailedError, match="an object lies there"):
        store.undelete(deleted())


def test_a_bucket_that_takes_no_question_for_what_is_soft_deleted_keeps_nothing(
    store: Store, faulty_gcs: Faulty
) -> None:
    hook = faulty_gcs.proxy.hook
    refused = Answer(400, {"Content-Type": "application/json"}, b'{"error": {"message": "there is no such policy"}}')
    faulty_gcs.proxy.hook = lambda request, forward: (
        refused if "softDeleted" in request.query else hook(request, forward)
    )
    with pytest.raises(ObjectNotFoundError, match="keeps no generation"):
        store.undelete(deleted(address="data/never"))


def test_what_soft_delete_gave_back_is_as_old_as_marks_see_it() -> None:
    """Google creates it anew, and need not move `updated`: a mark may find it old at once."""
    times = {"timeCreated": "2026-11-07T00:00:00Z", "updated": "2026-11-01T00:00:00Z"}
    found = {"name": KEY, "size": "5", "generation": "1", "softDeleteTime": "2026-11-08T00:00:00Z"}
    for first, second in (times.values(), reversed(times.values())):
        (kept,) = read_kept({"items": [found | {"timeCreated": first, "updated": second}]}, KEY, SOFT_DELETED, "here")
        assert kept.written == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(("more", "gone_at"), [({}, 9), ({"timeDeleted": "2026-11-02T00:00:00Z"}, 2)])
def test_what_a_lifecycle_rule_took_later_was_deleted_when_it_became_noncurrent(
    more: dict[str, str], gone_at: int
) -> None:
    """In a bucket with Object Versioning and soft delete."""
    written = dict.fromkeys(("timeCreated", "updated"), "2026-11-01T00:00:00Z")
    found = {"name": KEY, "size": "5", "generation": "1", **written}
    page = {"items": [found | {"softDeleteTime": "2026-11-09T00:00:00Z"} | more]}
    (kept,) = read_kept(page, KEY, SOFT_DELETED, "here")
    assert kept.gone_at == datetime(2026, 11, gone_at, tzinfo=UTC)


def test_an_object_that_never_was_or_that_is_kept_no_more_is_missing(store: Store) -> None:
    with pytest.raises(ObjectNotFoundError, match="keeps no generation"):
        store.undelete(deleted(address="data/never"))
