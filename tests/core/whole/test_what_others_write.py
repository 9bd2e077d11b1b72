"""What users of lakeFS may write stops no repository: marks and sweeps go on over the worst of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.marks.artifacts import INCREMENTAL
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Outcome
from lakegc_core.policy.facts import ExpiredFacts, ListingFacts
from tests.support.lake import NOW, Lake, lake, leave, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = ("data/./slice/id", "data//slice/id", "data/../slice/id", f"data/{'n' * 300}/id", "data/id/", "data/\x01\u2028")
NONE = ""  # of a link that gave no address: it names no object


@pytest.fixture
def served(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as found, quick(spark):
        found.create("lake").set_rules(7)
        yield found


def marked(spark: SparkSession, served: Lake, day: int) -> MarkContext:
    os.environ["LAKEGC_NOW"] = str(NOW.timestamp() + 86_400 * day)  # until the lake ends
    mark = served.begin("lake", f"m{day}", mode=INCREMENTAL)
    pipeline.mark(spark, mark)
    return mark


@pytest.mark.parametrize("committed", [False, True])
def test_no_address_that_a_user_stages_or_commits_stops_marks_and_sweeps(
    spark: SparkSession, served: Lake, committed: bool
) -> None:
    repository = served.sandbox.repository("lake")
    repository.upload("main", "sound", b"sound")
    repository.commit("main", "sound")
    gone = leave(repository, "data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii5490900", 30)
    marked(spark, served, 0)
    entry = dict(repository.objects("main"))["sound"]
    for number, address in enumerate(ODD):
        repository.stage_entry("main", f"odd/{number}", replace(entry, address=address))
    for number, address in enumerate((NONE, "ftp://x/y", "nonsense")):
        repository.stage("main", f"odd/linked-{number}", address, size=5, checksum="c" * 32)
    if committed:
        repository.stage_entry("main", "", entry)  # an import of the marker `dir/` commits such a path
        repository.commit("main", "=HYPERLINK(1)\x1b[31m")
    for day in (1, 2, 3):
        mark = marked(spark, served, day)
        assert mark.mark.facts(ListingFacts).rests_on, "an optimized mark"
        assert mark.mark.facts(ExpiredFacts).missing == len(ODD)
        assert pipeline.sweep(spark, mark).outcomes[Outcome.DELETED] == (1 if day == 1 else 0)
    assert not (served.files("lake") / gone).exists()
