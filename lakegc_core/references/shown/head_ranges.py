"""The ranges in the heads of branches, and the number of branches of each: read once, and written down.

Where branches have too many ranges to be asked for whole, only those that are looked for are brought together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.lakefs.http import PAGE
from lakegc_core.marks.context import MarkContext
from lakegc_core.references.ranges.range_files import METARANGES_SCHEMA, range_reader
from lakegc_core.references.shown.asking import INTERVALS
from lakegc_core.references.shown.heads import BRANCHES, BranchHeads
from lakegc_core.spark.tasks import Mapped
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import HASH, gather, partitions_for, rows_in, with_hash
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.joins import scan
from lakegc_core.tables.key_scan import Wanted, sieve_of
from lakegc_core.tables.parts import spark_width
from lakegc_core.tables.relations import distinct, joined, selected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAD_RANGES_SCHEMA = pa.schema(
    [
        *(METARANGES_SCHEMA.field(name) for name in ("range_id", "count")),
        pa.field("branches", pa.int64(), nullable=False),  # whose heads contain it
    ]
)
_IDS = pa.schema([METARANGES_SCHEMA.field("metarange_id")])
_NAMED = pa.schema([HASH, *_IDS, BRANCHES.field("name").with_nullable(True)])  # the name is null in rows of metaranges
_COUNTING = pa.schema([*_NAMED, *(field.with_nullable(True) for field in list(HEAD_RANGES_SCHEMA)[:-1])])
_OF_RANGE = pa.schema([HASH, *HEAD_RANGES_SCHEMA])
_SUMMED = {"count": "max", "branches": "sum"}
_STATED = pa.field("ranges", pa.int64())
_WITH_STATED = pa.schema([*BRANCHES, _STATED])
"""BRANCHES, and the number of ranges of each head, as its metarange states it; null if the mark did not retain it."""
_STATED_OF = pa.schema([*_IDS, _STATED])
_RANGE_ROWS, _OWN_ROWS, _RANGES, _OF_METARANGES = "held", "found", "held-ranges", "ranges-of-metaranges"
_BRANCHES, _NEW = "branches-of-heads", "new-metaranges"


@dataclass(frozen=True)
class HeadRanges:
    """The ranges of all heads, or some of them.

    - `branches`: those with retained heads (BRANCHES, among other columns)
    - `ranges`: each once (HEAD_RANGES_SCHEMA)
    - `metaranges`: those of the heads, with a row for each of the ranges (METARANGES_SCHEMA)
    - `pages`: the number of pages that list all heads whole, on all branches, at most; if `ranges` are only some, at
      least
    """

    spark: SparkSession
    branches: Dataset
    ranges: Dataset
    metaranges: Dataset
    pages: int

    def branch_counts(self) -> Mapped:
        """The number of branches of each range: range_id, branches."""
        return self.ranges.mapped(self.spark, "range_id", "branches", here=True)

    def on_branches(self, places: Mapped) -> Mapped:
        """INTERVALS: each place (PLACES) on every branch whose head contains its range."""
        contained = self.metaranges.mapped(self.spark, "metarange_id", "range_id", here=True)
        rows = joined(places, contained, ["range_id"])
        rows = joined(rows, self.branches.mapped(self.spark, *BRANCHES.names, here=True), ["metarange_id"])
        return distinct(selected(rows, INTERVALS, branch=itemgetter("name")))

    def whole_branches(self) -> Mapped:
        """INTERVALS: every branch from its beginning to its end, cut where a range of its head begins. Something may be
        staged where no range is."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        ranges = self.metaranges.frame(self.spark, "metarange_id", "min_key", "count").distinct()
        rows = self.branches.frame(self.spark, *BRANCHES.names).distinct().join(ranges, "metarange_id", "left")
        place = Window.partitionBy("name").orderBy("min_key")
        first = F.when(F.row_number().over(place) == 1, F.lit(b"")).otherwise(F.col("min_key"))
        rows = rows.select(
            F.col("name").alias("branch"),
            first.alias("first"),
            F.lead("min_key").over(place).alias("last"),
            F.coalesce("count", F.lit(0)).alias("reach"),
        )
        return Mapped(rows, INTERVALS)


