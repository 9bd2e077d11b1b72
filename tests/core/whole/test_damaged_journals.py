"""A byte that flips in a file that later marks and sweeps read costs a night at most: nothing stops for ever.

Garbage goes on to be deleted, a sweep that broke off can be closed, and its mark is retired. What is told as deleted is
what is gone from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from lakegc_core.errors import CorruptFileError, LakegcError, MarkError
from lakegc_core.marks.json_files import decode
from lakegc_core.marks.retire import retire
from lakegc_core.views.history import history_of
from tests.support.lake import saved
from tests.support.night_stores import MIDWAY, dying
from tests.support.towns import Crash
from tests.support.true_time import Nights, flip, nights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.safety]

OWN_JOURNAL, PLAN, PLAN_PART = "m2/sweeps/1/outcomes/*", "m2/sweeps/1/plan.json", "m2/sweeps/1/attempt-1/plan/*"


@pytest.fixture(scope="module")
def broken_off(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Nights, Callable[[], None]]]:
    """Three marks: the sweep of m1 is over, that of m2 broke off after it had deleted half of its plan. With what makes
    it that again."""
    with nights(spark, tmp_path_factory.mktemp("nights")) as found:
        found.litter(4)
        found.mark("m0")
        found.at(1.1)
        found.mark("m1")
        found.litter(5)
        found.at(1.2)
        assert found.sweep("m1").outcomes["deleted"] == 4
        found.at(2.5)
        found.mark("m2")
        found.litter(2)
        found.at(3.8)
        found.mark("m3")  # confirms what m2 found
        found.at(3.9)
        with pytest.raises(Crash), dying(MIDWAY):
            found.sweep("m2")
        yield found, saved(found.lake, "lake")


@pytest.fixture
def town(broken_off: tuple[Nights, Callable[[], None]]) -> Nights:
    found, rewind = broken_off
    rewind()
    found.at(3.9)
    return found


def gone(town: Nights) -> int:
    """How many objects of all that were left behind the store lacks."""
    return 11 - len([path for path in (town.files / "data").rglob("*") if path.is_file()]) + 6


def told(town: Nights) -> int:
    return int(history_of(town.lake.open("lake"))["totals"]["deleted"])


@pytest.mark.parametrize("file", ["m1/sweeps/1/outcomes/*", "m3/namespace_listing/units/*"])
def test_what_an_optimized_mark_takes_over_and_does_not_read_makes_it_a_clean_one(town: Nights, file: str) -> None:
    flip(town.one(f"marks/{file}"))
    town.at(4.9)
    assert "what is taken over cannot be read" in town.mark("m4")
    town.at(5)
    town.sweep("m4")
    assert gone(town) == 11
    town.at(6)
    assert town.mark("m5") == "", "the next one rests on it"


@pytest.mark.parametrize("file", [OWN_JOURNAL, PLAN, PLAN_PART])
def test_a_sweep_that_broke_off_whose_files_do_not_read_can_be_closed_and_stops_no_other(
    town: Nights, file: str
) -> None:
    flip(town.one(f"marks/{file}"))
    town.at(4.9)
    with pytest.raises((CorruptFileError, MarkError)):
        town.sweep("m2")
    town.mark("m4")
    town.at(5)
    town.sweep("m4")
    assert gone(town) == 11
    closed = town.close("m2")
    report = decode(town.one("marks/m2/sweeps/1/report.json").read_bytes(), "report")
    assert closed.trouble == "" and len(report["unread"]) == 1
    if file != OWN_JOURNAL:  # which told of deletes that others were not told of
        assert told(town) == gone(town)
    for day in (5, 6):
        town.at(25 + day)
        town.mark(f"m{day}", "clean")
    town.at(40)
    assert "m2" in retire(town.lake.open("lake"), 2).retired


def test_a_rescue_that_does_not_read_is_one_of_every_object_once(town: Nights) -> None:
    entry = dict(town.repository.objects("main"))["live/1"]
    town.repository.delete("main", "live/1")
    town.repository.commit("main", "dropped")
    town.close("m2")
    town.at(15)
    town.mark("m4")
    town.at(16.1)
    town.mark("m5")
    town.repository.stage_entry("main", "again", entry)
    town.at(16.2)
    found = town.sweep("m5").outcomes
    assert found["rescued"] == 1, found
    town.litter(3)
    flip(town.one("rescues/*"))
    town.at(17.3)
    town.mark("m6")
    town.at(17.4)
    found = town.sweep("m6").outcomes
    assert (found["deleted"], found["rescued"]) == (0, 0) and found["unconfirmed"]
    town.at(18.6)
    town.mark("m7")
    town.at(18.7)
    assert town.sweep("m7").outcomes["deleted"] == 3


def test_a_store_that_does_not_answer_is_no_damage(town: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only bytes that are others than were written are passed over."""
    town.at(4.9)
    town.one(f"marks/{OWN_JOURNAL}").unlink()
    town.one(f"marks/{PLAN_PART}").unlink()
    with pytest.raises(LakegcError, match="there is no object"):
        town.close("m2")
