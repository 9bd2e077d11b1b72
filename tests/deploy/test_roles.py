"""Each command does all its work with the policy that deploy/ has for it, on a real S3 server that judges by it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.credentials import S3Access
from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.copies.backup import backup, restore
from lakegc_core.copies.copied import CopyResult
from lakegc_core.doctor.examine import examine
from lakegc_core.doctor.finding import Finding, Level
from lakegc_core.errors import RefusedError, StoreError
from lakegc_core.marks.context import MarkContext, begin_mark, open_mark, open_repository
from lakegc_core.marks.quarantine import record_of
from lakegc_core.marks.retire import retire
from lakegc_core.policy import safety
from lakegc_core.policy.facts import ListingFacts
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.result import SweepResult
from lakegc_sandbox import Repository, Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.policies import Users
from tests.support.replays import environment
from tests.support.servers import S3Server, seaweedfs
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = timedelta(days=1)
AHEAD = 5.0  # seconds by which lakeFS and the collector are ahead of the store: what was written just now is old enough
VERSIONED = "versioned"
"""A bucket that keeps versions."""


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("roles"), iam=True) as server:
        client = server.client()
        client.create_bucket(Bucket=VERSIONED)
        client.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
        yield server


@dataclass
class Shop:
    """A repository `lake`, whose users have the policies of deploy/."""

    spark: SparkSession
    weed: S3Server
    server: SandboxServer
    bucket: str

    @property
    def repository(self) -> Repository:
        return self.server.sandbox.repository("lake")

    @property
    def prefix(self) -> str:
        return self.repository.place.namespace.removeprefix(f"s3://{self.bucket}/")

    @property
    def backups(self) -> str:
        return f"s3://{self.weed.bucket}/backups"

    def role(self, *names: str, without: tuple[str, str] | None = None) -> S3Access:
        """The keys of a new user with these policies, named without `s3-` and `.json`."""
        places = {"BUCKET": self.bucket, "PREFIX": self.prefix, "BACKUPS": self.weed.bucket, "PLACE": "backups"}
        return Users(self.weed).user([f"s3-{name}.json" for name in names], places, without)

    def settings(self, role: S3Access, *, store: dict[str, Any] | None = None, **policy: Any) -> Settings:
        os.environ["LAKEGC_NOW"] = str(time() + AHEAD)
        return Settings(
            server=ServerSettings(self.server.url, ACCESS_KEY, SECRET_KEY),
            stores=(StoreMapping("s3://", endpoint=self.weed.endpoint, **(store or {})),),
            repositories=(RepositoryPolicy(match="*", safety="none", **policy),),
            s3=role,
        )

    def mark(self, role: S3Access, mark_id: str, **more: Any) -> MarkContext:
        """A new mark."""
        context = begin_mark(open_repository(self.settings(role, **more), "lake"), mark_id, min_age=timedelta(0))
        pipeline.mark(self.spark, context)
        return context

    def at(self, mark: MarkContext, role: S3Access, **more: Any) -> MarkContext:
        """The same mark, for another role."""
        return open_mark(open_repository(self.settings(role, **more), "lake"), mark.header.mark_id)

    def data(self) -> set[str]:
        """The keys below `data/`."""
        pages = self.weed.client().get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.bucket, Prefix=f"{self.prefix}/data/")
        return {each["Key"].removeprefix(f"{self.prefix}/") for page in found for each in page.get("Contents", ())}

    def drop(self, *names: str) -> set[str]:
        """New objects that nothing refers to any more."""
        before = self.data()
        for name in names:
            self.repository.upload("main", name, name.encode(), age=DAYS)
        self.repository.reset("main")
        return self.data() - before


@pytest.fixture(params=["plain"])
def shop(
    request: pytest.FixtureRequest,
    quick: SparkSession,
    weed: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shop]:
    """What counts is committed, and three objects are garbage. Canaries and rings are as at other levels."""
    bucket = VERSIONED if request.param == VERSIONED else weed.bucket
    prefix = f"{tmp_path.name}/ns"
    none, full = safety.LEVELS["none"], safety.FULL
    monkeypatch.setitem(safety.LEVELS, "none", replace(none, samples=full.samples, rings=full.rings))
    with ExitStack() as stack:
        stack.enter_context(environment({"LAKEGC_UNSAFE": "yes", "LAKEGC_NOW": str(time() + AHEAD)}))
        sandbox = Sandbox(tmp_path, blockstore="s3", clock=lambda: time() + AHEAD, seed=1)
        server = stack.enter_context(SandboxServer(sandbox))
        store = weed.config(prefix, bucket=bucket)
        lake = sandbox.create_repository("lake", f"s3://{bucket}/{prefix}", store=store, age=60 * DAYS)
        lake.set_rules(7)
        for number in range(3):
            lake.upload("main", f"kept/{number}", f"{number}".encode(), age=30 * DAYS)
        lake.commit("main", "what counts")
        yield Shop(quick, weed, server, bucket)


def counted(result: SweepResult | CopyResult) -> dict[str, int]:
    return {name: count for name, count in result.outcomes.items() if count}


@pytest.mark.slow
def test_a_mark_its_sweep_with_quarantine_conditions_canaries_and_a_budget_a_restore_and_retirement(shop: Shop) -> None:
    kept = shop.data()
    garbage = shop.drop("a", "b", "c")
    mark, sweeper = shop.mark(shop.role("mark"), "m1"), shop.role("sweep")
    careful = shop.at(mark, sweeper, store={"delete_conditions": "auto"}, quarantine=timedelta(seconds=1))
    first = pipeline.sweep(shop.spark, careful, budget=Budget(most_objects=1))
    assert counted(first) == {"deleted": 1, "over_budget": 2} and first.delete_conditions["named"]
    assert sum(first.canaries.values()) == 3 and first.quarantine
    second = pipeline.sweep(shop.spark, shop.at(mark, sweeper))
    assert counted(second) == {"deleted": 2} and shop.data() == kept
    back = restore(shop.spark, shop.at(mark, shop.role("restore")))
    assert counted(back) == {"copied": 1, "missing": 2} and len(shop.data() & garbage) == 1
    retirer, record = shop.role("retire"), record_of(mark, "m1")
    assert record is not None
    until(lambda: time() > record.until, "the quarantine is over", 60)
    shop.mark(shop.role("mark"), "m2")  # which tells what is live again
    until(lambda: retire(shop.at(mark, retirer), dry_run=True).quarantine.emptied, "the quarantine is over", 60)
    with pytest.raises(StoreError, match="retire-fails"):
        retire(shop.at(mark, sweeper))
    assert retire(shop.at(mark, retirer)).quarantine.emptied["m1"]["objects"] == 1
    assert len(shop.data() & garbage) == 1


@pytest.mark.slow
def test_an_optimized_mark_a_backup_and_a_restore_from_it(shop: Shop) -> None:
    kept, marker, sweeper = shop.data(), shop.role("mark"), shop.role("sweep")
    shop.drop("a", "b")
    assert counted(pipeline.sweep(shop.spark, shop.at(shop.mark(marker, "m1"), sweeper))) == {"deleted": 2}
    garbage = shop.drop("c", "d")
    mark = shop.mark(marker, "m2")
    assert mark.mark.facts(ListingFacts).rests_on, "an optimized mark"
    assert counted(backup(shop.spark, shop.at(mark, shop.role("backup")), shop.backups)) == {"copied": 2}
    careful = shop.role("sweep", "read-backups")
    assert counted(pipeline.sweep(shop.spark, shop.at(mark, careful, backup=True))) == {"deleted": 2}
    assert shop.data() == kept
    assert counted(restore(shop.spark, shop.at(mark, shop.role("restore", "read-backups")), shop.backups)) == {
        "copied": 2
    }
    assert shop.data() == kept | garbage


@pytest.mark.slow
@pytest.mark.parametrize("shop", [VERSIONED], indirect=True)
def test_deletes_that_the_store_takes_back_and_deletes_of_all_versions(shop: Shop) -> None:
    kept, marker = shop.data(), shop.role("mark")
    garbage = shop.drop("a", "b")
    mark = shop.mark(marker, "m1")
    assert counted(pipeline.sweep(shop.spark, shop.at(mark, shop.role("sweep")))) == {"deleted": 2}
    assert shop.data() == kept
    assert counted(restore(shop.spark, shop.at(mark, shop.role("restore")))) == {"copied": 2}
    assert shop.data() == kept | garbage
    for_good = {"delete_versions": True}
    mark = shop.mark(marker, "m2", store=for_good)
    role = shop.role("sweep-versions")
    assert counted(pipeline.sweep(shop.spark, shop.at(mark, role, store=for_good))) == {"deleted": 2}
    left = shop.weed.client().list_object_versions(Bucket=VERSIONED, Prefix=f"{shop.prefix}/data/")
    assert {each["Key"].removeprefix(f"{shop.prefix}/") for each in left["Versions"]} == kept
    assert not left.get("DeleteMarkers")


@pytest.mark.slow
def test_a_right_that_is_missing_is_named_and_nothing_is_lost(shop: Shop) -> None:
    everything = shop.data() | shop.drop("a", "b", "c")
    for number, (action, place) in enumerate(OF_MARKS):
        with pytest.raises(StoreError, match=f"grant these credentials {action}"):
            shop.mark(shop.role("mark", without=(action, place)), f"m{number}")
    mark = shop.mark(shop.role("mark"), "whole")
    with pytest.raises(StoreError, match="grant these credentials s3:GetObject"):
        shop.at(mark, shop.role("sweep", without=("s3:GetObject", "/*")))
    exact = {"delete_conditions": "always"}
    unsure = shop.at(mark, shop.role("sweep", without=("s3:PutObject", "/delete-probe/*")), store=exact)
    with pytest.raises(RefusedError, match="grant these credentials s3:PutObject"):
        pipeline.sweep(shop.spark, unsure)
    with pytest.raises(StoreError, match="grant these credentials s3:PutObject"):
        backup(shop.spark, shop.at(mark, shop.role("backup", without=("s3:PutObject", "/PLACE/*"))), shop.backups)
    lame = shop.at(mark, shop.role("sweep", without=("s3:DeleteObject", "/data/*")))
    assert counted(pipeline.sweep(shop.spark, lame)) == {"failed:AccessDenied": 3}
    assert shop.data() == everything
    assert counted(pipeline.sweep(shop.spark, shop.at(mark, shop.role("sweep")))) == {"deleted": 3}


OF_MARKS = [("s3:ListBucket", "BUCKET"), ("s3:GetObject", "/_lakefs/*"), ("s3:PutObject", "/gc/*")]


def test_the_doctor_names_each_right_that_a_policy_lacks(shop: Shop) -> None:
    def found(*names: str, without: tuple[str, str] | None = None, **more: Any) -> dict[str, Finding]:
        """The findings above a note."""
        every = examine(shop.settings(shop.role(*names, without=without), **more), "lake").every_finding
        return {each.name: each for each in every if each.level is not Level.NOTE}

    assert found("sweep", "doctor") == found("mark", "see-data", "doctor") == {}
    (see,) = found("mark", "doctor").values()
    assert see.name == "right-store-see" and "s3:GetObject" in see.what and see.level is Level.WARNING
    for action, place in OF_MARKS:
        alarms = [each.what for each in found("mark", without=(action, place)).values() if each.level is Level.ALARM]
        assert alarms and all(f"grant these credentials {action}" in each for each in alarms), action
