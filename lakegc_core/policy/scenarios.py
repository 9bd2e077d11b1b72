"""The commits that would be retained with other rules, fewer branches or fewer tags. Pure functions.

Each answer is a column of numbers by row of the graph. Columns are merged by their minimum, from commits to metaranges,
from these to ranges and from these to objects: what any commit keeps is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakegc_core.policy.holds import BRANCH, TAG, matching_names
from lakegc_core.policy.retention import FOREVER, HOLD, Graph, NamedCommits, Rules, along, held_rows, retain, threshold

NEVER = 2**31 - 1
"""Stands in a column where nothing keeps a commit."""

POINTS = (1, 3, 7, 14, 30, 60, 90, 180, 365)
"""Days of retention for which a curve is made; after them comes `all`."""
ALL_DAYS = 10_000_000
DEFAULT = "default"

Columns = dict[str, np.ndarray]
Named = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Known:
    """The knowledge of a mark: the graph, names with rows of branches and tags, and the rules it judged by.

    `judged_by`: the rules, longer ones that are remembered included; None if every commit counts. `kept`: rows that the
    mark retained; `server`: those of them that only lakeFS's own list retains. `now`, `margin`: microseconds.
    """

    graph: Graph
    heads: Named
    tags: Named
    judged_by: Rules | None
    protect_tags: bool
    holds: tuple[str, ...]
    kept: Sequence[int]
    server: Sequence[int]
    now: int
    margin: int


@dataclass(frozen=True)
class Change:
    """A change to suppose: the rules as they would stand (None: every commit counts), the rules that would be judged by
    at first, whether tags are protected, and which branches and tags would be gone (`branch:GLOB`, `tag:GLOB`)."""

    rules: Rules | None
    at_once: Rules | None
    protect_tags: bool
    without: tuple[str, ...] = ()


def whatif_columns(known: Known, change: Change) -> Columns:
    """Columns `today`, `at_once` and `in_the_end` (when the memory of longer rules and deleted branches has run out): 0
    where a commit is kept, else NEVER. For each rule a curve: the number of the first of POINTS that keeps the
    commit."""
    found = {
        "today": _column(known, known.kept),
        "at_once": _column(known, _kept(known, change, change.at_once, at_once=True)),
        "in_the_end": _column(known, _kept(known, change, change.rules)),
        "head": _column(known, _shown(known)),
    }
    return found | {name: _curve(known, change, rule) for name, rule in curves_of(change.rules).items()}


def curves_of(rules: Rules | None) -> dict[str, str]:
    """The rules for which there is a curve, by the name of its column. The default rule is ""."""
    if rules is None:
        return {}
    return {f"curve {DEFAULT}": ""} | {f"curve {BRANCH}:{branch}": branch for branch in sorted(rules.branch_days)}


def _curve(known: Known, change: Change, branch: str) -> np.ndarray:
    assert change.rules is not None
    found = np.full(len(known.graph.commit_ids), NEVER, np.int32)
    for number, days in reversed(list(enumerate((*POINTS, ALL_DAYS)))):
        found[list(_kept(known, change, with_days(change.rules, branch, days)))] = number
    return found


def with_days(rules: Rules, branch: str, days: int) -> Rules:
    """The rules with other days for a branch; for "" as the default."""
    if not branch:
        return replace(rules, default_days=days)
    return replace(rules, branch_days={**rules.branch_days, branch: days})


def _kept(known: Known, change: Change, rules: Rules | None, *, at_once: bool = False) -> Iterable[int]:
    """The rows that would be retained. At once, what a deleted branch leaves counts as dangling."""
    heads, tags = left_of(known.heads, BRANCH, change.without), left_of(known.tags, TAG, change.without)
    standing = set(heads)
    gone = [each for each in known.heads if each not in standing]
    named = NamedCommits(
        heads,
        tags=tags if change.protect_tags else [],
        held=held_rows(known.graph, heads, tags, known.holds),
        forgotten=[] if at_once else gone,
    )
    return retain(known.graph, named, rules, known.now, margin=known.margin, server=known.server)


def left_of(names: Named, kind: str, without: Iterable[str]) -> Named:
    """The names that no pattern of a kind means."""
    for each in without:
        if each.startswith(f"{kind}:"):
            meant = matching_names(each.removeprefix(f"{kind}:"), [name for name, _ in names])
            names = [name for name, is_meant in zip(names, meant, strict=True) if not is_meant]
    return names


def set_columns(known: Known, sets: Sequence[Sequence[str]]) -> Columns:
    """Two columns for each set of patterns (see `Change.without`), `now N` and `end N`: NEVER where nothing would keep
    a commit if the branches and tags that they mean were gone, at once and in the end."""
    found: Columns = {}
    for number, without in enumerate(sets):
        change = Change(known.judged_by, known.judged_by, known.protect_tags, tuple(without))
        found[f"now {number}"] = _column(known, _kept(known, change, known.judged_by, at_once=True))
        found[f"end {number}"] = _column(known, _kept(known, change, known.judged_by))
    return found


def _column(known: Known, rows: Iterable[int]) -> np.ndarray:
    found = np.full(len(known.graph.commit_ids), NEVER, np.int32)
    found[list(rows)] = 0
    return found


# --- who keeps what ---

SHARED = -1
"""Stands for an owner where more than one keeps an object."""


UNNAMED = "commits of deleted branches"
SERVER = "lakeFS's own list"
EVERYTHING = "no rules, so that every commit counts"
LEFT = "left"


@dataclass(frozen=True)
class Owners:
    """Names of all that keeps commits (`branch:NAME`, `tag:NAME`, `hold:HOLD`, and others in words), and columns:

    `least`, `most`: of the numbers of the names, the latter negative. `head`: 0 where a branch or tag shows the commit.
    `left`: 0 where the commits of the only branch that keeps it would be kept for a while if it were deleted, by the
    default rule. If a branch's own rule is shorter than the default, `left NAME` says the same of commits that the
    branch does not keep, too.
    """

    names: tuple[str, ...]
    columns: Columns


def owner_columns(rules: Rules | None) -> tuple[str, ...]:
    """The columns of `owners`."""
    default = rules.default_days if rules else 0
    short = sorted(name for name, days in (rules.branch_days if rules else {}).items() if days < default)
    return ("least", "most", "head", LEFT, *(f"{LEFT} {name}" for name in short))


def owners(known: Known) -> Owners:
    """The owners of each commit."""
    numbers: dict[str, int] = {}
    columns = owner_columns(known.judged_by)
    found = {name: np.full(len(known.graph.commit_ids), NEVER, np.int32) for name in columns}
    kept = set(known.kept)  # the mark judged a little later than `now`: what ran out meanwhile nobody keeps
    for name, every, _ in (shares := list(_shares(known))):
        number, rows = numbers.setdefault(name, len(numbers)), [row for row in every if row in kept]
        found["least"][rows] = np.minimum(found["least"][rows], number)
        found["most"][rows] = np.minimum(found["most"][rows], -number)
    only = owner_of(found["least"], found["most"])
    for name, _, after in shares:
        own = np.array(after, np.int64)
        found[LEFT][own[only[own] == numbers[name]]] = 0
        if (special := f"{LEFT} {name.removeprefix(f'{BRANCH}:')}") in found and name.startswith(f"{BRANCH}:"):
            found[special][own] = 0
    found["head"] = _column(known, _shown(known))
    return Owners(tuple(numbers), found)


def _shown(known: Known) -> list[int]:
    """The rows that branches and protected tags show."""
    return [row for _, row in (*known.heads, *(known.tags if known.protect_tags else ()))]


def freed_at_once(names: Sequence[str], columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """The only owner of each object, as `owner_of`, if the object goes with it at once; else SHARED, NEVER for none."""
    only = owner_of(columns["least"], columns["most"])
    stays = columns[LEFT] != NEVER
    for number, name in enumerate(names):
        if (special := f"{LEFT} {name.removeprefix(f'{BRANCH}:')}") in columns and name.startswith(f"{BRANCH}:"):
            stays |= (only == number) & (columns[special] != NEVER)
    return np.where(stays & (only >= 0) & (only != NEVER), SHARED, only)


def _shares(known: Known) -> Iterator[tuple[str, list[int], list[int]]]:
    """Every owner with the rows that it keeps, and those that would be kept for a while after it is gone."""
    graph = known.graph
    if known.protect_tags:
        for name, row in known.tags:
            yield f"{TAG}:{name}", [row], []
    for hold, row in held_rows(graph, known.heads, known.tags, known.holds):
        yield f"{HOLD}:{hold}", [row], []
    yield SERVER, list(known.server), []
    rules = known.judged_by
    if rules is None:
        yield EVERYTHING, list(range(len(graph.commit_ids))), []
        return
    newest = newest_of(graph)
    default = threshold(known.now, rules.default_days, known.margin)
    built_upon = set(graph.main_parent)
    heads = Counter(row for _, row in known.heads)
    for name, row in known.heads:
        kept = [row, *_reached(graph, newest, row, threshold(known.now, rules.days(name), known.margin))]
        left: list[int] = []
        if row not in built_upon and heads[row] == 1:
            left = [row] * bool(graph.created[row] > default) + list(_reached(graph, newest, row, default))
        yield f"{BRANCH}:{name}", kept, left
    for row in set(range(len(graph.commit_ids))) - built_upon - set(heads):
        own = [row] * bool(graph.created[row] > default)
        yield UNNAMED, [*own, *_reached(graph, newest, row, default)], []


def newest_of(graph: Graph) -> Sequence[int]:
    """The time of the newest commit on the main ancestry of each row."""
    return along(graph, FOREVER, lambda newest, row: max(newest, graph.created[row]))


def _reached(graph: Graph, newest: Sequence[int], start: int, reach: int) -> Iterator[int]:
    """The main parents of the commits from `start` on that are younger than `reach`."""
    row = start
    while row >= 0 and newest[row] > reach:
        parent = graph.main_parent[row]
        if parent >= 0 and graph.created[row] > reach:
            yield parent
        row = parent


def owner_of(least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """The only owner, SHARED where there are several, NEVER where there is none."""
    return np.where(least == NEVER, NEVER, np.where(least == -most.astype(np.int64), least, SHARED))


def merged(columns: Mapping[str, np.ndarray], groups: np.ndarray, count: int) -> Columns:
    """The minimum of each column in each of so many groups."""
    found = {name: np.full(count, NEVER, np.int32) for name in columns}
    for name, values in columns.items():
        np.minimum.at(found[name], groups, values)
    return found
