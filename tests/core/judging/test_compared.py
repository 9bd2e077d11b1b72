"""What a mark is compared with, and what became of the objects that were staged at the mark before."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.judging.compared import accepted_before, previous_of
from lakegc_core.marks.context import MarkContext, begin_mark
from lakegc_core.marks.findings import KEPT
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.marks.sweeps import accept, is_accepted
from lakegc_core.names import Stage
from lakegc_core.policy.facts import NOTHING, Amount, ExpiredFacts
from lakegc_core.policy.guards import Verdict
from lakegc_core.sweep.authorize import remember_accepted
from lakegc_sandbox import Repository
from tests.support.lake import MIN_AGE, NOW, Lake, lake, quick, saved
from tests.support.old_marks import HEADER, Made, maker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY, HOUR = timedelta(days=1), 3600
STAGED, OLD = 80, 60


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return maker(tmp_path)


def test_a_mark_that_had_shrunk_is_no_measure_for_the_next_one_until_it_is_swept(made: Made) -> None:
    """Otherwise a short answer of the server, given twice, would pass the guard the second time."""
    made("m1", 0)
    first = previous_of(made("none", 0.5, stages=0))
    assert first and first.mark_id == "m1"
    short = made("m2", 1, live=10, previous=first)
    assert previous_of(made("m3", 2, stages=0)) == first
    short.mark.store.write(f"{short.mark.folder}/sweeps/1/plan.json", b"{}")  # somebody has accepted it
    found = previous_of(made("m4", 3, stages=0))
    assert found and found.mark_id == "m2"


def test_a_mark_that_had_shrunk_is_the_measure_once_a_person_accepted_that_although_nothing_was_to_sweep(
    made: Made,
) -> None:
    """Otherwise each mark of a quiet repository would need a word after one clean-up."""
    made("m1", 0)
    first = previous_of(made("none", 0.5, stages=0))
    short = made("m2", 1, live=10, previous=first)
    remember_accepted(short, [Verdict("shrink", False, "ERROR", "much less"), Verdict("clocks", True, "ERROR", "")])
    assert previous_of(made("m3", 2, stages=0)) == first
    accepted = [Verdict("shrink", False, "ERROR", "much less", accepted_because="a clean-up")]
    remember_accepted(short, accepted, of_mark=False)
    assert previous_of(made("m35", 2.5, stages=0)) == first, "another tool's list says nothing of the mark"
    remember_accepted(short, accepted)
    found = previous_of(made("m4", 3, stages=0))
    assert found and found.mark_id == "m2"


def test_a_word_counts_for_no_other_guard_and_for_no_other_mark(made: Made) -> None:
    """Whoever copies files between the folders of marks accepts nothing with that."""
    made("m1", 0)
    first = previous_of(made("none", 0.5, stages=0))
    short = made("m2", 1, live=10, previous=first).mark
    word = f"{short.folder}/accepted-shrink.json"
    accept(made("m0", -1, live=50), "shrink", "another mark")
    short.store.write(word, short.store.read(word.replace("/m2/", "/m0/")))
    assert not is_accepted(short, "shrink")
    accept(short_context := made("m3", 2, live=10, previous=first), "live-in-listing", "given up")
    other = short_context.mark
    other.store.write(
        f"{other.folder}/accepted-shrink.json", other.store.read(f"{other.folder}/accepted-live-in-listing.json")
    )
    assert is_accepted(other, "live-in-listing") and not is_accepted(other, "shrink")


@pytest.mark.parametrize("left", ["attempt-1/look/x", "plan.json"])
def test_a_drill_of_a_mark_that_had_shrunk_makes_it_no_measure(made: Made, left: str) -> None:
    """Its look may have failed before it had a plan."""
    made("m1", 0)
    first = previous_of(made("none", 0.5, stages=0))
    short = made("m2", 1, live=10, previous=first)
    short.mark.store.write(f"{short.mark.folder}/sweeps/1/{left}", b'{"only": "drill:20260101T000000"}')
    assert previous_of(made("m3", 2, stages=0)) == first


def test_new_garbage_never_takes_the_place_of_what_was_accepted_and_is_live_again(made: Made) -> None:
    """Otherwise the accident of one night would pass by the word for another one, whose objects came back."""
    mark, all_of_it = made("m1", 0), Amount(100, 100)
    swept(mark, deleted=0, because="a dropped branch")
    later = made("m2", 0.5, stages=0)
    assert accepted_before(later, all_of_it) == all_of_it
    assert accepted_before(later, all_of_it, [(HEADER.started_at + 40_000, Amount(70, 80))]) == Amount(30, 20)
    assert accepted_before(later, all_of_it, [(HEADER.started_at, Amount(70, 80))]) == all_of_it, "m1 had found them"


def test_what_was_accepted_counts_for_later_marks_as_far_as_no_sweep_deleted_it(made: Made) -> None:
    m1, many = made("m1", 0), Amount(1_000, 1_000)
    assert accepted_before(made("none", 0.1, stages=0), many) == NOTHING, "nobody has said a word"
    swept(m1, deleted=0)
    assert accepted_before(made("none2", 0.2, stages=0), many) == NOTHING
    swept(m1, deleted=30, because="the first collection")
    assert accepted_before(made("none3", 0.3, stages=0), many) == Amount(70, 70)
    assert accepted_before(made("none4", 0.4, stages=0), Amount(50, 60)) == Amount(50, 60), "no more than there is"
    m2 = made("m2", 1, accepted=Amount(70, 70))
    swept(m2, deleted=20)
    assert accepted_before(made("none5", 1.1, stages=0), many) == Amount(50, 50)
    swept(m2, deleted=20, already_gone=1)
    assert accepted_before(made("none6", 1.15, stages=0), many) == NOTHING, "nobody knows how large that was"
    swept(m2, deleted=20)
    m2.mark.store.write(f"{m2.mark.folder}/sweeps/2/plan.json", b"{}")
    assert accepted_before(made("none7", 1.2, stages=0), many) == NOTHING, "a sweep broke off"


def test_a_word_counts_for_no_garbage_that_was_not_ready_when_it_was_given(made: Made) -> None:
    """Otherwise an accident of the night would pass by the word for what the sweep of that night takes."""
    tonight = HEADER.started_at + 60
    mark, many = made("m1", 0, unconfirmed=[[tonight, {"objects": 90, "bytes": 80}]]), Amount(1_000, 1_000)
    swept(mark, deleted=4, because="the first collection", judged_at=tonight + 3600)
    assert accepted_before(made("none", 0.5, stages=0), many) == Amount(6, 16)
    swept(mark, deleted=4, because="the first collection", judged_at=tonight + DAY.total_seconds())
    assert accepted_before(made("none2", 0.6, stages=0), many) == Amount(96, 96), "a day later it was"


def test_a_word_of_a_night_in_which_nothing_was_ready_counts_for_what_is_ready_first(made: Made) -> None:
    """The guard judged just that. Without it, the next mark of a first collection would be refused once more."""
    tonight = HEADER.started_at + 60
    waits = [[tonight, {"objects": 90, "bytes": 80}], [tonight + 3600, {"objects": 10, "bytes": 20}]]
    mark = made("m1", 0, unconfirmed=waits, first_since=tonight)
    assert not mark.mark.facts(ExpiredFacts).confirmed.objects
    swept(mark, deleted=0, because="the first collection", judged_at=tonight + 3600)
    assert accepted_before(made("none", 0.5, stages=0), Amount(1_000, 1_000)) == Amount(90, 80)


@pytest.mark.parametrize("only", ["drill:20260101T000000", "unified:x"])
def test_a_word_for_a_drill_or_for_the_list_of_another_tool_counts_for_that_alone(made: Made, only: str) -> None:
    swept(made("m1", 0), deleted=2, because="just these", only=only)
    assert accepted_before(made("none", 0.1, stages=0), Amount(1_000, 1_000)) == NOTHING


def test_what_was_accepted_counts_too_once_its_sweep_broke_off_and_was_closed(made: Made) -> None:
    """By the plan: nobody asked the guards again."""
    mark, many = made("m1", 0), Amount(1_000, 1_000)
    swept(mark, deleted=40, because="the first collection")
    report = mark.mark.store.read(f"{mark.mark.folder}/sweeps/1/report.json")
    told = json.loads(report) | {"mark_digest": mark.mark.require(Stage.EXPIRED_ADDRESSES).digest}
    plan, closed = f"{mark.mark.folder}/sweeps/1/plan.json", {"closed": True, "guards": [], "judged_at": 9e9}
    closed["counted"] = {"safety": "none"}
    mark.mark.store.write(plan, encode(sealed(told)))
    mark.mark.store.write(f"{mark.mark.folder}/sweeps/1/report.json", encode(told | closed))
    assert accepted_before(made("none", 0.1, stages=0), many) == Amount(60, 60)
    for number, changed in enumerate((b"{}", encode(sealed(told) | {"judged_at": 9.0}))):
        mark.mark.store.write(plan, changed)
        assert accepted_before(made(f"none{number}", 0.2, stages=0), many) == NOTHING, "nobody can tell"


def test_nothing_counts_as_accepted_after_the_sweep_of_an_older_mark_or_under_a_report_that_was_replaced(
    made: Made,
) -> None:
    m1, many = made("m1", 0), Amount(1_000, 1_000)
    m2 = made("m2", 1, accepted=Amount(70, 70))
    assert accepted_before(made("none", 1.1, stages=0), many) == Amount(70, 70)
    for odd in ({"finished_at": 1.0}, {"finished_at": 1.0, "outcomes": {}}, {"outcomes": {}, "guards": None}):
        m2.mark.store.write(f"{m2.mark.folder}/sweeps/1/report.json", encode(odd))
        assert accepted_before(made(f"none{len(str(odd))}", 1.2, stages=0), many) == NOTHING
    m2.mark.store.delete_many([f"{m2.mark.folder}/sweeps/1/report.json"])
    for mark in (m1, m2):
        mark.mark.store.write(f"{mark.mark.folder}/sweeps/1/attempt-1/look/x", b"of a look that failed")
    assert accepted_before(made("none1", 1.25, stages=0), many) == Amount(70, 70), "no plan, no delete"
    swept(m1, deleted=70, at=m2.header.started_at + 60)
    assert accepted_before(made("none2", 1.3, stages=0), many) == NOTHING, "it deleted what m2 had found"


def swept(
    mark: MarkContext,
    *,
    deleted: int,
    already_gone: int = 0,
    because: str | None = None,
    only: str | None = None,
    at: float = 1.0,
    judged_at: float | None = None,
) -> None:
    """A first sweep of a mark that is over at a moment, by its report."""
    guards = [{"name": "shrink", "accepted_because": "x"}, {"name": "blast-radius", "accepted_because": because}]
    report = {
        "outcomes": {"deleted": deleted, "already_gone": already_gone},
        "bytes_deleted": deleted,
        "guards": guards,
        "finished_at": at,
        "judged_at": at if judged_at is None else judged_at,
        "counted": {"safety": "full"},
        "only": only,
    }
    mark.mark.store.write(f"{mark.mark.folder}/sweeps/1/report.json", encode(report))


@dataclass(frozen=True)
class Marked:
    """A repository of which the mark `m1` was made, and `rewind`, which makes it again what it was."""

    spark: SparkSession
    lake: Lake
    repository: Repository
    m1: MarkContext
    rewind: Callable[[], None]


@pytest.fixture(scope="module")
def once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Marked]:
    """A hundred committed objects, sixty more that a tag keeps, and eighty staged ones."""
    with lake(tmp_path_factory.mktemp("measure")) as served, quick(spark):
        repository = filled(served)
        m1 = marked(spark, served, "m1")
        yield Marked(spark, served, repository, m1, saved(served, "lake"))


@pytest.fixture
def here(once: Marked) -> Marked:
    """The repository right after its mark."""
    once.rewind()
    return once


def filled(served: Lake) -> Repository:
    found = served.create("lake")
    found.set_rules(7)
    fill(found, "main", "old", OLD)
    found.commit("main", "old", date=NOW - 30 * DAY)
    found.tag("v1", "main")
    for number in range(OLD):
        found.delete("main", f"old/{number}")
    fill(found, "main", "new", 100)
    found.commit("main", "new", date=NOW - 20 * DAY)
    found.create_branch("bulk", "main")
    fill(found, "bulk", "staged", STAGED)
    return found


def fill(repository: Repository, branch: str, folder: str, files: int) -> None:
    for number in range(files):
        repository.upload(branch, f"{folder}/{number}", f"{folder} {number}".encode(), age=20 * DAY)


def marked(spark: SparkSession, served: Lake, mark_id: str) -> MarkContext:
    """A mark, an hour after the one before."""
    os.environ["LAKEGC_NOW"] = str(float(os.environ["LAKEGC_NOW"]) + HOUR)
    mark = begin_mark(served.open("lake"), mark_id, min_age=MIN_AGE, mode="clean")
    pipeline.mark(spark, mark)
    return mark


def shrink_of(mark: MarkContext) -> Any:
    (found,) = [verdict for verdict in pipeline.review(mark).verdicts if verdict.name == "shrink"]
    return found


def test_a_bulk_of_staged_objects_is_committed_in_the_night_in_which_other_commits_run_out(here: Marked) -> None:
    """The sums alone say that 60 staged objects are lost: commits gained 80 and lost 60."""
    assert here.m1.mark.facts(ExpiredFacts).uncommitted.objects == STAGED
    here.repository.commit("bulk", "all at once")
    here.repository.delete_tag("v1")
    mark = marked(here.spark, here.lake, "m2")
    facts = mark.mark.facts(ExpiredFacts)
    assert (facts.uncommitted.objects, facts.expired.objects) == (0, OLD)
    assert facts.staged_lost == 0
    assert shrink_of(mark).passed


def test_staged_objects_that_are_dropped_in_that_night_are_missed(here: Marked) -> None:
    for number in range(STAGED // 2):
        here.repository.delete("bulk", f"staged/{number}")
    here.repository.commit("bulk", "the other half")
    here.repository.delete_tag("v1")
    mark = marked(here.spark, here.lake, "m2")
    assert mark.mark.facts(ExpiredFacts).staged_lost == STAGED // 2
    assert "staged objects went from 80 to 0" in shrink_of(mark).description
    assert not shrink_of(mark).passed


def test_where_the_mark_before_does_not_say_what_was_staged_the_sums_decide(here: Marked) -> None:
    before = here.m1
    folder = before.mark.stage_folder(Stage.EXPIRED_ADDRESSES, KEPT)
    for part in before.mark.require(Stage.EXPIRED_ADDRESSES).datasets[KEPT]:
        before.mark.store.write(f"{folder}/{part.name}", b"damaged")
    here.repository.commit("bulk", "all at once")
    here.repository.delete_tag("v1")
    mark = marked(here.spark, here.lake, "m2")
    assert mark.mark.facts(ExpiredFacts).staged_lost is None
    assert not shrink_of(mark).passed


def test_nothing_is_counted_where_the_sums_say_that_nothing_is_missed(here: Marked) -> None:
    here.repository.commit("bulk", "all at once")
    mark = marked(here.spark, here.lake, "m2")
    assert mark.mark.facts(ExpiredFacts).staged_lost is None
    assert shrink_of(mark).passed
