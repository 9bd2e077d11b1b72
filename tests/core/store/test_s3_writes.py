"""What S3 demands of writes: a checksum where a bucket locks new objects, encryption where a policy wants it."""

from __future__ import annotations

import base64
import hashlib
import io
from dataclasses import replace
from pathlib import Path

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from urllib3 import HTTPResponse

from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import NoConditionsError, PreconditionFailedError, StoreError
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.factory import config_for
from lakegc_core.store.s3 import store as s3
from lakegc_core.store.s3.store import S3Config
from tests.support.fake_s3 import fake_s3
from tests.support.proxy import Answer, Forward, Request
from tests.support.store_faults import Faulty

NO_CHECKSUM = (
    b"<Error><Code>InvalidRequest</Code><Message>Content-MD5 OR x-amz-checksum- HTTP header is required for Put "
    b"Object requests with Object Lock parameters</Message></Error>"
)
XML = {"Content-Type": "application/xml"}
PART = 8 << 20  # bytes of the parts in which the SDK sends


def has_body(request: Request) -> bool:
    """True of a PUT of an object or of a part, which is no copy."""
    return request.method == "PUT" and request.header("x-amz-copy-source") is None


def locked(request: Request, forward: Forward) -> Answer:
    """A bucket that locks new objects, as S3 has it: it takes no body without a checksum, nor with a wrong one."""
    digest = base64.b64encode(hashlib.md5(request.body, usedforsecurity=False).digest()).decode()
    if not has_body(request) or request.header("Content-MD5") == digest:
        return forward(request)
    return Answer(400, XML, NO_CHECKSUM if request.header("Content-MD5") is None else b"<Error><Code>BadDigest</Code>")


def refusing(code: str, message: str = "no") -> Answer:
    return Answer(403, XML, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())


def test_a_bucket_that_locks_new_objects_takes_every_write(faulty_s3: Faulty) -> None:
    faulty_s3.proxy.hook = locked
    etag = faulty_s3.store.write("lease", b"one", if_absent=True)
    faulty_s3.store.write("lease", b"two", if_match=etag)
    with pytest.raises(PreconditionFailedError):
        faulty_s3.store.write("lease", b"three", if_match=etag)
    assert faulty_s3.store.read("lease") == b"two" and faulty_s3.store.probe().conditional_writes


@pytest.mark.parametrize("size", [0, 1_000_000, PART + 1, 2 * PART + 5])
def test_such_a_bucket_takes_a_file_from_its_place_on_in_one_piece_or_in_parts(faulty_s3: Faulty, size: int) -> None:
    content = bytes(number % 251 for number in range(1000)) * (size // 1000 + 1)
    file = io.BytesIO(b"before" + content[:size])
    file.seek(len(b"before"))
    faulty_s3.proxy.hook = locked
    faulty_s3.store.upload("data/a", file)
    assert faulty_s3.direct.read("data/a") == content[:size]
    sent = [each for each in faulty_s3.proxy.requests if has_body(each)]
    assert len(sent) == -(-size // PART) or size < PART


@pytest.mark.parametrize("condition", [{}, {"if_absent": True}, {"if_match": "x"}])
def test_where_the_checksum_is_lost_on_the_way_the_lock_is_named_and_no_condition_is_blamed(
    faulty_s3: Faulty, condition: dict[str, object]
) -> None:
    faulty_s3.proxy.hook = lambda request, forward: Answer(400, XML, NO_CHECKSUM)
    with pytest.raises(StoreError, match=r"the bucket locks new objects .* pass this header on") as raised:
        faulty_s3.store.write("lease", b"one", **condition)  # type: ignore[arg-type]
    assert not isinstance(raised.value, NoConditionsError)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("BadDigest", "The Content-MD5 you specified did not match what we received."),
        ("InvalidDigest", "The Content-MD5 you specified is not valid."),
        ("XAmzContentSHA256Mismatch", "The provided x-amz-content-sha256 header does not match what was computed."),
    ],
)
def test_where_bytes_change_on_the_way_no_lock_is_blamed(faulty_s3: Faulty, code: str, message: str) -> None:
    faulty_s3.proxy.hook = lambda request, forward: refusing(code, message)
    with pytest.raises(StoreError, match=f"{code}.*: the bytes changed on the way; run it again") as raised:
        faulty_s3.store.write("lease", b"one", if_absent=True)
    assert "locks" not in str(raised.value) and not isinstance(raised.value, NoConditionsError)


