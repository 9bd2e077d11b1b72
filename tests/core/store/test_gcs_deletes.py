"""Deletes on Google Cloud Storage: many objects a request, what counts as an answer, and services without that."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from urllib.parse import unquote, urlsplit

import pytest
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.credentials import Credentials

from lakegc_core.names import NO_ANSWER
from lakegc_core.store.base import NOT_ASKED
from lakegc_core.store.gcs.store import GCSConfig, GCSStore
from lakegc_core.store.pace import Gate
from tests.support.gcs_server import GCSServer, Names, serving
from tests.support.proxy import Answer, Forward, Hook, Request, answer_lost, failing, pass_on
from tests.support.store_faults import NO_RESULT, Faulty, answering, answering_many, delete_result

ALONE = "data/a\x01"  # no XML can name it


def asked(requests: Sequence[Request]) -> list[str]:
    """The deletes among some requests: `together`, or the last letter of the one object."""
    return [
        "together" if request.method == "POST" else unquote(urlsplit(request.path).path)[-1]
        for request in requests
        if request.method == "DELETE" or "delete" in request.query
    ]


def altering(change: Callable[[bytes], bytes]) -> Hook:
    """Changes the body of the answer to every delete of many objects."""

    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        return replace(answer, body=change(answer.body)) if "delete" in request.query else answer

    return hook


# Many at once


@pytest.mark.parametrize("objects", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_hundred_thousand_objects_go_in_a_hundred_requests(objects: int) -> None:
    keys = [f"data/{number // 1000:020}/{number:020}" for number in range(objects)]
    with serving(Names([f"ns/{key}" for key in (*keys, "data/left")])) as server:
        outcomes = GCSConfig("lake", "ns", endpoint_url=server.endpoint).connect().delete_many(keys)
        assert outcomes == ["deleted"] * objects and server.names == {"ns/data/left"}
        assert asked(server.requests) == ["together"] * (objects // 1000)
        assert len(server.requests) == objects // 1000


def test_the_request_names_live_objects_to_the_bucket_and_bears_what_the_xml_api_wants(gcs: GCSServer) -> None:
    with serving(Names(["ns/data/a"])) as server:
        config = GCSConfig("lake", "ns", endpoint_url=server.endpoint)
        store = GCSStore(config, config.connect().client, AuthorizedSession(Credentials(token="a token")))
        assert store.delete_many(["data/a"]) == ["deleted"]
        (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/lake?delete")
    assert request.body == b"<Delete><Object><Key>ns/data/a</Key></Object></Delete>", "not quiet, and no generation"
    assert request.header("Authorization") == "Bearer a token"
    digest = base64.b64decode(request.header("Content-MD5") or "")
    assert digest == hashlib.md5(request.body, usedforsecurity=False).digest()
    assert parsedate_to_datetime(request.header("Date") or "") and request.header("Content-Length") == "54"


def test_a_request_that_changed_on_the_way_deletes_nothing(faulty_gcs: Faulty) -> None:
    for key in ("data/a", "data/b"):
        faulty_gcs.direct.write(key, b"")
    faulty_gcs.proxy.hook = lambda request, forward: forward(replace(request, body=request.body.replace(b"/a", b"/b")))
    assert faulty_gcs.store.delete_many(["data/a"]) == ["deleted"]
    assert faulty_gcs.listed() == ["data/b"]


def test_errors_of_single_objects_are_theirs_alone() -> None:
    with serving(Names(["a", "b", "c", "d"])) as server:
        server.errors |= {"b": "AccessDenied", "c": "InternalError"}
        store = GCSConfig("lake", endpoint_url=server.endpoint, max_attempts=2).connect()
        outcomes = store.delete_many(["a", "b", "c", "d", "e"])
        assert outcomes == ["deleted", "failed:AccessDenied", "failed:InternalError", "deleted", "already_gone"]
        assert server.names == {"b", "c"} and asked(server.requests) == ["together"] * 2
        assert server.requests[-1].body.count(b"<Key>") == 1, "only what may go better is asked for again"


def test_an_object_that_is_throttled_by_itself_is_asked_for_again_by_itself(faulty_gcs: Faulty) -> None:
    faulty_gcs.direct.write("data/b", b"")
    a, b = (f"{faulty_gcs.config.prefix}/data/{key}" for key in "ab")
    faulty_gcs.proxy.hook = failing(1, delete_result((a, ""), (b, "SlowDown")))
    assert faulty_gcs.store.delete_many(["data/a", "data/b"]) == ["deleted", "deleted"]
    assert b"data/a" not in faulty_gcs.proxy.requests[-1].body and faulty_gcs.listed() == []


# Names


def test_names_with_marks_of_xml_go_together_and_others_that_xml_may_change_go_alone(faulty_gcs: Faulty) -> None:
    together = ["data/a&b", "data/<a>", "data/]]>", "data/&amp;", "data/\u00e9 \u4e2d\U0001f600", "data/'\""]
    alone = [ALONE, "data/a\nb", "data/a\rb", "data/a\tb", "data/a ", "data/a\u2028", "data/a\u00a0b", "data/a\uffff"]
    others = ["data/a", "data/a b", "data/a&amp;b", "data/&lt;a&gt;"]
    for key in (*together, *alone, *others):
        faulty_gcs.direct.write(key, b"")
    assert faulty_gcs.store.delete_many([*together, *alone]) == ["deleted"] * (len(together) + len(alone))
    assert sorted(faulty_gcs.listed()) == sorted(others)
    assert asked(faulty_gcs.proxy.requests).count("together") == 1
    assert faulty_gcs.store.delete_many(["half a \ud800", "", "data/a"]) == ["failed:InvalidKey"] * 2 + ["deleted"]


def test_a_service_that_trims_names_does_not_delete_another_object(faulty_gcs: Faulty) -> None:
    """Every other test believes that a name in XML is read as it stands."""

    def trimming(request: Request, forward: Forward) -> Answer:
        body = re.sub(rb"<Key>\s*(.*?)\s*</Key>", rb"<Key>\1</Key>", request.body, flags=re.DOTALL)
        kept = {name: value for name, value in request.headers.items() if name not in ("Content-MD5", "Content-Length")}
        return forward(replace(request, body=body, headers=kept | {"Content-Length": str(len(body))}))

    for key in ("data/a", "data/a ", "data/a\n"):
        faulty_gcs.direct.write(key, b"")
    faulty_gcs.proxy.hook = trimming
    assert faulty_gcs.store.delete_many(["data/a ", "data/a\n"]) == ["deleted", "deleted"]
    assert faulty_gcs.listed() == ["data/a"]


# What counts as an answer


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
def test_objects_that_an_answer_does_not_name_are_asked_for_one_by_one(
    faulty_gcs: Faulty, named: list[tuple[str, str]]
) -> None:
    faulty_gcs.direct.write("data/b", b"")
    prefix = faulty_gcs.config.prefix
    faulty_gcs.proxy.hook = delete_result(*((f"{prefix}/data/{key}", code) for key, code in named))
    assert faulty_gcs.store.delete_many(["data/a", "data/b"]) == ["deleted", "deleted"]
    left = ["b"] if ("a", "") in named else ["a", "b"]
    assert sorted(asked(faulty_gcs.proxy.requests)) == [*left, "together"]
    assert faulty_gcs.listed() == []


@pytest.mark.parametrize(("status", "body"), NO_RESULT)
def test_a_success_that_is_no_result_is_no_answer(faulty_gcs: Faulty, status: int, body: bytes) -> None:
    """A proxy that answers every request so has deleted nothing. It is asked for many again, and looked after again."""
    faulty_gcs.proxy.hook = answering_many(Answer(status, {"Content-Type": "text/html"}, body))
    for _ in range(2):
        faulty_gcs.direct.write("data/a", b"")
        faulty_gcs.proxy.requests.clear()
        assert faulty_gcs.store.delete_many(["data/a"]) == ["deleted"]
        assert [each.method for each in faulty_gcs.proxy.requests] == ["POST", "DELETE", "GET"]
    assert faulty_gcs.listed() == []


@pytest.mark.parametrize("single", [204, 200])
@pytest.mark.parametrize(("status", "body"), NO_RESULT)
def test_who_took_a_request_for_many_and_did_nothing_is_not_believed_about_one_object_either(
    faulty_gcs: Faulty, status: int, body: bytes, single: int
) -> None:
    faulty_gcs.direct.write("data/a", b"")
    answers = {"POST": Answer(status, {}, body), "DELETE": Answer(single, {}, b"")}
    faulty_gcs.proxy.hook = lambda request, forward: answers.get(request.method) or forward(request)
    assert faulty_gcs.store.delete_many(["data/a"]) == ["failed:NotCarriedOut"] and faulty_gcs.listed() == ["data/a"]


@pytest.mark.parametrize(("status", "body"), [(202, b""), (206, b""), (200, b"<p>login</p>"), (200, b"{}")])
def test_a_delete_of_one_object_that_was_not_carried_out_is_not_reported_as_done(
    faulty_gcs: Faulty, status: int, body: bytes
) -> None:
    faulty_gcs.direct.write(ALONE, b"")
    odd = Answer(status, {}, body)
    faulty_gcs.proxy.hook = lambda request, forward: odd if request.method == "DELETE" else forward(request)
    assert faulty_gcs.store.delete_many([ALONE, "data/b\x01"]) == ["failed:NotCarriedOut", "deleted"]
    faulty_gcs.proxy.hook = answering(odd)
    assert faulty_gcs.store.delete_many([ALONE, "data/a"]) == [NO_ANSWER, NO_ANSWER]


@pytest.mark.parametrize(
    "fault", [answer_lost, lambda request, forward: replace(forward(request), status=500, body=b"")]
)
def test_a_request_whose_effect_nobody_knows_does_not_count_as_done(faulty_gcs: Faulty, fault: Hook) -> None:
    faulty_gcs.direct.write("data/a", b"")
    faulty_gcs.proxy.hook = fault  # the service carries it out all the same
    assert faulty_gcs.store.delete_many(["data/a"]) == [NO_ANSWER if fault is answer_lost else "failed:500"]
    faulty_gcs.proxy.hook = pass_on
    assert faulty_gcs.store.delete_many(["data/a"]) == ["already_gone"]
    for key in ("data/a", ALONE):
        faulty_gcs.direct.write(key, b"")
        faulty_gcs.proxy.hook = failing(1, fault)
        assert faulty_gcs.store.delete_many([key]) == ["deleted"], "the first request did it"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (503, b"<Error><Code>SlowDown</Code></Error>", "SlowDown"),
        (200, b"<Error><Code>InternalError</Code></Error>", "InternalError"),
        (429, b'{"error": {"code": 429, "errors": [{"reason": "rateLimitExceeded"}]}}', "rateLimitExceeded"),
        (502, b"<p>proxy", "502"),
        (408, b"", "408"),
    ],
)
def test_a_request_that_may_go_better_later_is_made_again_and_not_divided(
    faulty_gcs: Faulty, status: int, body: bytes, code: str
) -> None:
    faulty_gcs.direct.write("data/a", b"")
    later = answering_many(Answer(status, {"Content-Type": "text/plain"}, body))
    faulty_gcs.proxy.hook = later
    assert faulty_gcs.store.delete_many(["data/a"]) == [f"failed:{code}"] and faulty_gcs.listed() == ["data/a"]
    faulty_gcs.proxy.hook = failing(1, later)
    assert faulty_gcs.store.delete_many(["data/a"]) == ["deleted"] and faulty_gcs.listed() == []
    assert asked(faulty_gcs.proxy.requests) == ["together"] * 4


def test_an_object_that_goes_alone_has_the_same_outcomes_where_answers_are_lost_or_put_off(faulty_gcs: Faulty) -> None:
    for hook, outcome in (
        (answer_lost, NO_ANSWER),
        (failing(1, answer_lost), "deleted"),
        (failing(1, faulty_gcs.busy), "deleted"),
        (faulty_gcs.busy, "failed:rateLimitExceeded"),
    ):
        faulty_gcs.direct.write(ALONE, b"")
        faulty_gcs.proxy.hook = hook
        assert faulty_gcs.store.delete_many([ALONE]) == [outcome]
    assert asked(faulty_gcs.proxy.requests) == ["\x01"] * 8


def test_what_a_lost_request_for_many_took_is_ours_though_such_requests_are_then_refused(faulty_gcs: Faulty) -> None:
    faulty_gcs.direct.write("data/a", b"")
    refusing, lost = answering_many(Answer(501, {}, b"")), iter([True])
    faulty_gcs.proxy.hook = lambda request, forward: (answer_lost if next(lost, False) else refusing)(request, forward)
    assert faulty_gcs.store.delete_many(["data/a"]) == ["deleted"]
    assert asked(faulty_gcs.proxy.requests) == ["together", "together", "a"]


# What the service may say otherwise than the other tests believe


def test_an_answer_may_tell_the_generations_that_were_deleted(faulty_gcs: Faulty) -> None:
    faulty_gcs.proxy.hook = altering(
        lambda body: body.replace(b"</Key>", b"</Key><VersionId>1795659091313013</VersionId>")
    )
    faulty_gcs.direct.write("data/a", b"")
    assert faulty_gcs.store.delete_many(["data/a", "data/b"]) == ["deleted", "already_gone"]
    assert asked(faulty_gcs.proxy.requests) == ["together"]


def test_an_object_whose_generations_are_answered_for_in_two_ways_is_asked_for_by_itself(faulty_gcs: Faulty) -> None:
    name = f"<Key>{faulty_gcs.config.prefix}/data/a</Key>"
    rows = f"<Deleted>{name}<VersionId>1</VersionId></Deleted><Error>{name}<Code>AccessDenied</Code></Error>"
    faulty_gcs.proxy.hook = answering_many(Answer(200, {}, f"<DeleteResult>{rows}</DeleteResult>".encode()))
    faulty_gcs.direct.write("data/a", b"")
    assert faulty_gcs.store.delete_many(["data/a"]) == ["deleted"] and faulty_gcs.listed() == []
    assert asked(faulty_gcs.proxy.requests) == ["together", "a"]


def test_a_service_may_call_objects_deleted_that_were_not_there(faulty_gcs: Faulty) -> None:
    faulty_gcs.proxy.hook = altering(
        lambda body: re.sub(rb"<Error>(.*?)<Code>NoSuchKey</Code></Error>", rb"<Deleted>\1</Deleted>", body)
    )
    assert faulty_gcs.store.delete_many(["data/a"]) == ["deleted"]


def test_an_answer_may_bear_a_namespace_and_another_order(faulty_gcs: Faulty) -> None:
    def changed(body: bytes) -> bytes:
        rows = re.findall(rb"<(?:Deleted|Error)>.*?</(?:Deleted|Error)>", body)
        return (
            b"<DeleteResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'>\n"
            + b"\n".join(rows[::-1])
            + b"</DeleteResult>"
        )

    faulty_gcs.proxy.hook = altering(changed)
    faulty_gcs.direct.write("data/b", b"")
    assert faulty_gcs.store.delete_many(["data/a", "data/b"]) == ["already_gone", "deleted"]
    assert asked(faulty_gcs.proxy.requests) == ["together"]


# Services that take no requests for many

_NOT_IMPLEMENTED = b"<?xml version='1.0'?><Error><Code>NotImplemented</Code><Message>no</Message></Error>"
REFUSALS = [
    Answer(501, {"Content-Type": "application/xml"}, _NOT_IMPLEMENTED),
    Answer(200, {"Content-Type": "application/xml"}, _NOT_IMPLEMENTED),
    Answer(400, {}, b"<Error><Code>InvalidArgument</Code></Error>"),
    Answer(400, {"Content-Type": "text/html"}, b"<p>proxy"),
    Answer(405, {}, b"<Error><Code>MethodNotAllowed</Code></Error>"),
    Answer(405, {}, b""),
    Answer(403, {}, b""),
    Answer(404, {"Content-Type": "application/json"}, json.dumps({"error": {"code": 404}}).encode()),
    Answer(302, {"Location": "/login"}, b""),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda answer: f"{answer.status} {answer.body[:12]!r}")
def test_a_service_that_refuses_requests_for_many_is_asked_one_by_one_from_then_on(
    faulty_gcs: Faulty, refusal: Answer
) -> None:
    for key in "abc":
        faulty_gcs.direct.write(f"data/{key}", b"")
    faulty_gcs.proxy.hook = answering_many(refusal)
    assert faulty_gcs.store.delete_many(["data/a", "data/b", "data/x"]) == ["deleted", "deleted", "already_gone"]
    assert faulty_gcs.store.delete_many(["data/c", "data/y"]) == ["deleted", "already_gone"]
    first, *others = asked(faulty_gcs.proxy.requests)
    assert first == "together" and sorted(others) == ["a", "b", "c", "x", "y"]
    assert faulty_gcs.listed() == []


def test_an_emulator_without_requests_for_many_is_asked_one_by_one(gcs_without_batches: GCSServer) -> None:
    store = gcs_without_batches.config(uuid.uuid4().hex).connect()
    keys = [f"data/{number}" for number in range(40)]
    for key in keys:
        store.write(key, b"")
    for _ in range(2):
        outcomes = store.delete_many([*keys, "data/x"])
        assert outcomes == ["deleted"] * 40 + ["already_gone"]
        for key in keys:
            store.write(key, b"")
    assert len([key for batch in store.list() for key in batch.column("address")]) == 40


def test_a_refusal_after_an_answer_concerns_that_request_alone(faulty_gcs: Faulty) -> None:
    """One name may spoil a whole request."""
    assert faulty_gcs.store.delete_many(["data/a"]) == ["already_gone"]
    faulty_gcs.proxy.hook = failing(1, answering_many(REFUSALS[0]))
    assert [faulty_gcs.store.delete_many([f"data/{key}"]) for key in "bc"] == [["already_gone"]] * 2
    assert asked(faulty_gcs.proxy.requests) == ["together", "together", "b", "together"]


def test_objects_are_asked_for_one_by_one_side_by_side(faulty_gcs: Faulty) -> None:
    both = threading.Barrier(2)

    def meeting(request: Request, forward: Forward) -> Answer:
        if request.method == "DELETE":
            both.wait(60)  # breaks, and the request with it, unless another one comes while this one is under way
        return forward(request)

    refusing = answering_many(REFUSALS[0])
    faulty_gcs.proxy.hook = lambda request, forward: refusing(request, lambda each: meeting(each, forward))
    for keys in (["data/a", "data/b"], ["data/c", "data/d"]):
        assert faulty_gcs.store.delete_many(keys) == ["already_gone"] * 2


def test_once_the_gate_is_shut_a_refused_request_leads_to_no_others(faulty_gcs: Faulty) -> None:
    open_for = iter([True])
    faulty_gcs.direct.write("data/a", b"")
    faulty_gcs.proxy.hook = answering_many(REFUSALS[0])
    gate = Gate(may=lambda: next(open_for, False))
    assert faulty_gcs.store.delete_many(["data/a", "data/b"], gate) == [NOT_ASKED] * 2
    assert asked(faulty_gcs.proxy.requests) == ["together"] and faulty_gcs.listed() == ["data/a"]


def test_objects_of_a_bucket_that_is_not_there_are_not_called_gone(faulty_gcs: Faulty) -> None:
    told = {"error": {"code": 404, "message": "The specified bucket does not exist.", "errors": []}}
    faulty_gcs.proxy.hook = answering(Answer(404, {"Content-Type": "application/json"}, json.dumps(told).encode()))
    assert faulty_gcs.store.delete_many(["data/a"]) == ["failed:NoSuchBucket"]
