"""Rights in the store that a key lacks, stores without conditions, wrong clocks: each is named, and nothing stays."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from lakegc_core import clock
from lakegc_core.config.stores import StoreMapping
from lakegc_core.doctor.finding import Level
from lakegc_core.doctor.store_rights import judge_clock
from lakegc_core.errors import StoreError
from lakegc_core.policy.safety import FULL
from lakegc_core.store.base import connect
from lakegc_core.store.local.store import LocalStore
from lakegc_core.store.s3.store import S3Store
from tests.core.doctor.conftest import READER, READER_SECRET, Patient, s3_settings, worst
from tests.support.proxy import Answer, Forward, Hook, Proxy, Request, proxy
from tests.support.s3_dialects import DIALECTS
from tests.support.servers import S3Server, rclone_s3

OWN = "_lakefs/retention/gc/lakegc/"


def denied() -> Answer:
    """By a store whose clock is right."""
    body = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    return Answer(403, {"Date": format_datetime(datetime.now(UTC), usegmt=True)}, body)


@dataclass(frozen=True)
class Behind:
    """A patient on S3 whose store the doctor reaches through a proxy."""

    patient: Patient
    proxy: Proxy

    def refuse(self, wanted: Any) -> None:
        """Requests of this kind are refused, as a policy does."""
        self.proxy.hook = lambda request, forward: denied() if wanted(request) else forward(request)


@pytest.fixture
def behind(on_s3: Patient, weed: S3Server) -> Iterator[Behind]:
    with proxy(weed.endpoint) as between:
        settings = s3_settings(on_s3.server.url, between.endpoint, weed)
        yield Behind(replace(on_s3, settings=settings), between)


def is_list(request: Request) -> bool:
    return "list-type" in request.query


def is_delete(request: Request) -> bool:
    return request.method == "DELETE" or "delete" in request.query


def key_of(request: Request) -> str:
    return request.path.partition("?")[0].partition("/ns/")[2]


def test_a_real_key_that_may_only_read_cannot_mark(on_s3: Patient, weed: S3Server) -> None:
    settings = s3_settings(on_s3.server.url, weed.endpoint, weed, READER, READER_SECRET)
    patient, before = replace(on_s3, settings=settings), on_s3.files()
    found = {each.name: each for each in patient.examine().findings}
    assert found["right-store-write"].level is Level.ALARM and "AccessDenied" in found["right-store-write"].what
    assert found["right-store-delete"].level is Level.NOTE
    assert on_s3.files() == before


def test_a_key_that_may_not_list_is_an_alarm(behind: Behind) -> None:
    behind.refuse(is_list)
    names = {each.name for each in worst(behind.patient.examine())}
    assert {"right-store-list", "right-store-list-data"} <= names


def test_a_key_that_may_not_read_metadata_is_an_alarm(behind: Behind) -> None:
    behind.refuse(lambda request: request.method == "HEAD" and key_of(request).startswith("_lakefs/"))
    names = {each.name for each in worst(behind.patient.examine())}
    assert "right-store-unreachable" not in names
    assert {"right-store-read", "right-store-read-lists"} <= names


def test_a_key_that_may_not_see_data_can_mark_and_not_sweep(behind: Behind) -> None:
    behind.refuse(lambda request: request.method == "HEAD" and key_of(request).startswith("data/"))
    (finding,) = worst(behind.patient.examine())
    assert finding.name == "right-store-see" and finding.level is Level.WARNING and "sweep" in finding.why


def test_a_key_that_may_not_write_is_an_alarm(behind: Behind) -> None:
    behind.refuse(lambda request: request.method == "PUT")
    (finding,) = worst(behind.patient.examine())
    assert finding.name == "right-store-write" and "AccessDenied" in finding.what


def test_a_key_that_may_not_read_what_it_wrote_is_an_alarm_and_leaves_nothing(behind: Behind) -> None:
    behind.refuse(lambda request: request.method == "GET" and key_of(request).startswith(OWN))
    before = behind.patient.files()
    assert [each.name for each in worst(behind.patient.examine())] == ["right-store-write"]
    assert behind.patient.files() == before


def test_where_deletes_are_refused_that_is_said_and_nothing_is_written(behind: Behind) -> None:
    """As the policies of deploy/ refuse it to marks and sweeps."""
    behind.refuse(is_delete)
    before = behind.patient.files()
    finding = behind.patient.finding("right-store-delete")
    assert finding.level is Level.NOTE and "cannot be told" in finding.what and "failed:AccessDenied" in finding.what
    assert worst(behind.patient.examine()) == []
    assert behind.patient.files() == before
    puts = [request for request in behind.proxy.requests if request.method == "PUT"]
    assert puts and all(request.header("If-Match") == '"1"' for request in puts), "only what cannot succeed"


def test_only_keys_of_the_doctors_own_are_written_or_deleted_and_all_are_new(behind: Behind) -> None:
    behind.patient.examine()
    changing = [each for each in behind.proxy.requests if each.method in ("PUT", "DELETE", "POST")]
    named = [key_of(each) or each.body.decode() for each in changing]
    assert len(named) >= 6
    assert all(f"{OWN}doctor/" in name for name in named)
    before = {name.partition(f"{OWN}doctor/")[2].partition("/")[0] for name in named}
    assert len(before) == 1 and len(before.pop()) == 32


def test_a_store_without_conditional_writes_is_an_alarm_unless_something_else_keeps_collectors_apart(
    tmp_path: Path, on_s3: Patient
) -> None:
    """rclone's S3 takes every write."""
    with rclone_s3(tmp_path / "rclone") as server:
        settings = s3_settings(on_s3.server.url, server.endpoint, server)
        namespace, store = f"s3://{server.bucket}/ns", server.config("ns")
        sandbox = on_s3.server.sandbox
        sandbox.delete_repository("lake")
        sandbox.create_repository("lake", namespace, store=store, age=timedelta(days=60)).set_rules(7)
        patient = replace(on_s3, settings=settings, s3=server, store=store)
        finding = patient.finding("conditional-writes")
        assert finding.level is Level.ALARM and "lease: external" in finding.do
        assert worst(patient.at(lease="external").examine()) == []
        assert server.folder is not None
        left = [path for path in (server.folder / "ns" / OWN).rglob("*") if path.is_file()]
        assert left == [], "what it should not have taken is removed"


