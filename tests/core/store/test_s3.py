"""What is peculiar to S3: its list pages, its DeleteObjects, its SDK's environment."""

from __future__ import annotations

import hashlib
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import unquote_to_bytes

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.loaders import JSONFileLoader

from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.errors import BucketNotFoundError, IncompleteError, ObjectNotFoundError, SettingsError, StoreError
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.base import check_bucket, heads
from lakegc_core.store.factory import config_at, config_for
from lakegc_core.store.s3 import ENDPOINT_VARIABLES
from lakegc_core.store.s3 import access as s3_access
from lakegc_core.store.s3 import store as s3
from lakegc_core.store.s3.store import S3Config
from tests.support.fake_s3 import error, fake_s3
from tests.support.proxy import Answer, Forward, Request
from tests.support.servers import S3Server
from tests.support.store_faults import Faulty

# How a list page of three objects can be spoilt, and a word of the error it must give.
PAGES = {
    "an object too few": (
        lambda body: re.sub(rb"<Contents>.*?</Contents>", b"", body, count=1),
        "announced 3",
    ),
    "all objects gone": (lambda body: re.sub(rb"<Contents>.*</Contents>", b"", body), "announced 3"),
    "more, but not where": (
        lambda body: body.replace(b"<IsTruncated>false", b"<IsTruncated>true"),
        "not where",
    ),
    "no word of an end": (lambda body: re.sub(rb"<IsTruncated>.*?</IsTruncated>", b"", body), "the last one"),
    "the same page for ever": (
        lambda body: body.replace(
            b"<IsTruncated>false</IsTruncated>",
            b"<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>",
        ),
        "circles",
    ),
    "an object without a size": (
        lambda body: re.sub(rb"<Size>.*?</Size>", b"", body, count=1),
        "without key",
    ),
    "keys of another place": (lambda body: re.sub(rb"<Key>[^/]*/", b"<Key>elsewhere/", body), "not below"),
    "XML that breaks off": (lambda body: body[: len(body) // 2], "500"),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_list_page_that_does_not_add_up_is_an_error(faulty_s3: Faulty, page: str) -> None:
    change, message = PAGES[page]
    for key in ("data/a", "data/b", "data/c"):
        faulty_s3.direct.write(key, b"")
    faulty_s3.proxy.hook = faulty_s3.altering(change)
    with pytest.raises((IncompleteError, StoreError), match=message):
        faulty_s3.listed()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb"<Contents>", rb"<Contents ><!-- -->"),
        (rb"<ListBucketResult[^>]*>", rb"<ListBucketResult>"),
        (rb"<ListBucketResult[^>]*>", rb"<ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"),
        (rb"<LastModified>(\S+)T(\S+?)(\.\d+)?Z</LastModified>", rb"<LastModified>\1 \2\3 GMT</LastModified>"),
        (rb"<Key>(\S+?)</Key>", rb"<Key><![CDATA[\1]]></Key>"),
    ],
)
def test_pages_may_be_written_otherwise(faulty_s3: Faulty, old: bytes, new: bytes) -> None:
    for key in ("data/a", "data/b c", "data/ä&"):
        faulty_s3.direct.write(key, b"12")
    usual = [batch.to_pylist() for batch in faulty_s3.store.list()]
    changed: list[int] = []

    def change(body: bytes) -> bytes:
        body, count = re.subn(old, new, body)
        changed.append(count)
        return body

    faulty_s3.proxy.hook = faulty_s3.altering(change)
    assert [batch.to_pylist() for batch in faulty_s3.store.list()] == usual
    assert any(changed)


def test_keys_are_read_whether_or_not_they_are_encoded(faulty_s3: Faulty) -> None:
    for key in ("data/a+b", "data/c"):
        faulty_s3.direct.write(key, b"")
    usual = faulty_s3.listed()

    def plain(body: bytes) -> bytes:
        body = re.sub(rb"<EncodingType>.*?</EncodingType>", b"", body)
        return re.sub(rb"(?<=<Key>).*?(?=</Key>)", lambda key: unquote_to_bytes(key[0].replace(b"+", b" ")), body)

    faulty_s3.proxy.hook = faulty_s3.altering(plain)
    assert faulty_s3.listed() == usual
    faulty_s3.proxy.hook = faulty_s3.altering(lambda body: re.sub(rb"(?<=<EncodingType>)url", b"rot13", body))
    with pytest.raises(StoreError, match="unknown encoding"):
        faulty_s3.listed()


