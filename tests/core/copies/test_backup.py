"""What a mark would delete is copied away whole, and comes back under its own keys, byte for byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.copies.backup import _had, backup, readable_place, restore
from lakegc_core.copies.transfer import carry_out
from lakegc_core.errors import MarkError, SettingsError
from lakegc_core.marks.backups import backup_facts, folder_of
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.marks.one_copy import OneCopy
from lakegc_core.policy.facts import BackupFacts
from lakegc_core.stages import swept_report
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig
from tests.support import servers
from tests.support.lake import lake, leave, quick
from tests.support.old_marks import maker
from tests.support.replays import Replay, environment
from tests.support.waiting import STARTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def contents(replay: Replay, keys: set[str]) -> dict[str, bytes]:
    store = connect(replay.open().data)
    return {key: store.read(key) for key in keys}


@pytest.mark.parametrize("name", [pytest.param("unified_gc", marks=pytest.mark.slow), "local_rich"])
def test_a_repository_swept_by_mistake_is_brought_back_whole(
    replay: Callable[[str], Replay], spark: SparkSession, tmp_path: Path, name: str
) -> None:
    found = replay(name)
    with environment(found.variables()):
        context = found.begin("m1")
        pipeline.mark(spark, context)
        garbage = found.right()
        before, files = contents(found, garbage), found.files()
        place = str(tmp_path / "backup")

        assert backup_facts(context) is None
        saved = backup(spark, context, place)
        assert saved.outcomes["copied"] == len(garbage) and not saved.failed
        assert backup_facts(context) == BackupFacts(place, len(garbage))
        again = backup(spark, context, place)
        assert again.outcomes["already_there"] == len(garbage) and again.bytes == 0

        swept = swept_report(spark, context)
        assert swept.outcomes["deleted"] == len(garbage)
        victim, *others = sorted(garbage)
        one = restore(spark, context, place, paths=[victim])
        assert dict(one.outcomes) | {"copied": 1} == dict(one.outcomes) and sum(one.outcomes.values()) == 1
        with pytest.raises(MarkError, match="matches"):
            restore(spark, context, place, paths=["no/such/path/**"])
        whole = restore(spark, context, place)
        assert (whole.outcomes["copied"], whole.outcomes["already_there"]) == (len(others), 1)
        assert contents(found, garbage) == before and found.files() == files


def test_a_backup_taken_again_after_the_sweep_keeps_its_list_also_where_an_object_of_it_was_lost(
    replay: Callable[[str], Replay], spark: SparkSession, tmp_path: Path
) -> None:
    found = replay("local_rich")
    with environment(found.variables()):
        context, place = found.begin("m1"), tmp_path / "backup"
        pipeline.mark(spark, context)
        before = contents(found, found.right())
        backup(spark, context, str(place))
        connect(context.data).delete_many(sorted(before))

        assert backup(spark, context, str(place)).outcomes["already_there"] == len(before)
        lost = min(before)
        (place / lost).unlink()
        with pytest.raises(MarkError, match=f"had {len(before)} objects, and some of them are neither there nor in"):
            backup(spark, context, str(place))
        assert backup_facts(context) == BackupFacts(str(place), len(before))
        assert restore(spark, context, str(place)).outcomes["missing"] == 1, "who restores is told"
        del before[lost]
        assert contents(found, set(before)) == before


@pytest.mark.parametrize("listed", ["by its manifest", "by the mark"])
def test_a_copy_of_another_size_than_is_on_record_is_not_taken_and_keeps_nothing_right_out(
    replay: Callable[[str], Replay], spark: SparkSession, tmp_path: Path, listed: str
) -> None:
    """As an object of a backup that was cut short. Where another tool made the backup, the mark has the sizes."""
    found, place = replay("local_rich"), tmp_path / "backup"
    with environment(found.variables()):
        context = found.begin("m1")
        pipeline.mark(spark, context)
        before = contents(found, found.right())
        backup(spark, context, str(place))
        if listed == "by the mark":
            (place / folder_of(context) / "manifest.json").unlink()
        connect(context.data).delete_many(sorted(before))
        victim = max(before, key=lambda key: len(before[key]))
        (place / victim).write_bytes(before[victim][:-1])
        result = restore(spark, context, str(place))
        assert (result.outcomes["copied"], result.outcomes["different"]) == (len(before) - 1, 1) and result.failed == 1
        (problem,) = result.problems
        size = len(before[victim])
        assert (
            problem["address"] == victim and f"{size - 1:,} bytes lie there, not the {size:,} on" in problem["problem"]
        )
        assert not (found.root / victim).exists() and "another size than is on record" in result.trouble
        (place / victim).write_bytes(before[victim])
        assert restore(spark, context, str(place)).outcomes["copied"] == 1 and contents(found, set(before)) == before


def test_an_older_copy_of_equal_size_saves_no_object_whose_name_may_be_written_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    """lakeFS never gives the second name, and writes no object of the first twice."""
    given, other = "data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii5490900", "data/raw/customers.csv"
    with lake(tmp_path, seed=3) as found, quick(spark):
        found = replace(found, policies=(RepositoryPolicy(match="*", collect_unknown_names=True),))
        repository = found.create("lake")
        repository.set_rules(7)
        repository.upload("main", "a", b"live")
        repository.commit("main", "c")
        for key in (given, other):
            leave(repository, key, 9, b"as it is now")
            connect(LocalConfig(f"{tmp_path}/spare")).write(key, b"as it was...")
            os.utime(tmp_path / "spare" / key, (1.0, 1.0))
        context = found.begin("lake", "m1")
        pipeline.mark(spark, context)
        saved = backup(spark, context, f"{tmp_path}/spare")
        assert (saved.outcomes["already_there"], saved.outcomes["different"]) == (1, 1)
        assert [each["address"] for each in saved.problems] == [other]
        assert "Give the backup another place" in saved.trouble


def test_a_backup_of_a_mark_that_is_not_over_is_refused_and_leaves_nothing_at_its_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    with lake(tmp_path, seed=3) as found:
        found.create("lake").set_rules(7)
        place = tmp_path / "spare"
        with pytest.raises(MarkError, match="expired_addresses"):
            backup(spark, found.begin("lake", "m1"), str(place))
        assert not place.exists()


def test_what_is_written_while_a_backup_comes_back_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake(tmp_path, seed=3) as found, quick(spark):
        repository = found.create("lake")
        repository.set_rules(7)
        repository.upload("main", "a", b"live")
        repository.commit("main", "c")
        victim = leave(repository, "data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii5490900", 9)
        context = found.begin("lake", "m1")
        pipeline.mark(spark, context)
        backup(spark, context, f"{tmp_path}/spare")
        connect(context.data).delete_many([victim])

        def overtaken(objects: Any, copy: Any, *told: Any) -> Any:
            work: OneCopy = copy.__self__

            def late(wanted: Any) -> Any:
                looked = work.look(wanted)
                connect(work.target).write(victim, b"newer than what was deleted")
                return work.make(*looked)  # type: ignore[arg-type]

            return carry_out(objects, late, *told)

        monkeypatch.setattr("lakegc_core.copies.backup.carry_out", overtaken)
        assert restore(spark, context, f"{tmp_path}/spare").outcomes["different"] == 1
        assert connect(context.data).read(victim) == b"newer than what was deleted"


def test_what_differs_is_left_alone_and_said_and_a_sweep_that_needs_a_backup_leaves_it(
    replay: Callable[[str], Replay], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replay("local_rich")
    with environment(found.variables()):
        context = found.begin("m1")
        pipeline.mark(spark, context)
        place = tmp_path / "backup"
        victim = min(found.right())
        (place / victim).parent.mkdir(parents=True)
        (place / victim).write_bytes(b"something else, of another length: " + victim.encode())
        saved = backup(spark, context, str(place))
        assert saved.outcomes["different"] == 1 == saved.failed
        assert [each["address"] for each in saved.problems] == [victim]
        count = len(found.right())
        assert backup_facts(context) == BackupFacts(str(place), count - 1)
        swept = swept_report(spark, replace(context, policy=replace(context.policy, backup=True)))
        assert (swept.outcomes["not_in_backup"], swept.outcomes["deleted"]) == (1, count - 1)
        assert (found.root / victim).exists() and swept.oldest["outcome"] == "not_in_backup"
        (tmp_path / "none").mkdir()
        monkeypatch.setattr("lakegc_core.copies.copied.may_lack", lambda objects: 0)
        (tmp_path / "none" / victim).parent.mkdir(parents=True)
        (tmp_path / "none" / victim).write_bytes(b"something else")
        backup(spark, context, str(tmp_path / "none"))
        assert not list((tmp_path / "none").rglob("manifest.json")), "one that lacks many counts as none"
        with pytest.raises(SettingsError, match="overlap"):
            backup(spark, context, str(found.root))


def test_the_backup_of_another_repository_or_mark_of_the_same_name_is_neither_replaced_nor_restored(
    tmp_path: Path,
) -> None:
    context: Any = maker(tmp_path / "marks")("m1", 0)
    context.data, context.settings = LocalConfig(str(tmp_path / "data")), Settings(ServerSettings("", "", ""))
    target = LocalConfig(str(tmp_path / "backup"))
    told = {"storage_namespace": context.header.storage_namespace, "mark_digest": "0" * 64, "objects": {}, "parts": []}
    key = f"{folder_of(context)}/manifest.json"
    connect(target).write(key, encode(sealed(told)))
    with pytest.raises(MarkError, match="belongs to another mark than this one of the same id"):
        readable_place(context, target.path)
    connect(target).write(key, encode(sealed(told | {"storage_namespace": "s3://elsewhere"})))
    for ask in (lambda: readable_place(context, target.path), lambda: _had(context, target, "0" * 64)):
        with pytest.raises(
            SettingsError, match="a repository of the same name in s3://elsewhere, and this one lies in"
        ):
            ask()


def rclone_copies(source: Path, target: Path, lists: Path) -> None:
    """The recipe of README: copy what the lists in a folder name, with rclone."""
    for each in sorted(lists.glob("*.txt")):
        command = [servers.binary("rclone"), "--config=", "copy", "--no-traverse", f"--files-from-raw={each}"]
        subprocess.run([*command, str(source), str(target)], check=True, capture_output=True, timeout=STARTS)


def test_rclone_copies_a_marks_list_away_and_brings_it_back_and_lakegc_restores_what_rclone_saved(
    replay: Callable[[str], Replay], spark: SparkSession, tmp_path: Path
) -> None:
    found = replay("local_rich")
    with environment(found.variables()):
        context = found.begin("m1")
        pipeline.mark(spark, context)
        before = contents(found, found.right())
        lists = found.root / context.mark.folder / "deleted.text"
        rclone_copies(found.root, tmp_path / "saved", lists)
        swept = swept_report(spark, context)
        assert swept.outcomes["deleted"] == len(before)
        assert restore(spark, context, str(tmp_path / "saved")).outcomes["copied"] == len(before)
        assert contents(found, set(before)) == before
        connect(context.data).delete_many(sorted(before))
        rclone_copies(tmp_path / "saved", found.root, lists)
        assert contents(found, set(before)) == before
