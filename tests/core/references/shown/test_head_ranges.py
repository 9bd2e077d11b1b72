"""Which ranges heads hold, and on how many branches: whether marks have read their metaranges or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.pipeline import MARKING
from lakegc_core.references.ranges.range_files import METARANGES_SCHEMA
from lakegc_core.references.shown.head_ranges import read_head_ranges
from lakegc_core.references.shown.heads import BranchHeads, heads_of_mark
from lakegc_core.references.shown.intervals import PLACES
from lakegc_core.spark.tasks import Mapped
from lakegc_core.spark.versions import frame_of
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from tests.support.lake import Lake, lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGE = timedelta(days=3)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    """Three branches of one commit, and one of a commit of its own."""
    with lake(tmp_path) as found:
        repository = found.create("lake")
        repository.set_rules(7)
        repository.upload("main", "a", b"a", age=AGE)
        repository.commit("main", "first")
        for name in ("b1", "b2", "b3"):
            repository.create_branch(name, "main")
        repository.upload("b3", "b", b"b", age=AGE)
        repository.commit("b3", "second")
        yield found


def heads_by_range(served: Lake) -> Mapping[str, list[str]]:
    """The names of the branches that hold each range, as the files of the heads say."""
    repository = served.sandbox.repository("lake")
    found: dict[str, list[str]] = {}
    for branch in repository.refs.branches.values():
        table = repository.refs.commits[branch.commit_id].meta_range_id
        rows = graveler.read_metarange((served.files("lake") / "_lakefs" / table).read_bytes())
        for range_id in rows["range_id"].to_pylist():
            found.setdefault(range_id, []).append(branch.name)
    return found


def of_mark(spark: SparkSession, served: Lake, stages: int = 4) -> tuple[MarkContext, BranchHeads]:
    context = served.begin("lake", "m1")
    for stage in list(MARKING.values())[:stages]:
        stage(spark, context)
    return context, heads_of_mark(context, kept=Dataset(FINDINGS_SCHEMA))


@pytest.mark.parametrize("marks", [1, 0, 2], ids=["that a mark has read", "that none has read", "that went and came"])
def test_every_range_of_the_heads_is_there_with_the_number_of_its_branches(
    quick: SparkSession, served: Lake, marks: int
) -> None:
    """`marks`: the number of those that have read the heads' metaranges."""
    context, heads = of_mark(quick, served)
    right = heads_by_range(served)
    assert Counter(map(len, right.values())) == Counter([3, 1])
    heads = replace(heads, metaranges=Dataset(METARANGES_SCHEMA, marks * heads.metaranges.sources))
    found = read_head_ranges(quick, context, heads, DatasetFolder(context.workspace, "here"))
    assert {row["range_id"]: row["branches"] for row in found.ranges.frame(quick).collect()} == {
        range_id: len(names) for range_id, names in right.items()
    }
    assert found.pages == 4
    places = [{"range_id": each, "rank": 1, "first": b"a", "last": b"b", "reach": 2} for each in right]
    asked = (
        found.on_branches(Mapped(frame_of(quick, pa.Table.from_pylist(places, PLACES)), PLACES)).as_frame().collect()
    )
    assert sorted(row["branch"] for row in asked) == sorted(name for names in right.values() for name in names)