def read_head_ranges(
    spark: SparkSession, context: MarkContext, heads: BranchHeads, out: DatasetFolder, alike: Dataset | None, whole: int
) -> HeadRanges:
    """Bring together the heads' metaranges that marks have read; those that none has read are read here.

    Each range takes a page at least on every branch. If that makes more than `whole` pages, the heads are not asked for
    whole, and only the ranges of `alike` (column range_id; None: all) are brought together, and perhaps a few others.
    """
    stated = heads.stated.mapped(spark, "metarange_id", "count", here=True)
    stated = selected(stated, _STATED_OF, ranges=itemgetter("count"))
    rows = joined(heads.branches(spark), stated, ["metarange_id"], "left")
    branches = out.put(_BRANCHES, rows, _WITH_STATED, _ranges)
    some = alike.keys("range_id", by=_by_range) if alike is not None and branches.sum("ranges") > whole else None
    feeds = heads.metaranges.feeds(repeated=("metarange_id",))
    rows = scan(spark, feeds, METARANGES_SCHEMA, branches.keys("metarange_id", by=_by_metarange))
    known = _divided(out, rows, some)
    named = branches.feeds("metarange_id", "name", make=_by_id)
    feeds = [*named, *known[_OWN_ROWS].feeds("metarange_id", make=_by_id)]
    new = out.put(_NEW, gather(spark, feeds, _NAMED, _not_read, _IDS, partitions_for(rows_in(feeds))), _IDS)
    found = known[_RANGE_ROWS]
    if new.rows:
        ids = new.frame(spark).repartition(context.settings.scale.range_num_partitions or 2 * spark_width(spark))
        rows = Mapped(ids, METARANGES_SCHEMA, range_reader(context).metaranges)
        found += _divided(out, rows, some)[_RANGE_ROWS]
    feeds = [*named, *found.feeds("metarange_id", *HEAD_RANGES_SCHEMA.names[:-1], make=_by_id)]
    counted = gather(spark, feeds, _COUNTING, _with_branches, HEAD_RANGES_SCHEMA, partitions_for(rows_in(feeds)))
    feeds = out.put(_OF_METARANGES, counted, HEAD_RANGES_SCHEMA).feeds(make=partial(with_hash, of="range_id"))
    every = gather(spark, feeds, _OF_RANGE, _summed, HEAD_RANGES_SCHEMA, partitions_for(rows_in(feeds)))
    ranges = out.put(_RANGES, every, HEAD_RANGES_SCHEMA, _pages)
    return HeadRanges(spark, branches, ranges, found, branches.sum("ranges") if some else ranges.sum("pages"))


def _by_id(rows: pa.RecordBatch) -> Mapping[str, Any]:
    return with_hash(rows.filter(pc.not_equal(rows["metarange_id"], "")), of="metarange_id")


def _not_read(rows: pa.Table) -> Iterator[pa.Table]:
    """The metaranges of heads that no mark has read: _IDS."""
    of_branch = pc.is_valid(rows["name"])
    asked, read = rows.filter(of_branch), rows.filter(pc.invert(of_branch))
    ids = pc.unique(asked["metarange_id"])
    yield pa.table({"metarange_id": ids.filter(pc.invert(pc.is_in(ids, value_set=pc.unique(read["metarange_id"]))))})


def _with_branches(rows: pa.Table) -> Iterator[pa.Table]:
    """The ranges of these metaranges, each with the number of branches whose heads contain it. Two marks may have read
    one metarange, which went and came back: rows count once."""
    of_branch = pc.is_valid(rows["name"])
    names = rows.filter(of_branch).group_by("metarange_id").aggregate([("name", "count_distinct")])
    ranges = rows.filter(pc.invert(of_branch)).drop_columns(["name", "hash"])
    ranges = ranges.group_by(ranges.column_names).aggregate([])  # each once
    found = ranges.join(names, "metarange_id", join_type="inner")
    yield from _summed(found.rename_columns({"name_count_distinct": "branches"}))


def _summed(rows: pa.Table) -> Iterator[pa.Table]:
    """Each range once: HEAD_RANGES_SCHEMA."""
    found = rows.group_by("range_id").aggregate(list(_SUMMED.items()))
    yield found.rename_columns({f"{name}_{how}": name for name, how in _SUMMED.items()})


def _divided(out: DatasetFolder, rows: Mapped, wanted: Wanted | None) -> dict[str, Dataset]:
    """The rows of metaranges: those of their ranges (_RANGE_ROWS), and the one that counts these (_OWN_ROWS). `wanted`:
    the ranges that are looked for, and perhaps a few others come; None: all."""
    return out.divide(rows, dict.fromkeys((_RANGE_ROWS, _OWN_ROWS), METARANGES_SCHEMA), partial(_split, wanted))


def _split(wanted: Wanted | None, table: pa.Table) -> dict[str, pa.Table]:
    own = pc.equal(table["range_id"], "")
    rows = table.filter(pc.invert(own))
    if wanted is not None:
        rows = rows.take(pa.array(sieve_of(wanted).rows(hash_strings(rows["range_id"]))))
    return {_OWN_ROWS: table.filter(own), _RANGE_ROWS: rows}


def _by_range(rows: pa.RecordBatch) -> np.ndarray:
    return hash_strings(rows["range_id"])


def _by_metarange(rows: pa.RecordBatch) -> np.ndarray:
    return hash_strings(rows["metarange_id"])


def _pages(table: pa.Table) -> Mapping[str, int]:
    counts, branches = table["count"].to_numpy(), table["branches"].to_numpy()
    return {"pages": int((-(-counts // PAGE) * branches).sum())}


def _ranges(table: pa.Table) -> Mapping[str, int]:
    return {"ranges": pc.sum(table["ranges"]).as_py() or 0}
