"""The heads of branches, as the mark saw them or as a later look did: behind their entries re-uploads may hide.

This module names the datasets; `reuploads` searches them for alike entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.lakefs.http import PAGE
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE, ELSEWHERE_SCHEMA
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT, MISSTATED, MISSTATED_SCHEMA
from lakegc_core.marks.layers import all_layers, of_all
from lakegc_core.names import Reason, Stage
from lakegc_core.policy.facts import CommittedFacts
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, REFS_SCHEMA
from lakegc_core.references.commits.known_walk import KnownCommits
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
from lakegc_core.references.staged import STAGED_SCHEMA
from lakegc_core.spark.tasks import Mapped, both
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.gather import HASH, gather, partitions_for, rows_in, with_hash
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.relations import distinct, same, selected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BRANCHES = pa.schema([REFS_SCHEMA.field("name"), COMMITS_SCHEMA.field("metarange_id")])
_LISTED = pa.schema([FINDINGS_SCHEMA.field(name) for name in ("address", "size")])
LAYER = pa.field("layer", pa.string(), nullable=False)
_NAMED = pa.schema([HASH, COMMITS_SCHEMA.field("commit_id"), *(field.with_nullable(True) for field in BRANCHES)])

RETAINED_RANGES = pa.schema([*(RANGES_SCHEMA.field(name) for name in ("range_id", "count")), LAYER])
LOOK = "look"
"""The layer of datasets that a look read itself."""


@dataclass(frozen=True)
class BranchHeads:
    """Datasets in which the entries of branch heads are found.

    - `commits`: branches, tags and retained commits
    - `index`, `entries`: hashes and addresses of all ranges that the layers read (INDEX_SCHEMA, ENTRIES_SCHEMA);
      `retained_ranges` says which of these are retained
    - `outside`: entries that neither has, imported from elsewhere (ELSEWHERE_SCHEMA)
    - `ranges`, `new_ranges`: ranges that the mark retains, and those that a look read since (RANGES_SCHEMA)
    - `metaranges`: the metaranges that marks have read (METARANGES_SCHEMA)
    - `stated`: those that the mark retains, and the number of ranges of each (CHECKSUMS_SCHEMA)
    - `misstated`: addresses of which an entry claims another size than the object has (MISSTATED_SCHEMA)
    - `staged`: the staged entries (STAGED_SCHEMA)
    - `kept`: objects that the mark listed, no commit refers to, and a reason keeps (FINDINGS_SCHEMA)
    - `entries_bound`: no head has more entries
    """

    commits: KnownCommits
    index: Dataset
    entries: Dataset
    outside: Dataset
    ranges: Dataset
    new_ranges: Dataset
    metaranges: Dataset
    stated: Dataset
    misstated: Dataset
    staged: Dataset
    kept: Dataset
    entries_bound: int

    @property
    def pages(self) -> int:
        """About how many pages list all branches whole."""
        return self.commits.facts.branches * (1 + self.entries_bound // PAGE) + self.staged.rows // PAGE

    def branches(self, spark: SparkSession) -> Mapped:
        """Branches whose heads are retained, some more than once: BRANCHES."""
        feeds = self.commits.refs.feeds("kind", "name", "commit_id", make=_of_branches)
        feeds += self.commits.retained.feeds("commit_id", "metarange_id", make=partial(with_hash, of="commit_id"))
        return gather(spark, feeds, _NAMED, _named, BRANCHES, partitions_for(rows_in(feeds)))

    def retained_ranges(self, spark: SparkSession) -> Mapped:
        """The retained ranges, and the layer that read each: RETAINED_RANGES."""
        of_mark = self.ranges.mapped(spark, "range_id", "count", "read_in", here=True)
        found = selected(of_mark, RETAINED_RANGES, layer=itemgetter("read_in"))
        if not self.new_ranges.rows:
            return found
        new = distinct(self.new_ranges.mapped(spark, "range_id", "count", here=True))
        return both(found, selected(new, RETAINED_RANGES, layer=partial(same, LOOK)))

    def listed_staged(self, spark: SparkSession) -> Mapped:
        """Objects that the mark listed, that are staged, and that no commit refers to: address, size."""
        rows = self.kept.mapped(spark, "address", "size", "reason", here=True)
        return selected(rows, _LISTED, lambda rows: pc.equal(rows["reason"], str(Reason.STAGED)))


def _of_branches(rows: pa.RecordBatch) -> Mapping[str, Any]:
    rows = rows.filter(pc.equal(rows["kind"], "branch"))
    return {"hash": hash_strings(rows["commit_id"]), "commit_id": rows["commit_id"], "name": rows["name"]}


def _named(rows: pa.Table) -> Iterator[pa.Table]:
    """BRANCHES of all rows of some commits: those that are the heads of branches, and retained."""
    heads = rows.filter(pc.is_valid(rows["name"])).select(["name", "commit_id"])
    commits = rows.filter(pc.is_null(rows["name"])).select(["commit_id", "metarange_id"])
    found = heads.join(commits, "commit_id", join_type="inner")
    yield found.group_by(BRANCHES.names).aggregate([])


def heads_of_mark(context: MarkContext, misstated: Dataset | None = None, kept: Dataset | None = None) -> BranchHeads:
    """The heads as the mark saw them. `misstated`, `kept`: the mark's new findings, while it is not finished."""
    mark, layers = context.mark, all_layers(context)
    committed = Stage.COMMITTED_ADDRESSES
    odd = of_all(layers, Stage.EXPIRED_ADDRESSES, MISSTATED_SCHEMA, MISSTATED)
    return BranchHeads(
        commits=KnownCommits.of(context),
        index=of_all(layers, committed, INDEX_SCHEMA, INDEX),
        entries=of_all(layers, committed, ENTRIES_SCHEMA),
        outside=of_all(layers, committed, ELSEWHERE_SCHEMA, ELSEWHERE),
        ranges=layers[0].dataset(committed, RANGES_SCHEMA, RANGES),
        new_ranges=Dataset(RANGES_SCHEMA),
        metaranges=of_all(layers, committed, METARANGES_SCHEMA, METARANGES),
        stated=mark.dataset(committed, CHECKSUMS_SCHEMA, CHECKSUMS),
        misstated=odd if misstated is None else odd + misstated,
        staged=mark.dataset(Stage.UNCOMMITTED_ADDRESSES, STAGED_SCHEMA),
        kept=mark.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA, KEPT) if kept is None else kept,
        entries_bound=mark.facts(CommittedFacts).entries,
    )
