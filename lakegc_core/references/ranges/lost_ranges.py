"""Ranges that cannot be read and that only ignored commits have: they are passed over, and stay to be read.

lakegc.yaml names the commits (`ignore_commits`). A range is passed over only if no other retained commit has it. Its
row in RANGES then says that no mark has read it, so that each look and each later mark tries again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.names import Json
from lakegc_core.spark.tasks import collected
from lakegc_core.tables.dataset import Dataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNREAD = ""
"""`read_in` of a range that no mark has read."""
MOST_NAMED = 20
"""Lost ranges that facts name."""


@dataclass(frozen=True)
class Ignored:
    """Metaranges that ignored commits have, and no other retained commit."""

    metarange_ids: tuple[str, ...] = ()

    def without_lost(
        self, files: MetadataFiles, ranges: Sequence[Json], read: Callable[[Sequence[str]], Iterable[object]]
    ) -> tuple[list[str], set[str]]:
        """Split ranges into those to read, and those that are lost: unreadable, and in these metaranges alone. Returns
        the ids of both, in this order. `ranges`: rows with range_id and `references`, the number of retained metaranges
        that contain it; `read` reads some by their ids."""
        if not self.metarange_ids:
            return [each["range_id"] for each in ranges], set()
        numbers = _metaranges_by_range(files, self.metarange_ids)
        own = [each["range_id"] for each in ranges if numbers[each["range_id"]] == each["references"]]
        lost = {each for each in own if not _is_readable(each, read)}
        return [each["range_id"] for each in ranges if each["range_id"] not in lost], lost


NOTHING_IGNORED = Ignored()


def _is_readable(range_id: str, read: Callable[[Sequence[str]], Iterable[object]]) -> bool:
    try:
        for _ in read([range_id]):
            pass
    except (ObjectNotFoundError, CorruptFileError):
        return False
    return True


@lru_cache(maxsize=2)
def _metaranges_by_range(files: MetadataFiles, metarange_ids: tuple[str, ...]) -> Counter[str]:
    """The ranges of some metaranges, and how many of these contain each."""
    found = Counter[str]()
    for each in metarange_ids:
        found.update(graveler.read_metarange(files.read(each), expected_id=each)["range_id"].to_pylist())
    return found


def read_in(range_ids: pa.Array, lost: set[str], mark_id: str) -> pa.Array:
    """The column `read_in` of RANGES, for ranges of which a mark has read all but those that are lost."""
    return pa.array([UNREAD if each in lost else mark_id for each in range_ids.to_pylist()], pa.string())


def ignored_in(spark: SparkSession, context: MarkContext, commits: Dataset) -> Ignored:
    """What is ignored of retained commits (COMMITS_SCHEMA): few, since lakegc.yaml names each."""
    from pyspark.sql import functions as F

    named = context.header.ignore_commits
    if not named:
        return NOTHING_IGNORED
    has = commits.frame(spark, "commit_id", "metarange_id").where("metarange_id != ''").groupBy("metarange_id")
    # The least of booleans: true if all commits of a metarange are named.
    alone = has.agg(F.min(F.col("commit_id").isin(*named)).alias("alone")).where("alone")
    return Ignored(tuple(sorted(row["metarange_id"] for row in collected(alone))))


def lost_ids(ranges: DataFrame) -> tuple[str, ...]:
    """Some of the ranges that were passed over (rows of RANGES), by id."""
    found = ranges.where(ranges["read_in"] == UNREAD).select("range_id").distinct()
    return tuple(row["range_id"] for row in collected(found.orderBy("range_id").limit(MOST_NAMED)))
