"""A sweep's deletes name the ETags of its plan if lakegc.yaml lets them and the store proves that it keeps to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakegc_core import clock
from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import DeleteConditions, StoreMapping
from lakegc_core.errors import RefusedError
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.gcs.store import GCSConfig
from lakegc_core.store.local import LocalConfig
from lakegc_core.store.pace import Gate
from lakegc_core.sweep.conditions import Conditions, conditions_of
from lakegc_core.sweep.deletion import PLAN_SCHEMA, Deletion, Piece
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import PartWriter, list_parts, read_part
from tests.support.fake_s3 import FakeS3, fake_s3
from tests.support.proxy import Answer, Forward, Request
from tests.support.servers import S3Server

OLD = datetime.now(UTC) - timedelta(days=9)
A, B, C = (f"data/{number:021}" for number in range(3))


@pytest.fixture
def s3() -> Iterator[tuple[S3Server, FakeS3]]:
    with fake_s3() as found:
        yield found


def passing_over(request: Request, forward: Forward) -> Answer:
    """A store that knows no conditions of deletes."""
    headers = {name: value for name, value in request.headers.items() if name.lower() != "if-match"}
    return forward(replace(request, headers=headers, body=re.sub(rb"<ETag>.*?</ETag>", b"", request.body)))


def context(data: StoreConfig, uri: str, mode: DeleteConditions | None = None) -> Any:
    stores = (StoreMapping(uri, delete_conditions=mode),) if mode else ()
    settings = Settings(ServerSettings("http://lakefs", "key", "secret"), stores=stores)
    return SimpleNamespace(namespace=Namespace(uri), settings=settings, data=data)


@pytest.mark.parametrize(("mode", "strict"), [("auto", False), ("always", True)])
def test_deletes_name_etags_where_the_store_keeps_to_them(
    s3: tuple[S3Server, FakeS3], mode: DeleteConditions, strict: bool
) -> None:
    found = conditions_of(context(s3[0].config("ns"), "s3://lake/ns", mode))
    assert found == Conditions(named=True, strict=strict) and found.as_json() == {"named": True, "why": ""}


def test_a_store_that_does_not_keep_to_them_gets_none_and_the_report_says_why(s3: tuple[S3Server, FakeS3]) -> None:
    s3[1].hook = passing_over
    found = conditions_of(context(s3[0].config("ns"), "s3://lake/ns", "auto"))
    why = "a delete of many objects that named another ETag deleted the object"
    assert not found.named and found.as_json() == {"named": False, "why": why}


def test_a_sweep_that_has_to_name_etags_is_refused_where_the_store_does_not_keep_to_them(
    s3: tuple[S3Server, FakeS3],
) -> None:
    s3[1].hook = passing_over
    with pytest.raises(RefusedError, match=r"`delete_conditions: always`.*named another ETag deleted the object"):
        conditions_of(context(s3[0].config("ns"), "s3://lake/ns", "always"))


def test_nobody_asks_a_store_that_is_not_to_be_asked(s3: tuple[S3Server, FakeS3], tmp_path: Path) -> None:
    for mode in (None, "never"):
        assert conditions_of(context(s3[0].config("ns"), "s3://lake/ns", mode)) == Conditions()
    assert s3[1].requests == []
    google = GCSConfig("lake", "ns", endpoint_url="http://127.0.0.1:9")  # nobody listens there
    assert "`delete_conditions: always`" in conditions_of(context(google, "gs://lake/ns", "auto")).why
    assert conditions_of(context(LocalConfig(str(tmp_path)), "local://lake")) == Conditions()


def rows(*etags: tuple[str, str | None]) -> pa.RecordBatch:
    found = [
        {"address": address, "size": 1, "last_modified": OLD, "etag": etag, "since": OLD} for address, etag in etags
    ]
    return pa.RecordBatch.from_pylist(found, schema=PLAN_SCHEMA)


def etags(config: StoreConfig) -> Mapping[str, str]:
    return {row["address"]: row["etag"] for batch in connect(config).list() for row in batch.to_pylist()}


@pytest.mark.parametrize(("strict", "outcome"), [(False, "deleted"), (True, "failed:NoETag")])
def test_an_object_that_was_listed_without_an_etag_stays_where_each_delete_has_to_name_one(
    s3: tuple[S3Server, FakeS3], strict: bool, outcome: str
) -> None:
    config = s3[0].config("ns")
    for key in (A, B):
        connect(config).write(key, b"1")
    plan = rows((A, None), (B, etags(config)[B]))
    assert Conditions(named=True, strict=strict).delete(connect(config), plan, Gate()) == [outcome, "deleted"]
    assert list(etags(config)) == ([A] if strict else [])


@pytest.mark.parametrize(("conditions", "outcome"), [(Conditions(named=True), "changed"), (Conditions(), "deleted")])
def test_a_task_leaves_what_was_written_over_since_it_was_listed_and_records_that(
    s3: tuple[S3Server, FakeS3], tmp_path: Path, conditions: Conditions, outcome: str
) -> None:
    data, artifacts = s3[0].config("ns"), LocalConfig(str(tmp_path))
    for key in (A, B, C):
        connect(data).write(key, b"1")
    writer = PartWriter(artifacts, "plan", PLAN_SCHEMA)
    writer.write(rows(*sorted(etags(data).items())))
    source = Source(artifacts, "plan", writer.close()[0], "")
    connect(data).write(B, b"2")
    now = clock.now().timestamp()
    journal, namespace = DatasetFolder(artifacts, "outcomes"), Namespace("s3://lake/ns")
    work = Deletion(data, journal, 1, namespace, cutoff=now, until=now + 60, lease=None, conditions=conditions)
    (told,) = work.run(Piece(source))
    assert told["left"] == [] and list(etags(data)) == ([B] if conditions.named else [])
    found = [batch for part in list_parts(artifacts, "outcomes") for batch in read_part(artifacts, "outcomes", part)]
    assert {row["address"]: row["outcome"] for batch in found for row in batch.to_pylist()} == {
        A: "deleted",
        B: outcome,
        C: "deleted",
    }
