"""What stores say of how they keep objects: asked of real servers, of recorded answers where none gives them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from azure.storage.blob import RetentionPolicy

from lakegc_core.store.local import LocalConfig
from lakegc_core.store.s3.store import S3Config
from lakegc_core.store.settings import Effect, LifecycleRule, StoreSettings, Untold, Uploads, after_days, prefix_below
from tests.core.store.conftest import behind_proxy
from tests.support.azurite import AzureServer
from tests.support.gcs_server import GCSServer
from tests.support.proxy import Answer, Forward, Hook, Request
from tests.support.servers import S3Server
from tests.support.store_faults import PROTOCOLS, Faulty

WEEK = timedelta(days=7)
QUESTIONS = {
    "versioning": ("versioning", "s3:GetBucketVersioning"),
    "object-lock": ("lock", "s3:GetBucketObjectLockConfiguration"),
    "encryption": ("encryption", "s3:GetEncryptionConfiguration"),
    "lifecycle": ("lifecycle", "s3:GetLifecycleConfiguration"),
    "uploads": ("uploads", "s3:ListBucketMultipartUploads"),
}
"""What S3's requests are called, with the setting that each tells and the right that it takes."""


@pytest.fixture
def bucket(seaweed: S3Server) -> S3Config:
    """A fresh bucket of SeaweedFS, with a namespace in it."""
    name = f"kept-{uuid.uuid4().hex[:8]}"
    seaweed.client().create_bucket(Bucket=name)
    return seaweed.config("ns", bucket=name)


@pytest.fixture
def faulty_gcs(gcs: GCSServer) -> Iterator[Faulty]:
    """The emulator behind a proxy."""
    yield from behind_proxy(PROTOCOLS["gcs"], gcs)


def test_a_plain_bucket_keeps_nothing_of_what_is_deleted(bucket: S3Config) -> None:
    assert bucket.connect().settings() == StoreSettings(False, timedelta(0), "", "", (), Uploads(0, None))


def test_a_folder_keeps_nothing_of_what_is_deleted(tmp_path: Any) -> None:
    assert LocalConfig(str(tmp_path)).connect().settings() == StoreSettings(False, timedelta(0), "", "", (), None)


def test_a_bucket_tells_all_that_is_set_on_it(seaweed: S3Server, bucket: S3Config) -> None:
    client, where = seaweed.client(), {"Bucket": bucket.bucket}
    key = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "k"}
    encryption = {"Rules": [{"ApplyServerSideEncryptionByDefault": key}]}
    client.put_bucket_versioning(**where, VersioningConfiguration={"Status": "Enabled"})
    client.put_bucket_encryption(**where, ServerSideEncryptionConfiguration=encryption)
    rules = [
        {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "ns/data/"}, "Expiration": {"Days": 3}},
        {"ID": "off", "Status": "Disabled", "Filter": {"Prefix": "ns/data/"}, "Expiration": {"Days": 3}},
        {"ID": "away", "Status": "Enabled", "Filter": {"Prefix": "elsewhere/"}, "Expiration": {"Days": 3}},
    ]
    client.put_bucket_lifecycle_configuration(**where, LifecycleConfiguration={"Rules": rules})
    client.create_multipart_upload(**where, Key="ns/data/x")
    client.create_multipart_upload(**where, Key="elsewhere/x")
    found = bucket.connect().settings()
    assert found.versioning is True and found.encryption == "aws:kms"
    assert found.lifecycle == (LifecycleRule("old", Effect.EXPIRES, "data/", "after 3 days"),)
    assert isinstance(found.uploads, Uploads) and found.uploads.count == 1 and found.uploads.oldest is not None


def test_a_bucket_with_an_object_lock_says_for_how_long_it_keeps_objects(seaweed: S3Server) -> None:
    client, name = seaweed.client(), f"locked-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    store = seaweed.config("ns", bucket=name).connect()
    assert store.settings().lock == "object lock is on, without a default retention"
    kept = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 5}}}
    client.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration=kept)
    assert store.settings().lock == "object lock keeps every new version for 5 days (GOVERNANCE)"


def test_where_deletes_take_old_versions_as_well_none_stay(seaweed: S3Server, bucket: S3Config) -> None:
    enabled = {"Status": "Enabled"}
    seaweed.client().put_bucket_versioning(Bucket=bucket.bucket, VersioningConfiguration=enabled)
    store = seaweed.config("ns", bucket=bucket.bucket, delete_versions=True).connect()
    assert store.settings().versioning is False


