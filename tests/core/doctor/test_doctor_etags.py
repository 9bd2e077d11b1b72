"""What lakegc.yaml says of ETags, looked at on a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

import pytest

from lakegc_core.config.stores import StoreMapping
from lakegc_core.doctor.etags import examine_etags
from lakegc_core.doctor.finding import Level
from lakegc_core.store.base import Store
from lakegc_sandbox.files.names import Names
from tests.core.doctor.conftest import Patient, worst
from tests.support.disguise import Disguise
from tests.support.fake_s3 import FakeS3, Stored, fake_s3, xml
from tests.support.proxy import Answer, Forward, Proxy, Request, proxy
from tests.support.servers import S3Server

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@dataclass(frozen=True)
class Claiming:
    """A patient of which lakegc.yaml says `etags: md5`, and whose store the doctor reaches through a proxy."""

    patient: Patient
    proxy: Proxy

    def heads(self) -> list[str]:
        """Addresses of data that were asked for by HEAD."""
        every = [each.path.partition("/ns/")[2] for each in self.proxy.requests if each.method == "HEAD"]
        return [key for key in every if key.startswith("data/")]


def claiming(patient: Patient, between: Proxy) -> Claiming:
    mapping = StoreMapping("s3://", endpoint=between.endpoint, etags="md5")
    return Claiming(patient.at(stores=(mapping,)), between)


@pytest.fixture
def patient(on_s3: Patient, weed: S3Server) -> Iterator[Claiming]:
    with proxy(weed.endpoint) as between:
        yield claiming(on_s3, between)


def test_on_a_sound_store_the_claim_is_looked_at_and_nothing_is_found(patient: Claiming) -> None:
    found = patient.patient.examine()
    assert "ETags" in found.looked_at
    assert [each.name for each in found.findings] == ["slashes-folded", "no-mark"]
    data = {key for key in patient.patient.files() if key.startswith("data/")}
    assert set(patient.heads()) == data


def test_where_nothing_is_claimed_no_heads_are_made_for_it(patient: Claiming) -> None:
    claims_nothing = (StoreMapping("s3://", endpoint=patient.proxy.endpoint),)
    patient.proxy.hook = Disguise(lambda path: True)
    found = patient.patient.at(stores=claims_nothing).examine()
    assert "ETags" not in found.looked_at and worst(found) == []
    assert len(patient.heads()) == 1, "the right to see data was tried"


def test_one_object_under_kms_is_an_alarm_that_names_it_and_says_what_to_do(patient: Claiming) -> None:
    secret = sorted(key for key in patient.patient.files() if key.startswith("data/"))[-1]
    patient.proxy.hook = Disguise(lambda path: path.endswith(secret))
    (finding,) = worst(patient.patient.examine())
    assert (finding.name, finding.level) == ("etags-no-md5", Level.ALARM)
    assert secret in finding.what and "under KMS" in finding.what
    assert "Remove `etags: md5` from lakegc.yaml" in finding.do


def test_a_bucket_that_encrypts_by_kms_is_an_alarm(patient: Claiming) -> None:
    """SeaweedFS has no key service: it takes no writes to such a bucket, so the answer alone is S3's."""
    default = "<ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm>"
    rule = f"<Rule>{default}</ApplyServerSideEncryptionByDefault></Rule>"
    answer = xml("ServerSideEncryptionConfiguration", rule)
    patient.proxy.hook = lambda request, forward: answer if "encryption" in request.query else forward(request)
    (finding,) = worst(patient.patient.examine())
    assert (finding.name, finding.level) == ("etags-encrypted", Level.ALARM)
    assert "(aws:kms)" in finding.what and "Remove `etags: md5`" in finding.do


def test_a_key_that_may_not_see_data_cannot_check_it_and_that_is_said(patient: Claiming) -> None:
    def refuse(request: Request, forward: Forward) -> Answer:
        is_data = request.method == "HEAD" and "/ns/data/" in request.path
        return Answer(403, {}, b"") if is_data else forward(request)

    patient.proxy.hook = refuse
    found = {each.name: each for each in worst(patient.patient.examine())}
    assert found.keys() == {"right-store-see", "etags-unchecked"}
    finding = found["etags-unchecked"]
    assert finding.level is Level.WARNING and "cannot be checked" in finding.what and "403" in finding.what


# --- which objects are asked for: on a server in memory, with a namespace of years ---


def store_of(server: S3Server) -> Store:
    return server.config("ns", etags_are_md5=True).connect()


@pytest.fixture
def memory() -> Iterator[tuple[Store, FakeS3]]:
    with fake_s3() as (server, running):
        yield store_of(server), running


def asked(running: FakeS3) -> list[str]:
    """Addresses that were asked for by HEAD, without the probe."""
    every = [unquote(each.path).partition("/ns/")[2] for each in running.requests if each.method == "HEAD"]
    return [key for key in every if not key.startswith("_lakefs/")]


def test_nothing_to_check_is_a_note(memory: tuple[Store, FakeS3]) -> None:
    store, running = memory
    (finding,) = examine_etags(store)
    assert (finding.name, finding.level) == ("etags-unchecked", Level.NOTE) and "no object was found" in finding.what
    assert not asked(running)


def fill_years(running: FakeS3, shards: int) -> list[str]:
    """Objects of 150 hours, a week apart, oldest first."""
    names = Names(seed=1, shards=shards)
    hours = [1_600_000_000 + number * 7 * 86_400 for number in range(150)]
    keys = [names.data_address(hour + second) for hour in hours for second in range(5)]
    running.objects |= {f"ns/{key}": Stored(key.encode(), NOW) for key in keys}
    return keys


@pytest.mark.parametrize("shards", [0, 40, 4096])
def test_objects_of_all_ages_are_asked_for_few_and_the_same_each_time(
    memory: tuple[Store, FakeS3], shards: int
) -> None:
    store, running = memory
    keys = fill_years(running, shards)
    assert examine_etags(store) == []
    first = asked(running)
    assert 15 <= len(first) <= 66 and len(first) == len(set(first))
    ages = sorted(keys.index(key) / len(keys) for key in first)
    assert ages[0] < 0.1 and ages[-1] > 0.9
    running.requests.clear()
    assert examine_etags(store) == [] and sorted(asked(running)) == sorted(first)


@pytest.mark.parametrize("place", [0, -1])
def test_what_is_false_of_the_oldest_or_the_newest_slice_alone_is_found(
    memory: tuple[Store, FakeS3], place: int
) -> None:
    store, running = memory
    slice_of = fill_years(running, 0)[place].rpartition("/")[0]
    running.hook = Disguise(lambda path: f"/{slice_of}/" in path)
    (finding,) = examine_etags(store)
    assert finding.level is Level.ALARM and f"/{slice_of}/" in finding.what


@pytest.mark.parametrize("key", ["0123456789abcdef0123456789abcdef", "data/0123456789abcdefghijk"])
def test_objects_beside_the_folders_are_asked_for(memory: tuple[Store, FakeS3], key: str) -> None:
    """As clients and servers before v0.84 wrote them."""
    store, running = memory
    running.objects[f"ns/{key}"] = Stored(b"old", NOW)
    assert examine_etags(store) == []
    assert asked(running) == [key]


def test_objects_that_were_uploaded_in_parts_are_not_asked_for(memory: tuple[Store, FakeS3]) -> None:
    store, running = memory
    running.objects["ns/data/s/o"] = InParts(b"large", NOW)
    (finding,) = examine_etags(store)
    assert finding.name == "etags-unchecked" and not asked(running)


class InParts(Stored):
    @property
    def etag(self) -> str:
        return f'{super().etag[:-1]}-2"'
