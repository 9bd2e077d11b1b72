"""A drill deletes a few objects, brings them back and compares; whoever kills it loses nothing, and nothing is glossed
over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.cli.question import question
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.copies import backup as copying
from lakegc_core.copies import undo
from lakegc_core.copies.drill import finish, way_of
from lakegc_core.copies.drill_objects import Wanted
from lakegc_core.errors import MarkError, RefusedError, SettingsError, StoreError
from lakegc_core.marks import drills, quarantine
from lakegc_core.marks.context import MarkContext, open_mark
from lakegc_core.marks.emptying import delete_below
from lakegc_core.marks.retire import retire
from lakegc_core.stages import swept_report
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalStore
from lakegc_core.store.settings import StoreSettings
from lakegc_core.sweep.authorize import judge
from lakegc_core.views.drills import drill_screen, failed_drill
from lakegc_core.views.history import history_of
from lakegc_core.views.history_screen import history_screen
from lakegc_core.views.metrics import metrics_text
from lakegc_core.views.report import sweep_report
from lakegc_core.views.screen import sweep_screen
from tests.support.lake import NOW, lake, leave, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakegc_core.names import Json

WEEK = RepositoryPolicy(match="*", quarantine=timedelta(days=7), drill_within=timedelta(days=30))
NOTHING = RepositoryPolicy(match="*")
DEAD = {f"data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii54909{number}0": b"left" * 10**number for number in range(3)}


@pytest.fixture(scope="module")
def fast(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark):
        yield spark


@pytest.fixture
def mark(fast: SparkSession, tmp_path: Path) -> Iterator[MarkContext]:
    """A mark that found three dead objects, one of 4 bytes, one of 40 and one of 400; and the lake around it."""
    with lake(tmp_path, seed=3) as found:
        found = replace(found, policies=(WEEK,))
        repository = found.create("lake")
        repository.set_rules(7)
        repository.upload("main", "a", b"live")
        repository.commit("main", "c")
        for key, data in DEAD.items():
            leave(repository, key, 9, data)
        context = found.begin("lake", "m1")
        pipeline.mark(fast, context)
        yield context


def lying(context: MarkContext) -> dict[str, bytes]:
    """The dead objects that lie at their place."""
    config: Any = context.data
    return {key: file.read_bytes() for key in DEAD if (file := Path(config.path) / key).is_file()}


def backup_guard(context: MarkContext) -> str:
    """What the guard `backup` says against a sweep; "" if nothing."""
    (verdict,) = (each for each in judge(context) if each.name == "backup")
    return "" if verdict.passed else verdict.description


def outcomes(report: Json) -> dict[str, int]:
    return {outcome: count for outcome, count in report["outcomes"].items() if count}


def test_what_a_drill_deletes_comes_back_as_it_was_and_no_figure_of_the_repository_changes(
    fast: SparkSession, mark: MarkContext
) -> None:
    assert "there was none. Drill: lakegc drill lake." in backup_guard(mark)
    plain = replace(mark, policy=replace(mark.policy, drill_within=None))
    before = history_of(plain)
    report = pipeline.drill(fast, mark, wanted=Wanted(objects=2))
    assert report["passed"] and outcomes(report) == {"back": 2} and lying(mark) == DEAD
    assert len({each["size"] for each in report["objects"]}) == 2, "they differ in size"
    assert report["way"] == "quarantine" and backup_guard(mark) == ""
    without = replace(mark, policy=replace(mark.policy, quarantine=None))
    assert "lakegc.yaml does not say `quarantine` any more. Drill: lakegc drill lake." in backup_guard(without)

    after = history_of(plain)
    assert after.pop("drill")["state"] == "passed" and before.pop("drill") is None
    (then,), (now,) = before.pop("marks"), after.pop("marks")
    assert before == after, "garbage, oldest garbage and totals are those of before"
    assert {name: now[name] for name in ("state", "sweeps", "deleted", "sweepable_from")} == {
        name: then[name] for name in ("state", "sweeps", "deleted", "sweepable_from")
    }
    assert "last drill less than a minute ago: passed · 2 objects" in history_screen([history_of(plain)])
    assert not list(mark.mark.store.list("_lakefs/retention/gc/unified/")), "lakeFS is told of no delete"

    swept = swept_report(fast, open_mark(mark, "m1"))
    drilled = {each["address"] for each in report["objects"]}
    assert swept.outcomes["deleted"] == 1 and lying(mark).keys() == drilled, "what came back stays until the next mark"


def test_the_sweep_after_a_drill_has_a_row_for_each_object_of_the_question_and_claims_no_more_than_is_so(
    fast: SparkSession, mark: MarkContext
) -> None:
    found = pipeline.review(mark).report
    assert question(mark, found).startswith(
        "Delete up to 3 objects (444 B) of s3://bucket/lake, which mark m1 found? `lakegc"
    )
    size = pipeline.drill(fast, mark, wanted=Wanted(objects=2))["bytes"]
    again = open_mark(mark, "m1")
    asked = question(again, found)
    assert asked.startswith(
        f"Delete up to 1 object ({444 - size} B) of s3://bucket/lake, which mark m1 found? It also found 2 "
    )
    assert f"2 objects ({size} B) that a drill or a restore brought back: only a sweep of a later mark" in asked

    swept = sweep_screen(sweep_report(pipeline.sweep(fast, again)))
    told = re.findall(r"^  (deleted|brought back) +(\d+) objects", swept, re.M)
    assert told == [("deleted", "1"), ("brought back", "2")]
    once_more = sweep_screen(sweep_report(pipeline.sweep(fast, again)))
    assert "no sweep of this mark deletes more" in once_more and "nothing is left" not in once_more
    assert "brought back" in once_more and len(lying(mark)) == 2
    assert question(again, found).startswith("Delete up to 0 objects (0 B) of s3://bucket/lake, which mark m1 found?")


def test_a_sweep_of_a_mark_with_a_backup_names_the_restore_from_it_before_and_after(
    fast: SparkSession, mark: MarkContext, tmp_path: Path
) -> None:
    bare, place = replace(mark, policy=NOTHING), f"{tmp_path}/spare"
    assert question(bare, pipeline.review(bare).report).endswith("The store cannot bring them back.")
    copying.backup(fast, bare, place)
    assert f"`lakegc restore lake m1 {place}` brings them back" in question(bare, pipeline.review(bare).report)
    other, key = tmp_path / "other", min(DEAD)
    (other / key).parent.mkdir(parents=True)
    (other / key).write_bytes(b"another object, which is not overwritten")
    assert copying.backup(fast, bare, str(other)).outcomes["different"] == 1
    lacks = "the mark has a backup, which lacks 1 object of the mark."
    assert question(bare, pipeline.review(bare).report).endswith(lacks), "the sweep deletes this one, too"
    wanted = replace(bare, policy=replace(NOTHING, backup=True))
    assert question(wanted, pipeline.review(wanted).report).endswith("the mark has a backup."), "the sweep leaves it"
    copying.backup(fast, bare, place)
    swept = sweep_screen(sweep_report(pipeline.sweep(fast, bare)))
    assert swept.endswith(f"  undo     lakegc restore lake m1 {place}") and lying(mark) == {}
    assert copying.restore(fast, bare, place).outcomes["copied"] == 3 and lying(mark) == DEAD


def test_a_sweep_that_comes_too_early_says_the_minute_from_which_it_works(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = replace(mark, policy=RepositoryPolicy(match="*", safety="full"))
    monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(hours=1)).timestamp()))
    early = pipeline.sweep(fast, strict, accepted={"blast-radius": "the first sweep"})
    assert early.outcomes["unconfirmed"] == 3 and early.confirmed_from is not None
    assert "kept for a later sweep, from 2025-04-01 12:" in sweep_screen(sweep_report(early))
    monkeypatch.setenv("LAKEGC_NOW", str(early.confirmed_from))
    on_time = pipeline.sweep(fast, strict, accepted={"blast-radius": "the first sweep"})
    assert on_time.outcomes["deleted"] == 3 and on_time.confirmed_from is None


def test_soft_delete_is_no_way_back_in_an_account_that_says_it_has_a_hierarchical_namespace(
    mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = replace(mark, policy=NOTHING)
    for undeletes in (True, None):
        kept = StoreSettings(False, timedelta(days=7), "", "", (), None, undeletes=undeletes)
        monkeypatch.setattr(LocalStore, "settings", lambda store, kept=kept: kept)
        assert way_of(bare) == ("store", None)
    monkeypatch.setattr(LocalStore, "settings", lambda store: replace(kept, undeletes=False))
    with pytest.raises(SettingsError, match="brings nothing back in an Azure account with a hierarchical namespace"):
        way_of(bare)


class Killed(BaseException):
    """What ends a process between two steps."""


def killed(*_: object, **__: object) -> None:
    raise Killed


KILLS = {  # what is about to run, and what lies at its place then
    "before the sweep": ("lakegc_core.copies.drill.swept_report", 3),
    "before its deletes are on record": ("lakegc_core.sweep.deletion._Journal.write", 0),
    "after its deletes": ("lakegc_core.sweep.call.close_with_statement", 0),
    "before the restore": ("lakegc_core.copies.undo.bring_back", 0),
    "after the restore": ("lakegc_core.marks.drills.close", 3),
}


@pytest.mark.parametrize("moment", KILLS)
def test_a_drill_that_is_killed_is_ended_by_the_next_one_and_nothing_is_emptied_before(
    moment: str, fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, there = KILLS[moment]
    with monkeypatch.context() as patch:
        patch.setattr(target, killed)
        with pytest.raises(Killed):
            pipeline.drill(fast, mark)
    assert len(lying(mark)) == there
    (left,) = drills.unfinished(mark)
    assert "is not over" in backup_guard(mark)
    with pytest.raises(RefusedError, match="Finish it first: lakegc drill lake"):
        pipeline.drill(fast, mark)
    if moment == "after its deletes":
        with pytest.raises(RefusedError, match=r"is part of a drill\..* Finish it first: lakegc drill lake"):
            swept_report(fast, replace(open_mark(mark, "m1"), policy=replace(mark.policy, drill_within=None)))

    if moment == "before the restore":
        monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=8)).timestamp()))
        assert "a drill of the mark is not over" in retire(mark).quarantine.kept["m1"], "its copies are needed"
    report = finish(fast, mark, left)
    assert lying(mark) == DEAD and drills.unfinished(mark) == []
    if moment == "before the sweep":
        assert report["sweep"] is None and drills.last_drill(mark) is None, "it counts for nothing"
    else:
        assert report["passed"] and outcomes(report) == {"back": 3}


def test_a_drill_whose_plan_does_not_read_stays_open_and_says_that_nobody_knows_what_it_deleted(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, key = connect(mark.workspace), f"{mark.mark.folder}/sweeps/1/plan.json"
    sealed: list[bytes] = []

    def breaking(*_: object, **__: object) -> None:
        sealed.append(store.read(key))
        store.write(key, b"damaged")
        raise StoreError("the store is away")

    unknown = (
        "Nobody knows whether the drill deleted anything: .*plan.json is not a JSON object.* Bring back what drill "
    )
    with monkeypatch.context() as patch:
        patch.setattr("lakegc_core.sweep.call.close_with_statement", breaking)
        with pytest.raises(MarkError, match=unknown):
            pipeline.drill(fast, mark)
    (left,) = drills.unfinished(mark)
    assert lying(mark) == {}
    with pytest.raises(MarkError, match=unknown):
        finish(fast, mark, left)
    assert drills.unfinished(mark) == [left]
    store.write(key, sealed[0])
    assert finish(fast, mark, left)["passed"] and lying(mark) == DEAD


def test_what_does_not_read_after_a_drill_fails_it_by_name_and_the_drill_is_over(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an object under a key that the role may not use, or one of a rule that archives what is written."""
    victim, bring_back, download = min(DEAD), undo.bring_back, LocalStore.download

    def refusing(store: LocalStore, key: str, file: IO[bytes]) -> None:
        if key == victim and "/quarantine/" not in store.root:
            raise StoreError("InvalidObjectState")
        download(store, key, file)

    def archiving(*told: Any) -> Any:
        monkeypatch.setattr(LocalStore, "download", refusing)
        return bring_back(*told)

    monkeypatch.setattr(undo, "bring_back", archiving)
    report = pipeline.drill(fast, mark)
    assert not report["passed"] and outcomes(report) == {"back": 2, "different": 1}
    assert drills.unfinished(mark) == []
    (bad,) = (each for each in report["objects"] if each["problem"])
    assert (bad["address"], bad["problem"]) == (victim, "it cannot be read: InvalidObjectState")
    assert "1 of 3 objects did not come back" in backup_guard(mark)