def test_bodies_are_signed_on_https_and_the_style_of_addresses_stays_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "config"
    own.write_text("[default]\ns3 =\n  addressing_style = virtual\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(own))
    sent = []

    def answers(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        """Stands in for the network."""
        sent.append(request)
        return AWSResponse(request.url, 200, {"ETag": '"x"'}, HTTPResponse(io.BytesIO(), preload_content=False))

    config = S3Config("bucket", endpoint_url="https://s3.test", access_key_id="k", secret_access_key="s", region="r")
    store = config.connect()
    store.client.meta.events.register("before-send.s3.PutObject", answers)
    store.write("data/a", b"bytes")
    (request,) = sent
    assert request.url == "https://bucket.s3.test/data/a"
    assert request.headers["x-amz-content-sha256"].decode() == hashlib.sha256(b"bytes").hexdigest()


def test_a_denied_write_and_a_denied_copy_name_all_that_may_be_missing(faulty_s3: Faulty) -> None:
    faulty_s3.direct.write("data/a", b"1")
    denied = refusing("AccessDenied")
    faulty_s3.proxy.hook = lambda request, forward: denied if request.method == "PUT" else forward(request)
    keys = r"kms:GenerateDataKey and kms:Decrypt.*`encryption` in lakegc.yaml"
    with pytest.raises(StoreError, match=f"s3:PutObject; .*{keys}"):
        faulty_s3.store.write("data/b", b"1")
    with pytest.raises(StoreError, match=f"s3:GetObject on .*s3:GetObjectTagging and s3:PutObjectTagging; .*{keys}"):
        faulty_s3.store.copy(faulty_s3.config, "data/a", "data/b")


def test_a_copy_of_what_lies_in_an_archive_class_says_what_to_do(faulty_s3: Faulty) -> None:
    faulty_s3.direct.write("data/a", b"1")
    asleep = refusing("InvalidObjectState")
    faulty_s3.proxy.hook = lambda request, forward: asleep if request.method == "PUT" else forward(request)
    with pytest.raises(StoreError, match=r"InvalidObjectState .*: the object lies in an archive class.*without `quara"):
        faulty_s3.store.copy(faulty_s3.config, "data/a", "data/b")


# Encryption


ASKED = "x-amz-server-side-encryption"


@pytest.mark.parametrize("key_id", [None, "arn:aws:kms:eu-west-1:1:key/k"])
def test_writes_and_copies_ask_for_the_encryption_that_lakegc_yaml_names(key_id: str | None) -> None:
    with fake_s3() as (server, running):
        config = server.config("ns", encryption="aws:kms", kms_key_id=key_id)
        store = config.connect()
        store.write("data/a", b"1", if_absent=True)
        store.upload("data/b", io.BytesIO(b"2"))
        assert store.copy(config, "data/a", "data/c") is not None
        sent = [each for each in running.requests if each.method == "PUT"]
    assert len(sent) == 3
    assert {each.header(ASKED) for each in sent} == {"aws:kms"}
    assert {each.header(f"{ASKED}-aws-kms-key-id") for each in sent} == {key_id}


def test_without_a_word_of_it_no_encryption_is_asked_for() -> None:
    with fake_s3() as (server, running):
        server.config("ns").connect().write("data/a", b"1")
        assert all(not name.lower().startswith(ASKED) for each in running.requests for name in each.headers)


@pytest.mark.usefixtures("copies_in_parts")
def test_uploads_and_copies_in_parts_ask_for_it_as_they_begin(faulty_s3: Faulty) -> None:
    """SeaweedFS has no keys for it, so the requests show it."""
    faulty_s3.direct.write("data/large", bytes(LEAST + 1))
    denied = refusing("AccessDenied")
    faulty_s3.proxy.hook = lambda request, forward: denied if "uploads" in request.query else forward(request)
    store = replace(faulty_s3.config, encryption="AES256").connect()
    with pytest.raises(StoreError):
        store.upload("data/b", io.BytesIO(bytes(PART + 1)))
    with pytest.raises(StoreError):
        store.copy(faulty_s3.config, "data/large", "data/c")
    begun = [each for each in faulty_s3.proxy.requests if "uploads" in each.query]
    assert [each.header(ASKED) for each in begun] == ["AES256", "AES256"]


def test_the_entry_of_lakegc_yaml_says_which_encryption() -> None:
    stores = (StoreMapping("s3://lake", encryption="aws:kms", kms_key_id="k"),)
    settings = Settings(ServerSettings("", "", ""), stores=stores)
    found, other = (config_for(Namespace(f"s3://{name}/ns"), settings) for name in ("lake", "other"))
    assert isinstance(found, S3Config) and isinstance(other, S3Config)
    assert (found.encryption, found.kms_key_id) == ("aws:kms", "k")
    assert (other.encryption, other.kms_key_id) == (None, None)


# What a copy keeps

LEAST = 5 << 20  # bytes: S3 takes no smaller parts, but for the last one


@pytest.fixture
def copies_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_COPY_AT_ONCE", LEAST)
    monkeypatch.setattr(s3, "_IN_PARTS", TransferConfig(multipart_threshold=LEAST, multipart_chunksize=LEAST))


@pytest.mark.usefixtures("copies_in_parts")
@pytest.mark.parametrize("size", [1, LEAST + 1])
def test_a_copy_keeps_content_type_and_metadata_at_once_and_in_parts(faulty_s3: Faulty, size: int) -> None:
    client, bucket, prefix = faulty_s3.direct.client, faulty_s3.config.bucket, faulty_s3.config.prefix  # type: ignore[attr-defined]
    told = {"ContentType": "text/csv", "Metadata": {"owner": "me"}, "CacheControl": "no-store"}
    client.put_object(Bucket=bucket, Key=f"{prefix}/data/a", Body=bytes(size), **told)
    faulty_s3.store.copy(faulty_s3.config, "data/a", "data/b")
    found = client.head_object(Bucket=bucket, Key=f"{prefix}/data/b")
    assert {name: found.get(name) for name in told} == told
