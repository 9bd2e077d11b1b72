"""Stores that call themselves S3 and differ from it: a right result, or one clear refusal that names the way out.

On the dialects that lakegc works with, the contract runs too (`test_contract`).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.errors import LakegcError, RefusedError, SettingsError
from lakegc_core.marks.lease import held
from lakegc_core.store.base import StoreConfig
from tests.core.store.conftest import WORKING
from tests.support.fake_s3 import PAGE, FakeS3, fake_s3
from tests.support.proxy import Answer, pass_on
from tests.support.s3_dialects import DIALECTS

REFUSED = tuple(name for name in DIALECTS if name not in WORKING)


@pytest.fixture
def fake(request: pytest.FixtureRequest) -> Iterator[tuple[StoreConfig, FakeS3]]:
    """A store of the dialect that the test names."""
    with fake_s3(DIALECTS[request.param].make()) as (server, running):
        yield server.config("ns", max_attempts=2), running


def look(config: StoreConfig) -> None:
    """What the doctor and a mark do first: the clock, a listing by level and a whole one, a write and a read."""
    store = config.connect()
    store.clock()
    list(store.list_level(""))
    assert sum(batch.num_rows for batch in store.list()) == PAGE + 1
    store.write("a", b"1")
    assert store.read("a") == b"1" and store.delete_many(["a"]) == ["deleted"]


@pytest.mark.parametrize("fake", WORKING, indirect=True)
def test_what_lies_there_is_listed_whole_and_what_is_deleted_is_gone(fake: tuple[StoreConfig, FakeS3]) -> None:
    config, running = fake
    store, keys = config.connect(), [f"data/{number:03}" for number in range(PAGE + 1)]
    for key in keys:
        store.write(key, b"")
    look(config)
    assert store.delete_many(keys) == ["deleted"] * (PAGE + 1)
    assert set(running.objects) == set()


@pytest.mark.parametrize("fake", REFUSED, indirect=True)
def test_a_dialect_that_lakegc_cannot_work_with_is_refused_in_words_that_help(
    fake: tuple[StoreConfig, FakeS3], request: pytest.FixtureRequest
) -> None:
    config, running = fake
    refusal = DIALECTS[request.node.callspec.params["fake"]].refusal
    hook, running.hook = running.hook, pass_on
    store = config.connect()
    for number in range(PAGE + 1):
        store.write(f"data/{number:03}", b"")
    look(config)
    running.hook = hook
    with pytest.raises(LakegcError, match=refusal):
        look(config)


@pytest.mark.parametrize("fake", WORKING, indirect=True)
def test_a_lease_is_held_where_conditions_work_and_is_the_operators_affair_elsewhere(
    fake: tuple[StoreConfig, FakeS3], request: pytest.FixtureRequest
) -> None:
    config, _ = fake
    if DIALECTS[request.node.callspec.params["fake"]].conditions:
        for _ in range(2):  # the second time, the lease of the first one lies there, given back
            with held(config, "home", "mark", external=False, demanded=True) as lease:
                assert lease is not None
                for _ in range(2):
                    lease.renew()
                    lease.check()
        return
    with pytest.raises(SettingsError, match="lease: external"), held(config, "h", "m", external=False, demanded=True):
        pass
    with held(config, "h", "m", external=True, demanded=True) as lease:
        assert lease is None
    with held(config, "h", "m", external=False, demanded=False) as lease:
        assert lease is None, "safety level none goes on without"


@pytest.mark.parametrize("fake", ["S3 itself"], indirect=True)
def test_a_lease_that_the_store_refuses_to_write_where_none_lies_is_no_other_collectors(
    fake: tuple[StoreConfig, FakeS3],
) -> None:
    """The probe cannot see this: its own object lies there from before, and may not be deleted."""
    config, running = fake
    config.connect().probe()
    running.hook = lambda request, forward: (
        Answer(412, {}, b"") if request.header("If-None-Match") is not None else forward(request)
    )
    with pytest.raises(SettingsError, match="lease: external"), held(config, "h", "m", external=False, demanded=True):
        pass
    running.hook = pass_on
    with held(config, "h", "m", external=False, demanded=True) as lease:
        assert lease is not None


@pytest.mark.parametrize("fake", ["weak ETags"], indirect=True)
def test_a_renewal_under_a_weak_etag_is_refused_once_the_lease_is_somebody_elses(
    fake: tuple[StoreConfig, FakeS3],
) -> None:
    config, _ = fake
    with held(config, "h", "m", external=False, demanded=True) as lease:
        assert lease is not None
        config.connect().write("h/lease.json", b"{}")
        lease.renew()
        with pytest.raises(RefusedError, match="somebody else took it"):
            lease.check()


def test_a_store_that_takes_only_virtual_hosted_style_works_as_the_documents_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("[default]\ns3 =\n  addressing_style = virtual\n", encoding="utf-8")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    resolve = socket.getaddrinfo

    def here(host: str, *rest: Any, **options: Any) -> Any:
        """Not every machine resolves names below localhost."""
        return resolve("127.0.0.1" if host == "lake.localhost" else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    with fake_s3(DIALECTS["virtual-hosted style only"].make()) as (server, running):
        endpoint = server.endpoint.replace("127.0.0.1", "localhost")
        store = server.config("ns", endpoint_url=endpoint, max_attempts=2).connect()
        store.write("data/a", b"1")
        assert [row for batch in store.list() for row in batch.column("address").to_pylist()] == ["data/a"]
        assert store.delete_many(["data/a"]) == ["deleted"] and not running.objects