@pytest.mark.parametrize("condition", ["if-none-match", "if-match"])
def test_each_condition_is_tried(behind: Behind, condition: str) -> None:
    def ignores(request: Request, forward: Forward) -> Answer:
        never = request.header("If-Match") == '"1"'
        kept = {name: each for name, each in request.headers.items() if never or name.lower() != condition}
        return forward(replace(request, headers=kept))

    behind.proxy.hook = ignores
    before = behind.patient.files()
    found = behind.patient.finding("conditional-writes")
    assert found.level is Level.ALARM
    assert behind.patient.files() == before


WITHOUT_CONDITIONS = [
    "304 to every If-None-Match",
    "400 to If-None-Match",
    "501 to If-None-Match",
    "412 to every If-Match",
]


@pytest.mark.parametrize("name", WITHOUT_CONDITIONS)
def test_conditions_that_do_not_work_are_one_alarm_that_names_the_way_out_and_the_way_out_works(
    behind: Behind, name: str
) -> None:
    behind.proxy.hook = DIALECTS[name].make()
    before = behind.patient.files()
    (found,) = worst(behind.patient.examine())
    assert found.name == "conditional-writes" and found.level is Level.ALARM and "lease: external" in found.do
    assert worst(behind.patient.at(lease="external").examine()) == []
    assert behind.patient.files() == before


WORKING = [
    "KeyCount without prefixes",
    "304 where the key is taken",
    "one 409 at the first condition",
    "204 to deletes of many",
    "half of a DeleteResult",
]


