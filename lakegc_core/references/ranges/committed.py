"""committed_addresses: everything that the retained commits refer to, each metarange and each range read once.

Metaranges are immutable and shared by many commits, ranges by many metaranges, so neither is ever read twice. Reading
is whole or an error: every count is compared with what the level above says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE, ELSEWHERE_SCHEMA, authorities, merged
from lakegc_core.marks.findings import HELD
from lakegc_core.marks.layers import below
from lakegc_core.marks.stage_run import StageOutput
from lakegc_core.names import Stage, counted
from lakegc_core.policy.facts import CommitsFacts, CommittedFacts
from lakegc_core.policy.holds import PATH
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS, way_out
from lakegc_core.references.ranges.held_paths import held_by_path
from lakegc_core.references.ranges.idle_paths import idle_paths
from lakegc_core.references.ranges.lost_ranges import lost_ids
from lakegc_core.references.ranges.range_counts import read_changes
from lakegc_core.references.ranges.range_files import RANGES, RANGES_SCHEMA
from lakegc_core.tables.dataset import Dataset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAMED = 10
_IN_WAY_OUT = 300  # a list that can be copied whole, and still fits into an error


def read_committed(spark: SparkSession, context: MarkContext) -> StageOutput[CommittedFacts]:
    """Read what the mark's retained commits refer to, and find what holds keep by path."""
    mark, layers = context.mark, below(context)
    out = mark.out(Stage.COMMITTED_ADDRESSES)
    commits = mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA)
    others = mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA, OTHERS)
    expected = mark.facts(CommitsFacts).retained_metaranges
    with naming_commits(commits, others):
        output = read_changes(spark, context, layers, commits, out, expected=expected)
        held = held_by_path(spark, context, others, out)
    search = idle_paths(spark, context, held.idle)
    away = [*output.datasets[ELSEWHERE], *held.elsewhere.parts]
    below_parts = (each.dataset(Stage.COMMITTED_ADDRESSES, ELSEWHERE_SCHEMA, ELSEWHERE).parts for each in layers)
    ranges = out.dataset(RANGES, output.datasets[RANGES], RANGES_SCHEMA)
    facts = CommittedFacts(
        **output.facts.as_json(),
        held_by_path=held.addresses.rows,
        holds_idle=tuple(f"{PATH}:{glob}" for glob in search.idle),
        holds_untold=tuple(f"{PATH}:{glob}" for glob in search.untold),
        elsewhere=merged(authorities(parts) for parts in (away, *below_parts)),
        ranges_ignored_ids=lost_ids(ranges.frame(spark, "range_id", "read_in")) if output.facts.ranges_ignored else (),
    )
    return StageOutput({**output.datasets, HELD: held.addresses.parts, ELSEWHERE: away}, facts)


@contextmanager
def naming_commits(*commits: Dataset) -> Iterator[None]:
    """Add to the error of a metarange that cannot be read which commits have it (COMMITS_SCHEMA), and what to do."""
    try:
        yield
    except (CorruptFileError, ObjectNotFoundError) as error:
        metarange = re.match("Metarange ([0-9a-f]{64}): ", str(error))
        if metarange is None:
            raise
        rows = (row for each in commits for row in each.dicts("commit_id", "metarange_id"))
        found = [row["commit_id"] for row in rows if row["metarange_id"] == metarange[1]]
        if not found:
            raise
        raise type(error)(
            f"{error} It is the metarange of {counted(len(found), 'commit')}, such as {', '.join(found[:_NAMED])}. "
            f"{way_out(found[:_IN_WAY_OUT])}"
        ) from None