def test_a_page_of_something_else_is_no_empty_listing(faulty_s3: Faulty) -> None:
    faulty_s3.proxy.hook = faulty_s3.altering(lambda body: b"<Other><IsTruncated>false</IsTruncated></Other>")
    with pytest.raises(IncompleteError, match="no list"):
        faulty_s3.listed()


def test_an_error_page_of_something_else_is_a_failure(faulty_s3: Faulty) -> None:
    faulty_s3.proxy.hook = lambda request, forward: Answer(400, {"Content-Type": "text/html"}, b"<p>proxy")
    assert faulty_s3.store.delete_many(["data/a", "half a \ud800"]) == ["failed:400", "failed:InvalidKey"]
    with pytest.raises(StoreError):
        faulty_s3.listed()


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", ""])
def test_an_error_that_a_wrong_endpoint_may_cause_names_the_endpoint_and_the_variable_that_says_so(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ENDPOINT_VARIABLES:
        monkeypatch.delenv(each, raising=False)
    with fake_s3() as (server, _):
        if variable:
            monkeypatch.setenv(variable, f"{server.endpoint}/")
        with pytest.raises(StoreError) as caught:
            list(replace(server.config(), bucket="nosuch").connect().list())
    by = f" ({variable} says so)" if variable else " (`stores` in lakegc.yaml can name another)"
    assert str(caught.value).endswith(f"check the name of the bucket, and the endpoint {server.endpoint}{by}")


def test_a_bucket_that_is_not_there_is_told_without_a_write_and_a_store_that_does_not_list_says_nothing_of_it(
    seaweed: S3Server,
) -> None:
    """For a key of all rights, SeaweedFS makes the bucket at the first write."""
    missing = replace(seaweed.config("a/b"), bucket="lakee").connect()
    with pytest.raises(BucketNotFoundError, match="check the name of the bucket"):
        check_bucket(missing)
    check_bucket(seaweed.config("a/b").connect())
    with fake_s3(lambda request, forward: error(403, "AccessDenied")) as (refusing, _):
        check_bucket(refusing.config().connect())


def test_an_endpoint_without_a_scheme_and_a_profile_that_there_is_not_are_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for each in ENDPOINT_VARIABLES:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "127.0.0.1:9000")
    plain = S3Config(bucket="lake", prefix="x", endpoint_url="127.0.0.1:9000")
    with pytest.raises(SettingsError, match=r"Write the URL with http:// or https:// \(AWS_ENDPOINT_URL_S3 says so\)"):
        plain.connect()
    monkeypatch.setenv("AWS_PROFILE", "nope")
    with pytest.raises(SettingsError, match=r"\(nope\) could not be found\. Correct AWS_PROFILE"):
        replace(plain, endpoint_url=None).connect()


LEAST = 5 << 20  # bytes: S3 takes no smaller parts, but for the last one


@pytest.fixture
def copies_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_COPY_AT_ONCE", LEAST)
    monkeypatch.setattr(s3, "_IN_PARTS", TransferConfig(multipart_threshold=LEAST, multipart_chunksize=LEAST))


def is_copy_at_once(request: Request) -> bool:
    return request.header("x-amz-copy-source") is not None and "uploadId" not in request.query