@pytest.mark.parametrize("name", WORKING)
def test_a_dialect_of_s3_that_lakegc_works_with_is_no_alarm_and_nothing_stays(behind: Behind, name: str) -> None:
    behind.proxy.hook = DIALECTS[name].make()
    before = behind.patient.files()
    assert worst(behind.patient.examine()) == []
    assert behind.patient.files() == before


def test_a_store_that_folds_slashes_is_named_and_one_that_does_not_is_not(behind: Behind, on_folder: Patient) -> None:
    finding = behind.patient.finding("slashes-folded")  # SeaweedFS does
    assert finding.level is Level.NOTE and "docs/stores.md" in finding.do
    assert "slashes-folded" not in {each.name for each in on_folder.examine().findings}
    behind.proxy.hook = lambda request, forward: (
        denied() if request.method == "PUT" and "//" in request.path else forward(request)
    )
    assert "slashes-folded" not in {each.name for each in behind.patient.examine().findings}


@pytest.mark.parametrize(
    "name", ["no IsTruncated", "no NextContinuationToken", "no date", "204 to writes", "virtual-hosted style only"]
)
def test_a_dialect_that_lakegc_cannot_work_with_is_an_alarm_in_words_that_help(behind: Behind, name: str) -> None:
    if name == "no NextContinuationToken":
        behind.proxy.hook = more_pages(DIALECTS[name].make())
    else:
        behind.proxy.hook = DIALECTS[name].make()
    alarms = [each for each in behind.patient.examine().findings if each.level is Level.ALARM]
    assert any(DIALECTS[name].refusal in each.what for each in alarms), alarms


def more_pages(hook: Hook) -> Hook:
    """Every page of a list says that there are more."""

    def changed(request: Request, forward: Forward) -> Answer | None:
        answer = hook(request, forward)
        assert answer is not None
        return replace(answer, body=answer.body.replace(b"<IsTruncated>false", b"<IsTruncated>true"))

    return changed


def test_what_cannot_be_removed_is_named(behind: Behind) -> None:
    hook: Hook = lambda request, forward: (  # noqa: E731
        denied() if is_delete(request) and b"/written<" in request.body else forward(request)
    )
    behind.proxy.hook = hook
    finding = behind.patient.finding("left-behind")
    assert finding.level is Level.WARNING and f"/{OWN}doctor/" in finding.do
    (left,) = behind.patient.files().keys() - {key for key in behind.patient.files() if key.startswith("data/")}
    assert left in finding.do


def test_in_a_versioned_bucket_no_version_stays_either(on_bucket: Patient) -> None:
    assert on_bucket.s3 is not None and on_bucket.store is not None
    client, bucket = on_bucket.s3.client(), on_bucket.store.bucket
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    on_bucket.examine()
    left = client.list_object_versions(Bucket=bucket, Prefix=f"ns/{OWN}")
    assert "Versions" not in left and "DeleteMarkers" not in left


def test_where_deletes_take_versions_that_right_is_tried_too(on_bucket: Patient, weed: S3Server) -> None:
    assert on_bucket.store is not None
    client, bucket = weed.client(), on_bucket.store.bucket
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    with proxy(weed.endpoint) as between:
        patient = on_bucket.at(stores=(StoreMapping("s3://", endpoint=between.endpoint, delete_versions=True),))
        assert [each.name for each in patient.examine().findings] == ["slashes-folded", "no-mark"]
        left = client.list_object_versions(Bucket=bucket, Prefix=f"ns/{OWN}")
        assert "Versions" not in left and "DeleteMarkers" not in left
        Behind(patient, between).refuse(lambda request: is_delete(request) and b"VersionId" in request.body)
        before = patient.files()
        assert "failed:AccessDenied" in patient.finding("right-store-delete").what
        assert patient.files() == before, "what could not be removed was not written"


