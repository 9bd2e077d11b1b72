"""What is peculiar to Azure: its list pages, its batches, names it would take for others, and how one gets in."""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
from azure.storage.blob import AccountSasPermissions, ResourceTypes, RetentionPolicy, generate_account_sas

from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import IncompleteError, LakegcError, SettingsError, StoreError
from lakegc_core.names import NO_ANSWER
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.azure import store as azure_module
from lakegc_core.store.azure.deletes import read_batch
from lakegc_core.store.azure.listing import Pages
from lakegc_core.store.azure.store import AzureConfig, AzureStore
from lakegc_core.store.base import ObjectInfo
from lakegc_core.store.factory import config_for
from tests.support.azurite import ACCOUNT, ACCOUNT_KEY, AzureServer
from tests.support.proxy import Answer, Forward, Request, failing
from tests.support.store_faults import Faulty, answering

# How a list page of three blobs can be spoilt, and a word of the error it must give.
PAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no word of an end": (lambda body: re.sub(rb"<NextMarker.*?/>", b"", body), "the last one"),
    "the same page for ever": (
        lambda body: re.sub(rb"<NextMarker.*?/>", b"<NextMarker>again</NextMarker>", body),
        "circles",
    ),
    "a blob without a size": (lambda body: re.sub(rb"<Content-Length>.*?</Content-Length>", b"", body), "size"),
    "a time that is none": (lambda body: re.sub(rb"(<Last-Modified>).*?<", rb"\1yesterday<", body), "time"),
    "a blob without a name": (lambda body: re.sub(rb"<Name>.*?</Name>", b"", body, count=1), "without a name"),
    "names of another place": (lambda body: re.sub(rb"<Name>[^/]*/", b"<Name>elsewhere/", body), "not below"),
    "no list at all": (lambda body: b"<EnumerationResults><NextMarker /></EnumerationResults>", "the last one"),
    "XML that breaks off": (lambda body: body[: len(body) // 2], "broke off"),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_list_page_that_does_not_add_up_is_an_error(faulty_azure: Faulty, page: str) -> None:
    change, message = PAGES[page]
    for key in ("data/a", "data/b", "data/c"):
        faulty_azure.direct.write(key, b"")
    faulty_azure.proxy.hook = faulty_azure.altering(change)
    with pytest.raises((IncompleteError, StoreError), match=message):
        faulty_azure.listed()


def test_names_that_xml_cannot_hold_are_listed_decoded_and_directories_are_no_objects(faulty_azure: Faulty) -> None:
    for key in ("data/bell07", "data/marker", "data/folder"):
        faulty_azure.direct.write(key, b"")

    def change(body: bytes) -> bytes:
        body = re.sub(rb"<Name>([^<]*)bell07</Name>", rb'<Name Encoded="true">\1bell%07</Name>', body)
        body = re.sub(rb"(marker</Name>.*?<Properties>)", rb"\1<ResourceType>directory</ResourceType>", body)
        return re.sub(
            rb"(data/folder</Name>.*?</Properties>)",
            rb"\1<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>",
            body,
        )

    faulty_azure.proxy.hook = faulty_azure.altering(change)
    assert faulty_azure.listed() == ["data/bell\x07"]
    asked = next(each for each in faulty_azure.proxy.requests if faulty_azure.protocol.is_list(each))
    assert asked.query["include"] == "metadata"


def test_each_thread_reads_its_own_page() -> None:
    def page(body: bytes) -> requests.Response:
        answer = requests.Response()
        answer.status_code, answer.url = 200, "http://127.0.0.1/account/container?restype=container&comp=list"
        answer.raw = io.BytesIO(body)
        return answer

    pages = Pages()
    assert b"mine" not in pages.keep(page(b"mine")).content
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pages.keep, page(b"another's")).result()
    assert pages.take("here") == b"mine"
    with pytest.raises(StoreError, match="no list"):
        pages.take("here")


# Deleting


def batches(faulty: Faulty) -> list[Request]:
    """The batch requests that came by."""
    return [request for request in faulty.proxy.requests if request.query.get("comp") == "batch"]


def test_a_batch_takes_256_blobs_and_each_has_its_own_outcome(faulty_azure: Faulty) -> None:
    keys = [f"data/{number}" for number in range(300)]
    there = {keys[number] for number in (0, 7, 255, 256, 299)}
    for key in there:
        faulty_azure.direct.write(key, b"")
    outcomes = faulty_azure.store.delete_many(keys)
    assert {key for key, outcome in zip(keys, outcomes, strict=True) if outcome == "deleted"} == there
    assert set(outcomes) == {"deleted", "already_gone"}
    assert [request.body.count(b"\r\nDELETE ") for request in batches(faulty_azure)] == [256, 44]


def no_batches(request: Request, forward: Forward) -> Answer:
    """Refuses batches, as a server that has none."""
    return Answer(501, {}, b"") if request.query.get("comp") == "batch" else forward(request)


def in_batch(change: Callable[[bytes], bytes]) -> Callable[[Request, Forward], Answer | None]:
    """Changes the answers to batches."""

    def hook(request: Request, forward: Forward) -> Answer | None:
        answer = forward(request)
        if request.query.get("comp") != "batch":
            return answer
        return Answer(answer.status, answer.headers, change(answer.body))

    return hook


def spoil(number: int, line: bytes, code: bytes = b"") -> Callable[[bytes], bytes]:
    """Another status line, and an error code, for one request of a batch."""

    def change(body: bytes) -> bytes:
        head = rb"(Content-ID: " + str(number).encode() + rb"\r\n\r\n)HTTP/1.1 [^\r]*\r\n"
        found = re.subn(head, rb"\1HTTP/1.1 " + line + b"\r\n" + (b"x-ms-error-code: " + code + b"\r\n"), body)
        assert found[1] == 1
        return found[0]

    return change


def test_errors_of_single_blobs_are_theirs_alone_and_only_they_are_asked_for_again(faulty_azure: Faulty) -> None:
    keys = ["data/a", "data/b", "data/c"]
    faulty_azure.proxy.hook = in_batch(spoil(1, b"409 Conflict", b"BlobImmutableDueToPolicy"))
    outcomes = faulty_azure.store.delete_many(keys)
    assert outcomes == ["already_gone", "failed:BlobImmutableDueToPolicy", "already_gone"]
    faulty_azure.proxy.requests.clear()
    faulty_azure.proxy.hook = failing(1, in_batch(spoil(2, b"503 Busy", b"ServerBusy")))
    assert faulty_azure.store.delete_many(keys) == ["already_gone"] * 3
    assert [request.body.count(b"\r\nDELETE ") for request in batches(faulty_azure)] == [3, 1]


def test_a_blob_that_is_gone_after_the_service_ran_out_of_time_was_deleted_by_that_request(
    faulty_azure: Faulty,
) -> None:
    faulty_azure.direct.write("data/a", b"")
    faulty_azure.proxy.hook = failing(1, in_batch(spoil(0, b"500 Oh", b"OperationTimedOut")))
    assert faulty_azure.store.delete_many(["data/a"]) == ["deleted"]


def asked_alone(faulty: Faulty) -> list[str]:
    """The blobs whose delete was asked for by a request of its own."""
    return [each.path.partition("?")[0][-6:] for each in faulty.proxy.requests if each.method == "DELETE"]


def test_a_blob_whose_answer_is_missing_from_the_batch_is_asked_for_alone(faulty_azure: Faulty) -> None:
    faulty_azure.direct.write("data/b", b"")
    faulty_azure.proxy.hook = in_batch(lambda body: body.replace(b"Content-ID: 1", b"Content-ID: x"))
    store = replace(faulty_azure.config, max_attempts=1).connect()
    assert store.delete_many(["data/a", "data/b"]) == ["already_gone", "deleted"]
    assert asked_alone(faulty_azure) == ["data/b"]


@pytest.mark.parametrize("line", [b"204 No Content", b"200 OK", b"206 Partial Content"])
def test_a_success_in_a_batch_that_is_not_the_service_s_own_is_no_answer(faulty_azure: Faulty, line: bytes) -> None:
    faulty_azure.direct.write("data/b", b"")
    faulty_azure.proxy.hook = in_batch(spoil(1, line))
    assert faulty_azure.store.delete_many(["data/a", "data/b"]) == ["already_gone", "deleted"]
    assert asked_alone(faulty_azure) == ["data/b"]


@pytest.mark.parametrize("status", [200, 202, 204, 206])
def test_a_batch_that_was_not_carried_out_is_not_reported_as_done(faulty_azure: Faulty, status: int) -> None:
    faulty_azure.direct.write("data/b", b"")
    odd = Answer(status, {}, b"")
    faulty_azure.proxy.hook = lambda request, forward: odd if "batch" in request.query.values() else forward(request)
    assert faulty_azure.store.delete_many(["data/a", "data/b"]) == ["deleted", "deleted"]  # what came first, who knows
    assert faulty_azure.listed() == []


@pytest.mark.parametrize("status", [200, 204, 206])
def test_the_delete_of_one_blob_that_was_not_carried_out_is_not_reported_as_done(
    faulty_azure: Faulty, status: int
) -> None:
    faulty_azure.direct.write("data/b", b"")
    odd = Answer(status, {}, b"")
    faulty_azure.proxy.hook = lambda request, forward: (
        odd if request.method == "DELETE" else no_batches(request, forward)
    )
    assert faulty_azure.store.delete_many(["data/a", "data/b"]) == ["deleted", "failed:NotCarriedOut"]
    faulty_azure.proxy.hook = answering(odd)
    assert faulty_azure.store.delete_many(["data/a", "data/b"]) == [NO_ANSWER, NO_ANSWER]


def test_answers_are_told_apart_by_their_number_not_by_their_order() -> None:
    def part(number: str, status: str) -> str:
        return f"--b\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n\r\n\r\n"

    body = part("2", "202 Accepted") + part("0", "404 Gone\r\nx-ms-error-code: BlobNotFound") + part("1", "nonsense")
    found = read_batch("multipart/mixed; boundary=b", f"{body}--b--\r\n".encode(), 3)
    assert found == {2: (202, ""), 0: (404, "BlobNotFound")}
    twice = part("0", "202 Accepted") + part("0", "404 Gone") + part("7", "202 Accepted")
    assert read_batch("multipart/mixed; boundary=b", f"{twice}--b--\r\n".encode(), 3) == {}


def test_a_batch_the_server_cannot_read_is_deleted_blob_by_blob(faulty_azure: Faulty) -> None:
    faulty_azure.direct.write("data/a", b"")
    faulty_azure.proxy.hook = no_batches
    assert faulty_azure.store.delete_many(["data/a", "data/b"]) == ["deleted", "already_gone"]


def test_blobs_of_a_container_that_is_not_there_are_not_called_gone(azure: AzureServer) -> None:
    store = azure.config("x", container="no-such-container").connect()
    assert store.delete_many(["data/a"]) == ["failed:ContainerNotFound"]


def test_a_blob_is_deleted_with_its_snapshots(azure: AzureServer) -> None:
    store = azure.config(uuid.uuid4().hex).connect()
    store.write("data/a", b"1")
    store.container.blob("data/a").create_snapshot()
    assert store.delete_many(["data/a"]) == ["deleted"]
    assert list(store.list()) == []


@pytest.mark.parametrize("key", ["", ".", "..", "../x", "data/../../x", "data/./x", "data/..", "\udcff"])
def test_names_that_a_url_takes_for_another_are_refused(azure: AzureServer, key: str) -> None:
    above = azure.config(uuid.uuid4().hex).connect()
    above.write("x", b"not ours")
    assert isinstance(above._config, AzureConfig)
    store = azure.config(f"{above._config.prefix}/root").connect()
    for ask in (store.read, store.head, lambda key: store.write(key, b"")):
        with pytest.raises(StoreError):
            ask(key)
    assert store.delete_many([key]) == ["failed:InvalidKey"]
    assert above.read("x") == b"not ours"


def test_a_folder_at_which_a_page_ends_and_the_next_begins_is_listed_once(faulty_azure: Faulty) -> None:
    folders = [f"data/{letter}/" for letter in "abcde"]
    for folder in folders:
        faulty_azure.direct.write(f"{folder}x", b"")
    last = [b""]

    def repeat(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        found = re.findall(rb"<BlobPrefix>.*?</BlobPrefix>", answer.body)
        body = answer.body.replace(b"<Blobs>", b"<Blobs>" + last[0])
        last[0] = found[-1]
        return replace(answer, body=body)

    faulty_azure.proxy.hook = repeat
    levels = list(replace(faulty_azure.config, page_size=2).connect().list_level("data/"))
    assert len(levels) > 1 and last[0]
    assert [name for level in levels for name in level.prefixes] == folders


# Copies, and what a probe finds


def test_a_large_blob_is_copied_block_by_block(faulty_azure: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_module, "_COPY_AT_ONCE", 4)
    monkeypatch.setattr(azure_module, "_COPY_BLOCK", 4)
    faulty_azure.direct.write("data/a", b"0123456789")

    def accept(request: Request, forward: Forward) -> Answer:  # Azurite does not know these two
        if request.query.get("comp") in ("block", "blocklist"):
            return Answer(201, {"ETag": '"0x1"', "Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT"}, b"")
        return forward(request)

    faulty_azure.proxy.hook = accept
    assert faulty_azure.store.copy(faulty_azure.config, "data/a", "data/b") == "0x1"
    puts = [request for request in faulty_azure.proxy.requests if request.method == "PUT"]
    assert [request.header("x-ms-source-range") for request in puts] == ["bytes=0-3", "bytes=4-7", "bytes=8-9", None]
    assert all("/data/a?" in (request.header("x-ms-copy-source") or "") for request in puts[:3])
    named = re.findall(rb"<Latest>([^<]*)</Latest>", puts[3].body)
    assert len(named) == 3 and named == [request.query["blockid"].encode() for request in puts[:3]]


def test_a_large_blob_that_is_written_over_while_its_blocks_are_copied_is_not_copied(
    faulty_azure: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_module, "_COPY_AT_ONCE", 4)
    monkeypatch.setattr(azure_module, "_COPY_BLOCK", 4)
    faulty_azure.direct.write("data/a", b"0123456789")

    def overtake(request: Request, forward: Forward) -> Answer:
        if request.query.get("comp") == "block":
            faulty_azure.direct.write("data/a", b"9876543210")
            return Answer(201, {"ETag": '"0x1"', "Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT"}, b"")
        return forward(request)

    faulty_azure.proxy.hook = overtake
    with pytest.raises(StoreError, match="written over while it was copied"):
        faulty_azure.store.copy(faulty_azure.config, "data/a", "data/b")
    assert not any(request.query.get("comp") == "blocklist" for request in faulty_azure.proxy.requests)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("BlobImmutableDueToPolicy", "put `workspace:` in lakegc.yaml into a place without a lock"),
        ("BlobArchived", "lies in an archive class.*sweep once without `quarantine`"),
    ],
)
def test_what_a_lock_or_an_archive_class_refuses_is_an_error_that_says_what_to_do(
    faulty_azure: Faulty, code: str, said: str
) -> None:
    faulty_azure.direct.write("data/a", b"1")
    refusal = Answer(409, {"x-ms-error-code": code}, b"")
    faulty_azure.proxy.hook = lambda request, forward: refusal if request.method == "PUT" else forward(request)
    with pytest.raises(StoreError, match=f"{code}: .*{said}"):
        faulty_azure.store.write("data/b", b"1")
    with pytest.raises(StoreError, match=f"{code}: .*{said}"):
        faulty_azure.store.copy(faulty_azure.config, "data/a", "data/b")