@pytest.mark.usefixtures("copies_in_parts")
def test_a_large_object_is_copied_inside_the_store_part_by_part_from_one_version_of_it(faulty_s3: Faulty) -> None:
    content = b"".join(number.to_bytes(8, "big") for number in range((2 * LEAST + 8000) // 8))
    faulty_s3.direct.write("data/large", content)
    etag = faulty_s3.store.copy(faulty_s3.config, "data/large", "data/copy")
    assert etag == faulty_s3.direct.head("data/copy").etag is not None
    assert faulty_s3.direct.read("data/copy") == content
    parts = [each for each in faulty_s3.proxy.requests if "partNumber" in each.query]
    assert sorted(str(each.header("x-amz-copy-source-range")) for each in parts) == [
        f"bytes=0-{LEAST - 1}",
        f"bytes={2 * LEAST}-{len(content) - 1}",
        f"bytes={LEAST}-{2 * LEAST - 1}",
    ]
    source = f'"{faulty_s3.direct.head("data/large").etag}"'
    assert {each.header("x-amz-copy-source-if-match") for each in parts} == {source}
    assert not any(map(is_copy_at_once, faulty_s3.proxy.requests)), "no request takes longer than a part"
    assert max(len(each.body) for each in faulty_s3.proxy.requests) < 1000, "no content went through lakegc"


@pytest.mark.usefixtures("copies_in_parts")
def test_a_large_object_that_is_written_over_since_it_was_seen_is_not_copied(faulty_s3: Faulty) -> None:
    faulty_s3.direct.write("data/large", bytes(LEAST + 1))
    found = faulty_s3.direct.head("data/large")
    faulty_s3.direct.write("data/large", bytes(LEAST) + b"1")
    with pytest.raises(StoreError, match="412"):
        faulty_s3.store.copy(faulty_s3.config, "data/large", "data/copy", found)
    with pytest.raises(ObjectNotFoundError):
        faulty_s3.direct.head("data/copy")


@pytest.mark.usefixtures("copies_in_parts")
def test_a_store_that_copies_no_parts_copies_a_large_object_at_once(faulty_s3: Faulty) -> None:
    faulty_s3.direct.write("data/large", bytes(LEAST + 1))
    unknown = Answer(501, {"Content-Type": "application/xml"}, b"<Error><Code>NotImplemented</Code></Error>")
    faulty_s3.proxy.hook = lambda request, forward: unknown if "partNumber" in request.query else forward(request)
    assert faulty_s3.store.copy(faulty_s3.config, "data/large", "data/copy") is not None
    assert faulty_s3.direct.read("data/copy") == bytes(LEAST + 1)


@pytest.mark.usefixtures("copies_in_parts")
def test_a_copy_in_parts_that_fails_leaves_nothing_behind(faulty_s3: Faulty, seaweed: S3Server) -> None:
    faulty_s3.direct.write("data/large", bytes(LEAST + 1))

    def second_part_refused(request: Request, forward: Forward) -> Answer:
        if request.query.get("partNumber") == "2":
            return Answer(403, {"Content-Type": "application/xml"}, b"<Error><Code>AccessDenied</Code></Error>")
        return forward(request)

    faulty_s3.proxy.hook = second_part_refused
    with pytest.raises(StoreError, match="AccessDenied"):
        faulty_s3.store.copy(faulty_s3.config, "data/large", "data/copy")
    with pytest.raises(ObjectNotFoundError):
        faulty_s3.direct.head("data/copy")
    begun = seaweed.client().list_multipart_uploads(Bucket=seaweed.bucket, Prefix=f"{faulty_s3.config.prefix}/")
    assert not begun.get("Uploads")


def test_the_environment_of_the_sdk_is_enough(seaweed: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in seaweed.environment().items():
        monkeypatch.setenv(name, value)
    store = S3Config(seaweed.bucket, uuid.uuid4().hex).connect()
    store.write("data/a", b"1")  # and by path: no host is called after the bucket here
    assert store.read("data/a") == b"1" and store.delete_many(["data/a"]) == ["deleted"]


def test_t38_on_a_versioned_bucket_a_deleted_object_is_listed_no_more_and_its_bytes_stay(seaweed: S3Server) -> None:
    client, bucket = seaweed.client(), f"versioned-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    store = seaweed.config("ns", bucket=bucket).connect()
    assert store.probe().versioning
    store.write("data/a", b"12345")
    assert store.delete_many(["data/a"]) == ["deleted"]
    assert not [batch.num_rows for batch in store.list("data/")]
    with pytest.raises(ObjectNotFoundError):
        store.read("data/a")
    assert store.delete_many(["data/a"]) == ["deleted"]  # one marker more
    versions = client.list_object_versions(Bucket=bucket, Prefix="ns/data/")["Versions"]
    assert [(version["Key"], version["Size"]) for version in versions] == [("ns/data/a", 5)]


@pytest.mark.parametrize(
    ("answer", "kept"),
    [({}, False), ({"Status": "Enabled"}, True), ({"Status": "Suspended"}, None), ({"Status": "Odd"}, None)],
)
def test_where_versioning_is_suspended_nobody_claims_to_know_what_a_delete_frees(
    seaweed: S3Server, monkeypatch: pytest.MonkeyPatch, answer: dict[str, str], kept: bool | None
) -> None:
    """Objects that were written before keep their version, and only later ones are gone for good."""
    store = seaweed.config(uuid.uuid4().hex).connect()
    told = {"ResponseMetadata": {"HTTPHeaders": {"date": "Mon, 02 Nov 2026 10:00:00 GMT"}}, **answer}
    monkeypatch.setattr(store.client, "get_bucket_versioning", lambda Bucket: told)
    assert store.probe().versioning is kept


def md5(data: bytes) -> str:
    return "md5:" + hashlib.md5(data, usedforsecurity=False).hexdigest()


def test_head_proves_the_md5_of_an_object_that_was_put_in_one_piece_and_of_no_other(seaweed: S3Server) -> None:
    config = seaweed.config(uuid.uuid4().hex)
    store, client, data = config.connect(), seaweed.client(), b"x" * (5 << 20)
    store.write("whole", data)
    where = {"Bucket": seaweed.bucket, "Key": f"{config.prefix}/parts"}
    upload = client.create_multipart_upload(**where)["UploadId"]
    part = client.upload_part(**where, UploadId=upload, PartNumber=1, Body=data)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload=parts)
    assert store.head("whole").digest == md5(data)
    assert store.head("parts").digest is None


@pytest.mark.parametrize(
    ("header", "value", "proves"),
    [
        ("x-amz-server-side-encryption", "AES256", True),
        ("x-amz-server-side-encryption", "aws:kms", False),
        ("x-amz-server-side-encryption", "aws:kms:dsse", False),
        ("x-amz-server-side-encryption", "of-another-kind", False),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256", False),
        ("x-amz-server-side-encryption-customer-key-md5", "x", False),
        ("x-amz-server-side-encryption-aws-kms-key-id", "x", False),
        ("x-amz-server-side-encryption-bucket-key-enabled", "false", True),
        ("ETag", 'W/"900150983cd24fb0d6963f7d28e17f72"', False),
        ("x-amz-storage-class", "EXPRESS_ONEZONE", False),
        ("x-amz-storage-class", "STANDARD_IA", True),
    ],
)
def test_head_proves_nothing_where_the_etag_is_no_digest(
    faulty_s3: Faulty, header: str, value: str, proves: bool
) -> None:
    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        return replace(answer, headers=answer.headers | {header: value})

    faulty_s3.direct.write("data/a", b"abc")
    faulty_s3.proxy.hook = hook
    found = faulty_s3.store.head("data/a")
    assert found.digest == (md5(b"abc") if proves else None)
    faulty_s3.proxy.requests.clear()
    assert heads(faulty_s3.store, ["data/a"]) == [found]
    assert "amz-sdk-invocation-id" not in faulty_s3.proxy.requests[-1].headers, "boto3 was not asked"


@pytest.mark.parametrize("bucket", ["lake--use1-az4--x-s3", "point--use1-az4--xa-s3"])
def test_a_directory_bucket_is_refused_for_data_and_backups_and_its_namesakes_are_not(bucket: str) -> None:
    settings = Settings(ServerSettings("", "", ""))
    said = f"s3://{bucket}/lake lies in an S3 directory bucket .* general purpose"
    with pytest.raises(SettingsError, match=said):
        config_for(Namespace(f"s3://{bucket}/lake"), settings)
    with pytest.raises(SettingsError, match=said):
        config_at(f"s3://{bucket}/lake", settings)
    assert config_for(Namespace(f"s3://{bucket}-of-ours/lake"), settings)


def test_many_stores_made_side_by_side_read_what_the_sdk_knows_of_s3_once(
    seaweed: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [seaweed.config(f"{uuid.uuid4().hex}/{number}") for number in range(8)]
    s3_access._loader.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(S3Config.connect, configs))
        assert list(pool.map(lambda store: list(store.list()), stores)) == [[]] * 8

    def read(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(JSONFileLoader, "load_file", read)
    places = s3_access._loader(None).search_paths
    assert configs[0].connect().delete_many(["a"]) == ["deleted"], "clients for deletes too"
    assert s3_access._loader(None).search_paths == places, "and they do not pile up"
