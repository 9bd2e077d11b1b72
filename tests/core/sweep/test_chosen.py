"""The sweep of a drill takes what was chosen, and nothing that was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakegc_core.sweep.chosen import Chosen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_only_what_was_chosen_is_among_the_candidates_and_what_is_no_candidate_does_not_become_one(
    spark: SparkSession,
) -> None:
    candidates = spark.createDataFrame([("data/a", 1), ("data/b", 2), ("data/a*", 3)], "address string, size long")
    chosen = Chosen("drill:d1", ("data/a*", "data/b", "data/live"), 3)
    assert sorted(row["address"] for row in chosen.among(candidates).collect()) == ["data/a*", "data/b"]
