"""The quick HEADs and GETs of S3: asked as boto3 asks, believed where the answer is clear, never instead of boto3."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.errors import IncompleteError, ObjectNotFoundError, StoreError
from lakegc_core.store.base import PROBE_KEY, ObjectInfo, heads
from lakegc_core.store.s3.store import S3Config, S3Store
from tests.core.store.test_contract import ODD, STAGED
from tests.support.fake_s3 import FakeS3, fake_s3
from tests.support.proxy import Answer, Forward, Request, pass_on
from tests.support.servers import S3Server
from tests.support.store_faults import Faulty
from tests.support.tls import certificate, speak_tls

Lake = tuple[S3Config, FakeS3]


@pytest.fixture
def lake() -> Iterator[Lake]:
    """A server that holds `data/a`, and how to reach it."""
    with fake_s3() as (server, running):
        config = server.config("ns", max_attempts=2)
        config.connect().write("data/a", b"abc")
        yield config, running


def is_quick(request: Request) -> bool:
    """boto3 numbers its requests."""
    return request.method in ("HEAD", "GET") and request.header("amz-sdk-invocation-id") is None


def quick(running: FakeS3) -> list[Request]:
    return [each for each in running.requests if is_quick(each)]


def one(store: S3Store, key: str = "data/a") -> ObjectInfo | None:
    (found,) = heads(store, [key])
    return found


def test_keys_are_spelled_and_sent_as_boto3_does_it(lake: Lake) -> None:
    config, running = lake
    for prefix in ("ns", ""):
        store = replace(config, prefix=prefix).connect()
        one(store)
        for key in {*ODD.values(), *STAGED, "~tilde", "data/*'()!$&,;=:@[]"} - {"", "data/\ud800id"}:
            running.requests.clear()
            assert one(store, key) is None
            ours, theirs, *_ = [each for each in running.requests if PROBE_KEY not in each.path]
            assert is_quick(ours) and not is_quick(theirs)
            assert (ours.path, ours.header("Host")) == (theirs.path, theirs.header("Host"))
            assert ours.header("User-Agent") == theirs.header("User-Agent")


def test_a_server_that_checks_signatures_answers_for_odd_keys_what_it_answers_boto3(faulty_s3: Faulty) -> None:
    keys = [key for name, key in ODD.items() if name not in ("double slash", "backslash", "trailing slash", "long")]
    for key in keys:
        faulty_s3.direct.write(key, key.encode())
    wanted = [faulty_s3.direct.head(key) for key in keys]
    assert heads(faulty_s3.store, keys) == wanted and all(each.digest for each in wanted)
    assert sum(map(is_quick, faulty_s3.proxy.requests)) == len(keys)
    assert len(faulty_s3.proxy.requests) == len(keys) + 1, "boto3 has shown how it asks"


def test_a_server_that_checks_signatures_sends_what_lies_under_odd_keys(faulty_s3: Faulty) -> None:
    keys = [key for name, key in ODD.items() if name not in ("double slash", "backslash", "trailing slash", "long")]
    for key in keys:
        faulty_s3.direct.write(key, key.encode() * 50_000)
    assert [faulty_s3.store.read_there(key) for key in keys] == [key.encode() * 50_000 for key in keys]
    assert [each.method for each in faulty_s3.proxy.requests if is_quick(each)] == ["GET"] * len(keys)
    assert len(faulty_s3.proxy.requests) == len(keys) + 1, "boto3 has shown how it asks"


def test_what_is_absent_boto3_says(faulty_s3: Faulty) -> None:
    with pytest.raises(ObjectNotFoundError, match="GetObject of 'data/a': there is no such object"):
        faulty_s3.store.read_there("data/a")


def test_a_session_token_is_sent_and_signed(lake: Lake) -> None:
    config, running = lake
    store = replace(config, session_token="a+token/=").connect()
    assert one(store) == store.head("data/a")
    (request,) = quick(running)
    assert request.header("x-amz-security-token") == "a+token/="
    assert ";x-amz-security-token," in (request.header("Authorization") or "")


def changed(**headers: str | None) -> Callable[[Answer], Answer | None]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    kept = {name: value for name, value in names.items() if value is not None}
    return lambda answer: replace(answer, headers={k: v for k, v in answer.headers.items() if k not in names} | kept)


def status(number: int, **headers: str) -> Callable[[Answer], Answer | None]:
    return lambda answer: replace(answer, status=number, headers=answer.headers | headers)


UNCLEAR: dict[str, Callable[[Answer], Answer | None]] = {
    "nothing": lambda answer: None,
    "another success": status(204),
    "a part": status(206),
    "a redirect": status(302, Location="/elsewhere"),
    "another region": status(301),
    "a bad request": status(400),
    "a refusal": status(403),
    "not there": status(404),
    "a failure": status(500),
    "too many": status(503),
    "a page of somebody": lambda answer: Answer(200, {"Content-Type": "text/html", "Content-Length": "5"}, b""),
    "no time": changed(Last_Modified=None),
    "no size": changed(Content_Length=None),
    "a size that is none": changed(Content_Length="+3"),
    "two sizes": changed(Content_Length="3, 3"),
    "a time that is none": changed(Last_Modified="yesterday"),
    "a day that is none": changed(Last_Modified="Mon, 31 Feb 2026 10:00:00 GMT"),
}


@pytest.mark.parametrize("unclear", UNCLEAR)
def test_what_is_not_clear_boto3_asks_again(lake: Lake, unclear: str) -> None:
    config, running = lake
    store = config.connect()
    known = store.head("data/a")

    def hook(request: Request, forward: Forward) -> Answer | None:
        answer = forward(request)
        if not is_quick(request):
            return answer
        return UNCLEAR[unclear](replace(answer, headers=answer.headers | {"ETag": '"not to be believed"'}))

    running.hook = hook
    assert [one(store), one(store)] == [known, known]
    assert len(quick(running)) == 2
    assert store._pace.window.cuts == 2 * (unclear == "too many"), "fewer at once where the store asks for that"


UNCLEAR_TO_GET: dict[str, Callable[[Answer], Answer | None]] = {
    name: UNCLEAR[name] for name in [*UNCLEAR][: [*UNCLEAR].index("a page of somebody")]
} | {
    "cut off": lambda answer: replace(answer, announced=5),
}


@pytest.mark.parametrize("unclear", UNCLEAR_TO_GET)
def test_what_is_not_clearly_sent_boto3_reads_again(lake: Lake, unclear: str) -> None:
    config, running = lake
    store = config.connect()

    def hook(request: Request, forward: Forward) -> Answer | None:
        answer = forward(request)
        if request.method != "GET" or not is_quick(request):
            return answer
        return UNCLEAR_TO_GET[unclear](replace(answer, body=b"not"))

    running.hook = hook
    assert [store.read_there("data/a"), store.read_there("data/a")] == [b"abc"] * 2
    assert len(quick(running)) == 2
    assert store._pace.window.cuts == 2 * (unclear == "too many"), "fewer at once where the store asks for that"


@pytest.mark.parametrize("body", [b"<html>", b"HTTP/1.1 200 OK\r\n\r\n", b"\r\n\r\n"])
def test_a_body_that_head_does_not_have_is_never_taken_for_an_answer_about_another_key(lake: Lake, body: bytes) -> None:
    config, running = lake
    store = config.connect()
    store.write("data/b", b"12")
    wanted = [store.head("data/a"), store.head("data/b")] * 8
    running.hook = lambda request, forward: (
        replace(forward(request), body=body) if is_quick(request) else forward(request)
    )
    assert [one(store, each.address) for each in wanted] == wanted


@pytest.mark.parametrize("unclear", ["no time", "no size", "a page of somebody"])
def test_an_answer_that_lacks_size_or_time_is_an_error_and_not_an_absent_object(lake: Lake, unclear: str) -> None:
    config, running = lake
    running.hook = lambda request, forward: UNCLEAR[unclear](forward(request))
    with pytest.raises(IncompleteError, match="size or time"):
        one(config.connect())


def test_a_key_that_is_refused_has_its_error_and_the_others_their_answers(lake: Lake) -> None:
    config, running = lake
    store = config.connect()
    store.write("data/b", b"12")
    running.hook = lambda request, forward: (
        Answer(403, {}, b"") if request.path.endswith("/b") and request.method == "HEAD" else forward(request)
    )
    told = store.try_heads(["data/a", "data/b", "data/c"], failures=1)
    assert isinstance(told[0], ObjectInfo) and isinstance(told[1], StoreError) and told[2] is None


@pytest.mark.parametrize(("answer", "asked"), [(403, 20), (404, 30), (503, 30)])
def test_where_the_quick_way_is_refused_again_and_again_only_boto3_asks(lake: Lake, answer: int, asked: int) -> None:
    """A refusal of one request is no sign, and what is absent is none."""
    config, running = lake
    store = config.connect()
    refuses = [True]
    running.hook = lambda request, forward: (
        Answer(answer, {}, b"") if is_quick(request) and refuses[0] else forward(request)
    )
    for _ in range(19):
        assert one(store)
    refuses[0] = False
    assert one(store)
    refuses[0] = True
    running.requests.clear()
    for _ in range(30):
        assert one(store)
    assert len(quick(running)) == asked


def test_a_probe_that_is_not_answered_says_nothing_of_the_quick_way(lake: Lake) -> None:
    config, running = lake
    store = replace(config, max_attempts=1).connect()
    known = store.head("data/a")
    running.hook = lambda request, forward: None if PROBE_KEY in request.path else forward(request)
    assert one(store) == known and not quick(running)
    running.hook = pass_on
    assert one(store) == known and len(quick(running)) == 1


def test_through_a_proxy_only_boto3_asks(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    config, running = lake
    monkeypatch.setenv("HTTP_PROXY", running.endpoint)
    monkeypatch.setenv("NO_PROXY", "")
    found = one(config.connect())
    assert found is not None and found.size == 3 and not quick(running)
    assert running.requests[-1].path.startswith("http://"), "as a proxy is asked"


def test_where_requests_are_signed_in_another_way_only_boto3_asks(lake: Lake) -> None:
    config, running = lake
    store = config.connect()

    def sign(request: Any, **_: Any) -> None:
        request.headers["x-amz-request-payer"] = "requester"

    store.client.meta.events.register("before-sign.s3.HeadObject", sign)
    assert one(store) is not None and not quick(running)


def test_where_the_store_does_not_answer_boto3_the_error_is_that_of_boto3(lake: Lake) -> None:
    config, running = lake
    running.hook = lambda request, forward: Answer(403, {}, b"")
    store = config.connect()
    with pytest.raises(StoreError, match="HeadObject of 'data/a': the store answered 403"):
        one(store)
    running.hook = pass_on
    assert one(store) == store.head("data/a")


def test_over_tls_the_certificates_are_those_that_boto3_trusts(
    tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, running = lake
    file = certificate(tmp_path)
    speak_tls(running._server, file)
    secure = replace(config, endpoint_url=running.endpoint.replace("http:", "https:"), max_attempts=1)
    with pytest.raises(StoreError, match="SSLError"):
        one(secure.connect())
    monkeypatch.setenv("AWS_CA_BUNDLE", str(file))
    store = secure.connect()
    assert heads(store, ["data/a"] * 3) == [store.head("data/a")] * 3
    assert len(quick(running)) == 3


def test_credentials_come_from_the_sdks_own_chain_too(seaweed: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in seaweed.environment().items():
        monkeypatch.setenv(name, value)
    store = S3Config(seaweed.bucket, uuid.uuid4().hex).connect()
    store.write("data/a", b"1")
    sent: list[Any] = []
    store.client.meta.events.register("before-send.s3.HeadObject", lambda request, **_: sent.append(request))
    assert [each and each.size for each in heads(store, ["data/a"] * 3)] == [1] * 3
    assert len(sent) == 1, "the one by which boto3 shows how it asks"
