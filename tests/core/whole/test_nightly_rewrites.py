"""A lake in which a job rewrites data every night is swept every night, at level full, and no night sweeps two."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.errors import RefusedError
from lakegc_core.names import Outcome
from lakegc_core.sweep import planning
from tests.support.true_time import Nights, nights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIVE, A_NIGHT = 50, 4
MINUTE = 1 / 1440  # days


def live(found: Nights) -> None:
    for number in range(LIVE):
        found.repository.upload("main", f"more/{number}", b"M" * (200 + number), age=timedelta(days=30))
    found.repository.commit("main", "more")


def test_a_night_with_an_accident_sweeps_what_was_ready_before_and_the_next_one_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    with nights(spark, tmp_path) as found, pytest.MonkeyPatch.context() as patch:
        live(found)
        found.litter(A_NIGHT)
        found.mark("m0")
        found.at(1)
        found.litter(5 * A_NIGHT)
        found.mark("m1")
        found.at(2 - MINUTE)
        look = planning.take_look

        def late(*given: Any) -> Any:
            """What becomes ready between the guards and the look was judged by nobody."""
            found.at(2 + MINUTE)
            return look(*given)

        patch.setattr(planning, "take_look", late)
        assert found.sweep("m1", {}).outcomes[Outcome.DELETED] == A_NIGHT
        patch.undo()
        found.mark("m2")
        with pytest.raises(RefusedError, match=r"blast-radius: 26\.\d% of lakeFS's objects"):
            found.sweep("m2", {})
        policy = RepositoryPolicy(match="*", blast_radius=0.3)
        told = replace(found.context("m2"), policy=policy)
        assert pipeline.sweep(spark, told).outcomes[Outcome.DELETED] == 5 * A_NIGHT
