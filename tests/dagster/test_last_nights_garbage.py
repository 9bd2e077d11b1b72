"""A night that is minutes faster than the one before: the garbage of that one goes with its sweep all the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakegc_core import pipeline
from lakegc_core.names import Outcome
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.metadata.entries import READY
from lakegc_dagster.metadata.stages import _judged
from tests.support.true_time import Nights, nights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A_NIGHT = 2
MINUTE, HOUR = 1 / 1440, 1 / 24  # days
DAY = 86_400.0
NIGHTLY = LakegcConfig()


def due(found: Nights, mark_id: str, options: LakegcConfig = NIGHTLY) -> float:
    """When the sensor asks for the sweep of a mark."""
    context = found.context(mark_id)
    at = _judged(options, context, pipeline.review(context))[READY].value
    assert isinstance(at, float)
    return at


def test_what_lacks_minutes_of_the_gap_goes_tonight_although_older_garbage_could_go_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    with nights(spark, tmp_path) as found:
        found.litter(A_NIGHT)
        found.mark("m0")
        found.at(1)
        found.litter(A_NIGHT)
        found.mark("m1")
        found.at(2 - 5 * MINUTE)
        found.mark("m2")
        wait = due(found, "m2") - found.present
        assert 240 < wait <= 300
        found.at(2 - 5 * MINUTE + (wait + 1) / DAY)
        assert found.sweep("m2", {"blast-radius": "known"}).outcomes[Outcome.DELETED] == 2 * A_NIGHT


def test_the_garbage_of_each_hour_does_not_put_off_the_sweep_until_the_mark_of_the_next_hour(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With the next mark another wait would begin, and no mark would ever be swept."""
    with nights(spark, tmp_path) as found:
        for hour in (0, 1):
            found.at(1 + hour * HOUR)
            found.litter(A_NIGHT)
            found.mark(f"m{hour}")
        found.at(2 + MINUTE)
        found.mark("m24")
        next_round = found.present + 59 * 60
        assert due(found, "m24") > next_round - 60, "that of an hour ago can go when the next round begins"
        assert due(found, "m24", LakegcConfig(round_cron="0 * * * *")) <= found.present + 1