def test_a_workspace_elsewhere_is_tried_as_well(on_folder: Patient, tmp_path: Path) -> None:
    place = tmp_path / "marks"
    place.mkdir()
    patient = on_folder.policy(workspace=f"local:/{place}")
    assert [each.name for each in patient.examine().findings] == ["no-mark"]
    assert list(place.iterdir()) == []
    place.rmdir()
    place.write_bytes(b"a file where a folder should be")
    assert {each.name for each in worst(patient.examine())} >= {"right-store-write"}


@pytest.mark.parametrize("patient", ["on_folder", "on_s3"])
def test_a_store_that_cannot_be_reached_is_one_alarm_and_is_not_asked_for_more(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, patient: str
) -> None:
    def away(store: object) -> datetime:
        raise StoreError("nobody answers")

    found: Patient = request.getfixturevalue(patient)
    monkeypatch.setattr(LocalStore if patient == "on_folder" else S3Store, "clock", away)
    diagnosis = found.examine()
    assert [each.name for each in worst(diagnosis)] == ["store-unreachable"]
    assert "how the store keeps objects" not in diagnosis.looked_at


def test_a_bucket_that_is_missing_is_one_alarm_that_says_that_nothing_which_rests_on_it_was_looked_at(
    on_bucket: Patient,
) -> None:
    assert on_bucket.s3 is not None and on_bucket.store is not None
    client, bucket = on_bucket.s3.client(), on_bucket.store.bucket
    for each in client.list_objects_v2(Bucket=bucket)["Contents"]:
        client.delete_object(Bucket=bucket, Key=each["Key"])
    client.delete_bucket(Bucket=bucket)
    found = on_bucket.examine()
    (finding,) = found.findings
    assert (finding.name, finding.level) == ("store-missing", Level.ALARM)
    assert "NoSuchBucket" in finding.what and "What rests on it was not looked at." in finding.why
    assert set(found.looked_at) == {"the server", "clocks", "rules and policy"}


def test_a_wrong_clock_of_the_store_is_an_alarm(on_s3: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    monkeypatch.setattr(S3Store, "clock", lambda store: now + timedelta(minutes=11))
    finding = on_s3.finding("clocks")
    assert finding.level is Level.ALARM and "differ by 660 s; the limit is 600 s" in finding.what


def test_a_clock_that_nears_the_limit_is_a_warning() -> None:
    assert judge_clock(200, FULL) == judge_clock(-299, FULL) == []
    assert [each.level for each in judge_clock(-400, FULL)] == [Level.WARNING]
    assert [each.level for each in judge_clock(-601, FULL)] == [Level.ALARM]


@pytest.mark.parametrize("minutes", [-11, 11])
def test_a_wrong_clock_of_lakefs_is_a_warning(
    on_folder: Patient, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    now = clock.now().replace(microsecond=0)  # a date of HTTP has none
    monkeypatch.setattr(clock, "now", lambda: now)
    monkeypatch.setattr(on_folder.server.sandbox, "clock", lambda: now.timestamp() + minutes * 60)
    finding = on_folder.finding("server-clock")
    assert finding.level is Level.WARNING and f"differ by {minutes * 60} s" in finding.what


def test_a_lakefs_without_dates_says_nothing_of_its_clock(on_folder: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(on_folder.client), "clock", lambda client: None)
    assert "server-clock" not in {each.name for each in on_folder.examine().findings}


def test_a_store_is_asked_under_names_that_it_never_had(on_s3: Patient) -> None:
    """Two doctors at once do not meet."""
    store = connect(on_s3.open().data)
    key = f"{OWN}doctor/{uuid.uuid4().hex}/written"
    store.write(key, b"another doctor's")
    on_s3.examine()
    assert store.read(key) == b"another doctor's"


def test_a_workspace_in_a_bucket_that_does_not_exist_is_one_alarm(on_s3: Patient) -> None:
    (finding,) = worst(on_s3.policy(workspace="s3://no-such-bucket-at-all/marks").examine())
    assert (finding.name, finding.level) == ("store-missing", Level.ALARM)
    assert finding.what.startswith("`workspace` leads to s3://no-such-bucket-at-all/marks. ")