def test_a_probe_says_for_how_long_deleted_blobs_can_be_brought_back(azure: AzureServer) -> None:
    store = azure.config(uuid.uuid4().hex).connect()
    try:
        store.service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
        assert store.probe().soft_delete == timedelta(days=7)
    finally:
        store.service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=False))
    assert store.probe().soft_delete == timedelta(0)


def test_who_may_not_ask_for_soft_delete_can_still_collect(faulty_azure: Faulty) -> None:
    def refuse(request: Request, forward: Forward) -> Answer:
        return Answer(403, {}, b"") if request.query.get("restype") == "service" else forward(request)

    faulty_azure.proxy.hook = refuse
    probe = faulty_azure.store.probe()
    assert probe.soft_delete is None and probe.conditional_writes


# Getting in


@pytest.fixture
def bare(azure: AzureServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureConfig]:
    """A root with no credentials in its configuration, and none in the environment."""
    for name in ("CONNECTION_STRING", "ACCOUNT", "KEY", "SAS_TOKEN"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    yield azure.config(uuid.uuid4().hex, account_key=None)


def whole_life(store: AzureStore) -> None:
    """Everything lakegc asks for, once."""
    store.write("data/a", b"1")
    assert store.copy(store._config, "data/a", "data/b") is not None
    assert store.read("data/b") == b"1" and store.head("data/b").size == 1
    assert sum(batch.num_rows for batch in store.list()) == 2
    assert store.delete_many(["data/a", "data/b"]) == ["deleted"] * 2
    assert store.probe().conditional_writes


def sas() -> str:
    """A token for the whole account."""
    until = datetime.now(UTC) + timedelta(hours=1)
    permissions = AccountSasPermissions(read=True, write=True, delete=True, list=True)
    types = ResourceTypes(service=True, container=True, object=True)
    return str(generate_account_sas(ACCOUNT, ACCOUNT_KEY, types, permissions, until))


@pytest.mark.parametrize("way", ["connection string", "key"])
def test_the_environment_of_azures_tools_is_enough(
    azure: AzureServer, bare: AzureConfig, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "connection string":
        monkeypatch.setenv(*azure.environment().popitem())
    else:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_KEY", ACCOUNT_KEY)
    whole_life(bare.connect())


@pytest.mark.parametrize("way", ["connection string", "variable", "given"])
def test_a_sas_is_enough_and_stands_in_every_part_of_a_batch(
    bare: AzureConfig, faulty_azure: Faulty, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    config = replace(faulty_azure.config, account_key=None)
    if way == "connection string":
        told = f"BlobEndpoint={config.endpoint_url};SharedAccessSignature={sas()}"
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", told)
    elif way == "variable":
        monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "?" + sas())
    else:
        config = replace(config, sas_token=sas())
    faulty_azure.proxy.hook = no_batches  # Azurite takes none with a SAS, though Azure does
    whole_life(config.connect())
    (batch,) = batches(faulty_azure)
    assert "&sig=" in batch.path and batch.body.count(b"&sig=") == batch.body.count(b"\r\nDELETE ") == 2


def test_credentials_for_another_account_are_never_sent(bare: AzureConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"AccountName=other;AccountKey={ACCOUNT_KEY}")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "other")
    monkeypatch.setenv("AZURE_STORAGE_KEY", ACCOUNT_KEY)
    with pytest.raises(SettingsError, match="HTTPS"):  # the default chain is left, whose tokens need TLS
        bare.connect()


def test_no_credential_at_all_is_an_error_that_says_what_to_set(
    bare: AzureConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no az, azd or pwsh
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "dev")  # without the managed identity, which is waited for
    store = AzureConfig(ACCOUNT, "c", endpoint_url="https://127.0.0.1:9", max_attempts=1).connect()
    with pytest.raises(LakegcError, match="AZURE_STORAGE_KEY"):
        list(store.list())
    assert store.delete_many(["data/a"]) == ["failed:ClientAuthenticationError"]


def test_a_copy_for_which_no_token_can_be_had_is_an_error_of_this_object_that_says_what_to_set(
    bare: AzureConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "dev")
    config = AzureConfig(ACCOUNT, "c", endpoint_url="https://127.0.0.1:9", max_attempts=1)
    found = ObjectInfo("data/a", 1, datetime.now(UTC), "0x1")
    with pytest.raises(StoreError, match=r"Copy Blob From URL of 'data/a'.*AZURE_STORAGE_KEY"):
        config.connect().copy(config, "data/a", "data/b", found)


# Which store a namespace means


def settings(*stores: StoreMapping) -> Settings:
    return Settings(server=ServerSettings("", "", ""), stores=stores)


def test_a_namespace_names_account_container_and_prefix(bare: AzureConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "https://acc.blob.core.chinacloudapi.cn/lake/some%20prefix/ns//"
    found = config_for(Namespace(uri), settings())
    assert found == AzureConfig("acc", "lake", "some prefix/ns", endpoint_url="https://acc.blob.core.chinacloudapi.cn")
    assert config_for(Namespace("https://acc.blob.core.windows.net/lake"), settings()).root.endswith(".net/lake/")
    mapped = config_for(
        Namespace(uri),
        settings(StoreMapping("https://acc.blob.core.chinacloudapi.cn/", endpoint="http://127.0.0.1:1/acc")),
    )
    assert mapped.root == "http://127.0.0.1:1/acc/lake/some prefix/ns"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=acc;BlobEndpoint=http://127.0.0.1:2/acc")
    assert config_for(Namespace(uri), settings()).root.startswith("http://127.0.0.1:2/acc/lake/")
    assert config_for(Namespace("https://b.blob.core.windows.net/lake"), settings()).root.startswith("https://b.blob")
    with pytest.raises(SettingsError, match="names no place"):
        config_for(Namespace("https://acc.blob.core.windows.net/"), settings())
