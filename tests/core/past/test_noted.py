"""The origins of all marks that stand are read, whatever else the marks are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.past.noted import origins_of_all
from tests.core.past.test_origins import marking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_of_marks_that_looked_the_origins_are_read_and_others_are_passed_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    with marking(spark, tmp_path) as here:
        old = here.commit("main", 60, a=b"1")
        here.commit("main", 50, a=b"2")
        first = here.mark("m1")
        assert list(origins_of_all(first).values("address")) == [old]
        here.mark("m2", policy=RepositoryPolicy(match="*", origins=False))
        here.lake.begin("lake", "m3")
        assert list(origins_of_all(first).values("address")) == [old]
        here.mark("m4")
        assert list(origins_of_all(first).values("address")) == [old, old]
