"""Finds idle holds by path: no known commit has a path that they match.

A hold may match only paths of retained commits. It keeps nothing yet, but it is no mistake, and not idle. So retained
commits are searched, heads first, until each hold matches a path, or a limit ends the search. If the limit ends it, the
hold is not called idle, but `untold`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.names import Json, Stage
from lakegc_core.policy.holds import PathGlobs, fixed_prefix
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA
from lakegc_core.references.ranges.held_paths import may_contain
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.tables.dataset import Dataset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_METARANGES = 1_000
"""At most this many metaranges of retained commits are searched by a mark."""

MOST_RANGES = 200
"""At most this many ranges are read for one glob."""

_AT_A_TIME = 8
_HEAD = "head:"


@dataclass(frozen=True)
class IdlePaths:
    """`idle`: globs that match no path of a retained commit. `untold`: globs for which the search ended early."""

    idle: tuple[str, ...]
    untold: tuple[str, ...]


def idle_paths(spark: SparkSession, context: MarkContext, globs: Sequence[str]) -> IdlePaths:
    """Find the globs that match no path of a retained commit of this mark. Nothing is read if there are no globs.

    `globs`: those that match nothing in commits that are not retained (`HeldByPath.idle`).
    """
    if not globs:
        return IdlePaths((), ())
    commits = context.mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA)
    search = _Search(context.metadata, commits, tuple(globs))
    (found,) = run_tasks(spark, [search], _Search.run, width=1)
    return IdlePaths(tuple(found["idle"]), tuple(found["untold"]))


@dataclass(frozen=True)
class _Search:
    """Looks for paths that match globs, in one task. `commits`: those that are retained."""

    files: MetadataFiles
    commits: Dataset
    globs: tuple[str, ...]

    def run(self) -> Iterator[Json]:
        left = dict.fromkeys(self.globs, MOST_RANGES)  # globs without a match so far, and ranges to read for each
        untold: set[str] = set()
        seen: set[str] = set()
        metaranges = self._metaranges()
        within = itertools.islice(metaranges, MOST_METARANGES)
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            some = list(itertools.islice(within, 1))  # the first head shows most of what there is
            while some and left:
                try:
                    for metarange_id, data in zip(some, pool.map(self.files.read, some), strict=True):
                        self._look(graveler.read_metarange(data, expected_id=metarange_id), left, seen, untold)
                except (ObjectNotFoundError, CorruptFileError):  # lost: whoever needs what it contains says so
                    untold |= left.keys()
                    break
                some = list(itertools.islice(within, _AT_A_TIME))
        if left and next(metaranges, None) is not None:
            untold |= left.keys()
        yield {"idle": sorted(left.keys() - untold), "untold": sorted(untold)}

    def _look(self, ranges: pa.Table, left: dict[str, int], seen: set[str], untold: set[str]) -> None:
        """Search the ranges of a metarange that can have a path of a glob in `left`, each range once. Removes globs
        that match from `left`, and moves to `untold` those without ranges left to read, or that a lost range may have.
        """
        for glob in self.globs:
            if glob not in left:
                continue
            for range_id in ranges["range_id"].filter(may_contain(ranges, fixed_prefix(glob))).to_pylist():
                if range_id in seen:  # read for another glob, and looked through for all
                    continue
                if not left[glob]:
                    untold.add(glob)
                    del left[glob]
                    break
                left[glob] -= 1
                seen.add(range_id)
                try:
                    found = self._shown(range_id, tuple(left))
                except (ObjectNotFoundError, CorruptFileError):  # lost: only ignored commits have it
                    here = ranges.filter(pc.equal(ranges["range_id"], range_id))
                    found = [each for each in left if pc.any(may_contain(here, fixed_prefix(each))).as_py()]
                    untold |= {*found}
                for each in found:
                    del left[each]
                if glob not in left:
                    break

    def _shown(self, range_id: str, globs: tuple[str, ...]) -> list[str]:
        """Those of the globs that match a path of a range."""
        paths = graveler.read_range(self.files.read(range_id), paths=True, expected_id=range_id)["path"]
        masks = PathGlobs(globs).each(paths)
        return [glob for glob, mask in zip(globs, masks, strict=True) if pc.any(mask).as_py()]

    def _metaranges(self) -> Iterator[str]:
        """The metaranges of the retained commits, those of heads first, each once."""
        seen: set[str] = set()
        for of_heads in (True, False):
            for each in self.commits.dicts("metarange_id", "kept_by"):
                metarange_id = each["metarange_id"]
                if metarange_id and metarange_id not in seen and each["kept_by"].startswith(_HEAD) is of_heads:
                    seen.add(metarange_id)
                    yield metarange_id