def to_question(name: str, answer: Answer) -> Hook:
    """This answer to one question about the bucket, and the server's own to all others."""

    def hook(request: Request, forward: Forward) -> Answer:
        return answer if name in request.query else forward(request)

    return hook


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_the_key_may_not_ask_is_untold_and_names_the_right(faulty_s3: Faulty, question: str) -> None:
    setting, right = QUESTIONS[question]
    body = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    faulty_s3.proxy.hook = to_question(question, Answer(403, {}, body))
    assert getattr(faulty_s3.store.settings(), setting) == Untold("the key may not ask", right)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_a_store_does_not_know_is_untold(faulty_s3: Faulty, question: str) -> None:
    setting, _ = QUESTIONS[question]
    body = b"<Error><Code>NotImplemented</Code><Message>no</Message></Error>"
    faulty_s3.proxy.hook = to_question(question, Answer(501, {}, body))
    assert getattr(faulty_s3.store.settings(), setting) == Untold("the store does not know the question")


@pytest.mark.parametrize("question", sorted(QUESTIONS.keys() - {"versioning"}))
def test_an_answer_that_says_nothing_is_untold_and_never_reads_as_nothing_set(faulty_s3: Faulty, question: str) -> None:
    """Of versioning an empty answer is how S3 says that it was never on."""
    setting, _ = QUESTIONS[question]
    faulty_s3.proxy.hook = to_question(question, Answer(200, {"Content-Type": "application/xml"}, b"<Odd/>"))
    assert getattr(faulty_s3.store.settings(), setting) == Untold("the store's answer is odd")


def test_a_store_that_does_not_answer_tells_nothing(faulty_s3: Faulty) -> None:
    faulty_s3.proxy.hook = lambda request, forward: None
    found = faulty_s3.store.settings()
    assert all(isinstance(getattr(found, setting), Untold) for setting, _ in QUESTIONS.values())


