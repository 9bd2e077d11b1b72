"""How lakeFS is spoken to: retries, refusals, faults and pages, against loopback servers that answer as scripted.

The calls themselves are in `test_client.py`.
"""

from __future__ import annotations

import base64
import logging
import re
import socket
import threading
import traceback
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest

from lakegc_core import __version__
from lakegc_core.config.settings import ServerSettings
from lakegc_core.errors import IncompleteError, ServerError, SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import ATTEMPTS, LakeFSError
from lakegc_core.lakefs.models import Ref
from tests.support.scripted_lakefs import (
    COMMIT,
    KEY,
    REPOSITORY,
    SECRET,
    TOKEN,
    Asked,
    R,
    Say,
    Scripted,
    page,
    refused,
)
from tests.support.tls import certificate, speak_tls

# ---- how it asks ----


def test_every_call_carries_basic_auth_and_says_who_asks(server: Scripted) -> None:
    server.on("GET", "/config/garbage-collection", Say(200, {"grace_period": 86400}))
    assert server.client.grace_period() == 86400
    headers = server.asked[0].headers
    assert headers["Authorization"] == f"Basic {TOKEN}"
    assert headers["X-Lakefs-Client"] == f"lakegc/{__version__}"


def test_credentials_beyond_latin_1_are_sent_as_utf_8(server: Scripted) -> None:
    server.on("GET", "/config/garbage-collection", Say(200, {"grace_period": 1}))
    LakeFSClient(ServerSettings(server.url, "kľúč", "тайна")).grace_period()
    sent = server.asked[0].headers["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent).decode() == "kľúč:тайна"


def test_a_client_without_credentials_is_refused_before_it_asks() -> None:
    with pytest.raises(SettingsError, match="LAKECTL_CREDENTIALS_ACCESS_KEY_ID"):
        LakeFSClient(ServerSettings("http://127.0.0.1:1", "", ""))


def test_names_are_escaped_in_paths(server: Scripted) -> None:
    server.on("GET", f"{R}/refs/a%2Fb%20%25%3F/objects/ls", page([]))
    assert list(server.client.objects("repo", "a/b %?")) == [[]]


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_change_the_path_is_refused(server: Scripted, name: str) -> None:
    with pytest.raises(SettingsError, match="no name"):
        server.client.repository(name)
    assert server.asked == []


# ---- retries ----


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_t43_a_busy_or_broken_server_is_asked_again(server: Scripted, status: int) -> None:
    server.on("GET", R, [refused(status), refused(status), Say(200, REPOSITORY)])
    assert server.client.repository("repo").storage_namespace == "s3://b/ns"
    assert len(server.asked) == 3
    assert 0.25 <= server.slept[0] <= 0.5 <= server.slept[1] <= 1.0


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_stays_broken_is_given_up_after_six_attempts(server: Scripted, status: int) -> None:
    server.on("GET", R, refused(status, "kv store is throttled"))
    with pytest.raises(LakeFSError, match="kv store is throttled") as caught:
        server.client.repository("repo")
    assert caught.value.status == status
    assert len(server.asked) == ATTEMPTS == 6
    assert len(server.slept) == 5
    assert sum(server.slept) < 60


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "refuses"),
        (401, "check the access key, and that its policy allows fs:ReadRepository"),
        (403, "read-only"),
        (404, "does not know this"),
        (409, "refuses"),
        (410, "being deleted"),
        (412, "refuses"),
        (204, "another success status"),
        (201, "another success status"),
        (302, "redirects"),
    ],
)
def test_t43_any_other_status_is_told_at_once_with_what_to_do(server: Scripted, status: int, advice: str) -> None:
    body: Any = b"" if status == 204 else {"message": "the server's own words"}
    server.on("GET", R, Say(status, body))
    with pytest.raises(LakeFSError) as caught:
        server.client.repository("repo")
    assert caught.value.status == status
    assert advice in str(caught.value)
    assert f"GET {R} was answered with {status}" in str(caught.value)
    if status != 204:
        assert "the server's own words" in str(caught.value)
    assert len(server.asked) == 1
    assert server.slept == []


def test_metadata_that_the_store_lacks_is_not_taken_for_a_repository_that_is_being_deleted(server: Scripted) -> None:
    """As for a commit with another text in the place of its metarange, at the head of a branch."""
    server.on("POST", f"{R}/gc/prepare_uncommited", refused(410, "No data"))
    with pytest.raises(LakeFSError, match=r"the store lacks a file.*runbook\.md#unreadable-commit") as caught:
        server.client.prepare_uncommitted("repo")
    assert "deleted" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (401, {"message": "error authenticating request"}, "correct the key and its secret"),
        (401, {"message": "insufficient permissions"}, "its policy must allow fs:ReadRepository"),
        (404, b"<html>File not found</html>", "does not answer like lakeFS: check the endpoint (LAKECTL_SERVER_EN"),
        (404, {"error": "no route"}, "does not answer like lakeFS"),
        (403, b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "does not answer like lakeFS"),
        (403, {"message": "forbidden"}, "the repository is read-only"),
    ],
)
def test_the_advice_goes_by_the_words_of_lakefs_where_the_status_says_too_little(
    server: Scripted, status: int, body: Any, advice: str
) -> None:
    server.on("GET", R, Say(status, body))
    with pytest.raises(LakeFSError, match=re.escape(advice)):
        server.client.repository("repo")


