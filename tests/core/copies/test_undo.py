"""What a sweep deleted is brought back without a backup, where the store itself keeps it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.copies import undo
from lakegc_core.copies.backup import restore
from lakegc_core.copies.undo import _Undo, check_keeps, deleted_objects
from lakegc_core.errors import MarkError, SettingsError, StoreError
from lakegc_core.judging.since import in_series
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import MarkContext, begin_mark, open_mark, open_repository
from lakegc_core.marks.json_files import encode
from lakegc_core.marks.layers import restored_since
from lakegc_core.marks.ledger import keep_records
from lakegc_core.marks.one_copy import OneCopy
from lakegc_core.marks.retire import _delete_mark
from lakegc_core.marks.retired_records import record_of
from lakegc_core.policy.safety import FULL
from lakegc_core.stages import swept_report
from lakegc_core.store.base import Store, connect
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.store.settings import StoreSettings, Untold
from lakegc_core.sweep.deletion import JOURNAL_EVERY, OUTCOMES_SCHEMA
from lakegc_sandbox.api.server import SandboxServer
from lakegc_sandbox.lakefs import Sandbox
from tests.support.lake import lake, leave, quick
from tests.support.marks import parts
from tests.support.replays import AWS, Replay, environment
from tests.support.servers import seaweedfs

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Night:
    """A repository in a bucket that keeps versions, and a mark of it that was swept. `dead`: contents by address."""

    spark: SparkSession
    mark: MarkContext
    dead: dict[str, bytes]

    @property
    def store(self) -> Store:
        return connect(self.mark.data)

    def delete_again(self) -> None:
        """Hide the objects as the sweep did, whatever was brought back. Clocks may differ by ten minutes, so that these
        deletes pass for the sweep's."""
        self.store.delete_many(sorted(self.dead))
        assert self.shown() == {}

    def shown(self) -> dict[str, bytes]:
        """The contents of the dead objects that the store shows."""
        listed = {key for batch in self.store.list("data/") for key in batch["address"].to_pylist()}
        return {key: self.store.read(key) for key in self.dead if key in listed}

    def undo(self, *paths: str) -> dict[str, int]:
        """The outcomes of a restore without a backup, as far as they are not 0."""
        mark = open_mark(self.mark, self.mark.header.mark_id, retired_too=True)
        result = restore(self.spark, mark, paths=paths)
        return {outcome: count for outcome, count in result.outcomes.items() if count}


