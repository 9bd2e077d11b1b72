"""Finds the commits that came to count because refs changed, on the graph of an earlier dump.

A new ref brings back more than the commit at which it points: the rules and holds of its name reach to older commits.
A ref that goes may bring commits back, too: those of a deleted branch fall under the default rule, which may be longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakegc_core.names import Json, Stage
from lakegc_core.policy.retention import NamedCommits, held_rows, retain
from lakegc_core.policy.scenarios import Known
from lakegc_core.references.commits.commit_walk import write_commits
from lakegc_core.references.commits.known_walk import KnowingWalk
from lakegc_core.tables.dataset import DatasetFolder


@dataclass(frozen=True, kw_only=True)
class NewlyRetained(KnowingWalk):
    """Writes to `out` the commits that the refs of `commits` keep, and that are not among its retained ones
    (COMMITS_SCHEMA); runs as one task on an executor. Yields `newly_retained`, the number of them, too."""

    out: DatasetFolder

    def decide(self, known: Known) -> Iterator[Json]:
        """The parts of these commits, and their number."""
        tags = known.tags if known.protect_tags else ()
        named = NamedCommits(known.heads, tags, held_rows(known.graph, known.heads, known.tags, known.holds))
        kept = retain(known.graph, named, known.judged_by, known.now, margin=known.margin)
        new = {row: kept[row] for row in sorted(kept.keys() - set(known.kept))}
        yield from write_commits(Stage.RETENTION_COMMITS, self.out, known.graph, new)
        yield {"newly_retained": len(new)}