def test_the_server_may_say_how_long_to_wait(server: Scripted) -> None:
    began = time()
    answers = [
        Say(429, {"message": "slow"}, {"Retry-After": "7"}),
        Say(503, {"message": "slow"}, {"Retry-After": formatdate(began + 30, usegmt=True)}),
        Say(503, {"message": "slow"}, {"Retry-After": "86400"}),
        Say(503, {"message": "slow"}, {"Retry-After": "soon"}),
        Say(200, REPOSITORY),
    ]
    server.on("GET", R, answers)
    server.client.repository("repo")
    assert server.slept[0] == 7
    assert 29 - (time() - began) <= server.slept[1] <= 31
    assert server.slept[2] == 120
    assert server.slept[3] <= 4


@pytest.mark.parametrize("fault", [Say(drop=True), Say(200, REPOSITORY, cut=True)])
def test_a_lost_or_cut_answer_is_asked_for_again(server: Scripted, fault: Say) -> None:
    server.on("GET", R, [fault, fault, Say(200, REPOSITORY)])
    assert server.client.repository("repo").id == "repo"
    assert len(server.slept) == 2


def test_an_answer_that_is_always_cut_is_an_error_and_never_half_an_answer(server: Scripted) -> None:
    server.on("GET", f"{R}/tags", Say(200, {"pagination": {}, "results": []}, cut=True))
    with pytest.raises(ServerError, match="failed 6 times"):
        list(server.client.tags("repo"))


def test_a_server_that_is_not_there_is_named_with_the_endpoint() -> None:
    slept: list[float] = []
    with socket.socket() as deaf:  # nobody else can have its port, on which nobody listens
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(ServerError, match="cannot be reached") as caught:
            LakeFSClient(ServerSettings(url, KEY, SECRET), sleep=slept.append).grace_period()
    assert url in str(caught.value)
    assert len(slept) == 5


def test_a_server_without_tls_is_told_at_once_with_what_to_do(server: Scripted) -> None:
    slept: list[float] = []
    settings = ServerSettings(server.url.replace("http:", "https:"), KEY, SECRET)
    with pytest.raises(ServerError, match=r"does the server speak http:// instead\? Check the endpoint"):
        LakeFSClient(settings, sleep=slept.append).grace_period()
    assert slept == []


def test_a_certificate_of_a_private_ca_needs_the_bundle_that_the_error_names(
    server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("GET", "/config/garbage-collection", Say(200, {"grace_period": 1}))
    file, slept = certificate(tmp_path), list[float]()
    speak_tls(server._server, file)
    client = LakeFSClient(ServerSettings(server.url.replace("http:", "https:"), KEY, SECRET), sleep=slept.append)
    with pytest.raises(ServerError, match=r"is not trusted\..* set REQUESTS_CA_BUNDLE"):
        client.grace_period()
    assert slept == []
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(file))
    assert client.grace_period() == 1


def test_a_tls_connection_that_ends_early_is_tried_again() -> None:
    slept: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as hangs_up:
        threading.Thread(target=lambda: [hangs_up.accept()[0].close() for _ in range(ATTEMPTS)], daemon=True).start()
        settings = ServerSettings(f"https://127.0.0.1:{hangs_up.getsockname()[1]}", KEY, SECRET)
        with pytest.raises(ServerError, match="the TLS connection for GET"):
            LakeFSClient(settings, sleep=slept.append).grace_period()
    assert len(slept) == ATTEMPTS - 1


def test_a_server_that_does_not_answer_in_time_is_given_up(server: Scripted) -> None:
    stop = threading.Event()

    def hang(_: Asked) -> Say:
        stop.wait(120)
        return Say(200, {"grace_period": 1})

    server.on("GET", "/config/garbage-collection", hang)
    settings = ServerSettings(server.url, KEY, SECRET, read_timeout=0.05)
    try:
        with pytest.raises(ServerError, match=r"within 0\.05 s: GET .* raise `server\.read_timeout` .* reset it"):
            LakeFSClient(settings, sleep=lambda _: None).grace_period()
    finally:
        stop.set()


def test_a_redirect_is_not_followed_and_its_target_is_named_without_its_query(server: Scripted) -> None:
    target = "https://elsewhere.example/login?token=abc"
    server.on("GET", R, Say(302, b"", {"Location": target}))
    with pytest.raises(LakeFSError, match=r"redirects to https://elsewhere\.example:") as caught:
        server.client.repository("repo")
    assert "abc" not in str(caught.value)


# ---- secrets ----


