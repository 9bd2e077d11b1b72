"""The whole way, from the mark to 410, of a repository whose objects lie on a store behind a network."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import RetentionPolicy

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.copies.backup import restore
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks import quarantine
from lakegc_core.marks.context import begin_mark, open_repository
from lakegc_core.marks.retire import retire
from lakegc_core.stages import swept_report
from lakegc_core.store.azure.store import AzureStore
from lakegc_core.store.base import Store, StoreConfig, connect
from lakegc_core.views.report import sweep_report
from lakegc_core.views.screen import sweep_screen
from lakegc_sandbox.api.server import SandboxServer
from lakegc_sandbox.files.graveler_writer import Entry
from lakegc_sandbox.lakefs import Sandbox
from lakegc_sandbox.model.repository import Repository
from tests.support.azurite import azurite
from tests.support.gcs_server import fake_gcs
from tests.support.npm import NoNetworkError
from tests.support.replays import AWS, AZURE, environment
from tests.support.servers import seaweedfs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = timedelta(days=1)
PREFIX = "team a/ünï"


@pytest.fixture(params=["s3", *(pytest.param(name, marks=pytest.mark.slow) for name in ("azure", "gs"))])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str, StoreConfig, StoreMapping]]:
    """Blockstore, namespace, the store there, and what lakegc.yaml says of it. Credentials are in the environment."""
    with ExitStack() as stack:
        stack.enter_context(environment(AWS | AZURE))
        if request.param == "s3":
            s3 = stack.enter_context(seaweedfs(tmp_path))
            uri, config, endpoint = f"s3://{s3.bucket}/{PREFIX}", s3.config(PREFIX), s3.endpoint
        elif request.param == "azure":
            try:
                blobs = stack.enter_context(azurite(tmp_path))
            except NoNetworkError as error:
                pytest.skip(str(error))
            uri, config, endpoint = blobs.namespace(PREFIX), blobs.config(PREFIX), blobs.endpoint
        else:
            gcs = stack.enter_context(fake_gcs(tmp_path))
            uri, config, endpoint = f"gs://{gcs.bucket}/{PREFIX}", gcs.config(PREFIX), gcs.endpoint
        yield request.param, uri, config, StoreMapping(uri.rpartition(f"/{PREFIX}")[0], endpoint=endpoint)


def history(repository: Repository) -> tuple[set[str], set[str]]:
    """Three weeks of a table under rules of seven days; the live and the dead addresses."""
    now = time.time()
    repository.set_rules(7)
    live, dead = set(), set()
    for days in (20, 15, 10, 1):
        for part in range(3):
            address = repository.upload("main", f"table/part {part}", f"{days} {part}".encode(), age=days * DAY)
            (live if days <= 10 else dead).add(address)  # that of day 10 was the head until day 1
        repository.commit("main", f"day {days}", date=datetime.fromtimestamp(now - days * 86_400, UTC))
    live.add(repository.upload("main", "staged", b"staged", age=2 * DAY))
    dead.add(repository.upload("main", "dropped", b"dropped", age=2 * DAY))
    repository.delete("main", "dropped")
    return live, dead


def test_the_garbage_of_a_repository_goes_and_answers_410(
    spark: SparkSession, tmp_path: Path, unsafe: None, place: tuple[str, str, StoreConfig, StoreMapping]
) -> None:
    blockstore, uri, config, mapping = place
    sandbox = Sandbox(tmp_path, blockstore=blockstore, seed=1)
    repository = sandbox.create_repository("lake", uri, store=config, age=30 * DAY)
    live, dead = history(repository)
    store = connect(config)
    store.write("README.md", b"not lakeFS's")
    time.sleep(1.1)  # or longer: some stores count whole seconds, and only what is older than the mark may go
    with SandboxServer(sandbox) as server:
        credentials = ServerSettings(server.url, server.access_key, server.secret_key)
        mapping = replace(mapping, delete_conditions="auto")
        settings = Settings(server=credentials, stores=(mapping,))
        client = LakeFSClient(credentials)
        context = begin_mark(
            open_repository(settings, "lake", client=client), "m1", min_age=timedelta(0), safety_level="none"
        )
        review = pipeline.mark(spark, context)
        assert set(pipeline.expired_of(context)) == dead
        assert review.authorized and review.report["objects"]["foreign"] == 1

        if blockstore == "azure":
            assert isinstance(store, AzureStore)
            store.service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
        kept: set[str] = set()
        if blockstore != "gs":  # whose deletes of many objects name no generation
            kept = {key for key in dead if store.read(key) == b"dropped"}
            store.write(*kept, b"another object")
            dead -= kept
        began = time.time()
        swept = swept_report(spark, context)
        assert (swept.outcomes["deleted"], swept.failed, swept.lost) == (len(dead), 0, 0)
        assert swept.outcomes.get("changed", 0) == len(kept) and swept.trouble == ""
        assert swept.delete_conditions["named"] is bool(kept)
        if blockstore == "azure":
            assert swept.recoverable_until is not None
            assert began - 2 <= swept.recoverable_until - 7 * 86_400 <= time.time() + 2
            assert "kept by the store's soft delete until" in sweep_screen(sweep_report(swept))
        else:
            assert swept.recoverable_until is None and " freed" in sweep_screen(sweep_report(swept))
        left = {key for batch in store.list() for key in batch["address"].to_pylist() if not key.startswith("_lakefs/")}
        assert left == live | kept | {"README.md"}
        assert swept.report is not None
        told = json.loads(store.read(swept.report.partition(f"{PREFIX}/")[2]))
        assert told["outcomes"]["deleted"] == len(dead)

        commits = {commit.message: commit.id for commit in repository.refs.commits.values()}
        assert client.read_byte("lake", commits["day 20"], "table/part 0") == 410
        for ref, path in ((commits["day 10"], "table/part 0"), ("main", "table/part 2"), ("main", "staged")):
            assert client.read_byte("lake", ref, path) in (200, 206)


def test_what_a_store_keeps_under_a_folded_name_is_live(
    spark: SparkSession, tmp_path: Path, unsafe: None, place: tuple[str, str, StoreConfig, StoreMapping]
) -> None:
    """SeaweedFS and Azurite keep `a\\b` under the name `a/b`."""
    blockstore, uri, config, mapping = place
    sandbox = Sandbox(tmp_path, blockstore=blockstore, seed=1)
    repository = sandbox.create_repository("lake", uri, store=config, age=30 * DAY)
    repository.set_rules(7)
    store, live = connect(config), set()
    for path in ("committed", "staged"):
        # A client wrote it under a name of its own, and tells lakeFS of that one.
        named = repository.place.names.data_address(time.time() - 2 * 86_400)
        written = "\\".join(named.rsplit("/", 1))
        store.write(written, b"linked")
        repository.stage_entry("main", path, Entry(written, 6, "0" * 32))
        if path == "committed":
            repository.commit("main", "linked")
            repository.delete("main", path)  # no head shows it: only the entry of a retained commit tells of it
            repository.commit("main", "deleted")
        live.add(written if blockstore == "gs" else named)
    time.sleep(1.1)  # or longer: some stores count whole seconds, and only what is older than the mark may go
    with SandboxServer(sandbox) as server:
        credentials = ServerSettings(server.url, server.access_key, server.secret_key)
        settings = Settings(server=credentials, stores=(mapping,))
        opened = open_repository(settings, "lake", client=LakeFSClient(credentials))
        context = begin_mark(opened, "m1", min_age=timedelta(0), safety_level="none")
        pipeline.mark(spark, context)
        listed = {key for batch in store.list("data/") for key in batch["address"].to_pylist()}
        assert listed == live and list(pipeline.expired_of(context)) == []


def test_what_is_swept_into_quarantine_comes_back_byte_for_byte_and_is_emptied_on_time(
    spark: SparkSession, tmp_path: Path, unsafe: None, place: tuple[str, str, StoreConfig, StoreMapping]
) -> None:
    blockstore, uri, config, mapping = place
    sandbox = Sandbox(tmp_path, blockstore=blockstore, seed=1)
    repository = sandbox.create_repository("lake", uri, store=config, age=30 * DAY)
    live, dead = history(repository)
    store = connect(config)
    before = {key: store.read(key) for key in dead}
    time.sleep(1.1)  # or longer: some stores count whole seconds, and only what is older than the mark may go
    with SandboxServer(sandbox) as server:
        credentials = ServerSettings(server.url, server.access_key, server.secret_key)
        policy = RepositoryPolicy("*", quarantine=timedelta(seconds=1))
        settings = Settings(server=credentials, stores=(mapping,), repositories=(policy,))
        opened = open_repository(settings, "lake", client=LakeFSClient(credentials))
        context = begin_mark(opened, "m1", min_age=timedelta(0), safety_level="none")
        pipeline.mark(spark, context)
        swept = swept_report(spark, context)
        assert (swept.outcomes["deleted"], swept.failed) == (len(dead), 0) and "until" in swept.quarantine
        assert {key for batch in store.list("data/") for key in batch["address"].to_pylist()} == live
        assert contents(connect(quarantine.place_of(context, "m1"))) == before

        one = restore(spark, context, paths=[min(dead)]).outcomes
        assert one["copied"] == sum(one.values()) == 1
        assert restore(spark, context).outcomes["copied"] == len(dead) - 1
        assert restore(spark, context).outcomes["already_there"] == len(dead)
        assert {key: store.read(key) for key in dead} == before
        record = quarantine.record_of(context, "m1")
        assert record is not None and record.until > swept.quarantine["until"], "a restore keeps copies on"
        until_over(record.until)
        pipeline.mark(spark, begin_mark(opened, "m2", min_age=timedelta(0), safety_level="none"))
        assert retire(context).quarantine.emptied["m1"]["objects"] == len(dead)
        assert quarantine.quarantined(context) == [] and {key: store.read(key) for key in dead} == before


def contents(store: Store) -> dict[str, bytes]:
    return {key: store.read(key) for batch in store.list() for key in batch["address"].to_pylist()}


def until_over(moment: float) -> None:
    """Wait until the clocks are past a moment: the store's counts whole seconds."""
    time.sleep(max(0.0, moment + 1.1 - time.time()))