def test_what_an_earlier_sweep_of_the_mark_failed_to_delete_is_judged_by_the_sweep_of_the_drill(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", lambda store, keys, *told: ["failed:still_there"] * len(keys))
        swept = swept_report(fast, replace(mark, policy=replace(mark.policy, drill_within=None)))
    assert swept.outcomes["failed:still_there"] == 3 and lying(mark) == DEAD
    report = pipeline.drill(fast, open_mark(mark, "m1"))
    assert report["passed"] and outcomes(report) == {"back": 3}
    assert [each["sweep"] for each in report["objects"]] == [["deleted"]] * 3


def test_a_drill_is_ended_although_nothing_keeps_any_more_what_it_deleted(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("lakegc_core.copies.undo.bring_back", killed)
        with pytest.raises(Killed):
            pipeline.drill(fast, mark)
    delete_below(connect(mark.workspace), f"{mark.home}/{quarantine.FOLDER}/", None)
    (left,) = drills.unfinished(mark)
    report = finish(fast, replace(mark, policy=NOTHING), left)
    assert not report["passed"] and outcomes(report) == {"missing": 3} and drills.unfinished(mark) == []


def test_a_drill_takes_other_objects_than_those_that_do_not_read(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As garbage in an archive class, or under a customer's key."""
    archived, download = min(DEAD), LocalStore.download

    def refusing(store: LocalStore, key: str, file: IO[bytes]) -> None:
        if key == archived:
            raise StoreError("InvalidObjectState")
        download(store, key, file)

    monkeypatch.setattr(LocalStore, "download", refusing)
    report = pipeline.drill(fast, mark)
    assert {each["address"] for each in report["objects"]} == DEAD.keys() - {archived}
    assert report["passed"] and outcomes(report) == {"back": 2} and lying(mark) == DEAD


def test_where_nothing_is_known_to_bring_it_back_nothing_is_deleted_unless_there_is_a_backup(
    fast: SparkSession, mark: MarkContext, tmp_path: Path
) -> None:
    bare = replace(mark, policy=NOTHING)
    with pytest.raises(SettingsError, match="Set `quarantine: 7d`"):
        pipeline.drill(fast, bare)
    assert lying(mark) == DEAD and drills.unfinished(mark) == [] and drills.last_drill(mark) is None
    copying.backup(fast, bare, f"{tmp_path}/spare")
    report = pipeline.drill(fast, bare)
    assert report["passed"] and (report["way"], outcomes(report)) == ("backup", {"back": 3}) and lying(mark) == DEAD

    asked = replace(bare, policy=replace(NOTHING, drill_within=timedelta(days=30)))
    assert backup_guard(asked) == ""
    connect(mark.workspace).delete_many([f"{mark.mark.folder}/backup.json"])  # as of a mark that nobody backs up
    assert "brought objects back out of a backup, and this mark has none." in backup_guard(asked)


def test_other_bytes_and_what_does_not_come_back_are_named_and_fail_the_drill(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt, kept = sorted(DEAD)[:2]
    bring_back, copies = undo.bring_back, quarantine.place_of(mark, "m1")

    def spoiling(*told: Any) -> Any:
        connect(copies).write(spoilt, DEAD[spoilt].upper())  # of the same size, so that no restore sees it
        connect(copies).delete_many([kept])
        return bring_back(*told)

    monkeypatch.setattr(undo, "bring_back", spoiling)
    report = pipeline.drill(fast, mark)
    told = {each["address"]: each["outcome"] for each in report["objects"]}
    assert told == dict.fromkeys(DEAD, "back") | {spoilt: "different", kept: "missing"}
    assert not report["passed"] and report["why"] == "2 of 3 objects did not come back as they were"
    said = failed_drill(report)
    assert f"lakegc restore lake m1 --path '{kept}'." in said and "Do not sweep before a drill has passed." in said
    assert f"{spoilt}   different: 4 bytes with SHA-256" in drill_screen(report)
    assert "what came back is garbage still: only a sweep of a later mark deletes it" in drill_screen(report)
    assert "2 of 3 objects did not come back" in backup_guard(mark)
    history = history_of(mark)
    assert history["drill"]["state"] == "failed" and 'lakegc_last_drill_passed{repository="lake"} 0' in metrics_text(
        [history], NOW.timestamp()
    )
    assert history["totals"]["deleted"] == 1, "what did not come back was deleted"


def test_a_drill_goes_on_in_a_night_whose_garbage_is_too_much_for_a_sweep(
    fast: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake(tmp_path, seed=3) as found, monkeypatch.context() as later:
        repository = found.create("lake")
        repository.set_rules(7)
        for number in range(20):
            repository.upload("main", f"live/{number}", bytes(1_000 + number))
        repository.commit("main", "c")
        for key, data in DEAD.items():
            leave(repository, key, 9, data)
        week = replace(WEEK, safety="standard", drill_within=None)
        context = replace(found, policies=(week,)).begin("lake", "m1")
        pipeline.mark(fast, context)
        later.setenv("LAKEGC_NOW", str((NOW + timedelta(minutes=20)).timestamp()))
        with pytest.raises(RefusedError, match=r"blast-radius: 13\.0% of lakeFS's objects"):
            swept_report(fast, context)
        with pytest.raises(RefusedError, match=r"blast-radius: 13\.0% of lakeFS's objects"):
            pipeline.drill(fast, context, wanted=Wanted(objects=3))
        assert outcomes(pipeline.drill(fast, context, wanted=Wanted(objects=2))) == {"back": 2}
        assert lying(context) == DEAD


def test_a_drill_is_judged_like_a_sweep_and_takes_nothing_that_is_not_ready(
    fast: SparkSession, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RefusedError, match="nothing is ready and of at most 3 bytes"):
        pipeline.drill(fast, mark, wanted=Wanted(bytes=3))
    needs = replace(mark, policy=replace(mark.policy, backup=True))
    with pytest.raises(RefusedError, match="this mark has none"):
        pipeline.drill(fast, needs)
    waits = replace(mark, policy=replace(mark.policy, safety="standard"))
    with pytest.raises(RefusedError, match="blast-radius"):
        pipeline.drill(fast, waits)
    with pytest.raises(RefusedError, match="Sweep it in 15 minutes or later"):
        pipeline.drill(fast, waits, accepted={"blast-radius": "the first drill"})
    assert lying(mark) == DEAD and drills.unfinished(mark) == []
    assert outcomes(pipeline.drill(fast, mark, wanted=Wanted(bytes=50))) == {"back": 2}, "of 4 and 40 bytes"
