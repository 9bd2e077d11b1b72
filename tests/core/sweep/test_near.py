"""Paths near to what a ring deletes: of a plan of live objects the first ring goes, is named, and comes back."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.rings import RingSettings
from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import IncompleteError, MarkError, RefusedError, ServerError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.marks.context import MarkContext, begin_mark, open_repository
from lakegc_core.marks.sweeps import finished_sweeps
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep import near, rings, waves
from lakegc_core.sweep.canaries import Canaries
from lakegc_core.sweep.near import Near, note, noted, taken
from lakegc_sandbox.api.server import SandboxServer
from lakegc_sandbox.lakefs import Sandbox
from tests.core.sweep.test_canaries import no_branches, no_commits_that_are_kept_for
from tests.interleavings.rig import look_is_blind, without_guards
from tests.support.lake import quick
from tests.support.replays import AWS, environment
from tests.support.servers import seaweedfs
from tests.support.tasks import tasks_run_here
from tests.support.towns import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIVE = 25
HERE = "s3://bucket/lake/data/x"
Answered = Mapping[str, tuple[str | Exception | None, int | Exception]]
"""What lakeFS answers, by path: the address, or None where nothing is shown, and the status of its data."""
DAY = timedelta(days=1)


@pytest.fixture
def blind(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MarkContext]:
    """A mark in a bucket that keeps versions, to which all that branch main shows looks like garbage."""
    folder = tmp_path_factory.mktemp("near")
    monkeypatch.setattr(rings, "SMALL", LIVE)
    tasks_run_here(monkeypatch)
    without_guards("heads-and-tags", "known-heads", "shrink")(monkeypatch)
    no_branches(monkeypatch)
    look_is_blind(monkeypatch)
    no_commits_that_are_kept_for("head:main", "rules")(monkeypatch)
    with ExitStack() as stack:
        stack.enter_context(environment(AWS | {"LAKEGC_UNSAFE": "yes"}))
        stack.enter_context(quick(spark))
        server = stack.enter_context(seaweedfs(folder))
        server.client().put_bucket_versioning(Bucket=server.bucket, VersioningConfiguration={"Status": "Enabled"})
        sandbox = Sandbox(folder, blockstore="s3", seed=1)
        repository = sandbox.create_repository(
            "lake", f"s3://{server.bucket}/lake", store=server.config("lake"), age=30 * DAY
        )
        repository.set_rules(7)
        repository.create_branch("other", "main")
        for branch, count in (("main", LIVE), ("other", 1)):
            for part in range(count):
                repository.upload(branch, f"table/{part:02}", f"{branch} {part}".encode(), age=20 * DAY)
            repository.commit(branch, f"on {branch}", date=datetime.now(UTC) - 20 * DAY)
        time.sleep(1.1)  # or longer: the store counts whole seconds, and only what is older than the mark may go
        served = stack.enter_context(SandboxServer(sandbox))
        credentials = ServerSettings(served.url, served.access_key, served.secret_key)
        policy = RepositoryPolicy(match="*", rings=RingSettings((0.001, 0.01, 0.1)))
        stores = (StoreMapping("s3://", endpoint=server.endpoint),)
        given = Settings(server=credentials, stores=stores, repositories=(policy,))
        opened = open_repository(given, "lake", client=LakeFSClient(credentials))
        yield begin_mark(opened, "m1", min_age=timedelta(0), safety_level="none")


SLOW = [pytest.mark.slow, pytest.mark.safety]


@pytest.mark.parametrize("then", [None, *(pytest.param(each, marks=SLOW) for each in (pipeline.sweep, pipeline.close))])
def test_a_plan_of_live_objects_is_stopped_after_ten_of_them_which_are_named_and_brought_back(
    spark: SparkSession, blind: MarkContext, then: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`then`: the sweep is killed after the ring and before its paths are read again; the next call reads them."""
    pipeline.mark(spark, blind)
    before = stored(blind)
    if then:
        with monkeypatch.context() as patch, pytest.raises(Crash):
            patch.setattr(waves, "taken", dying)
            pipeline.sweep(spark, blind)
        assert len(before - stored(blind)) == 10
    found = (then or pipeline.sweep)(spark, blind)
    gone = found.rings["gone"]
    assert found.outcomes["deleted"] == 10 and found.outcomes["left"] == LIVE - 10
    assert set(gone) <= {f"main/table/{part:02}" for part in range(LIVE)} and len(gone) == 10
    assert found.rings["stopped_at"] == 1 and found.rings["passed"] == 0
    for path, address in gone.items():
        assert path in found.trouble and address in found.trouble
        assert blind.client.read_byte("lake", "main", path.removeprefix("main/")) == 206, "it was brought back"
    assert "10 of 10 objects that sweeps of the mark had deleted were brought back" in found.trouble
    assert stored(blind) == before
    assert finished_sweeps(blind)[-1]["rings"]["gone"] == gone
    with pytest.raises(RefusedError, match=r"rings: A sweep of mark m1 was stopped.*--accept rings"):
        pipeline.sweep(spark, blind)
    assert stored(blind) == before


def dying(*_: object) -> dict[str, str]:
    raise Crash


