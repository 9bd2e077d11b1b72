"""Objects that a sweep deleted, and that old commits hold which count again: they are told apart from lost ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_core import pipeline
from lakegc_core.marks.artifacts import CLEAN, INCREMENTAL
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.retire import retire
from lakegc_core.names import Outcome
from lakegc_core.policy.facts import ExpiredFacts, ListingFacts
from lakegc_core.policy.guards import Verdict
from lakegc_core.policy.safety import LEAST_MARKS
from lakegc_core.sweep.authorize import judge
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA
from lakegc_core.sweep.read_sample import take_sample
from lakegc_core.tables.parts import PartWriter
from lakegc_sandbox import Repository
from tests.support.lake import NOW, Lake, lake, quick, saved
from tests.support.night_stores import UNWAVED, dying
from tests.support.swept import ACCEPTED
from tests.support.towns import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY, HOUR = timedelta(days=1), 3600
LISTS = "_lakefs/retention/gc/unified"


@dataclass(frozen=True)
class Town:
    """A repository whose rule of 7 days let a sweep delete what commits of 30 to 60 days ago hold."""

    spark: SparkSession
    lake: Lake
    repo: Repository
    swept: tuple[str, ...]
    first: MarkContext

    def mark(self, mark_id: str, mode: str = CLEAN) -> MarkContext:
        return marked(self.spark, self.lake, mark_id, mode)

    @property
    def files(self) -> Path:
        return self.lake.files("lake")


def marked(spark: SparkSession, served: Lake, mark_id: str, mode: str = CLEAN) -> MarkContext:
    """A mark, an hour after the one before."""
    os.environ["LAKEGC_NOW"] = str(float(os.environ["LAKEGC_NOW"]) + HOUR)
    mark = served.begin("lake", mark_id, mode=mode)
    pipeline.mark(spark, mark)
    return mark


@pytest.fixture(scope="module")
def once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Town, Callable[[], None]]]:
    """The town, and what makes it again what it was."""
    with lake(tmp_path_factory.mktemp("town")) as served, quick(spark):
        repo = served.create("lake")
        repo.set_rules(7)
        addresses = []
        for age in (60, 50, 40, 30, 1):
            addresses.append(repo.upload("main", "a", b"%d" % age, age=age * DAY))
            repo.commit("main", "a", date=NOW - age * DAY)
        mark = marked(spark, served, "m1")
        assert pipeline.sweep(spark, mark).outcomes[Outcome.DELETED] == 3
        yield Town(spark, served, repo, tuple(addresses[:3]), mark), saved(served, "lake")


@pytest.fixture
def town(once: tuple[Town, Callable[[], None]]) -> Town:
    """The town after its first sweep."""
    found, rewind = once
    rewind()
    return found


def found(mark: MarkContext) -> tuple[int, int]:
    """How many objects are missing, and how many a sweep had deleted."""
    facts = mark.mark.facts(ExpiredFacts)
    return facts.missing, facts.swept_before


def guard(mark: MarkContext) -> Verdict:
    return next(each for each in pipeline.review(mark).verdicts if each.name == "live-in-listing")


def test_a_longer_rule_brings_back_what_a_sweep_deleted_and_the_guard_says_so(town: Town) -> None:
    town.repo.set_rules(90)
    mark = town.mark("m2")
    assert found(mark) == (0, 3)
    assert guard(mark).passed and "3 live objects are gone because a sweep deleted them" in guard(mark).description
    assert pipeline.review(mark).report["objects"]["swept_before"] == 3


def test_optimized_marks_know_it_too_and_go_on_knowing_it(town: Town) -> None:
    town.repo.set_rules(90)
    marks = [town.mark("m2", INCREMENTAL), town.mark("m3", INCREMENTAL), town.mark("m4")]
    assert [bool(mark.mark.facts(ListingFacts).rests_on) for mark in marks] == [True, True, False]
    assert [found(mark) for mark in marks] == [(0, 3)] * 3


def test_an_optimized_mark_names_what_was_deleted_and_not_on_record_when_the_mark_below_read_its_range(
    town: Town,
) -> None:
    """A sweep was killed between its deletes and their record, and is closed after the next mark."""
    journal = town.files / town.first.mark.folder / "sweeps"
    journal.rename(town.files / "aside")
    root = next(commit for commit in town.repo.refs.commits.values() if commit.message == "a" and commit.parents)
    town.repo.create_branch("old", root.id)
    assert found(town.mark("m2", INCREMENTAL)) == (0, 0), "nothing tells it"
    (town.files / "aside").rename(journal)
    mark = town.mark("m3", INCREMENTAL)
    assert mark.mark.facts(ListingFacts).rests_on and found(mark) == (0, 1)


def test_a_deleted_branch_with_a_shorter_rule_brings_back_what_a_sweep_deleted(town: Town) -> None:
    root = next(commit.id for commit in town.repo.refs.commits.values() if not commit.parents)
    town.repo.create_branch("exp", root)
    town.repo.set_rules(90, {"main": 7, "exp": 7})
    old = town.repo.upload("exp", "b", b"1", age=20 * DAY)
    town.repo.commit("exp", "b", date=NOW - 20 * DAY)
    town.repo.upload("exp", "b", b"2", age=15 * DAY)
    town.repo.commit("exp", "b", date=NOW - 15 * DAY)
    mark = town.mark("m2")
    assert pipeline.sweep(town.spark, mark).outcomes[Outcome.DELETED] == 1 and not (town.files / old).exists()
    town.repo.delete_branch("exp")
    assert found(town.mark("m3")) == (0, 1)


def test_it_is_known_long_after_the_mark_that_was_swept_is_retired(town: Town) -> None:
    town.repo.set_rules(90)
    town.mark("m2")
    mark = town.mark("m3")
    os.environ["LAKEGC_NOW"] = str(float(os.environ["LAKEGC_NOW"]) + 20 * DAY.total_seconds())
    assert "m1" in retire(mark, keep=LEAST_MARKS).retired and not (town.files / town.first.mark.folder).exists()
    assert found(town.mark("m4")) == (0, 3)


def test_what_another_collector_deleted_is_missing(town: Town) -> None:
    """lakeFS's own collector is known to delete live data. Its list stands where lakegc's stand."""
    town.repo.set_rules(90)
    (town.files / LISTS / "m1").rename(town.files / LISTS / "g5j2k7")
    shutil.rmtree(town.files / town.first.mark.folder / "sweeps")
    assert found(town.mark("m2")) == (3, 0)


def test_what_a_sweep_only_planned_is_missing_if_it_is_lost_by_other_hands(town: Town) -> None:
    """A sweep sealed its plan, and died before its first delete. It was closed."""
    town.repo.set_rules(1)
    with pytest.raises(Crash), dying(UNWAVED):
        mark = town.mark("m2")
        pipeline.sweep(town.spark, mark, accepted=ACCEPTED)
    assert pipeline.close(town.spark, mark).outcomes[Outcome.LEFT] == 1
    planned = (town.files / LISTS / "m2" / "deleted").glob("*.parquet")
    (address,) = (each for file in planned for each in pq.read_table(file)["address"].to_pylist())
    (town.files / address).unlink()
    town.repo.set_rules(90)
    assert found(town.mark("m3")) == (1, 3)


def test_what_no_sweep_deleted_is_missing(town: Town) -> None:
    town.repo.set_rules(90)
    lost = town.repo.entry("main", "a").address.rpartition("lake/")[2]
    (town.files / lost).unlink()
    mark = town.mark("m2")
    assert found(mark) == (1, 3)
    assert [each["address"] for each in mark.mark.facts(ExpiredFacts).missing_paths] == [lost]


def test_what_a_sweep_lost_is_missing_although_its_list_has_it(town: Town) -> None:
    town.repo.set_rules(90)
    folder = f"{town.first.mark.folder}/sweeps/1/outcomes"
    writer = PartWriter(town.first.workspace, folder, OUTCOMES_SCHEMA)
    row = {
        "address": town.swept[0],
        "size": 2,
        "outcome": Outcome.LOST.value,
        "attempt": 1,
        "at": datetime.fromtimestamp(float(os.environ["LAKEGC_NOW"]), NOW.tzinfo),
    }
    writer.write(pa.RecordBatch.from_pylist([row], schema=OUTCOMES_SCHEMA))
    writer.close()
    assert found(town.mark("m2")) == (1, 2)


@pytest.mark.parametrize("damage", ["torn", "beside"])
def test_where_a_journal_does_not_read_nothing_is_excused(town: Town, damage: str) -> None:
    """It may say which objects the sweep lost."""
    town.repo.set_rules(90)
    folder = town.files / town.first.mark.folder / "sweeps" / "1" / "outcomes"
    file = next(folder.iterdir())
    (file if damage == "torn" else folder / "notes.txt").write_bytes(file.read_bytes()[:-9])
    assert found(town.mark("m2")) == (3, 0)


# What reads of heads make of it

FULL_SAMPLE = 1000


def test_a_branch_on_a_commit_whose_objects_a_sweep_deleted_stops_no_sweep_and_is_named(town: Town) -> None:
    root = next(commit for commit in town.repo.refs.commits.values() if commit.message == "a" and commit.parents)
    town.repo.create_branch("old", root.id)
    mark = town.mark("m2")
    assert found(mark) == (0, 1)
    sample = take_sample(town.spark, mark, FULL_SAMPLE)
    assert dict(sample.known_gone) == {"old/a": "swept_before"} and sample.paths == (("main", "a"),)
    reads = next(each for each in judge(mark, sample=sample) if each.name == "reads")
    assert reads.passed and "a sweep deleted when nothing referred to them, such as old/a" in reads.description
    assert pipeline.sweep(town.spark, mark).outcomes.get(Outcome.LOST, 0) == 0


def test_what_a_mark_knows_as_missing_is_left_to_the_guard_that_can_be_accepted(town: Town) -> None:
    (town.files / town.repo.entry("main", "a").address.rpartition("lake/")[2]).unlink()
    mark = town.mark("m2")
    sample = take_sample(town.spark, mark, FULL_SAMPLE)
    assert dict(sample.known_gone) == {"main/a": "missing"} and sample.paths == ()


def test_what_is_lost_after_the_mark_still_stops_a_sweep(town: Town) -> None:
    mark = town.mark("m2")
    (town.files / town.repo.entry("main", "a").address.rpartition("lake/")[2]).unlink()
    sample = take_sample(town.spark, mark, FULL_SAMPLE)
    reads = next(each for each in judge(mark, sample=sample) if each.name == "reads")
    assert not reads.passed and "main/a (410)" in reads.description
