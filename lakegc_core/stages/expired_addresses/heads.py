"""What the heads of branches hold, as the mark saw them or as a later look did: where identical re-uploads may hide.

Only where it stands is said here; `reuploads` looks for what is alike in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakegc_core.lakefs.http import PAGE
from lakegc_core.marks.artifacts import STAGES
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE
from lakegc_core.marks.layers import all_layers
from lakegc_core.spark.session import many
from lakegc_core.stages.committed_addresses.range_files import INDEX, RANGES, RANGES_SCHEMA, STAGE
from lakegc_core.stages.expired_addresses.clean import MISSTATED
from lakegc_core.stages.expired_addresses.since import STAGE as FINDINGS
from lakegc_core.stages.retention_commits.commit_walk import COMMITS, COMMITS_SCHEMA, REFS, REFS_SCHEMA
from lakegc_core.stages.swept_report.look import Look
from lakegc_core.store.parts import Part, read
from lakegc_core.tables.key_scan import Source, Wanted, by_address, sources_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK = "look"


@dataclass(frozen=True)
class Heads:
    """What the heads of branches hold. `branches` gives name, metarange_id. `folder`: where what is found is put down.

    `refs`: parts of their names (REFS_SCHEMA). `sources`: indexes in which all their ranges are; `outside`: the entries
    of these that no index has, imported from elsewhere (ELSEWHERE_SCHEMA). `ranges` gives the ranges that count
    (range_id, count, layer). There are at most so many `names`, `entries` of one head, and objects `staged` in all.
    """

    branches: Callable[[], DataFrame]
    refs: Sequence[Source]
    sources: Sequence[Source]
    outside: Sequence[Source]
    ranges: Callable[[], DataFrame]
    misstated: Wanted
    folder: str
    names: int
    entries: int
    staged: int

    @property
    def pages(self) -> int:
        """How many pages list all branches whole, at most."""
        return self.names * (1 + self.entries // PAGE) + self.staged // PAGE


def heads_of_mark(
    spark: SparkSession,
    context: MarkContext,
    folder: str,
    look: Look | None = None,
    misstated: Sequence[Part] = (),
) -> Heads:
    """The heads as the mark saw them, or as a later look did. `folder`: where a search may put down what it finds.

    `misstated`: parts that the mark, which is not finished, has just found.
    """
    from pyspark.sql import functions as F

    mark, config = context.mark, context.workspace
    layers = all_layers(context)
    sources = [source for layer in layers for source in layer.sources(STAGE, INDEX)]
    outside = [source for layer in layers for source in layer.sources(STAGE, ELSEWHERE)]
    place = f"{look.folder}/committed" if look else ""
    refs = sources_of(config, mark.stage_folder(COMMITS, REFS), mark.require(COMMITS).datasets[REFS], mark.mark_id)
    if look:
        refs = sources_of(config, f"{look.folder}/commits/{REFS}", look.refs, _LOOK)
        sources += sources_of(config, f"{place}/{INDEX}", look.index, _LOOK)
        outside += sources_of(config, f"{place}/{ELSEWHERE}", look.elsewhere, _LOOK)

    def branches() -> DataFrame:
        if look:
            named, retained = look.read_refs(spark, context), look.read_commits(spark, context)
        else:
            commits = mark.require(COMMITS).datasets
            named = read(spark, config, mark.stage_folder(COMMITS, REFS), commits[REFS], REFS_SCHEMA)
            retained = read(spark, config, mark.stage_folder(COMMITS), commits[COMMITS], COMMITS_SCHEMA)
        heads = named.where("kind = 'branch'").select("name", "commit_id").distinct()
        return (
            heads.join(many(retained.select("commit_id", "metarange_id")), "commit_id")
            .select("name", "metarange_id")
            .distinct()
        )

    def ranges() -> DataFrame:
        columns = ("range_id", "count", "layer")
        found = (
            layers[0].frame(spark, STAGE, RANGES, RANGES_SCHEMA).withColumnRenamed("read_in", "layer").select(*columns)
        )
        if look:
            new = read(spark, config, f"{place}/{RANGES}", look.ranges, RANGES_SCHEMA, ["range_id", "count"]).distinct()
            found = found.unionByName(new.withColumn("layer", F.lit(_LOOK)))
        return found

    facts = context.mark.require(STAGE).facts
    commits = look.facts["retention_commits"] if look else mark.require(COMMITS).facts
    entries = int(facts["entries"]) + (look.facts["committed_addresses"].get("entries", 0) if look else 0)
    staged = look.facts["uncommitted_addresses"] if look else mark.require(STAGES[1]).facts
    odd = [(layer.mark.stage_folder(FINDINGS, MISSTATED), tuple(layer.parts(FINDINGS, MISSTATED))) for layer in layers]
    odd.append((mark.stage_folder(FINDINGS, MISSTATED), tuple(misstated)))
    claims = Wanted(config, tuple(odd), ("address",), by_address)
    return Heads(branches, refs, sources, outside, ranges, claims, folder, commits["branches"], entries, staged["rows"])