def test_paths_are_on_record_before_their_ring_and_a_record_that_does_not_say_which_stops_the_sweep(
    tmp_path: Path,
) -> None:
    context: Any = SimpleNamespace(
        workspace=LocalConfig(str(tmp_path)), header=SimpleNamespace(repository="lake", mark_id="m1")
    )
    assert noted(context, "sweeps/1") == (0, [])
    read = [Near("main", "a/ü", f"{HERE}/1"), Near("v1", "b", f"{HERE}/2")]
    note(context, "sweeps/1", 2, read)
    assert noted(context, "sweeps/1") == (2, read)
    for damaged in (b"", b"{}", b'{"ring": 1, "paths": [1]}', b'{"ring": 1, "paths": [["main", "a"]]}'):
        (tmp_path / "sweeps/1/near.json").write_bytes(damaged)
        with pytest.raises(MarkError):
            noted(context, "sweeps/1")


class Answers:
    """lakeFS, as far as paths near to a ring are asked for."""

    def __init__(self, shown: Answered) -> None:
        self.shown = shown

    def stat(self, repository: str, ref: str, path: str) -> SimpleNamespace | None:
        address = self.shown[path][0]
        if isinstance(address, Exception):
            raise address
        return None if address is None else SimpleNamespace(physical_address=address)

    def read_byte(self, repository: str, ref: str, path: str) -> int:
        status = self.shown[path][1]
        if isinstance(status, Exception):
            raise status
        return status


def context_of(shown: Answered) -> Any:
    return SimpleNamespace(
        client=Answers(shown),
        header=SimpleNamespace(repository="lake", mark_id="m1"),
        namespace=Namespace(HERE.removesuffix("/data/x")),
    )


def all_of(addresses: Collection[str]) -> Collection[str]:
    return addresses


def none_of(addresses: Collection[str]) -> Collection[str]:
    return ()


@pytest.mark.parametrize("odd", [LakeFSError("busy", 500), ServerError("no answer")])
def test_a_path_that_is_gone_counts_whatever_other_paths_answer(odd: Exception) -> None:
    silent = ServerError("no answer")
    context = context_of({"odd": (silent, odd), "gone": (silent, 410), "whole": (f"{HERE}/3", 200)})
    paths = [Near("main", name, f"{HERE}/{number}") for number, name in enumerate(("odd", "gone", "whole"), 1)]
    assert taken(context, paths, all_of) == {"main/gone": f"{HERE}/2"}
    with pytest.raises(IncompleteError, match="'odd' on main"):
        taken(context, [paths[0], paths[2]], all_of)


def test_a_path_that_shows_another_object_than_before_the_ring_is_none_that_the_ring_took() -> None:
    """Somebody moved the branch onto a commit whose object an earlier sweep had deleted."""
    context = context_of({"moved": (f"{HERE}/9", 410)})
    assert taken(context, [Near("main", "moved", f"{HERE}/1")], all_of) == {}


@pytest.mark.parametrize("shown", [f"{HERE}/1", None])
def test_a_path_whose_object_no_plan_has_ends_the_sweep_and_is_not_said_to_be_taken_by_it(shown: str | None) -> None:
    context = context_of({"taken": (f"{HERE}/2", 410), "vanished": (shown, 410)})
    paths = [Near("main", "taken", f"{HERE}/2"), Near("main", "vanished", f"{HERE}/1")]
    with pytest.raises(IncompleteError, match=r"'vanished' on main .*/x/1.* did not plan .* --close"):
        taken(context, paths[1:], none_of)
    planned = {"data/x/2"}
    assert taken(context, paths, planned.intersection) == {"main/taken": f"{HERE}/2"}


def test_imports_are_not_read_before_a_ring_and_stop_no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bucket that they lie in may be closed to lakeFS, or have a lifecycle of its own."""
    imports: Answered = {"old": ("s3://other/raw/1", 410), "closed": ("s3://other/raw/2", LakeFSError("refused", 403))}
    assert paths_near(monkeypatch, {**imports, "own": (f"{HERE}/1", 206)}) == [Near("main", "own", f"{HERE}/1")]
    assert paths_near(monkeypatch, imports) == []


def test_where_lakefs_gives_no_answer_before_a_ring_the_sweep_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without paths that read, nothing would tell that the ring took what is live."""
    with pytest.raises(ServerError, match="no answer"):
        paths_near(monkeypatch, {"a": (f"{HERE}/1", ServerError("no answer"))})


def test_where_no_path_reads_before_a_ring_and_one_cannot_be_told_the_sweep_breaks_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy, refused, none = LakeFSError("busy", 503), LakeFSError("refused", 403), (None, LakeFSError("none", 404))
    read = Near("main", "a", f"{HERE}/1")
    assert paths_near(monkeypatch, {"a": (read.address, 206), "b": (f"{HERE}/2", busy), "c": (refused, refused)}) == [
        read
    ], "a loss would be told"
    assert paths_near(monkeypatch, {"a": (read.address, 410), "b": none}) == []
    for odd in (busy, refused):
        with pytest.raises(IncompleteError, match=r"'b' on main answers .*run the same sweep: lakegc sweep lake m1"):
            paths_near(monkeypatch, {"a": none, "b": (f"{HERE}/2", odd)})


def paths_near(monkeypatch: pytest.MonkeyPatch, shown: Answered) -> list[Near]:
    """The paths that can be read before a ring."""
    context = context_of(shown)
    monkeypatch.setattr(near, "last_paths", lambda *_: [("main", path) for path in shown])
    monkeypatch.setattr(near, "_refs", lambda _: ({"main"}, ["main"]))
    monkeypatch.setattr(near, "_beside", lambda *_: iter(()))
    spark: Any = None
    return near.near_paths(spark, context, [], Canaries(context))


def stored(context: MarkContext) -> set[str]:
    return {key for batch in connect(context.data).list("data/") for key in batch["address"].to_pylist()}
