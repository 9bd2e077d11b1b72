"""What the heads of branches hold, as a mark saw them or a later look: nothing of either is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core.errors import MarkError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE, ELSEWHERE_SCHEMA
from lakegc_core.marks.findings import FINDINGS_SCHEMA as FOUND
from lakegc_core.marks.findings import KEPT, MISSTATED, MISSTATED_SCHEMA
from lakegc_core.names import STAGES
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS, REFS, REFS_SCHEMA
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.ranges.range_files import (
    CHECKSUMS,
    CHECKSUMS_SCHEMA,
    INDEX,
    INDEX_SCHEMA,
    METARANGES,
    METARANGES_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
)
from lakegc_core.references.shown.heads import heads_of_mark
from lakegc_core.references.staged import STAGED_SCHEMA as DUMPED
from lakegc_core.tables.dataset import Dataset
from tests.support.lake import lake
from tests.support.marks import Rows, dataset, finish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITS = [{"commit_id": name, "metarange_id": f"m-{name}", "kept_by": "rules"} for name in "abc"]
HEADS = [
    {"kind": "branch", "name": "main", "commit_id": "a"},
    {"kind": "branch", "name": "dev", "commit_id": "b"},
    {"kind": "branch", "name": "dev", "commit_id": "c"},  # it moved between two listings
    {"kind": "tag", "name": "v1", "commit_id": "a"},
]


def index(*range_ids: str) -> Rows:
    return [{"range_id": each, "hash": 1, "size": 1} for each in range_ids]


def ranges(*range_ids: str, read_in: str = "m1") -> Rows:
    return [{"range_id": each, "references": 1, "count": 2, "read_in": read_in} for each in range_ids]


@pytest.fixture
def context(tmp_path: Path) -> Iterator[MarkContext]:
    """A mark whose last stage is not finished."""
    with lake(tmp_path) as served:
        served.create("lake")
        found = served.begin("lake", "m1")
        finish(found, STAGES[0])
        finish(found, STAGES[1], {STAGES[1]: (DUMPED, [{"address": "data/a", "exact": True}])}, rows=7)
        finish(
            found,
            STAGES[2],
            {STAGES[2]: (COMMITS_SCHEMA, COMMITS), OTHERS: (COMMITS_SCHEMA, []), REFS: (REFS_SCHEMA, HEADS)},
            branches=2,
        )
        of_ranges = {RANGES: (RANGES_SCHEMA, ranges("r1")), INDEX: (INDEX_SCHEMA, index("r1"))}
        away = [{"range_id": "r1", "address": "s3://far/x", "size": 1}]
        stated = [{"metarange_id": "m-a", "count": 1, "checksum": 0}]
        none = {STAGES[3]: (ENTRIES_SCHEMA, []), METARANGES: (METARANGES_SCHEMA, [])}
        more = {CHECKSUMS: (CHECKSUMS_SCHEMA, stated), ELSEWHERE: (ELSEWHERE_SCHEMA, away)}
        finish(found, STAGES[3], {**none, **of_ranges, **more}, entries=4321)
        yield found


def test_of_a_mark_the_heads_are_in_its_own_indexes(context: MarkContext) -> None:
    folder = context.mark.stage_folder(STAGES[4], MISSTATED)
    odd = dataset(context, folder, MISSTATED_SCHEMA, [{"address": "x", "size": 1}])
    found = heads_of_mark(context, odd, Dataset(FOUND))
    assert (found.commits.facts.branches, found.entries_bound, found.staged.rows) == (2, 4321, 1)
    assert [(each.layer, each.part.rows) for each in found.index.sources] == [("m1", 1)]
    assert (found.outside.rows, found.commits.refs.rows, found.stated.rows) == (1, 4, 1)
    assert found.misstated.rows == 1, "what the mark has just found counts before its stage is finished"
    assert found.pages == 2 * (1 + 4321 // 1000)


def test_the_pages_of_a_mark_are_those_of_its_branches_and_of_what_is_staged(context: MarkContext) -> None:
    many = dataset(context, "many", DUMPED, [{"address": f"data/{number}", "exact": True} for number in range(2500)])
    assert replace(heads_of_mark(context, kept=Dataset(FOUND)), staged=many).pages == 2 * (1 + 4321 // 1000) + 2


def test_what_is_staged_is_what_the_dump_names_and_its_sizes_are_those_that_the_mark_listed(
    quick: SparkSession, context: MarkContext
) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {"address": address, "size": size, "last_modified": moment, "etag": None, "reason": reason, "since": moment}
        for address, size, reason in (("data/a", 1, "staged"), ("data/b", 2, "young"), ("data/c", 3, "held"))
    ]
    kept = dataset(context, context.mark.stage_folder(STAGES[4], KEPT), FOUND, rows)
    found = heads_of_mark(context, kept=kept)
    assert [row["address"] for row in found.staged.frame(quick).collect()] == ["data/a"]
    assert [tuple(row) for row in found.listed_staged(quick).as_frame().collect()] == [("data/a", 1)]
    finish(context, STAGES[4], {KEPT: (FOUND, rows), MISSTATED: (MISSTATED_SCHEMA, [])})
    assert heads_of_mark(context).listed_staged(quick).as_frame().count() == 1, "of a finished mark"


def test_every_head_of_a_branch_counts_and_no_tag(quick: SparkSession, context: MarkContext) -> None:
    found = heads_of_mark(context, kept=Dataset(FOUND)).branches(quick).as_frame()
    assert sorted(map(tuple, found.collect())) == [("dev", "m-b"), ("dev", "m-c"), ("main", "m-a")]


def test_a_mark_without_an_index_has_no_heads_but_an_error(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        context = served.begin("lake", "m1")
        for stage in STAGES[:2]:
            finish(context, stage)
        finish(
            context,
            STAGES[2],
            {STAGES[2]: (COMMITS_SCHEMA, COMMITS), OTHERS: (COMMITS_SCHEMA, []), REFS: (REFS_SCHEMA, HEADS)},
        )
        with pytest.raises(MarkError, match="committed_addresses of mark m1 is not finished"):
            heads_of_mark(context)
        finish(context, STAGES[3])
        with pytest.raises(MarkError, match=f"has no dataset {INDEX}"):
            heads_of_mark(context)
