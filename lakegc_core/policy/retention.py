"""The commits that count: rules, the commit graph, and the exact answer. Pure functions.

lakeFS promises that a branch keeps every version it showed in the last N days, along first parents. Its server's own
walk loses some of them, depending on commit ids; the rule here does not depend on any order. Nothing here reads
commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakegc_core.policy.holds import BRANCH, COMMIT, PATH, TAG, matching_names

_MICROSECONDS = 1_000_000
_DAY = 86_400 * _MICROSECONDS
FOREVER = -(2**62)
"""A moment before all time. As a threshold: everything is kept."""


@dataclass(frozen=True)
class Rules:
    """lakeFS's GC rules: days by branch name, and the default for all others and for deleted branches."""

    default_days: int
    branch_days: Mapping[str, int] = field(default_factory=dict)

    def days(self, branch: str) -> int:
        """The days a branch keeps. A branch rule of 0 is a rule."""
        return self.branch_days.get(branch, self.default_days)


def rules_json(rules: Rules | None) -> dict[str, Any] | None:
    """Rules as they stand in artifacts."""
    return None if rules is None else {"default": rules.default_days, "branches": dict(rules.branch_days)}


def rules_of(told: Mapping[str, Any] | None) -> Rules | None:
    """Rules as artifacts have them."""
    return None if told is None else Rules(told["default"], dict(told["branches"]))


@dataclass(frozen=True)
class Graph:
    """All commits of a repository by row, dangling ones included. Parents are rows; -1 stands for none.

    `created` is unix microseconds. `main_parent` follows version 0 commits to their last parent, as lakeFS does.
    `orphans`: the rows whose main parent the graph lacks, with its id; in `main_parent` they have none.
    """

    commit_ids: Sequence[str]
    metarange_ids: Sequence[str]
    created: Sequence[int]
    main_parent: Sequence[int]
    orphans: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        commit_ids: Sequence[str],
        metarange_ids: Sequence[str],
        created: Sequence[int],
        parents: Sequence[Sequence[str]],
        versions: Sequence[int],
    ) -> tuple[Graph, set[str]]:
        """The graph, and the ids of main parents that it lacks (a dump that is not whole)."""
        row = {commit_id: number for number, commit_id in enumerate(commit_ids)}
        orphans: dict[int, str] = {}
        main: list[int] = []
        for number, (theirs, version) in enumerate(zip(parents, versions, strict=True)):
            parent = main_parent(theirs, version) if theirs else ""  # lakeFS takes an empty one for none, too
            if parent and parent not in row:
                orphans[number] = parent
            main.append(row.get(parent, -1) if parent else -1)
        return cls(commit_ids, metarange_ids, created, main, orphans), set(orphans.values())


def along(graph: Graph, first: int, step: Callable[[int, int], int]) -> list[int]:
    """A value for each commit: `step` makes it of its main parent's (`first`, if it has none) and of its row."""
    found = {-1: first}
    for start in range(len(graph.commit_ids)):
        path, row = [], start
        while row not in found:
            path.append(row)
            row = graph.main_parent[row]
        value = found[row]
        for each in reversed(path):
            value = found[each] = step(value, each)
    return [found[row] for row in range(len(graph.commit_ids))]


def main_parent(parents: Sequence[str], version: int) -> str:
    """The parent on the line of a commit's branch: the first, or the last of a commit of version 0."""
    return parents[0] if version >= 1 else parents[-1]


HOLD = "hold"
"""The beginning of the reason for which a hold keeps a commit."""


def threshold(now: int, days: int, margin: int) -> int:
    """The moment (unix microseconds) up to which a rule of so many days reaches back from `now`.

    Negative days mean heads only, as on the server. Days beyond all dates mean everything.
    """
    if days > 1_000_000:
        return FOREVER
    return now - days * _DAY - margin


@dataclass(frozen=True)
class NamedCommits:
    """Names with rows of the graph: heads of branches (a branch that moved meanwhile may stand twice), tags that
    protect, holds with what they keep. `forgotten` are heads of branches that are gone for so long that their commits
    do not count as dangling any more."""

    heads: Sequence[tuple[str, int]]
    tags: Sequence[tuple[str, int]] = ()
    held: Sequence[tuple[str, int]] = ()
    forgotten: Sequence[tuple[str, int]] = ()


