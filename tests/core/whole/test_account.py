"""The account of every delete: what lakegc says of deleted objects is what a listing says, whatever came back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.answers.keepers import _was_swept
from lakegc_core.answers.whatif import Wish, whatif
from lakegc_core.errors import SettingsError
from lakegc_core.marks.artifacts import INCREMENTAL
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.retire import retire
from lakegc_core.policy.facts import Amount, ExpiredFacts, ListingFacts
from lakegc_core.policy.guards import Verdict
from lakegc_core.views.history import history_of
from lakegc_core.views.history_screen import history_screen
from lakegc_core.views.metrics import metrics_text
from lakegc_core.views.report import sweep_report
from lakegc_core.views.screen import sweep_screen
from tests.support.accounts import DELETES, LIES, Town, behaving, key
from tests.support.lake import lake, quick, saved
from tests.support.night_stores import MIDWAY, UNWAVED, dying
from tests.support.towns import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def littered(spark: SparkSession, folder: Path) -> Iterator[Town]:
    """Four objects of 10 to 13 bytes that nothing refers to."""
    with lake(folder / "lake") as served, quick(spark):
        found = Town(spark, served, folder / "backup")
        for number in range(4):
            found.litter(number, 10 + number)
        yield found


@pytest.fixture(scope="module")
def once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Town]]:
    """Such a town and its mark `m1`; a call makes it so again, at the time before the mark, which each test begins."""
    with littered(spark, tmp_path_factory.mktemp("town")) as found:
        found.mark("m1")
        rewind, sizes = saved(found.lake, "lake"), dict(found.sizes)

        def again() -> Town:
            rewind()
            found.later(-found.minutes)
            found.sizes = dict(sizes)
            shutil.rmtree(found.place, ignore_errors=True)
            return found

        yield again


@pytest.fixture
def town(once: Callable[[], Town]) -> Town:
    """A town that nobody has swept; its mark `m1` needs no more than to be begun again."""
    return once()


def guard(mark: MarkContext) -> Verdict:
    return next(each for each in pipeline.review(mark).verdicts if each.name == "deleted-is-gone")


def test_what_a_restore_brought_back_is_deleted_again_by_the_next_sweep_and_is_counted_once(town: Town) -> None:
    """A mark, a backup, a sweep, a restore of some, and within the hour a mark and a sweep again."""
    mark = town.mark("m1")
    town.backup(mark)
    assert town.sweep(mark).outcomes["deleted"] == 4 and town.told() == (4, 46)
    assert town.restore(mark, key(0), key(1)).outcomes["copied"] == 2
    assert town.told() == (2, 25), "the history takes a restore back"
    history = history_of(town.lake.open("lake"))
    assert history["came_back"] == {"objects": 2, "bytes": 21}
    assert "came back: 2 objects" in history_screen([history])
    assert 'lakegc_deleted_bytes_total{repository="lake"} 46' in metrics_text([history], 0.0), "a counter never falls"
    for number in (0, 1):  # a copy has the date of today: an old one, as a store that keeps dates would have it
        town.litter(number, 10 + number)
    again = town.mark("m2")
    assert again.mark.facts(ExpiredFacts).expired == Amount(2, 21)
    assert guard(again).passed, "a restore brought them back"
    found = town.sweep(again)
    assert (found.outcomes["deleted"], found.outcomes["already_gone"], found.bytes_deleted) == (2, 0, 21)
    assert town.lying() == set() and town.told() == (4, 46)
    history = history_of(town.lake.open("lake"))
    assert 'lakegc_deleted_bytes_total{repository="lake"} 67' in metrics_text([history], 0.0)


def test_what_came_back_is_not_deleted_by_the_sweep_of_a_mark_that_listed_what_was_there_before(town: Town) -> None:
    first, second = town.mark("m1"), town.mark("m2")
    town.backup(first)
    town.backup(second)
    town.sweep(first)
    town.restore(first, key(0))
    town.restore(second, key(1))
    for _ in range(2):
        found = town.sweep(second)
        assert (found.outcomes["deleted"], found.outcomes["unconfirmed"]) == (0, 2)
        assert town.lying() == {key(0), key(1)} and town.told() == (2, 25)


def test_a_restore_from_the_wrong_place_is_none_and_its_message_says_that_nothing_was_copied(
    town: Town, tmp_path: Path
) -> None:
    mark = town.mark("m1")
    town.backup(mark)
    town.sweep(mark)
    (tmp_path / "wrong").mkdir()
    with pytest.raises(SettingsError, match=r"nothing lies there\. Nothing was brought back"):
        town.restore(mark, place=tmp_path / "wrong")
    (tmp_path / "wrong" / "data").mkdir()
    (tmp_path / "wrong" / "data" / "another").write_bytes(b"of another repository, perhaps")
    found = town.restore(mark, place=tmp_path / "wrong")
    assert found.outcomes["missing"] == 4 == found.failed
    assert "None of 4 objects was copied" in found.trouble and "other" not in found.trouble
    assert whatif(town.spark, mark, Wish({})).today.objects == 0 and _was_swept(mark), "no answer is refused"
    assert town.told() == (4, 46)
    (town.place / key(3)).unlink()
    found = town.restore(mark)
    assert "The other 3" in found.trouble and town.told() == (1, 13)


@pytest.mark.parametrize("mode", ["clean", INCREMENTAL])
def test_what_came_back_by_other_hands_is_named_taken_back_and_a_candidate_like_any_other(
    town: Town, mode: str
) -> None:
    assert town.sweep(town.mark("m1")).outcomes["deleted"] == 4
    town.litter(0, 10)
    town.later(180)
    seen = town.mark("m2")
    told = guard(seen)
    assert not told.passed and not told.stops
    assert "1 objects (10 bytes)" in told.description and key(0) in told.description
    assert "sweep 1 of mark m1 (1)" in told.description
    assert pipeline.review(seen).report["objects"]["came_back"] == 1
    assert town.told() == (3, 36)
    assert guard(town.mark("m3", mode)).passed, "it is told once"
    assert town.told() == (3, 36), "and taken back once"
    last = town.mark("m4", mode)
    assert last.mark.facts(ExpiredFacts).expired == Amount(1, 10)
    assert town.sweep(last).outcomes["deleted"] == 1
    assert town.told() == (4, 46) and town.lying() == set()


def test_a_delete_that_the_store_confirms_and_does_not_do_is_found_at_the_end_of_the_sweep(town: Town) -> None:
    mark = town.mark("m1")
    with behaving(lambda address: LIES if address in (key(0), key(2)) else DELETES):
        found = town.sweep(mark)
    assert (found.outcomes["deleted"], found.outcomes["failed:still_there"], found.bytes_deleted) == (2, 2, 24)
    assert found.failed == 2 and town.told() == (2, 24)
    assert "still shows the objects" in sweep_screen(sweep_report(found))
    again = town.sweep(mark)
    assert (again.outcomes["deleted"], again.failed) == (2, 0)
    assert town.told() == (4, 46) and town.lying() == set()


def test_what_a_sweep_found_still_there_is_a_candidate_of_the_next_optimized_mark(town: Town) -> None:
    with behaving(lambda address: LIES if address == key(0) else DELETES):
        assert town.sweep(town.mark("m1")).outcomes["failed:still_there"] == 1
    again = town.mark("m2", INCREMENTAL)
    assert again.mark.facts(ListingFacts).rests_on and again.mark.facts(ExpiredFacts).expired == Amount(1, 10)
    assert town.sweep(again).outcomes["deleted"] == 1
    assert town.told() == (4, 46) and town.lying() == set()


def test_what_an_optimized_mark_saw_again_the_next_one_knows_and_counts_once(town: Town) -> None:
    """Somebody put a swept object back by hand, staged it under its address, and dropped it."""
    assert town.sweep(town.mark("m1")).outcomes["deleted"] == 4
    town.litter(0, 10)
    town.repository.stage("main", "again", town.repository.place.qualify(key(0)), size=10, checksum="0" * 32)
    town.later(180)
    assert town.mark("m2", INCREMENTAL).mark.facts(ExpiredFacts).came_back == Amount(1, 10)
    town.mark("m3", INCREMENTAL)
    town.repository.reset("main")
    last = town.mark("m4", INCREMENTAL)
    listed, found = last.mark.facts(ListingFacts), last.mark.facts(ExpiredFacts)
    assert len(listed.rests_on) == 3 and (found.came_back, found.expired) == (Amount(0, 0), Amount(1, 10))
    assert listed.objects == 1 == found.listed.objects
    assert town.sweep(last).outcomes["deleted"] == 1 and town.lying() == set()


def test_a_delete_that_was_not_done_and_not_sampled_is_found_by_the_next_mark(
    spark: SparkSession, tmp_path: Path
) -> None:
    with littered(spark, tmp_path) as town:
        town.level = "none"  # which takes no sample
        with behaving(lambda address: LIES):
            assert town.sweep(town.mark("m1")).outcomes["deleted"] == 4
        seen = town.mark("m2")
        assert seen.mark.facts(ExpiredFacts).came_back == Amount(4, 46) == seen.mark.facts(ExpiredFacts).expired
        assert town.told() == (0, 0)
        assert town.sweep(seen).outcomes["deleted"] == 4 and town.told() == (4, 46)


def test_somebody_else_is_named_only_where_lakegc_cannot_have_been(town: Town) -> None:
    first, second = town.mark("m1"), town.mark("m2")
    with pytest.raises(Crash), dying(MIDWAY):
        town.sweep(first)
    left = sorted(town.lying())
    town.remove(left[0])
    found = town.sweep(second)
    assert (found.outcomes["already_gone"], found.gone_by_sweeps, found.gone_by_others) == (3, 2, None)
    assert "somebody else" not in sweep_screen(sweep_report(found)), "the sweep that broke off may have done it"
    town.sweep(first)
    third = town.mark("m3")
    town.litter(5, 5)
    fourth = town.mark("m4")
    town.remove(key(5))
    found = town.sweep(fourth)
    assert (found.outcomes["already_gone"], found.gone_by_sweeps, found.gone_by_others) == (1, 0, 1)
    assert "somebody else had deleted them" in sweep_screen(sweep_report(found))
    assert town.sweep(third).outcomes["already_gone"] == 0


def test_a_sweep_that_died_before_its_first_delete_has_deleted_nothing_when_it_is_closed(town: Town) -> None:
    mark = town.mark("m1")
    with pytest.raises(Crash), dying(UNWAVED):
        town.sweep(mark)
    assert town.told() == (0, 0)
    assert town.close(mark).outcomes["left"] == 4 and town.told() == (0, 0)
    seen = town.mark("m2")
    assert guard(seen).passed and seen.mark.facts(ExpiredFacts).expired == Amount(4, 46)


@pytest.mark.slow
def test_the_account_outlives_the_marks(town: Town) -> None:
    """A restore of a retired mark is taken back, also once its folder has gone."""
    mark = town.mark("m1")
    town.backup(mark)
    town.sweep(mark)
    town.mark("m2")
    town.mark("m3")
    town.later(20 * 24 * 60)
    town.mark("m4")
    assert "m1" in retire(town.lake.open("lake"), keep=2).retired and town.told() == (4, 46)
    town.litter(0, 10)
    seen = town.mark("m5")
    assert seen.mark.facts(ExpiredFacts).came_back == Amount(1, 10) and town.told() == (3, 36)
