"""What is peculiar to Google Cloud Storage: its list pages, generations, copies in steps, what a namespace means."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import LakegcError, SettingsError, StoreError
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.factory import config_for
from lakegc_core.store.gcs.store import GCSConfig
from lakegc_core.store.settings import Untold
from tests.support.gcs_server import GCSServer
from tests.support.proxy import Answer, Forward, Request
from tests.support.store_faults import Faulty, answering

JSON = {"Content-Type": "application/json"}
Page = dict[str, Any]


def without(field: str) -> Callable[[Page], Page]:
    """The page whose objects lack a field."""
    return lambda page: page | {"items": [{k: v for k, v in item.items() if k != field} for item in page["items"]]}


# How a list page of three objects can be spoilt, and a word of the error it must give.
PAGES: dict[str, tuple[Callable[[Page], Page], str]] = {
    "an object without a size": (without("size"), "without size"),
    "an object without a time": (without("updated"), "without size"),
    "a size that is none": (
        lambda page: page | {"items": [item | {"size": "many"} for item in page["items"]]},
        "without size",
    ),
    "the same page for ever": (lambda page: page | {"nextPageToken": "again"}, "circles"),
    "names of another place": (
        lambda page: page | {"items": [item | {"name": "elsewhere/x"} for item in page["items"]]},
        "not below",
    ),
    "not called a list": (lambda page: {"items": page["items"]}, "no list"),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_list_page_that_does_not_add_up_is_an_error(faulty_gcs: Faulty, page: str) -> None:
    change, message = PAGES[page]
    for key in ("data/a", "data/b", "data/c"):
        faulty_gcs.direct.write(key, b"")
    assert len(faulty_gcs.listed()) == 3
    faulty_gcs.proxy.hook = faulty_gcs.altering(lambda body: json.dumps(change(json.loads(body))).encode())
    with pytest.raises(LakegcError, match=message):
        faulty_gcs.listed()


def test_conditions_are_made_of_generations(faulty_gcs: Faulty) -> None:
    first = faulty_gcs.store.write("a", b"1", if_absent=True)
    faulty_gcs.store.write("a", b"2", if_match=first)
    written = [request for request in faulty_gcs.proxy.requests if request.method == "POST"]
    assert [request.query.get("ifGenerationMatch") for request in written] == ["0", first]


def test_a_copy_goes_on_until_the_store_says_that_it_is_done(faulty_gcs: Faulty) -> None:
    faulty_gcs.direct.write("data/a", b"1")
    steps: list[str | None] = []

    def step(request: Request, forward: Forward) -> Answer:
        if "/rewriteTo/" not in request.path:
            return forward(request)
        steps.append(request.query.get("rewriteToken"))
        if len(steps) < 3:
            body = {"done": False, "rewriteToken": f"t{len(steps)}", "totalBytesRewritten": "0", "objectSize": "1"}
            return Answer(200, {"Content-Type": "application/json"}, json.dumps(body).encode())
        return forward(request)

    faulty_gcs.proxy.hook = step
    etag = faulty_gcs.store.copy(faulty_gcs.config, "data/a", "data/b")
    assert steps == [None, "t1", "t2"]
    assert faulty_gcs.direct.head("data/b").etag == etag


def test_a_probe_says_for_how_long_deleted_objects_can_be_brought_back(faulty_gcs: Faulty) -> None:
    def soft(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        if request.method != "GET" or "/o" in request.path.partition("/b/")[2]:
            return answer
        bucket = json.loads(answer.body) | {"softDeletePolicy": {"retentionDurationSeconds": "604800"}}
        return Answer(200, answer.headers, json.dumps(bucket).encode())

    faulty_gcs.proxy.hook = soft  # the emulator knows no soft delete
    assert faulty_gcs.store.probe().soft_delete == timedelta(days=7)
    faulty_gcs.proxy.hook = lambda request, forward: (
        forward(request) if "/o" in request.path.partition("/b/")[2] else Answer(403, {}, b"")
    )
    probe = faulty_gcs.store.probe()
    assert (probe.soft_delete, probe.versioning, probe.conditional_writes) == (None, None, True)


@pytest.mark.parametrize("reason", ["retentionPolicyNotMet", "objectUnderActiveHold"])
def test_a_write_that_a_lock_refuses_is_an_error_that_says_where_the_workspace_belongs(
    faulty_gcs: Faulty, reason: str
) -> None:
    told = {"error": {"code": 403, "message": "no", "errors": [{"reason": reason}]}}
    faulty_gcs.proxy.hook = answering(Answer(403, JSON, json.dumps(told).encode()))
    with pytest.raises(StoreError, match=f"{reason}: .*put `workspace:` in lakegc.yaml into a place without a lock"):
        faulty_gcs.store.write("lease", b"1")


@pytest.mark.parametrize("error", ["no", {"details": ["x"]}, ["x"]])
@pytest.mark.parametrize("status", [400, 503])
def test_an_error_of_another_form_than_googles_is_an_error_all_the_same(
    faulty_gcs: Faulty, status: int, error: object
) -> None:
    store = faulty_gcs.store
    faulty_gcs.proxy.hook = answering(Answer(status, JSON, json.dumps({"error": error}).encode()))
    asks: list[Callable[[], object]] = [
        faulty_gcs.listed,
        store.clock,
        lambda: store.read("data/a"),
        lambda: store.head("data/a"),
        lambda: store.write("data/a", b""),
        lambda: store.copy(faulty_gcs.config, "data/a", "data/b"),
    ]
    for ask in asks:
        with pytest.raises(StoreError):
            ask()
    assert isinstance(store.settings().versioning, Untold)
    assert store.delete_many(["data/a"]) == [f"failed:{status}"]


def test_reasons_of_another_form_than_googles_are_none(faulty_gcs: Faulty) -> None:
    faulty_gcs.proxy.hook = answering(Answer(400, JSON, b'{"error": {"errors": 5}}'))
    with pytest.raises(StoreError, match="answered 400"):
        faulty_gcs.listed()
    assert faulty_gcs.store.delete_many(["data/a"]) == ["failed:400"]


@pytest.mark.parametrize("key", ["", ".", ".."])
def test_names_that_lead_out_of_the_bucket_are_refused(gcs: GCSServer, key: str) -> None:
    store = gcs.config("").connect()
    for ask in (store.read, store.head, lambda key: store.write(key, b"")):
        with pytest.raises(StoreError):
            ask(key)
    assert store.delete_many([key]) == ["failed:InvalidKey"]


def test_what_is_no_generation_matches_nothing(gcs: GCSServer) -> None:
    store = gcs.config(uuid.uuid4().hex).connect()
    store.write("a", b"1")
    with pytest.raises(StoreError):
        store.write("a", b"2", if_match="0x8D")
    assert store.read("a") == b"1"


def test_without_credentials_the_error_says_where_they_come_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", f"{tmp_path}/none.json")
    with pytest.raises(SettingsError, match="gcloud auth"):
        GCSConfig("bucket").connect()


def test_a_namespace_names_bucket_and_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    namespace, server = Namespace("gs://bucket/some/prefix"), ServerSettings("", "", "")
    assert config_for(namespace, Settings(server=server)) == GCSConfig("bucket", "some/prefix")
    mapped = Settings(server=server, stores=(StoreMapping("gs://bucket", endpoint="http://127.0.0.1:1"),))
    assert config_for(namespace, mapped) == GCSConfig("bucket", "some/prefix", endpoint_url="http://127.0.0.1:1")