def retain(
    graph: Graph, named: NamedCommits, rules: Rules | None, now: int, *, margin: int = 0, server: Iterable[int] = ()
) -> dict[int, str]:
    """The commits that count, by row, each with the first reason found.

    `rules` None means that every commit counts; `now` and `margin` are microseconds; `server` are the rows that lakeFS
    itself retains, which are united with ours.

    With T(b) = now - days(b): a commit is kept if it is a head or a tag, or the main parent of a commit younger than
    the oldest T of all branches on whose main ancestry that child lies, or a dangling commit younger than the default.
    """
    kept: dict[int, str] = {}
    for name, row in named.heads:
        kept.setdefault(row, f"head:{name}")
    for name, row in named.tags:
        kept.setdefault(row, f"tag:{name}")
    for name, row in named.held:
        kept.setdefault(row, f"{HOLD}:{name}")
    if rules is None:
        for row in range(len(graph.commit_ids)):
            kept.setdefault(row, "all")
        return kept
    for row, why in _kept_by_rules(graph, named, rules, now, margin).items():
        kept.setdefault(row, why)
    for row in server:
        kept.setdefault(row, "server")
    return kept


def _kept_by_rules(graph: Graph, named: NamedCommits, rules: Rules, now: int, margin: int) -> dict[int, str]:
    """The commits that the rules keep, beside heads and tags."""
    kept: dict[int, str] = {}
    default = threshold(now, rules.default_days, margin)
    head_rows = {row for _, row in (*named.heads, *named.forgotten)}
    has_child = set(graph.main_parent)
    dangling = [row for row in range(len(graph.commit_ids)) if row not in has_child and row not in head_rows]
    starts = [(threshold(now, rules.days(name), margin), row) for name, row in named.heads]
    starts += [(default, row) for row in dangling]
    for row in dangling:
        if graph.created[row] > default:
            kept.setdefault(row, "dangling")
    for row, reach in _oldest_reach(graph, starts).items():
        parent = graph.main_parent[row]
        if parent >= 0 and graph.created[row] > reach:
            kept.setdefault(parent, "rules")
    return kept


def _oldest_reach(graph: Graph, starts: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The oldest threshold of some starts (threshold, row), for each commit on the main ancestry of one.

    Longest retention first: the first walk through a commit brings its oldest threshold, so none is walked twice.
    """
    oldest: dict[int, int] = {}
    for reach, start in sorted(starts):
        row = start
        while row >= 0 and row not in oldest:
            oldest[row] = reach
            row = graph.main_parent[row]
    return oldest


def held_rows(
    graph: Graph, heads: Sequence[tuple[str, int]], tags: Sequence[tuple[str, int]], holds: Sequence[str]
) -> list[tuple[str, int]]:
    """The rows that holds keep, each with its hold: `tag:GLOB`, `commit:ID` (or the beginning of one), `branch:GLOB`.

    A branch that is held keeps every commit on its first-parent history, whatever its rule. `path:GLOB` is not about
    commits and keeps no row here.
    """
    found: list[tuple[str, int]] = []
    for hold in holds:
        kind, _, pattern = hold.partition(":")
        if kind == TAG:
            found += [(hold, row) for row in _named(tags, pattern)]
        elif kind == COMMIT:
            found += [(hold, row) for row, commit_id in enumerate(graph.commit_ids) if commit_id.startswith(pattern)]
        elif kind == BRANCH:
            held: set[int] = set()
            for row in _named(heads, pattern):
                while row >= 0 and row not in held:
                    held.add(row)
                    row = graph.main_parent[row]
            found += [(hold, row) for row in sorted(held)]
    return found


def idle_holds(held: Iterable[tuple[str, int]], holds: Iterable[str]) -> list[str]:
    """The holds, those of paths aside, that keep no commit: no commit, tag or branch is called so. `held`:
    `held_rows`."""
    keeping = {hold for hold, _ in held}
    return sorted(hold for hold in holds if hold not in keeping and not hold.startswith(f"{PATH}:"))


def _named(refs: Sequence[tuple[str, int]], pattern: str) -> list[int]:
    is_meant = matching_names(pattern, [name for name, _ in refs])
    return [row for (_, row), meant in zip(refs, is_meant, strict=True) if meant]