TOLD = {"ResponseMetadata": {"HTTPHeaders": {}}}
DATE = datetime(2026, 11, 2, tzinfo=UTC)
BELOW = {"Filter": {"Prefix": "ns/data/"}}
RULES: dict[str, tuple[dict[str, Any], list[LifecycleRule]]] = {
    "an old form of the prefix": (
        {"Prefix": "ns/", "Expiration": {"Days": 1}},
        [LifecycleRule("r", Effect.EXPIRES, "", "after 1 day")],
    ),
    "the whole bucket": ({"Expiration": {"Date": DATE}}, [LifecycleRule("r", Effect.EXPIRES, "", "on 2026-11-02")]),
    "only some objects": (
        {"Filter": {"And": {"Prefix": "ns/data/", "Tags": []}}, "Expiration": {"Days": 2}},
        [LifecycleRule("r", Effect.EXPIRES, "data/", "after 2 days", narrowed=True)],
    ),
    "delete markers alone": (BELOW | {"Expiration": {"ExpiredObjectDeleteMarker": True}}, []),
    "old versions and uploads": (
        BELOW
        | {
            "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
        },
        [
            LifecycleRule("r", Effect.OLD_VERSIONS, "data/", "after 30 days"),
            LifecycleRule("r", Effect.ENDS_UPLOADS, "data/", "after 7 days"),
        ],
    ),
    "classes": (
        BELOW
        | {"Transitions": [{"Days": 9, "StorageClass": "GLACIER"}, {"Date": DATE, "StorageClass": "STANDARD_IA"}]},
        [
            LifecycleRule("r", Effect.ARCHIVES, "data/", "after 9 days"),
            LifecycleRule("r", Effect.MOVES, "data/", "on 2026-11-02"),
        ],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_every_form_of_a_lifecycle_rule_is_read(bucket: S3Config, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As AWS documents them: SeaweedFS does not take them all."""
    rule, expected = RULES[name]
    store = bucket.connect()
    answer = TOLD | {"Rules": [{"ID": "r", "Status": "Enabled", **rule}]}
    monkeypatch.setattr(store.client, "get_bucket_lifecycle_configuration", lambda Bucket: answer)
    assert store.settings().lifecycle == tuple(expected)


@pytest.mark.parametrize(
    "rule", [{"Status": "Odd"}, {"Status": "Enabled", "Expiration": {"Days": "3"}}, {"Expiration": {"Days": 3}}]
)
def test_an_odd_lifecycle_rule_makes_all_of_them_untold(
    bucket: S3Config, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]
) -> None:
    store = bucket.connect()
    answer = TOLD | {"Rules": [rule]}
    monkeypatch.setattr(store.client, "get_bucket_lifecycle_configuration", lambda Bucket: answer)
    assert store.settings().lifecycle == Untold("the store's answer is odd")


def pages_of_uploads(pages: list[dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Recorded pages of open uploads, one after another."""
    left = iter(pages)
    return lambda **_: TOLD | next(left)


def test_open_uploads_are_counted_over_pages(bucket: S3Config, monkeypatch: pytest.MonkeyPatch) -> None:
    store = bucket.connect()
    first = {"Uploads": [{"Initiated": DATE}] * 2, "IsTruncated": True, "NextKeyMarker": "b", "NextUploadIdMarker": "1"}
    last = {"Uploads": [{"Initiated": DATE - WEEK}], "IsTruncated": False}
    monkeypatch.setattr(store.client, "list_multipart_uploads", pages_of_uploads([first, last]))
    assert store.settings().uploads == Uploads(3, DATE - WEEK)
    monkeypatch.setattr(store.client, "list_multipart_uploads", pages_of_uploads([first, first]))
    assert store.settings().uploads == Untold("the store goes round in circles")
    many = [first | {"NextKeyMarker": str(number)} for number in range(20)]
    monkeypatch.setattr(store.client, "list_multipart_uploads", pages_of_uploads(many))
    assert store.settings().uploads == Uploads(40, DATE, whole=False)


def test_versioning_that_was_suspended_is_untold(bucket: S3Config, monkeypatch: pytest.MonkeyPatch) -> None:
    store = bucket.connect()
    monkeypatch.setattr(store.client, "get_bucket_versioning", lambda Bucket: TOLD | {"Status": "Suspended"})
    found = store.settings().versioning
    assert isinstance(found, Untold) and "suspended" in found.why


def test_azure_tells_soft_delete_and_what_its_data_requests_tell(azure: AzureServer) -> None:
    store = azure.config(uuid.uuid4().hex).connect()
    found = store.settings()
    assert isinstance(found.versioning, Untold) and "none yet" in found.versioning.why
    assert (found.lock, found.encryption, found.uploads) == ("", "", None)
    assert isinstance(found.lifecycle, Untold) and found.lifecycle.right == "", "no right of a data key would help"
    store.probe()  # as each mark does
    assert store.settings().versioning is False
    try:
        store.service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
        assert store.settings().soft_delete == WEEK
    finally:
        store.service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=False))
    assert store.settings().soft_delete == timedelta(0)


def test_azure_names_the_right_that_a_key_lacks(faulty_azure: Faulty) -> None:
    faulty_azure.proxy.hook = lambda request, forward: Answer(403, {}, b"")
    found = faulty_azure.store.settings()
    assert isinstance(found.soft_delete, Untold) and found.soft_delete.right.endswith("/blobServices/read")
    assert isinstance(found.lock, Untold) and found.lock.right.endswith("/containers/read")
    assert isinstance(found.versioning, Untold)


@pytest.mark.parametrize(
    ("policy", "hold", "versions", "lock", "stops_writes"),
    [
        (True, False, False, "an immutability policy", True),
        (True, True, False, "an immutability policy and a legal hold", True),
        (True, False, True, "an immutability policy", False),
        (False, False, False, "", False),
        (None, False, False, Untold("the store's answer does not say"), False),
    ],
)
def test_azure_tells_what_makes_a_container_immutable(
    azure: AzureServer,
    monkeypatch: pytest.MonkeyPatch,
    policy: bool | None,
    hold: bool,
    versions: bool,
    lock: str | Untold,
    stops_writes: bool,
) -> None:
    """Recorded: Azurite has neither policies nor holds. Of versions, a lock keeps those that were written over."""
    store = azure.config(uuid.uuid4().hex).connect()
    answer = SimpleNamespace(
        has_immutability_policy=policy, has_legal_hold=hold, immutable_storage_with_versioning_enabled=versions
    )
    monkeypatch.setattr(store.container.client, "get_container_properties", lambda **_: answer)
    found = store.settings()
    assert (found.lock, found.lock_stops_writes) == (lock, stops_writes)


@pytest.mark.parametrize(("header", "undeletes"), [("true", False), ("false", True), (None, None)])
def test_azure_tells_whether_soft_delete_is_a_way_back_by_the_kind_of_the_account(
    faulty_azure: Faulty, header: str | None, undeletes: bool | None
) -> None:
    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        if request.query.get("comp") != "properties" or request.query.get("restype") != "account":
            return answer
        headers = {name: value for name, value in answer.headers.items() if name.lower() != "x-ms-is-hns-enabled"}
        return Answer(answer.status, headers | ({"x-ms-is-hns-enabled": header} if header else {}), answer.body)

    faulty_azure.proxy.hook = hook
    with keeping(faulty_azure):
        assert faulty_azure.store.settings().undeletes is faulty_azure.store.probe().undeletes is undeletes
    assert faulty_azure.store.settings().undeletes is True, "where nothing is kept it makes no difference"


def test_who_may_not_ask_what_kind_an_azure_account_is_of_is_not_told(faulty_azure: Faulty) -> None:
    faulty_azure.proxy.hook = lambda request, forward: (
        Answer(403, {}, b"") if request.query.get("restype") == "account" else forward(request)
    )
    with keeping(faulty_azure):
        assert faulty_azure.store.settings().undeletes is None


@contextmanager
def keeping(faulty: Faulty) -> Iterator[None]:
    """The account keeps deleted blobs for a week meanwhile."""
    service: Any = faulty.direct.service  # type: ignore[attr-defined]
    try:
        service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
        yield
    finally:
        service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=False))


