"""committed_addresses: everything that the retained commits refer to, each metarange and each range read once.

Metaranges are immutable and shared by many commits, ranges by many metaranges, so neither is ever read twice. Reading
is whole or an error: every count is compared with what the level above says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE, authorities, merged
from lakegc_core.marks.layers import below
from lakegc_core.marks.stage_run import StageOutput, StageResult, run_stage
from lakegc_core.policy.facts import CommitsFacts, CommittedFacts
from lakegc_core.policy.holds import PATH
from lakegc_core.stages.committed_addresses.held_paths import HELD, addresses_at, held_by_path
from lakegc_core.stages.committed_addresses.idle_paths import idle_paths
from lakegc_core.stages.committed_addresses.protected import protected_rows
from lakegc_core.stages.committed_addresses.range_counts import read_changes
from lakegc_core.stages.committed_addresses.range_files import (
    DROPPED,
    INDEX,
    INDEX_SCHEMA,
    METARANGES,
    METARANGES_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    SCHEMA,
    STAGE,
    RangeReader,
    by_reading,
    reading,
    reading_keys,
)
from lakegc_core.stages.committed_addresses.unknown_ranges import ReadSince, read_unknown
from lakegc_core.stages.retention_commits.stage import COMMITS, OTHERS
from lakegc_core.tables.parts import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "DROPPED",
    "HELD",
    "INDEX",
    "INDEX_SCHEMA",
    "METARANGES",
    "METARANGES_SCHEMA",
    "RANGES",
    "RANGES_SCHEMA",
    "SCHEMA",
    "STAGE",
    "RangeReader",
    "ReadSince",
    "addresses_at",
    "by_reading",
    "committed_addresses",
    "held_by_path",
    "protected_rows",
    "read_unknown",
    "reading",
    "reading_keys",
]


def committed_addresses(spark: SparkSession, context: MarkContext) -> StageResult:
    """Read what retained commits refer to. Columns: range_id, address, exact, size, e_tag: of the ranges read here.

    Datasets: `ranges`, all that are retained, with the mark that read each; `index`, hashes of what was read here;
    `checksums` of all retained metaranges; `held`, and `dropped`: what was referred to at the mark before, and is not;
    `elsewhere`: of what was read here, the addresses that lie in other namespaces.
    """

    def body(spark: SparkSession, context: MarkContext) -> StageOutput[CommittedFacts]:
        commits = context.mark.require(COMMITS).datasets[COMMITS]
        folder = context.mark.stage_folder(COMMITS)
        expected = context.mark.facts(CommitsFacts).retained_metaranges
        target = context.mark.stage_folder(STAGE)
        layers = below(context)
        output = read_changes(spark, context, layers, commits, target, expected=expected)
        others = context.mark.require(COMMITS).datasets[OTHERS]
        held = held_by_path(spark, context, folder, others, f"{target}/{HELD}", f"{target}/{ELSEWHERE}")
        search = idle_paths(spark, context, held.idle)
        away = [*output.datasets[ELSEWHERE], *held.elsewhere]
        every = (away, *(each.parts(STAGE, ELSEWHERE) for each in layers))
        facts = CommittedFacts(
            **output.facts.as_json(),
            held_by_path=rows_of(held.parts),
            holds_idle=tuple(f"{PATH}:{glob}" for glob in search.idle),
            holds_untold=tuple(f"{PATH}:{glob}" for glob in search.untold),
            elsewhere=merged(authorities(parts) for parts in every),
        )
        return StageOutput({**output.datasets, HELD: held.parts, ELSEWHERE: away}, facts)

    return run_stage(STAGE, spark, context, body)
