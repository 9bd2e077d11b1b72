"""Deletes on S3: what counts as an answer, key by key, and versions that a delete takes along."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import Any

import pytest

from lakegc_core.names import NO_ANSWER
from lakegc_core.store.base import NOT_ASKED, Store
from lakegc_core.store.pace import Gate
from lakegc_core.store.s3 import versions
from tests.support.proxy import Answer, Forward, Request, answer_lost, failing, pass_on
from tests.support.servers import S3Server
from tests.support.store_faults import NO_RESULT, Faulty, answering, delete_result


def malformed_batch(request: Request, forward: Forward) -> Answer:
    """Refuses DeleteObjects, as for a key no XML can hold; lets all else through."""
    if request.method != "POST":
        return forward(request)
    return Answer(400, {"Content-Type": "application/xml"}, b"<Error><Code>MalformedXML</Code></Error>")


def test_t36_only_the_batch_whose_answer_was_lost_has_none(faulty_s3: Faulty) -> None:
    faulty_s3.proxy.hook = failing(2, answer_lost)
    outcomes = faulty_s3.store.delete_many([f"data/{number}" for number in range(1001)])
    assert outcomes == [NO_ANSWER] * 1000 + ["deleted"]


def test_t35_errors_of_single_keys_are_theirs_alone(faulty_s3: Faulty) -> None:
    prefix = faulty_s3.config.prefix

    keys = ["data/a", "data/b", "data/c"]
    a, b, c = (f"{prefix}/{key}" for key in keys)
    faulty_s3.proxy.hook = delete_result((a, ""), (b, "AccessDenied"), (c, "NoSuchKey"))
    assert faulty_s3.store.delete_many(keys) == ["deleted", "failed:AccessDenied", "already_gone"]
    faulty_s3.proxy.hook = failing(1, delete_result((a, ""), (b, "SlowDown"), (c, "")))
    assert faulty_s3.store.delete_many(keys) == ["deleted"] * 3
    assert b"data/a" not in faulty_s3.proxy.requests[-1].body  # only what failed is asked for again


@pytest.mark.parametrize(
    "named",
    [
        [],
        [("a", "")],
        [("a", ""), ("elsewhere", "AccessDenied")],
        [("a", ""), ("b", ""), ("b", "AccessDenied")],
        [("A", ""), ("b ", "")],
    ],
)
def test_keys_that_a_delete_result_does_not_name_are_asked_for_one_by_one(
    faulty_s3: Faulty, named: list[tuple[str, str]]
) -> None:
    for key in ("data/a", "data/b"):
        faulty_s3.direct.write(key, b"")
    faulty_s3.direct.delete_many(["data/a"])
    faulty_s3.proxy.hook = delete_result(*((f"{faulty_s3.config.prefix}/data/{key}", code) for key, code in named))
    assert faulty_s3.store.delete_many(["data/a", "data/b"]) == ["deleted", "deleted"]
    asked = [request.path.partition("?")[0][-1] for request in faulty_s3.proxy.requests if request.method == "DELETE"]
    assert asked == ([] if ("a", "") in named else ["a"]) + ["b"]
    assert faulty_s3.listed() == []


@pytest.mark.parametrize(("status", "body"), NO_RESULT)
def test_a_success_that_is_no_delete_result_is_no_answer(faulty_s3: Faulty, status: int, body: bytes) -> None:
    """A proxy that answers every request so has deleted nothing."""
    faulty_s3.direct.write("data/a", b"")
    faulty_s3.proxy.hook = lambda request, forward: (
        Answer(status, {"Content-Type": "text/html"}, body) if request.method == "POST" else forward(request)
    )
    assert faulty_s3.store.delete_many(["data/a"]) == ["deleted"] and faulty_s3.listed() == []
    assert [each.method for each in faulty_s3.proxy.requests] == ["POST", "DELETE", "HEAD", "GET"]


@pytest.mark.parametrize("single", [204, 200])
@pytest.mark.parametrize(("status", "body"), NO_RESULT)
def test_who_took_a_request_for_many_and_did_nothing_is_not_believed_about_one_key_either(
    faulty_s3: Faulty, status: int, body: bytes, single: int
) -> None:
    """A proxy that answers every delete so."""
    faulty_s3.direct.write("data/a", b"")
    answers = {"POST": Answer(status, {}, body), "DELETE": Answer(single, {}, b"")}
    faulty_s3.proxy.hook = lambda request, forward: answers.get(request.method) or forward(request)
    assert faulty_s3.store.delete_many(["data/a"]) == ["failed:NotCarriedOut"] and faulty_s3.listed() == ["data/a"]


@pytest.mark.parametrize(("status", "body"), [(202, b""), (206, b""), (200, b"<p>login</p>"), (204, b"")])
def test_a_delete_of_one_key_that_was_not_carried_out_does_not_count_as_done(
    faulty_s3: Faulty, status: int, body: bytes
) -> None:
    key = "data/a\x01"  # no batch can name it
    faulty_s3.direct.write(key, b"")
    odd = Answer(status, {}, body)
    faulty_s3.proxy.hook = lambda request, forward: odd if request.method == "DELETE" else forward(request)
    expected = "deleted" if status == 204 else "failed:NotCarriedOut"  # S3's own answer is believed
    assert faulty_s3.store.delete_many([key]) == [expected]
    faulty_s3.direct.delete_many([key])
    assert faulty_s3.store.delete_many([key]) == ["deleted"], "HEAD shows that it is gone"
    faulty_s3.proxy.hook = answering(odd)
    assert faulty_s3.store.delete_many([key]) == [expected if status == 204 else NO_ANSWER]


def test_a_page_of_anybody_that_says_404_does_not_say_that_an_object_is_gone(faulty_s3: Faulty) -> None:
    faulty_s3.proxy.hook = answering(Answer(404, {"Content-Type": "text/html"}, b""))
    assert faulty_s3.store.delete_many(["data/a\x01"]) == ["failed:404"]


def test_an_address_that_knows_no_bucket_does_not_say_that_all_is_gone(faulty_s3: Faulty) -> None:
    faulty_s3.proxy.hook = answering(Answer(404, {"Content-Type": "text/html"}, b"<p>nothing here</p>"))
    outcomes = faulty_s3.store.delete_many(["data/a", "data/b"])
    assert all(outcome.startswith("failed:") for outcome in outcomes), outcomes


def test_a_batch_the_store_cannot_read_is_deleted_key_by_key(faulty_s3: Faulty) -> None:
    keys = ["data/a", "data/b"]
    for key in keys:
        faulty_s3.direct.write(key, b"")
    faulty_s3.proxy.hook = malformed_batch
    assert faulty_s3.store.delete_many(keys) == ["deleted", "deleted"]
    assert faulty_s3.listed() == []


def test_what_a_store_without_lists_of_versions_still_shows_does_not_count_as_gone(
    seaweed: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = seaweed.config(uuid.uuid4().hex, delete_versions=True).connect()
    store.write("data/a", b"1")
    monkeypatch.setattr(store._deletes, "versions", lambda key, etag: [])
    assert store.delete_many(["data/a", "data/b"]) == ["failed:NoVersions", "already_gone"]


def test_asked_to_it_deletes_every_version_of_a_key_and_of_no_other(seaweed: S3Server) -> None:
    client, bucket = seaweed.client(), f"versioned-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    store = seaweed.config("ns", bucket=bucket, delete_versions=True).connect()
    assert store.probe().versioning is False, "nothing stays of what is deleted"
    for key in ("data/a", "data/a", "data/a,live", "data/b"):
        store.write(key, key.encode())
    client.delete_object(Bucket=bucket, Key="ns/data/b")
    assert store.delete_many(["data/a", "data/b", "data/c"]) == ["deleted", "deleted", "already_gone"]
    left = client.list_object_versions(Bucket=bucket, Prefix="ns/data/")
    assert [each["Key"] for each in left["Versions"]] == ["ns/data/a,live"] and "DeleteMarkers" not in left
    assert store.delete_many(["data/a,live", "no\x01xml"]) == ["deleted", "already_gone"]


def versioned_behind(faulty_s3: Faulty, seaweed: S3Server) -> Store:
    """A store behind the proxy whose bucket keeps versions, and whose deletes take them all; it holds data/a twice."""
    client, bucket = seaweed.client(), f"versioned-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    store: Store = replace(faulty_s3.config, bucket=bucket, prefix="ns", delete_versions=True).connect()
    for content in (b"1", b"2"):
        store.write("data/a", content)
    return store


@pytest.mark.parametrize(("status", "body"), NO_RESULT)
def test_versions_whose_delete_was_not_answered_are_asked_for_one_by_one(
    faulty_s3: Faulty, seaweed: S3Server, status: int, body: bytes
) -> None:
    store = versioned_behind(faulty_s3, seaweed)
    odd = Answer(status, {}, body)
    faulty_s3.proxy.hook = lambda request, forward: odd if request.method in ("POST", "DELETE") else forward(request)
    assert store.delete_many(["data/a"]) == ["failed:NotCarriedOut"]
    faulty_s3.proxy.hook = lambda request, forward: odd if request.method == "POST" else forward(request)
    assert store.delete_many(["data/a"]) == ["deleted"]
    faulty_s3.proxy.hook = pass_on
    assert store.delete_many(["data/a"]) == ["already_gone"]


def test_the_version_that_shows_stays_until_all_others_of_its_key_went(faulty_s3: Faulty, seaweed: S3Server) -> None:
    store: Any = versioned_behind(faulty_s3, seaweed)
    listed = store.client.list_object_versions(Bucket=store._config.bucket, Prefix="ns/data/a")["Versions"]
    old, shown = (next(each for each in listed if each["IsLatest"] is latest) for latest in (False, True))
    sent: list[bytes] = []

    def refuse_old_once(request: Request, forward: Forward) -> Answer:
        if request.method != "POST":
            return forward(request)
        sent.append(request.body)
        if len(sent) > 1:
            return forward(request)
        said = f"<Key>ns/data/a</Key><VersionId>{old['VersionId']}</VersionId><Code>InternalError</Code>"
        xml = {"Content-Type": "application/xml"}
        return Answer(200, xml, f"<DeleteResult><Error>{said}</Error></DeleteResult>".encode())

    faulty_s3.proxy.hook = refuse_old_once
    assert store.delete_many(["data/a"], etags={"data/a": shown["ETag"].strip('"')}) == ["deleted"]
    named = [[each["VersionId"] for each in (old, shown) if each["VersionId"].encode() in body] for body in sent]
    assert named == [[old["VersionId"]], [old["VersionId"]], [shown["VersionId"]]]


@pytest.mark.parametrize("sent_by", ["POST", "DELETE"])
def test_no_version_is_deleted_once_the_gate_has_shut_while_versions_were_listed_or_deleted(
    faulty_s3: Faulty, seaweed: S3Server, monkeypatch: pytest.MonkeyPatch, sent_by: str
) -> None:
    store: Any = versioned_behind(faulty_s3, seaweed)
    monkeypatch.setattr(versions, "_MOST", 1)
    monkeypatch.setattr(store._deletes, "goes_alone", lambda key: sent_by == "DELETE")
    asked = faulty_s3.proxy.requests
    for last, outcome, sent in (("GET", NOT_ASKED, []), (sent_by, NO_ANSWER, [sent_by])):
        asked.clear()
        gate = Gate(may=lambda last=last: not any(each.method == last for each in asked))  # type: ignore[misc]
        assert store.delete_many(["data/a"], gate) == [outcome]
        assert [each.method for each in asked if each.method in ("POST", "DELETE")] == sent
    assert store.delete_many(["data/a"]) == ["deleted"]


@pytest.mark.parametrize(
    "page", [Answer(204, {}, b""), Answer(202, {}, b""), Answer(200, {}, b""), Answer(200, {}, b"<ListBucketResult/>")]
)
def test_an_answer_that_is_no_list_of_versions_does_not_say_that_there_are_none(
    faulty_s3: Faulty, seaweed: S3Server, page: Answer
) -> None:
    store: Any = versioned_behind(faulty_s3, seaweed)
    store.client.delete_object(Bucket=store._config.bucket, Key="ns/data/a")  # HEAD answers 404 from now on
    faulty_s3.proxy.hook = lambda request, forward: page if "versions" in request.query else forward(request)
    assert store.delete_many(["data/a", "data/b\x01"]) == [NO_ANSWER, NO_ANSWER]
    faulty_s3.proxy.hook = pass_on
    assert store.delete_many(["data/a"]) == ["deleted"]


@pytest.mark.parametrize("change", [rb"", rb"<VersionId>null</VersionId>", rb"<VersionId></VersionId>"])
def test_a_version_without_an_id_is_the_one_that_s3_calls_null(faulty_s3: Faulty, change: bytes) -> None:
    store = replace(faulty_s3.config, delete_versions=True).connect()
    store.write("data/a", b"1")

    def without(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        return replace(answer, body=re.sub(rb"<VersionId>.*?</VersionId>", change, answer.body))

    faulty_s3.proxy.hook = without
    assert store.delete_many(["data/a", "data/b"]) == ["deleted", "already_gone"]
    assert faulty_s3.listed() == []
