"""A repository of few paths, and a mark of it, for what goes from addresses to the paths users know, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import STAGES
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, REFS_SCHEMA
from lakegc_core.references.ranges.range_files import RANGES, RANGES_SCHEMA
from lakegc_sandbox import Repository
from tests.support.lake import Lake, lake, quick
from tests.support.marks import Rows, finish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATHS = ("legal/a.pdf", "legal/2024/é b.pdf", "legalese/c.pdf", "tables/1", "tables/2", "tables/3")


@dataclass
class World:
    """A repository of few paths, and a mark of it whose commits and ranges stand."""

    lake: Lake
    repo: Repository
    context: MarkContext
    addresses: dict[str, str]
    commits: Rows
    ranges: Rows


@contextmanager
def path_world(
    spark: SparkSession,
    folder: Path,
    ranges_known: int | None = None,
    first: Callable[[Repository], object] = lambda repository: None,
) -> Iterator[World]:
    """The repository with its bytes below `folder`, and Spark quick on few rows, until the block ends.

    `ranges_known`: up to which of the ranges the mark has read, as in a slice. `first`: what happens before the paths
    are uploaded.
    """
    with lake(folder) as served, quick(spark):
        repo = served.create("lake")
        first(repo)
        addresses = {path: repo.upload("main", path, path.encode(), age=timedelta(days=9)) for path in PATHS}
        commit = repo.commit("main", "all of them")
        context = served.begin("lake", "m1")
        metarange = (served.files("lake") / "_lakefs" / commit.meta_range_id).read_bytes()
        ranges = [
            row | {"metarange_id": commit.meta_range_id} for row in graveler.read_metarange(metarange).to_pylist()
        ]
        assert 1 < len(ranges) < len(PATHS)
        commits = [{"commit_id": commit.id, "metarange_id": commit.meta_range_id, "kept_by": "head:main"}]
        refs = [{"kind": "branch", "name": "main", "commit_id": commit.id}]
        finish(context, STAGES[0])
        finish(context, STAGES[1])
        finish(context, STAGES[2], {STAGES[2]: (COMMITS_SCHEMA, commits), "refs": (REFS_SCHEMA, refs)})
        known = [
            {"range_id": row["range_id"], "references": 1, "count": row["count"], "read_in": "m1"}
            for row in ranges[:ranges_known]
        ]
        finish(context, STAGES[3], {RANGES: (RANGES_SCHEMA, known)})
        yield World(served, repo, context, addresses, commits, ranges)
