"""A mark whose clock was wrong costs nothing live, and keeps no garbage for long: no other mark goes on from it.

Its own sweep is refused by the guards `clocks` and `order`. Here the next one is swept. X waits in the hooks of a
commit: nothing shows it until it lands, and only the time for which it must have been garbage saves it. A restore by
such a clock is refused, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.copies.backup import backup, restore
from lakegc_core.errors import RefusedError
from lakegc_core.marks.retire import retire
from tests.support.true_time import DAY, Nights, nights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEHIND = -0.8
"""Days by which a clock is wrong: less than a day, so that a mark by it is not older than the one before."""


@pytest.fixture
def town(spark: SparkSession, tmp_path: Path) -> Iterator[Nights]:
    with nights(spark, tmp_path) as found:
        found.repository.create_branch("flight", "main")
        found.repository.upload("flight", "X", b"precious", age=timedelta(days=5))
        yield found


def waits_in_its_hooks(town: Nights) -> Callable[[], Any]:
    finish = town.repository.begin_commit("flight", "slow hooks")
    town.repository.delete("flight", "X")
    return finish


def lands(town: Nights, finish: Callable[[], Any]) -> None:
    finish()
    assert town.repository.read(town.repository.refs.branches["flight"].commit_id, "X") == b"precious"


def test_a_mark_whose_clock_was_behind_passes_no_age_on(town: Nights) -> None:
    town.mark("m0")
    town.at(1.2)
    finish = waits_in_its_hooks(town)
    town.at(1.25, wrong=BEHIND)
    town.mark("m1")
    with pytest.raises(RefusedError, match="clocks"):
        town.sweep("m1")
    town.at(1.3)
    assert "its clock and the store's differed by 69120 s" in town.mark("m2")
    town.at(1.5)
    assert town.sweep("m2").outcomes["deleted"] == 0
    lands(town, finish)


@pytest.mark.safety
@pytest.mark.slow
def test_a_mark_whose_clock_was_set_back_between_its_stages_passes_no_age_on(town: Nights) -> None:
    town.mark("m0")
    town.at(1.2)
    finish = waits_in_its_hooks(town)
    town.at(1.25)
    listed = town.files / "_lakefs/retention/gc/lakegc/marks/m1/namespace_listing/manifest.json"

    def set_back(*request: object) -> None:
        if listed.exists():
            os.environ["LAKEGC_NOW"] = str(town.present + 0.005 * BEHIND * DAY)

    town.lake.server.fault = set_back
    town.mark("m1")
    town.lake.server.fault = None
    town.at(1.3)
    assert "its clock was set back" in town.mark("m2")
    town.at(1.5)
    assert town.sweep("m2").outcomes["deleted"] == 0
    lands(town, finish)


def test_a_mark_whose_clock_was_ahead_once_it_had_listed_is_not_swept_and_passes_no_age_on(town: Nights) -> None:
    """As that of a machine on which it was resumed. By the next day no time of the mark is to come any more."""
    town.mark("m0")
    town.at(1.2)
    dumped = town.files / "_lakefs/retention/gc/lakegc/marks/m1/uncommitted_addresses/manifest.json"

    def set_ahead(*request: object) -> None:
        if dumped.exists():
            os.environ["LAKEGC_NOW"] = str(town.present - 0.5 * BEHIND * DAY)

    town.lake.server.fault = set_ahead
    town.mark("m1")
    town.lake.server.fault = None
    town.at(2.2)
    with pytest.raises(RefusedError, match="clocks"):
        town.sweep("m1")
    assert "its clock and the store's differed by -34560 s" in town.mark("m2")


@pytest.mark.safety
@pytest.mark.slow
@pytest.mark.parametrize("swept", ["the next mark", "the mark before"])
def test_what_a_mark_saw_live_by_a_clock_that_was_behind_is_waited_for_anew(town: Nights, swept: str) -> None:
    entry = dict(town.repository.objects("flight"))["X"]
    town.repository.delete("flight", "X")
    town.mark("m0")
    town.at(1.1)
    town.mark("m1")
    town.at(1.12)
    town.repository.stage_entry("flight", "X", entry)
    town.at(1.15, wrong=BEHIND)
    town.mark("m2")
    town.at(1.2)
    finish = waits_in_its_hooks(town)
    if swept == "the next mark":
        town.at(1.25)
        town.mark("m3")
    town.at(1.3)
    assert town.sweep("m3" if swept == "the next mark" else "m1").outcomes["deleted"] == 0
    lands(town, finish)


def test_a_mark_of_a_clock_that_was_ahead_delays_garbage_by_one_night_and_is_retired(town: Nights) -> None:
    litter = town.litter(2)
    town.mark("m0")
    town.at(1, wrong=300)
    town.mark("m1")
    with pytest.raises(RefusedError, match="clocks"):
        town.sweep("m1")
    town.at(2)
    why = town.mark("m2")
    assert "mark m1 says nothing of what was live: it says that it was at work on 2026-01-26" in why
    town.at(3.1)
    assert town.mark("m3") == ""
    town.at(3.2)
    assert town.sweep("m3").outcomes["deleted"] == 2 and not any(path.exists() for path in litter)
    town.at(12)
    assert "m1" in retire(town.lake.open("lake"), 2).retired


def test_a_restore_by_a_clock_that_is_behind_is_refused_for_the_next_mark_would_not_list_what_it_brings_back(
    town: Nights, tmp_path: Path
) -> None:
    litter, spare = town.litter(2), str(tmp_path / "spare")
    town.mark("m0")
    backup(town.spark, town.context("m0"), spare)
    town.at(1.1)
    assert town.sweep("m0").outcomes["deleted"] == 2
    town.at(1.2)
    town.mark("m1")
    town.at(1.3, wrong=BEHIND)
    with pytest.raises(RefusedError, match=r"differ by 69120 s, the limit is 600 s.*Nothing was brought back"):
        restore(town.spark, town.context("m0"), spare)
    assert not any(path.exists() for path in litter)
    town.at(1.4)
    assert restore(town.spark, town.context("m0"), spare).outcomes["copied"] == 2
    town.at(1.5)
    assert "objects of mark m0 were restored since" in town.mark("m2")
