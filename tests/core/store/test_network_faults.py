"""What a network and a busy store do to every protocol: an answer lost, cut off, put off, or not to be read."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import replace
from threading import Event
from urllib.parse import quote

import pytest

from lakegc_core.errors import (
    IncompleteError,
    LakegcError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SettingsError,
    StoreError,
    UnusableKeyError,
)
from lakegc_core.names import NO_ANSWER
from lakegc_core.store.azure.store import AzureConfig
from lakegc_core.store.base import RefusedObjectError, head_if_there, heads
from lakegc_core.store.gcs.store import GCSConfig
from lakegc_core.store.s3 import ENDPOINT_VARIABLES
from lakegc_core.store.s3.store import S3Config
from tests.core.store.conftest import NetworkConfig
from tests.support.azurite import ACCOUNT_KEY
from tests.support.proxy import Answer, Forward, Hook, Request, answer_lost, cut_off, failing, pass_on
from tests.support.servers import SECRET_KEY
from tests.support.store_faults import Faulty, answering


def test_a_list_page_cut_off_by_the_network_is_asked_for_again_and_then_an_error(faulty: Faulty) -> None:
    faulty.direct.write("data/a", b"")
    faulty.proxy.hook = failing(1, cut_off)
    assert faulty.listed() == ["data/a"] and len(faulty.proxy.requests) == 2
    faulty.proxy.hook = cut_off
    with pytest.raises(LakegcError, match=r"ListObjectsV2|List Blobs|listing"):
        faulty.listed()


def test_t07_an_object_cut_off_is_read_again_and_then_an_error(faulty: Faulty) -> None:
    faulty.direct.write("data/a", b"0123456789")
    faulty.proxy.hook = failing(1, cut_off)
    assert faulty.store.read("data/a") == b"0123456789"
    faulty.proxy.hook = cut_off
    with pytest.raises(IncompleteError):
        faulty.store.read("data/a")


def test_a_delete_whose_answer_is_lost_may_have_happened(faulty: Faulty) -> None:
    faulty.direct.write("data/a", b"")
    faulty.proxy.hook = answer_lost
    assert faulty.store.delete_many(["data/a", "data/b"]) == [NO_ANSWER] * 2
    faulty.proxy.hook = pass_on
    assert faulty.listed() == []


def test_a_delete_that_is_not_answered_is_waited_for_no_longer_than_the_read_timeout(faulty: Faulty) -> None:
    given_up = Event()
    faulty.proxy.hook = lambda request, forward: None if given_up.wait(120) else forward(request)
    try:
        assert replace(faulty.config, read_timeout=0.5).connect().delete_many(["data/a"]) == [NO_ANSWER]
        assert len(faulty.proxy.requests) > 1, "asked again, though the first one was still under way"
    finally:
        given_up.set()


def test_a_delete_that_is_answered_the_second_time_is_ours_though_the_object_is_gone_by_then(faulty: Faulty) -> None:
    faulty.direct.write("data/a", b"")
    faulty.proxy.hook = failing(1, answer_lost)
    assert faulty.store.delete_many(["data/a"]) == ["deleted"]


def test_t35_a_store_that_throttles_is_waited_for(faulty: Faulty) -> None:
    faulty.direct.write("data/a", b"1")
    for ask in (lambda: faulty.store.read("data/a"), faulty.listed, lambda: faulty.store.head("data/a")):
        faulty.proxy.hook = failing(1, faulty.busy)
        assert ask()
    faulty.proxy.hook = failing(1, faulty.busy)
    assert faulty.store.delete_many(["data/a"]) == ["deleted"]
    faulty.proxy.hook = faulty.busy
    assert faulty.store.delete_many(["data/a", "data/b"]) == [f"failed:{faulty.protocol.busy_code}"] * 2
    with pytest.raises(StoreError, match=faulty.protocol.busy_code):
        faulty.listed()


def test_an_error_page_of_something_else_is_a_failure(faulty: Faulty) -> None:
    faulty.proxy.hook = answering(Answer(400, {"Content-Type": "text/html"}, b"<p>proxy"))
    assert faulty.store.delete_many(["data/a", "half a \ud800"]) == ["failed:400", "failed:InvalidKey"]
    for ask in (faulty.listed, lambda: faulty.store.read("data/a"), lambda: faulty.store.head("data/a")):
        with pytest.raises(StoreError):
            ask()


def test_a_success_page_of_something_else_is_no_empty_listing(faulty: Faulty) -> None:
    faulty.direct.write("data/a", b"")
    for body in (b"<p>login</p>", b"", b"{}"):
        faulty.proxy.hook = answering(Answer(200, {"Content-Type": "text/html"}, body))
        with pytest.raises(LakegcError):
            faulty.listed()


def test_a_conditional_write_whose_answer_was_lost_is_known_for_our_own(faulty: Faulty) -> None:
    faulty.proxy.hook = failing(1, answer_lost)
    etag = faulty.store.write("lease", b"mine", if_absent=True)
    assert faulty.store.head("lease").etag == etag
    faulty.proxy.hook = failing(1, answer_lost)
    with pytest.raises(PreconditionFailedError):
        faulty.store.write("lease", b"another's", if_absent=True)


def test_no_secret_in_any_text(faulty: Faulty) -> None:
    config = faulty.config
    if isinstance(config, S3Config):
        spoilt = [
            replace(config, secret_access_key="hush-a"),
            replace(config, endpoint_url="http://127.0.0.1:9", access_key_id="hush-b", session_token="hush-c"),
            replace(config, bucket="no-such-bucket"),
        ]
        codes = ["SignatureDoesNotMatch", "EndpointConnectionError", "NoSuchBucket"]
    elif isinstance(config, AzureConfig):
        signature = quote("hush-a=", safe="")
        spoilt = [
            replace(config, account_key="aHVzaA=="),
            replace(config, account_key=None, sas_token=f"sv=2024-11-04&ss=b&srt=sco&sp=rwdl&sig={signature}"),
            replace(config, endpoint_url="http://127.0.0.1:9/hush", account_key="aHVzaA=="),
            replace(config, container="no-such-container"),
        ]
        codes = ["AuthorizationFailure", "ServiceRequestError", "ContainerNotFound"]
    else:
        spoilt = [replace(config, endpoint_url="http://127.0.0.1:9"), replace(config, bucket="no-such-bucket")]
        codes = ["ConnectionError", "check the name of the bucket"]
    texts = [repr(config), repr(faulty.store), *map(repr, spoilt)]
    for wrong in spoilt:
        store = wrong.connect()
        texts += store.delete_many(["data/a"])
        for ask in (lambda store=store: list(store.list()), lambda store=store: store.write("a", b"")):
            with pytest.raises(LakegcError) as caught:
                ask()
            texts += traceback.format_exception(caught.value)
    joined = "\n".join(texts).replace("http://127.0.0.1:9/hush", "")
    for secret in ("hush", "aHVzaA==", SECRET_KEY, ACCOUNT_KEY):
        assert secret not in joined
    assert [code for code in codes if code not in joined] == []


@pytest.mark.parametrize(
    "make",
    [
        lambda url: S3Config("bucket", endpoint_url=url),
        lambda url: AzureConfig("account", "container", endpoint_url=url),
        lambda url: GCSConfig("bucket", endpoint_url=url),
    ],
)
@pytest.mark.parametrize("url", ["http://id:hush-a@127.0.0.1:9", "https://127.0.0.1:9/?sig=hush-a"])
def test_an_endpoint_with_credentials_in_it_is_refused(make: object, url: str) -> None:
    assert callable(make)
    with pytest.raises(SettingsError, match="holds credentials") as refused:
        make(url)
    assert "hush" not in str(refused.value)


NOWHERE = "http://127.0.0.1:9"
AZURE_BY = f"DefaultEndpointsProtocol=http;AccountName=acc;AccountKey=aGk=;BlobEndpoint={NOWHERE}/acc"


@pytest.mark.parametrize(
    ("config", "variable", "value"),
    [
        (S3Config("bucket", endpoint_url=NOWHERE, max_attempts=1), "AWS_ENDPOINT_URL", NOWHERE),
        (
            AzureConfig("acc", "c", endpoint_url=f"{NOWHERE}/acc", account_key="aGk=", max_attempts=1),
            "AZURE_STORAGE_CONNECTION_STRING",
            AZURE_BY,
        ),
        (GCSConfig("bucket", endpoint_url=NOWHERE, max_attempts=1), "STORAGE_EMULATOR_HOST", NOWHERE),
    ],
    ids=["s3", "azure", "gcs"],
)
def test_a_store_that_is_not_there_is_named_with_its_endpoint_and_what_says_so(
    config: NetworkConfig, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (*ENDPOINT_VARIABLES, "AZURE_STORAGE_CONNECTION_STRING", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for by in ("`stores` in lakegc.yaml can name another", f"{variable} says so"):
        with pytest.raises(StoreError) as caught:
            list(config.connect().list())
        assert str(caught.value).endswith(f"check the network, and the endpoint {config.endpoint_url} ({by})")
        monkeypatch.setenv(variable, value)


# Keys that the store refuses


def refusing(faulty: Faulty, status: int, keys: str = "slice", lists: bool = False) -> Hook:
    """Refuses to tell anything of objects whose key holds `keys`; with `lists`, to list them as well."""

    def hook(request: Request, forward: Forward) -> Answer | None:
        of_key = keys in request.path
        asked = of_key and lists if faulty.protocol.is_list(request) else of_key
        return Answer(status, {}, b"") if asked else forward(request)

    return hook


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("status", [400, 414])
def test_a_key_that_the_store_refuses_while_it_tells_of_others_is_unusable(
    faulty: Faulty, status: int, lists: bool
) -> None:
    key = "data/slice/" + "id" * 40
    faulty.proxy.hook = refusing(faulty, status, lists=lists)
    with pytest.raises(UnusableKeyError, match="takes no key such as"):
        faulty.store.head(key)
    assert head_if_there(faulty.store, key) is None


@pytest.mark.parametrize("status", [301, 401, 403, 429, 500, 503])
def test_an_answer_that_says_nothing_of_the_key_is_an_error_and_no_key_is_called_unusable(
    faulty: Faulty, status: int
) -> None:
    faulty.proxy.hook = refusing(faulty, status)
    with pytest.raises(StoreError) as raised:
        faulty.store.head("data/slice/id")
    assert not isinstance(raised.value, UnusableKeyError | ObjectNotFoundError)


def test_a_store_that_refuses_every_key_refuses_the_one_who_asks(faulty: Faulty) -> None:
    faulty.proxy.hook = refusing(faulty, 400, keys="")
    with pytest.raises(StoreError) as raised:
        faulty.store.head("data/slice/id")
    assert not isinstance(raised.value, UnusableKeyError | ObjectNotFoundError)


@pytest.mark.parametrize(("status", "is_denied"), [(400, False), (403, True)])
def test_of_an_object_that_is_listed_and_refused_a_list_tells(faulty: Faulty, status: int, is_denied: bool) -> None:
    """S3 answers 400 for an object under a customer's key, and 403 to those who may not read it."""
    faulty.direct.write("data/slice/id", b"four")
    faulty.direct.write("data/slice/id and more", b"")
    (listed,) = (row for batch in faulty.direct.list("data/slice/id") for row in batch.slice(0, 1).to_pylist())
    faulty.proxy.hook = refusing(faulty, status)
    with pytest.raises(RefusedObjectError, match=rf"{status}.*lists the object") as raised:
        faulty.store.head("data/slice/id")
    found = pickle.loads(pickle.dumps(raised.value))
    assert (str(found), found.is_denied) == (str(raised.value), is_denied)
    assert {name: getattr(found.listed, name) for name in listed} == listed and found.listed.digest is None
    assert heads(faulty.store, ["data/slice/id", "data/none", "data/slice/i"])[:2] == [found.listed, None]
    assert head_if_there(faulty.store, "data/slice/i") is None, "what is not listed is not there"


def test_what_a_store_refuses_hides_no_outage_behind_it(faulty: Faulty) -> None:
    for key in ("data/slice/a", "data/slice/b", "data/other"):
        faulty.direct.write(key, b"")
    refused = refusing(faulty, 403)
    faulty.proxy.hook = lambda request, forward: (
        faulty.protocol.busy if "other" in request.path else refused(request, forward)
    )
    assert all(heads(faulty.store, ["data/slice/a", "data/slice/b"]))
    with pytest.raises(StoreError, match=rf"503|{faulty.protocol.busy_code}"):
        heads(faulty.store, ["data/slice/a", "data/other", "data/slice/b"])


@pytest.mark.parametrize("status", [400, 403])
def test_where_heads_and_listings_fail_nothing_is_said_of_the_object(faulty: Faulty, status: int) -> None:
    def hook(request: Request, forward: Forward) -> Answer:
        if "slice" not in request.path:
            return forward(request)
        return Answer(403 if faulty.protocol.is_list(request) else status, {}, b"")

    faulty.proxy.hook = hook
    with pytest.raises(StoreError) as raised:
        faulty.store.head("data/slice/id")
    assert not isinstance(raised.value, UnusableKeyError | ObjectNotFoundError | RefusedObjectError)