@pytest.fixture(scope="module")
def night(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    folder = tmp_path_factory.mktemp("undo")
    with ExitStack() as stack:
        stack.enter_context(environment(AWS | {"LAKEGC_UNSAFE": "yes"}))
        server = stack.enter_context(seaweedfs(folder))
        client = server.client()
        client.put_bucket_versioning(Bucket=server.bucket, VersioningConfiguration={"Status": "Enabled"})
        uri, config = f"s3://{server.bucket}/team a/ünï", server.config("team a/ünï")
        sandbox = Sandbox(folder, blockstore="s3", seed=1)
        repository = sandbox.create_repository("lake", uri, store=config, age=30 * DAY)
        repository.set_rules(7)
        dead: dict[str, bytes] = {}
        for days in (20, 10, 1):
            for part in range(3):
                data = f"{days} {part}".encode() * (1 + part)
                address = repository.upload("main", f"table/part {part}", data, age=days * DAY)
                dead |= {address: data} if days == 20 else {}
            repository.commit("main", f"day {days}", date=datetime.now(UTC) - days * DAY)
        time.sleep(1.1)  # or longer: the store counts whole seconds, and only what is older than the mark may go
        served = stack.enter_context(SandboxServer(sandbox))
        credentials = ServerSettings(served.url, served.access_key, served.secret_key)
        settings = Settings(server=credentials, stores=(StoreMapping("s3://", endpoint=server.endpoint),))
        opened = open_repository(settings, "lake", client=LakeFSClient(credentials))
        mark = begin_mark(opened, "m1", min_age=timedelta(0), safety_level="none")
        found = Night(spark, mark, dead)
        pipeline.mark(spark, mark)
        with pytest.raises(MarkError, match="on record"):
            found.undo()
        assert swept_report(spark, mark).outcomes["deleted"] == len(dead) and found.shown() == {}
        yield found


def test_what_a_sweep_deleted_is_shown_again_in_part_and_whole_and_a_second_time_changes_nothing(night: Night) -> None:
    night.delete_again()
    assert night.undo("table/part 1") == {"copied": 1}
    assert list(night.shown().values()) == [b"20 1" * 2]
    assert restored_since(night.mark, night.mark.header.started_at), "the next mark lists all anew"
    assert night.undo() == {"copied": 2, "already_there": 1}
    assert night.shown() == night.dead
    assert night.undo() == {"already_there": 3}
    with pytest.raises(MarkError, match="matches"):
        night.undo("no/such/**")


def test_what_was_brought_back_waits_the_gap_anew_although_it_is_as_old_as_ever(night: Night) -> None:
    night.delete_again()
    assert night.undo() == {"copied": 3}
    mark = begin_mark(night.mark, "m2", min_age=timedelta(0), safety_level="none")
    pipeline.mark(night.spark, mark)
    rows = in_series(mark.mark).frame(night.spark).collect()
    since = {row["address"]: row["since"].timestamp() for row in rows if row["address"] in night.dead}
    _delete_mark(mark.mark, None)
    assert since.keys() == night.dead.keys(), "they are garbage as before"
    assert min(since.values()) > mark.header.started_at, "and unreferenced since this mark alone"


def test_a_drill_has_the_store_take_its_deletes_back(night: Night) -> None:
    night.delete_again()
    assert night.undo() == {"copied": 3}
    mark = begin_mark(night.mark, "m2", min_age=timedelta(0), safety_level="none")
    pipeline.mark(night.spark, mark)
    report = pipeline.drill(night.spark, mark)
    _delete_mark(mark.mark, None)
    assert report["passed"] and (report["way"], report["outcomes"]["back"]) == ("store", 3)
    assert night.shown() == night.dead


def test_what_others_did_since_and_what_the_store_keeps_no_more_have_outcomes_of_their_own(night: Night) -> None:
    night.store.write("data/a", b"12345")
    now = datetime.now(UTC)
    undo = _Undo(night.mark.data, now + DAY, now - DAY, DAY)

    def outcome(key: str, size: int, at: datetime = now) -> str:
        return str(undo.bring_back({"address": key, "size": size, "at": at})["outcome"])

    assert (outcome("data/a", 5), outcome("data/a", 4)) == ("already_there", "different")
    assert outcome("data/never", 5) == "missing"
    night.store.delete_many(["data/a"])
    assert outcome("data/a", 5, now - 3 * DAY) == "different", "deleted two days after the sweep"
    assert (outcome("data/a", 5), outcome("data/a", 5)) == ("copied", "already_there")
    night.store.delete_many(["data/a"])


def test_where_no_copy_in_quarantine_can_be_carried_back_the_store_takes_its_delete_back(
    night: Night, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise StoreError("AccessDenied")

    copies, now = LocalConfig(str(tmp_path)), datetime.now(UTC)
    connect(copies).write("data/kept", b"12345")
    night.store.write("data/kept", b"12345")
    night.store.delete_many(["data/kept"])
    wanted = {"address": "data/kept", "size": 5, "at": now}
    work = _Undo(night.mark.data, now + DAY, now - DAY, DAY, copies)
    monkeypatch.setattr(type(night.store), "upload", refused)
    assert work.bring_back(wanted)["outcome"] == "copied" and night.store.read("data/kept") == b"12345"
    lost = work.bring_back(wanted | {"address": "data/only here"})
    night.store.delete_many(["data/kept"])
    assert lost["outcome"] == "missing"
    connect(copies).write("data/only here", b"12345")
    lost = work.bring_back(wanted | {"address": "data/only here"})
    assert (lost["outcome"], lost["problem"]) == ("failed", "AccessDenied")


def test_a_copy_in_quarantine_of_another_size_is_not_taken_and_the_store_takes_its_delete_back_if_it_can(
    night: Night, tmp_path: Path
) -> None:
    copies, now = LocalConfig(str(tmp_path)), datetime.now(UTC)
    work = _Undo(night.mark.data, now + DAY, now - DAY, DAY, copies)
    for key in ("data/cut", "data/cut and gone"):
        connect(copies).write(key, b"1234")
    wanted = {"address": "data/cut", "size": 5, "at": now}
    lost = work.bring_back(wanted | {"address": "data/cut and gone"})
    assert lost["outcome"] == "different" and "4 bytes lie there, not the 5 on record" in lost["problem"]
    night.store.write("data/cut", b"12345")
    night.store.delete_many(["data/cut"])
    assert [work.bring_back(wanted)["outcome"] for _ in range(2)] == ["copied", "already_there"]
    assert night.store.read("data/cut") == b"12345"
    night.store.delete_many(["data/cut"])


def test_what_is_written_while_an_object_comes_out_of_quarantine_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, copies, now = LocalConfig(str(tmp_path / "data")), LocalConfig(str(tmp_path / "kept")), datetime.now(UTC)
    connect(copies).write("data/a", b"12345")
    make = OneCopy.make

    def overtaken(self: OneCopy, *told: Any) -> Any:
        connect(data).write("data/a", b"newer than that")
        return make(self, *told)

    monkeypatch.setattr(OneCopy, "make", overtaken)
    row = _Undo(data, now, now, DAY, copies).bring_back({"address": "data/a", "size": 5, "at": now})
    assert row["outcome"] == "different" and connect(data).read("data/a") == b"newer than that"


def test_after_a_kill_the_plan_and_the_store_say_what_is_gone(night: Night) -> None:
    night.delete_again()
    workspace, folder = connect(night.mark.workspace), f"{night.mark.mark.folder}/sweeps/1"
    keys = [key for batch in workspace.list(f"{folder}/outcomes/") for key in batch["address"].to_pylist()]
    files = {key: workspace.read(key) for key in [*keys, f"{folder}/report.json"]}
    workspace.delete_many(sorted(files))  # as if the sweep had died after its deletes, before it recorded one
    try:
        assert night.undo() == {"copied": 3} and night.shown() == night.dead
        now = datetime.now(UTC)
        for wrong in (DAY, -DAY):
            with environment({"LAKEGC_NOW": str((now + wrong).timestamp())}):
                rows = deleted_objects(night.spark, night.mark).collect()
            assert len(rows) == 3
            told = [row["at"].astimezone(UTC) - now for row in rows]
            assert max(map(abs, told)) < DAY / 2, "the store's dates say when it died, whatever this machine's clock"
    finally:
        for key, data in files.items():
            workspace.write(key, data)


@pytest.mark.parametrize("behind", [3600.0, -3600.0])
def test_when_a_killed_sweep_was_last_seen_is_told_by_the_clock_of_the_store_that_dates_its_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: float
) -> None:
    """Of two stores whose clocks differ: deletes are dated by the one, the files of the sweep by the other."""
    context: Any = SimpleNamespace(
        data=LocalConfig(str(tmp_path / "data")), workspace=LocalConfig(str(tmp_path / "marks")), level=FULL
    )
    now = 1_700_000_000.0
    times = {context.data.root: now, context.workspace.root: now - behind}
    monkeypatch.setattr(LocalStore, "clock", lambda store: datetime.fromtimestamp(times[store.root], UTC))
    connect(context.workspace).write("m1/sweeps/1/plan.json", b"{}")
    os.utime(tmp_path / "marks/m1/sweeps/1/plan.json", (0.0, now - behind - 60.0))
    record: Any = SimpleNamespace(folder="m1/sweeps/1")
    wave = FULL.watch_interval.total_seconds() + JOURNAL_EVERY
    assert undo._last_seen_at(context, record) == now - 60.0 + wave


@pytest.mark.parametrize("closed", [False, True])
def test_a_delete_marker_of_a_killed_sweep_below_that_of_another_marks_sweep_is_taken_back_with_it(
    night: Night, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    monkeypatch.setattr(undo, "FULL", replace(FULL, clock_skew=timedelta(0)))
    night.delete_again()  # as the sweep of m1 did, without a record
    time.sleep(1.1)  # or longer: the store counts whole seconds
    other = begin_mark(night.mark, "m2", min_age=timedelta(0), safety_level="none")
    workspace, folder = connect(night.mark.workspace), f"{other.mark.folder}/sweeps/1"
    workspace.write(f"{folder}/plan.json", encode({"planned_at": time.time()}))
    night.store.delete_many(sorted(night.dead))
    told = {"outcome": "deleted", "attempt": 1, "at": datetime.now(UTC)}
    rows = [{"address": key, "size": len(data)} | told for key, data in night.dead.items()]
    parts(other, f"{folder}/outcomes", OUTCOMES_SCHEMA, rows)
    workspace.write(f"{folder}/report.json", encode({"finished_at": time.time()}))
    first = f"{night.mark.mark.folder}/sweeps/1/report.json"
    report = workspace.read(first)
    try:
        found = restore(night.spark, other).outcomes
        assert found["different"] == 3, "the sweep of m1 was over before that of m2 began"
        workspace.delete_many([first])
        if closed:
            workspace.write(first, encode({"finished_at": time.time()}))
        assert restore(night.spark, other).outcomes["copied"] == 3 and night.shown() == night.dead
    finally:
        workspace.write(first, report)
        _delete_mark(other.mark, None)


def test_what_went_although_the_store_called_its_delete_failed_is_shown_again_if_it_went_at_that_time(
    night: Night,
) -> None:
    night.delete_again()
    workspace, folder = connect(night.mark.workspace), f"{night.mark.mark.folder}/sweeps/1/outcomes"
    keys = [key for batch in workspace.list(f"{folder}/") for key in batch["address"].to_pylist()]
    files = {key: workspace.read(key) for key in keys}
    workspace.delete_many(keys)

    def journal(at: datetime) -> None:
        failed = {"outcome": "failed:InternalError", "attempt": 1, "at": at}
        rows = [{"address": key, "size": len(data)} | failed for key, data in night.dead.items()]
        parts(night.mark, folder, OUTCOMES_SCHEMA, rows)

    try:
        journal(datetime.now(UTC) - DAY)
        assert night.undo() == {"different": 3}, "somebody deleted them a day later, also at level `none`"
        journal(datetime.now(UTC))
        assert night.undo() == {"copied": 3} and night.shown() == night.dead
    finally:
        workspace.delete_many([key for batch in workspace.list(f"{folder}/") for key in batch["address"].to_pylist()])
        for key, data in files.items():
            workspace.write(key, data)


def test_what_the_store_kept_comes_back_although_it_keeps_nothing_now(night: Night) -> None:
    """`versions: delete` was written into lakegc.yaml after the sweep."""
    night.delete_again()
    said: list[str] = []
    data: Any = night.mark.data
    now = replace(night.mark, data=replace(data, delete_versions=True), say=said.append)
    check_keeps(now)
    assert "It is asked for each object all the same" in said[0]
    result = restore(night.spark, now)
    assert result.outcomes["copied"] == 3 and night.shown() == night.dead


def test_after_the_mark_was_retired_its_journals_say_what_is_gone(night: Night) -> None:
    night.delete_again()
    artifacts = night.mark.mark
    keep_records(artifacts)
    artifacts.store.write(artifacts.retired_key, encode(record_of("lake", artifacts)))
    _delete_mark(artifacts, None)
    assert night.undo(min(night.dead)) == {"copied": 1}, "paths are addresses now"
    assert night.undo() == {"copied": 2, "already_there": 1} and night.shown() == night.dead


def test_soft_delete_of_an_account_with_a_hierarchical_namespace_is_no_way_back(
    replay: Callable[[str], Replay], monkeypatch: pytest.MonkeyPatch
) -> None:
    untold = Untold("Azure tells by a blob that each mark writes, and there is none yet")
    kept = StoreSettings(untold, timedelta(days=7), "", "", (), None, undeletes=False)
    monkeypatch.setattr(LocalStore, "settings", lambda store: kept)
    found = replay("local_rich")
    with environment(found.variables()):
        context = found.begin("m1")
        with pytest.raises(SettingsError, match="hierarchical namespace, and nothing of this mark lies in quarantine"):
            check_keeps(context)
        monkeypatch.setattr(LocalStore, "settings", lambda store: replace(kept, undeletes=None))
        check_keeps(context)


def test_a_folder_keeps_nothing_and_the_error_names_the_backup(replay: Callable[[str], Replay]) -> None:
    found = replay("local_rich")
    with environment(found.variables()), pytest.raises(SettingsError, match=r"lakegc restore .* m1 SRC"):
        check_keeps(found.begin("m1"))


def test_where_the_sweeps_of_a_mark_deleted_nothing_all_is_there_already_and_without_a_sweep_nothing_is_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    """An object came back to life between the mark and its sweep, which rescued it."""
    with lake(tmp_path) as found, quick(spark):
        repository = found.create("lake")
        repository.set_rules(7)
        repository.upload("main", "a", b"live")
        repository.commit("main", "c")
        address = leave(repository, "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag", 20)
        mark = found.begin("lake", "m1")
        pipeline.mark(spark, mark)
        with pytest.raises(MarkError, match="No object of the sweeps of mark m1 is on record"):
            restore(spark, mark)
        repository.stage("main", "back", address, size=len(b"left behind"), checksum="x")
        assert swept_report(spark, mark).outcomes["rescued"] == 1
        said: list[str] = []
        result = restore(spark, replace(mark, say=said.append))
        assert not sum(result.outcomes.values()) and not result.failed
        assert "restore: the sweeps of mark m1 deleted nothing: nothing has to come back" in said
        with pytest.raises(MarkError, match="matches data/x"):
            restore(spark, mark, paths=["data/x"])
