"""Who keeps what some commits show, and until when; or, where nobody does, since when and why. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lakegc_core.policy.holds import BRANCH, TAG
from lakegc_core.policy.retention import HOLD, Graph, Rules, held_rows, threshold
from lakegc_core.policy.scenarios import EVERYTHING, SERVER, UNNAMED, Known

_DAY = 86_400 * 10**6


@dataclass(frozen=True)
class Holder:
    """A branch, a tag, a hold, or what else keeps a commit. `why`: `shows` it, `history` (by the rule of `days`),
    `hold`, `dangling`, `all`. `row`: of the newest commit that it keeps so. `until`: microseconds; None for as long as
    it stands."""

    name: str
    why: str
    row: int
    days: int | None = None
    until: int | None = None


def holders_of(known: Known, rows: Collection[int]) -> list[Holder]:
    """All that keeps one of some commits by itself."""
    found = [Holder(f"{BRANCH}:{name}", "shows", row) for name, row in known.heads if row in rows]
    if known.protect_tags:
        found += [Holder(f"{TAG}:{name}", "shows", row) for name, row in known.tags if row in rows]
    held = held_rows(known.graph, known.heads, known.tags, known.holds)
    found += {hold: Holder(f"{HOLD}:{hold}", HOLD, row) for hold, row in held if row in rows}.values()
    if known.judged_by is None:
        return [*found, Holder(EVERYTHING, "all", max(rows))] if rows else found
    shown = {holder.name for holder in found}
    found += [holder for holder in _by_rules(known, known.judged_by, rows) if holder.name not in shown]
    kept = set(known.server) & set(rows)
    return [*found, Holder(SERVER, "all", max(kept))] if kept else found


def _by_rules(known: Known, rules: Rules, rows: Collection[int]) -> Iterator[Holder]:
    """What the rules keep of branches' history, and of what deleted branches left."""
    graph = known.graph
    for name, head in known.heads:
        if last := _last_kept(known, rows, head, rules.days(name)):
            yield Holder(f"{BRANCH}:{name}", "history", last[0], rules.days(name), last[1])
    built_upon, heads = set(graph.main_parent), {row for _, row in known.heads}
    best: tuple[int, int] | None = None
    for row in set(range(len(graph.commit_ids))) - built_upon - heads:
        own = (row, _until(known, row, rules.default_days))
        kept = row in rows and graph.created[row] > threshold(known.now, rules.default_days, known.margin)
        for each in (own if kept else None, _last_kept(known, rows, row, rules.default_days)):
            if each is not None and (best is None or each[1] > best[1]):
                best = each
    if best is not None:
        yield Holder(UNNAMED, "dangling", best[0], rules.default_days, best[1])


def _last_kept(known: Known, rows: Collection[int], start: int, days: int) -> tuple[int, int] | None:
    """Of what a rule keeps below a commit, the row that it keeps longest, and until when."""
    graph, reach = known.graph, threshold(known.now, days, known.margin)
    best: tuple[int, int] | None = None
    row = start
    while row >= 0:
        parent = graph.main_parent[row]
        if parent in rows and graph.created[row] > reach:
            until = _until(known, row, days)
            if best is None or until > best[1]:
                best = (parent, until)
        row = parent
    return best


def _until(known: Known, row: int, days: int) -> int:
    """When a rule of so many days ends to reach back to a commit."""
    return known.graph.created[row] + days * _DAY + known.margin


@dataclass(frozen=True)
class Past:
    """The last commit that showed what nobody keeps, and what became of it then: `replaced` in the commit `by` of a
    branch; `deleted` with its branch (`by` is -1)."""

    row: int
    cause: str
    by: int = -1
    branch: str = ""
    days: int | None = None


def past_of(known: Known, rows: Collection[int]) -> Past | None:
    """The past of what only these commits show; None if there are none."""
    if not rows:
        return None
    graph = known.graph
    last = max(rows, key=lambda row: (graph.created[row], row))
    for name, child in _children(graph, known.heads, last):
        if child not in rows:
            days = known.judged_by.days(name) if known.judged_by else None
            return Past(last, "replaced", child, name, days)
    return Past(last, "deleted", days=known.judged_by.default_days if known.judged_by else None)


def _children(graph: Graph, heads: Sequence[tuple[str, int]], wanted: int) -> Iterator[tuple[str, int]]:
    """By branch, the commit that was built upon the wanted one."""
    for name, row in heads:
        while row >= 0 and graph.main_parent[row] != wanted:
            row = graph.main_parent[row]
        if row >= 0:
            yield name, row