def is_bucket(request: Request) -> bool:
    return request.method == "GET" and "/o" not in request.path.partition("/b/")[2]


def test_gcs_tells_what_the_metadata_of_its_bucket_tells(faulty_gcs: Faulty) -> None:
    plain = faulty_gcs.store.settings()
    assert plain == StoreSettings(False, timedelta(0), "", "", (), None, lock_stops_writes=True)
    base = f"{faulty_gcs.config.prefix}/"
    delete, age = {"type": "Delete"}, {"age": 3}
    rules = [
        {"action": delete, "condition": age | {"matchesPrefix": [f"{base}data/", "elsewhere/"]}},
        {"action": delete, "condition": {"daysSinceNoncurrentTime": 5}},
        {
            "action": {"type": "SetStorageClass", "storageClass": "ARCHIVE"},
            "condition": age | {"matchesSuffix": [".x"]},
        },
        {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": age},
    ]
    more = {
        "versioning": {"enabled": True},
        "softDeletePolicy": {"retentionDurationSeconds": "604800"},
        "retentionPolicy": {"retentionPeriod": "86400"},
        "defaultEventBasedHold": True,
        "encryption": {"defaultKmsKeyName": "projects/p/k"},
        "lifecycle": {"rule": rules},
    }

    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        return (
            Answer(200, answer.headers, json.dumps(json.loads(answer.body) | more).encode())
            if is_bucket(request)
            else answer
        )

    faulty_gcs.proxy.hook = hook  # the emulator knows little of this
    found = faulty_gcs.store.settings()
    assert (found.versioning, found.soft_delete, found.encryption) == (True, WEEK, "projects/p/k")
    assert found.lock == "a retention policy of 1 days and an event-based hold on every new object"
    assert found.lifecycle == (
        LifecycleRule("number 1", Effect.EXPIRES, "data/", "after 3 days"),
        LifecycleRule("number 2", Effect.OLD_VERSIONS, "", "after 5 days"),
        LifecycleRule("number 3", Effect.MOVES, "", "after 3 days", narrowed=True),
        LifecycleRule("number 4", Effect.ENDS_UPLOADS, "", "after 3 days"),
    )


def test_gcs_tells_nothing_to_a_key_that_may_not_see_the_bucket(faulty_gcs: Faulty) -> None:
    faulty_gcs.proxy.hook = lambda request, forward: Answer(403, {}, b"") if is_bucket(request) else forward(request)
    found, untold = faulty_gcs.store.settings(), Untold("the key may not ask", "storage.buckets.get")
    assert found == StoreSettings(untold, untold, untold, untold, untold, untold)


def test_prefixes_of_whole_keys_become_prefixes_of_addresses() -> None:
    assert prefix_below("", "ns/") == prefix_below("n", "ns/") == prefix_below("ns/", "ns/") == ""
    assert prefix_below("ns/data/", "ns/") == "data/"
    assert prefix_below("ns2/", "ns/") is None and prefix_below("data/", "ns/") is None
    assert prefix_below("data/", "") == "data/"


def test_a_time_that_is_no_number_of_days_is_an_error() -> None:
    assert after_days(1) == "after 1 day" and after_days(0) == "after 0 days"
    for odd in ("3", None, True, 1.5):
        with pytest.raises(ValueError, match="no number"):
            after_days(odd)
