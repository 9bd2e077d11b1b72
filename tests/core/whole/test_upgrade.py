"""From 0.1.0 on: what that version left is passed over, accounted for, and retired; one night is lost, and no more.

`artifacts_of_0_1_0.tar.xz` is what lakegc 0.1.0 (artifacts of format 2) left in a namespace: a complete mark at level
full; a mark at level none whose sweep planned six objects, deleted three, told of two, and was killed; and the three
objects that it did not reach.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.errors import MarkError
from lakegc_core.marks.catalogue import list_marks
from lakegc_core.marks.context import open_mark
from lakegc_core.marks.retire import retire
from lakegc_core.policy.facts import ExpiredFacts, ListingFacts
from lakegc_core.stages import swept_report
from lakegc_core.sweep.sweep import close_sweep
from lakegc_core.views import screen
from tests.support.lake import NOW, Lake, lake, quick
from tests.support.swept import ACCEPTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPLETE, BROKEN_OFF = "20250330T120000Z", "20250331T120000Z"


@pytest.fixture
def upgraded(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """A repository whose artifacts 0.1.0 made, at the time of the last of them."""
    with lake(tmp_path) as found, quick(spark):
        found.create("lake").set_rules(7)
        with tarfile.open(Path(__file__).with_name("artifacts_of_0_1_0.tar.xz")) as archive:
            archive.extractall(found.files("lake"), filter="data")
        yield found


def later(days: float) -> None:
    os.environ["LAKEGC_NOW"] = str((NOW + timedelta(days=days)).timestamp())


def mark(spark: SparkSession, found: Lake, mark_id: str) -> tuple[Any, str]:
    """A mark at level full, and its screen."""
    context = found.begin("lake", mark_id, safety_level="full", min_age=timedelta(hours=25))
    return context, screen.mark_screen(pipeline.mark(spark, context).report)


def test_the_night_of_the_upgrade_is_lost_and_the_screen_says_so_and_the_next_one_confirms(
    spark: SparkSession, upgraded: Lake
) -> None:
    later(1)
    context, shown = mark(spark, upgraded, "m1")
    expired = context.mark.facts(ExpiredFacts)
    assert (expired.expired.objects, expired.confirmed.objects) == (3, 0)
    assert "cannot: Mark 20250331T120000Z has format 2, this lakegc reads 4" in shown
    assert context.mark.facts(ListingFacts).why_clean in shown
    later(2.1)
    context, _ = mark(spark, upgraded, "m2")
    assert context.mark.facts(ExpiredFacts).confirmed.objects == 3
    assert swept_report(spark, context, accepted=ACCEPTED).outcomes["deleted"] == 3


def test_a_mark_of_the_old_version_is_listed_is_not_swept_and_is_retired_in_time(
    spark: SparkSession, upgraded: Lake
) -> None:
    found = {each["mark_id"]: each for each in list_marks(upgraded.open("lake"))}
    assert "format 2" in found[COMPLETE]["problem"] and "format 2" in found[BROKEN_OFF]["problem"]
    with pytest.raises(MarkError, match="Make a new mark"):
        open_mark(upgraded.open("lake"), COMPLETE)
    later(1)
    mark(spark, upgraded, "m1")
    later(10)
    done = retire(upgraded.open("lake"), 2)
    assert set(done.retired) == {COMPLETE, BROKEN_OFF}
    assert done.retired[BROKEN_OFF]["deleted"] == 2, "what its journal tells"


def test_a_sweep_of_the_old_version_that_broke_off_is_closed_with_all_that_it_deleted(
    spark: SparkSession, upgraded: Lake
) -> None:
    later(1)
    stored = {path.name for path in upgraded.files("lake").glob("data/*/*")}
    context = open_mark(upgraded.open("lake"), BROKEN_OFF, any_version=True)
    result = close_sweep(spark, context)
    assert {name: count for name, count in result.outcomes.items() if count} == {"deleted": 3, "left": 3}
    assert result.bytes_deleted == 33
    assert {path.name for path in upgraded.files("lake").glob("data/*/*")} == stored, "nothing more is deleted"
    with pytest.raises(MarkError, match="nothing to close"):
        close_sweep(spark, context)
    for path in (upgraded.files("lake") / context.mark.folder).rglob("*"):
        os.utime(path, ((NOW + timedelta(days=1)).timestamp(),) * 2)  # by the clock of this lake
    later(2)
    mark(spark, upgraded, "m1")
    later(11)
    assert retire(upgraded.open("lake"), 2).retired[BROKEN_OFF]["deleted"] == 3
