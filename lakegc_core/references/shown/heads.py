"""What the heads of branches hold, as the mark saw them or as a later look did: where identical re-uploads may hide.

Only where it stands is said here; `reuploads` looks for what is alike in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakegc_core.lakefs.http import PAGE
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT, MISSTATED
from lakegc_core.marks.layers import Layer, all_layers
from lakegc_core.names import Reason, Stage
from lakegc_core.policy.facts import CommitsFacts, CommittedFacts, StagedFacts
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, REFS, REFS_SCHEMA
from lakegc_core.references.ranges.range_files import INDEX, METARANGES, RANGES, RANGES_SCHEMA
from lakegc_core.references.staged import STAGED_SCHEMA
from lakegc_core.spark.session import many
from lakegc_core.tables.key_scan import Source, Wanted, sources_of
from lakegc_core.tables.parts import Part, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK = "look"


@dataclass(frozen=True)
class Heads:
    """What the heads of branches hold. `branches` gives name, metarange_id. `folder`: where what is found is put down.

    `refs`: parts of their names (REFS_SCHEMA). `sources`: indexes in which all their ranges are, `rows`: the addresses
    of these; `outside`: the entries that neither has, imported from elsewhere (ELSEWHERE_SCHEMA). `ranges` gives the
    ranges that count (range_id, count, layer). `metaranges`: what marks have read of metaranges (METARANGES_SCHEMA).
    There are at most so many `names`, `entries` of one head, and objects `staged` in all. `dumped` gives the addresses
    of these, `listed_staged` address and size of those that the mark listed.
    """

    branches: Callable[[], DataFrame]
    refs: Sequence[Source]
    sources: Sequence[Source]
    rows: Sequence[Source]
    outside: Sequence[Source]
    ranges: Callable[[], DataFrame]
    metaranges: Sequence[Source]
    misstated: Wanted
    folder: str
    names: int
    entries: int
    staged: int
    dumped: Callable[[], DataFrame]
    listed_staged: Callable[[], DataFrame]

    @property
    def pages(self) -> int:
        """How many pages list all branches whole, at most."""
        return self.names * (1 + self.entries // PAGE) + self.staged // PAGE


@dataclass(frozen=True)
class Since:
    """What a look read after the mark. `refs`, `index`, `rows`, `outside`, `ranges`: parts in these folders; `branches`
    gives name, metarange_id. It counted so many `names` of branches, `entries` beyond the mark's, and objects `staged`,
    whose addresses `dumped` gives."""

    branches: Callable[[], DataFrame]
    refs: tuple[str, Sequence[Part]]
    index: tuple[str, Sequence[Part]]
    rows: tuple[str, Sequence[Part]]
    outside: tuple[str, Sequence[Part]]
    ranges: tuple[str, Sequence[Part]]
    names: int
    entries: int
    staged: int
    dumped: Callable[[], DataFrame]


def heads_of_mark(
    spark: SparkSession,
    context: MarkContext,
    folder: str,
    since: Since | None = None,
    misstated: Sequence[Part] = (),
    kept: Sequence[Part] | None = None,
) -> Heads:
    """The heads as the mark saw them, or as a later look did (`since`). `folder`: where a search may put down what it
    finds. `misstated`, `kept`: parts that the mark, which is not finished, has just found.
    """
    mark, config, layers = context.mark, context.workspace, all_layers(context)
    commits = mark.require(Stage.RETENTION_COMMITS)
    found = Heads(
        branches=lambda: _branches_of_mark(spark, context),
        refs=sources_of(config, mark.stage_folder(Stage.RETENTION_COMMITS, REFS), commits.datasets[REFS], mark.mark_id),
        sources=[source for layer in layers for source in layer.sources(Stage.COMMITTED_ADDRESSES, INDEX)],
        rows=[source for layer in layers for source in layer.sources(Stage.COMMITTED_ADDRESSES)],
        outside=[source for layer in layers for source in layer.sources(Stage.COMMITTED_ADDRESSES, ELSEWHERE)],
        ranges=lambda: _ranges_of_mark(spark, layers),
        metaranges=[source for layer in layers for source in layer.sources(Stage.COMMITTED_ADDRESSES, METARANGES)],
        misstated=_misstated(context, layers, misstated),
        folder=folder,
        names=mark.facts(CommitsFacts).branches,
        entries=mark.facts(CommittedFacts).entries,
        staged=mark.facts(StagedFacts).rows,
        dumped=lambda: _dumped(spark, context),
        listed_staged=lambda: _listed_staged(spark, context, kept),
    )
    return found if since is None else _with(spark, context, found, since)


def _with(spark: SparkSession, context: MarkContext, found: Heads, since: Since) -> Heads:
    """The heads as a look saw them: their ranges are in the mark's indexes or in the look's own."""
    from pyspark.sql import functions as F

    config = context.workspace

    def ranges() -> DataFrame:
        new = read(spark, config, *since.ranges, RANGES_SCHEMA, ["range_id", "count"]).distinct()
        return found.ranges().unionByName(new.withColumn("layer", F.lit(_LOOK)))

    return replace(
        found,
        branches=since.branches,
        refs=sources_of(config, *since.refs, _LOOK),
        sources=[*found.sources, *sources_of(config, *since.index, _LOOK)],
        rows=[*found.rows, *sources_of(config, *since.rows, _LOOK)],
        outside=[*found.outside, *sources_of(config, *since.outside, _LOOK)],
        ranges=ranges,
        names=since.names,
        entries=found.entries + since.entries,
        staged=since.staged,
        dumped=since.dumped,
    )


def branches_of(refs: DataFrame, retained: DataFrame) -> DataFrame:
    """Branches (name, metarange_id) of refs (REFS_SCHEMA) whose commits are among those retained (COMMITS_SCHEMA)."""
    heads = refs.where("kind = 'branch'").select("name", "commit_id").distinct()
    joined = heads.join(many(retained.select("commit_id", "metarange_id")), "commit_id")
    return joined.select("name", "metarange_id").distinct()


def _branches_of_mark(spark: SparkSession, context: MarkContext) -> DataFrame:
    mark, config = context.mark, context.workspace
    datasets = mark.require(Stage.RETENTION_COMMITS).datasets
    refs = read(spark, config, mark.stage_folder(Stage.RETENTION_COMMITS, REFS), datasets[REFS], REFS_SCHEMA)
    return branches_of(
        refs,
        read(
            spark, config, mark.stage_folder(Stage.RETENTION_COMMITS), datasets[Stage.RETENTION_COMMITS], COMMITS_SCHEMA
        ),
    )


def _ranges_of_mark(spark: SparkSession, layers: Sequence[Layer]) -> DataFrame:
    rows = layers[0].frame(spark, Stage.COMMITTED_ADDRESSES, RANGES, RANGES_SCHEMA)
    return rows.withColumnRenamed("read_in", "layer").select("range_id", "count", "layer")


def _dumped(spark: SparkSession, context: MarkContext) -> DataFrame:
    """What the mark found staged."""
    stage = Stage.UNCOMMITTED_ADDRESSES
    parts = context.mark.require(stage).datasets[stage]
    return read(spark, context.workspace, context.mark.stage_folder(stage), parts, STAGED_SCHEMA)


def _listed_staged(spark: SparkSession, context: MarkContext, kept: Sequence[Part] | None) -> DataFrame:
    """What the mark listed, no commit refers to, and is staged: address, size."""
    parts = context.mark.require(Stage.EXPIRED_ADDRESSES).datasets[KEPT] if kept is None else kept
    rows = read(
        spark, context.workspace, context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, KEPT), parts, FINDINGS_SCHEMA
    )
    return rows.where(rows["reason"] == str(Reason.STAGED)).select("address", "size")


def _misstated(context: MarkContext, layers: Sequence[Layer], new: Sequence[Part]) -> Wanted:
    """Addresses of which an entry claims another size than the object has, in any layer."""
    odd = [
        (
            layer.mark.stage_folder(Stage.EXPIRED_ADDRESSES, MISSTATED),
            tuple(layer.parts(Stage.EXPIRED_ADDRESSES, MISSTATED)),
        )
        for layer in layers
    ]
    odd.append((context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, MISSTATED), tuple(new)))
    return Wanted.at(context.workspace, tuple(odd))
