"""A mark checks a sample of listed ETags where lakegc.yaml says that they are MD5s, and one that is none refuses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pytest

from lakegc_core.config.credentials import S3Access
from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext, begin_mark, open_repository
from lakegc_core.policy.safety import ETAGS_ASKED
from lakegc_core.references.shown.sampled_etags import check_etags
from lakegc_core.spark.versions import frame_of
from lakegc_core.store.base import connect
from lakegc_sandbox import Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.disguise import Disguise
from tests.support.fake_s3 import FakeS3, Stored, fake_s3
from tests.support.proxy import Answer, Forward, Request
from tests.support.servers import S3Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW = datetime(2026, 11, 21, tzinfo=UTC)
MANY = 3 * ETAGS_ASKED


@dataclass(frozen=True)
class Pond:
    """A repository on a server in memory, whose namespace holds MANY objects below data/."""

    spark: SparkSession
    lakefs: SandboxServer
    s3: S3Server
    store: FakeS3

    def mark(self, mark_id: str = "m1", **says: str) -> MarkContext:
        """A mark that has just begun. `says`: more of lakegc.yaml's entry of the store."""
        settings = Settings(
            server=ServerSettings(self.lakefs.url, ACCESS_KEY, SECRET_KEY),
            stores=(StoreMapping("s3://", endpoint=self.s3.endpoint, **says),),  # type: ignore[arg-type]
            s3=S3Access(region="us-east-1", access_key_id=self.s3.access_key, secret_access_key=self.s3.secret_key),
        )
        return begin_mark(open_repository(settings, "pond"), mark_id)

    def listed(self, context: MarkContext) -> DataFrame:
        """What a listing shows of the objects."""
        batches = list(connect(context.data).list("data/"))
        return frame_of(self.spark, pa.Table.from_batches(batches).select(["address", "size", "etag"]))

    def check(self, mark_id: str = "m1") -> list[str]:
        """The addresses that one mark's check asks for."""
        context = self.mark(mark_id, etags="md5")
        objects = self.listed(context)
        self.store.requests.clear()
        check_etags(context, objects)
        return self.heads()

    def heads(self) -> list[str]:
        """The objects that were asked for, without the probe."""
        heads = [unquote(each.path) for each in self.store.requests if each.method == "HEAD"]
        return [path.partition("/pond/")[2] for path in heads if "/data/" in path]


@pytest.fixture
def pond(quick: SparkSession, tmp_path: Path) -> Iterator[Pond]:
    with fake_s3() as (server, store), SandboxServer(Sandbox(tmp_path, blockstore="s3")) as lakefs:
        place = server.config("pond")
        lakefs.sandbox.create_repository("pond", f"s3://{place.bucket}/pond", store=place).set_rules(7)
        keys = [f"pond/data/slice/{number:03}" for number in range(MANY)]
        store.objects |= {key: Stored(key.encode(), NOW) for key in keys}
        yield Pond(quick, lakefs, server, store)


def refusing(wanted: Callable[[str], bool]) -> Callable[[Request, Forward], Answer]:
    """HEADs of these addresses are refused, as a policy does."""
    return lambda request, forward: (
        Answer(403, {}, b"") if request.method == "HEAD" and wanted(request.path) else forward(request)
    )


def test_a_mark_asks_for_a_few_objects_the_same_when_it_is_resumed_and_others_than_the_next_mark(pond: Pond) -> None:
    first = pond.check("m1")
    assert len(first) == len(set(first)) == ETAGS_ASKED
    assert sorted(pond.check("m1")) == sorted(first)
    assert len(set(pond.check("m2")) - set(first)) > ETAGS_ASKED // 3


def test_without_the_promise_nothing_is_asked(pond: Pond) -> None:
    context = pond.mark()
    objects = pond.listed(context)
    pond.store.hook = Disguise(lambda path: True)
    pond.store.requests.clear()
    check_etags(context, objects)
    assert pond.heads() == []


def test_one_object_under_kms_refuses_the_mark_and_is_named_with_what_to_do(pond: Pond) -> None:
    secret = sorted(pond.check())[7]
    pond.store.hook = Disguise(lambda path: path.endswith(secret))
    with pytest.raises(RefusedError) as refused:
        pond.check()
    said = str(refused.value)
    assert f"/pond/{secret} is listed with the ETag" in said and "no MD5, as under KMS" in said
    assert "Remove `etags: md5` from lakegc.yaml, and make a new mark" in said


def test_heads_that_fail_are_no_contradiction_while_others_are_answered(pond: Pond) -> None:
    answered = sorted(pond.check())[7]
    pond.store.hook = refusing(lambda path: not path.endswith(answered))
    assert answered in pond.check()


def test_where_no_head_is_answered_the_promise_cannot_be_checked_and_the_mark_is_refused(pond: Pond) -> None:
    pond.store.hook = refusing(lambda path: "/data/" in path)
    with pytest.raises(RefusedError, match=r"cannot be checked: HEAD showed none of 50 listed objects \(.* 403 .*\)"):
        pond.check()


def test_objects_that_are_all_gone_prove_no_promise(pond: Pond) -> None:
    context = pond.mark(etags="md5")
    objects = pond.listed(context)
    pond.store.objects.clear()
    with pytest.raises(RefusedError, match=r"cannot be checked.*gone"):
        check_etags(context, objects)


def test_objects_that_were_uploaded_in_parts_are_not_asked_for(pond: Pond) -> None:
    context = pond.mark(etags="md5")
    in_parts = pa.table({"address": ["data/slice/large"], "size": [1 << 33], "etag": ["0" * 32 + "-9"]})
    without = pa.table({"address": ["data/slice/odd"], "size": [1], "etag": pa.array([None], pa.string())})
    pond.store.requests.clear()
    check_etags(context, frame_of(pond.spark, pa.concat_tables([in_parts, without])))
    assert pond.heads() == []
