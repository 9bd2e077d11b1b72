"""Objects that earlier sweeps failed to delete: which failures count, and where they are looked for.

What a sweep with a budget makes of them: test_sweep_budget.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core.marks.context import MarkContext
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA
from lakegc_core.sweep.failures import FAILURE, failed_before
from lakegc_core.sweep.record import SweepRecord
from tests.support.lake import NO_SPARK, NOW, lake
from tests.support.marks import parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def context(tmp_path: Path) -> Iterator[MarkContext]:
    """A mark with the journal of a sweep."""
    with lake(tmp_path) as served:
        served.create("lake")
        found = served.begin("lake", "m1")
        told = (
            ("AccessDenied", "a"),
            ("SlowDown", "b"),
            ("no_answer", "c"),
            ("still_there", "d"),
            ("InternalError", "e"),
            ("ExpiredToken", "g"),
        )
        rows = [
            {"address": address, "size": 10, "outcome": f"failed:{code}", "attempt": 1, "at": NOW}
            for code, address in told
        ]
        later = {"outcome": "failed:InvalidObjectState", "at": NOW + timedelta(days=1)}
        gone = {"address": "f", "outcome": "deleted"}
        old = {"address": "h", "at": NOW - timedelta(days=7, seconds=1)}
        parts(
            found,
            f"{found.mark.folder}/sweeps/1/outcomes",
            OUTCOMES_SCHEMA,
            [*rows, rows[0] | later, rows[0] | gone, rows[0] | old],
        )
        yield found


def test_the_last_failure_of_an_object_counts_unless_another_night_may_do_better(
    quick: SparkSession, context: MarkContext
) -> None:
    found = failed_before(quick, context)
    assert found is not None
    told = {row["address"]: row[FAILURE] for row in found.collect()}  # not of "h", whose failure is of last week
    assert told == {"a": "failed:InvalidObjectState", "d": "failed:still_there"}


def test_the_journal_of_a_sweep_whose_report_names_no_such_failure_is_not_read(context: MarkContext) -> None:
    sweep = SweepRecord(NO_SPARK, context, dry_run=False)
    sweep.close({"outcomes": {"deleted": 5, "failed:AccessDenied": 0, "failed:no_answer": 2, "failed:SlowDown": 1}})
    assert failed_before(NO_SPARK, context) is None