def test_no_error_repeats_the_credentials_even_if_the_server_does(
    server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    echo = refused(500, f"you sent Authorization: Basic {TOKEN} with {SECRET}")
    server.on("GET", R, echo).on("POST", f"{R}/gc/prepare_uncommited", refused(403, SECRET))
    server.on("GET", "/config", Say(200, b"<html>" + SECRET.encode()))
    client = server.client
    calls: list[Callable[[], object]] = [
        lambda: client.repository("repo"),
        lambda: client.prepare_uncommitted("repo"),
        client.config,
    ]
    caplog.set_level(logging.DEBUG)
    for call in calls:
        with pytest.raises(ServerError) as caught:
            call()
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + str(vars(caught.value))
        assert SECRET not in shown
        assert TOKEN not in shown
    assert SECRET not in caplog.text
    assert TOKEN not in caplog.text
    assert SECRET not in repr(client)


# ---- odd answers ----


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>login</html>",
        b"[]",
        b'"text"',
        b"null",
        b'{"grace_period": 1}{"grace_period": 2}',
        b'{"grace_period": "1"}',
        b'{"grace_period": true}',
        b'{"grace_period": 1.5}',
        b'{"grace_period": null}',
        b'{"grace_period": -1}',
        b"{}",
        b"\xff\xfe",
    ],
)
def test_an_answer_of_another_shape_is_an_error(server: Scripted, body: bytes) -> None:
    server.on("GET", "/config/garbage-collection", Say(200, body))
    with pytest.raises(ServerError, match="odd answer"):
        server.client.grace_period()


# ---- pages ----


def test_t22_all_pages_are_read_and_hidden_branches_asked_for(server: Scripted) -> None:
    names = [f"b{n:04}" for n in range(2500)]

    def answer(asked: Asked) -> Say:
        left = [name for name in names if name > asked.query["after"]]
        size = int(asked.query["amount"])
        some = left[:size]
        more = len(left) > size
        return page([{"id": n, "commit_id": COMMIT} for n in some], more, some[-1] if more else "")

    server.on("GET", f"{R}/branches", answer)
    found = list(server.client.branches("repo"))
    assert found == [Ref(name, COMMIT) for name in names]
    assert [asked.query["show_hidden"] for asked in server.asked] == ["true"] * 3
    assert {asked.query["amount"] for asked in server.asked} == {"1000"}


def test_an_empty_page_with_more_behind_it_is_not_the_end(server: Scripted) -> None:
    tag = {"id": "t", "commit_id": COMMIT}
    server.on("GET", f"{R}/tags", [page([], True, "a"), page([tag])])
    assert list(server.client.tags("repo")) == [Ref("t", COMMIT)]


@pytest.mark.parametrize("offset", ["", "a"])
def test_more_without_a_way_to_it_is_an_error(server: Scripted, offset: str) -> None:
    server.on("GET", f"{R}/tags", page([{"id": "a", "commit_id": COMMIT}], True, offset))
    with pytest.raises(ServerError, match="offset of an earlier page"):
        list(server.client.tags("repo"))
    assert len(server.asked) <= 2


def test_pages_that_go_in_a_circle_are_an_error(server: Scripted) -> None:
    server.on("GET", f"{R}/tags", [page([], True, "a"), page([], True, "b"), page([], True, "a")])
    with pytest.raises(ServerError, match="earlier page"):
        list(server.client.tags("repo"))


def test_a_page_that_is_shorter_than_it_says_is_incomplete(server: Scripted) -> None:
    server.on("GET", f"{R}/branches", page([{"id": "main", "commit_id": COMMIT}], announced=2))
    with pytest.raises(IncompleteError, match="announced 2"):
        list(server.client.branches("repo"))


@pytest.mark.parametrize(
    "body",
    [
        {"results": []},
        {"pagination": {"has_more": False, "results": 0}},
        {"pagination": {"results": 0}, "results": []},
        {"pagination": {"has_more": "no", "results": 0}, "results": []},
        {"pagination": {"has_more": False, "results": 0}, "results": None},
        {"pagination": {"has_more": False}, "results": []},
        {"pagination": {"has_more": False, "results": 1}, "results": ["main"]},
        {"pagination": {"has_more": False, "results": 1}, "results": [{"id": "main"}]},
        {"pagination": {"has_more": False, "results": 1}, "results": [{"commit_id": COMMIT}]},
    ],
)
def test_a_page_of_another_shape_is_an_error_and_not_empty(server: Scripted, body: Any) -> None:
    server.on("GET", f"{R}/branches", Say(200, body))
    with pytest.raises(ServerError, match="odd answer"):
        list(server.client.branches("repo"))


def test_an_error_on_a_later_page_breaks_the_listing_off(server: Scripted) -> None:
    first = page([{"id": "a", "commit_id": COMMIT}], True, "a")
    server.on("GET", f"{R}/branches", [first, refused(404, "not found")])
    with pytest.raises(LakeFSError):
        list(server.client.branches("repo"))
