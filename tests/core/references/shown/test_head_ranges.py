"""Which ranges heads hold, and on how many branches: whether marks have read their metaranges or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
from lakegc_core.references.ranges.range_files import CHECKSUMS_SCHEMA, METARANGES_SCHEMA
from lakegc_core.references.shown.head_ranges import HeadRanges, read_head_ranges
from lakegc_core.references.shown.heads import BranchHeads, heads_of_mark
from lakegc_core.references.shown.intervals import PLACES
from lakegc_core.spark.tasks import Mapped
from lakegc_core.spark.versions import frame_of
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from tests.support.lake import Lake, lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGE = timedelta(days=3)
_LOOKED_FOR = pa.schema([METARANGES_SCHEMA.field("range_id")])


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
    found = read_head_ranges(quick, context, heads, DatasetFolder(context.workspace, "here"), None, 0)
    assert branches_by_range(found) == {range_id: len(names) for range_id, names in right.items()}
    assert found.pages == 4
    assert asked_on(quick, found, right) == sorted(name for names in right.values() for name in names)


@pytest.mark.parametrize("marks", [1, 0, 2], ids=["that a mark has read", "that none has read", "that went and came"])
@pytest.mark.parametrize("whole", [3, 4], ids=["one page too many", "few pages"])
def test_of_heads_with_too_many_ranges_to_be_asked_for_whole_those_that_are_looked_for_are_there(
    quick: SparkSession, served: Lake, marks: int, whole: int
) -> None:
    context, heads = of_mark(quick, served)
    right = heads_by_range(served)
    heads = replace(heads, metaranges=Dataset(METARANGES_SCHEMA, marks * heads.metaranges.sources))
    out = DatasetFolder(context.workspace, "here")
    for one in right:
        alike = out.written("looked-for", pa.table({"range_id": [one]}, _LOOKED_FOR), _LOOKED_FOR)
        found = read_head_ranges(quick, context, heads, out, alike, whole)
        there = {one: right[one]} if whole == 3 else right
        assert branches_by_range(found) == {range_id: len(names) for range_id, names in there.items()}
        assert found.pages == 4
        assert asked_on(quick, found, right) == sorted(name for names in there.values() for name in names)


def test_heads_whose_ranges_the_mark_did_not_count_are_there_whole(quick: SparkSession, served: Lake) -> None:
    """Nobody knows how many pages they take until they are read: they may be few."""
    context, heads = of_mark(quick, served)
    heads = replace(heads, stated=Dataset(CHECKSUMS_SCHEMA))
    alike = Dataset(_LOOKED_FOR)
    found = read_head_ranges(quick, context, heads, DatasetFolder(context.workspace, "here"), alike, 0)
    assert set(branches_by_range(found)) == set(heads_by_range(served))
    assert found.pages == 4


def branches_by_range(found: HeadRanges) -> Mapping[str, int]:
    """The number of branches of each range."""
    return {row["range_id"]: row["branches"] for row in found.ranges.dicts()}


def asked_on(spark: SparkSession, found: HeadRanges, range_ids: Iterable[str]) -> list[str]:
    """The branches on which places in these ranges are asked for, sorted."""
    places = [{"range_id": each, "rank": 1, "first": b"a", "last": b"b", "reach": 2} for each in range_ids]
    rows = found.on_branches(Mapped(frame_of(spark, pa.Table.from_pylist(places, PLACES)), PLACES)).as_frame()
    return sorted(row["branch"] for row in rows.collect())
