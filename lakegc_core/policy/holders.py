"""Tells who keeps what some commits show, and until when; or, if nobody does, since when and why. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lakegc_core.policy.holds import BRANCH, TAG
from lakegc_core.policy.retention import FOREVER, HOLD, Graph, Rules, along, held_rows, threshold
from lakegc_core.policy.scenarios import EVERYTHING, SERVER, UNNAMED, Known, newest_of

REPLACED, DELETED = "replaced", "deleted"
_DAY = 86_400 * 10**6
_LAST = 253_402_300_799 * 10**6  # the end of the year 9999


@dataclass(frozen=True)
class Holder:
    """A branch, a tag, a hold, or anything else that keeps a commit. `why`: `shows` it, `history` (by the rule of
    `days`), `hold`, `dangling`, `all`. `row`: of a commit that it keeps so; for a rule, the one that it keeps longest.
    `until`: microseconds; None for as long as it stands."""

    name: str
    why: str
    row: int
    days: int | None = None
    until: int | None = None


@dataclass(frozen=True)
class Past:
    """The last commit that showed content that nobody keeps, and what became of it then: `replaced` in the commit `by`
    of a branch; `deleted` with its branch (`by` is -1)."""

    row: int
    cause: str
    by: int = -1
    branch: str = ""
    days: int | None = None


class Holders:
    """Tells what keeps some commits. Anything that several answers need is found once: there may be many branches.
    `moments`: see `moments_of`."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._newest = newest_of(known.graph)
        self.moments = moments_of(known.graph)
        self._branch = _branches(known)
        self._dangling = sorted(
            set(range(len(known.graph.commit_ids))) - set(known.graph.main_parent) - {row for _, row in known.heads}
        )
        self._held = held_rows(known.graph, known.heads, known.tags, known.holds)
        self._server = frozenset(known.server)
        self._next: dict[int, int] = {}  # for a commit what a branch was built upon it: the branch that comes first
        for row in self._branch:
            self._next.setdefault(known.graph.main_parent[row], row)

    def of(self, rows: Collection[int]) -> list[Holder]:
        """All that keeps one of some commits by itself."""
        known = self._known
        found = [Holder(f"{BRANCH}:{name}", "shows", row) for name, row in known.heads if row in rows]
        if known.protect_tags:
            found += [Holder(f"{TAG}:{name}", "shows", row) for name, row in known.tags if row in rows]
        found += {hold: Holder(f"{HOLD}:{hold}", HOLD, row) for hold, row in self._held if row in rows}.values()
        if known.judged_by is None:
            return [*found, Holder(EVERYTHING, "all", max(rows))] if rows else found
        shown = {holder.name for holder in found}
        found += [holder for holder in self._by_rules(known.judged_by, rows) if holder.name not in shown]
        kept = self._server & set(rows)
        return [*found, Holder(SERVER, "all", max(kept))] if kept else found

    def past(self, rows: Collection[int]) -> Past | None:
        """The past of what only these commits show; None if there are none."""
        if not rows:
            return None
        rules = self._known.judged_by
        last = max(rows, key=lambda row: (self.moments[row], row))
        if last in self._next:
            name = self._branch[by := self._next[last]]
            return Past(last, REPLACED, by, name, rules.days(name) if rules else None)
        return Past(last, DELETED, days=rules.default_days if rules else None)

    def _by_rules(self, rules: Rules, rows: Collection[int]) -> Iterator[Holder]:
        """The holders by rule: of branches' history, and of what deleted branches left."""
        known, created, parents = self._known, self._known.graph.created, self._known.graph.main_parent
        newest = self._newest_upon(rules, rows)
        for name, head in known.heads:
            days, upon = rules.days(name), newest.get(head, -1)
            if upon >= 0 and created[upon] > self._reach(days):
                yield Holder(f"{BRANCH}:{name}", "history", parents[upon], days, self._until(upon, days))
        # The last commit of a deleted branch is kept as well while it is young.
        left = [(row, row) for row in self._dangling if row in rows]
        left += [(upon, parents[upon]) for row in self._dangling if (upon := newest.get(row, -1)) >= 0]
        young, row = max(left, key=lambda each: created[each[0]], default=(-1, -1))
        if young >= 0 and created[young] > self._reach(rules.default_days):
            yield Holder(UNNAMED, "dangling", row, rules.default_days, self._until(young, rules.default_days))

    def _newest_upon(self, rules: Rules, rows: Collection[int]) -> dict[int, int]:
        """For commits that a rule may reach: the newest commit, of each and those below it, that is built upon one of
        `rows`; -1 for none. A rule keeps that one's parent longest, however long the rule is: so each commit is walked
        through once for all branches."""
        known, created, parents = self._known, self._known.graph.created, self._known.graph.main_parent
        reach = self._reach(max([rules.default_days, *(rules.days(name) for name, _ in known.heads)]))
        found = {-1: -1}
        for start in (*(row for _, row in known.heads), *self._dangling):
            path, row = [], start
            while row not in found and self._newest[row] > reach:
                path.append(row)
                row = parents[row]
            newest = found.get(row, -1)
            for each in reversed(path):
                if parents[each] in rows and (newest < 0 or created[each] >= created[newest]):
                    newest = each
                found[each] = newest
        return found

    def _reach(self, days: int) -> int:
        return threshold(self._known.now, days, self._known.margin)

    def _until(self, row: int, days: int) -> int | None:
        """The moment up to which a rule reaches a commit; None where that lies beyond all dates."""
        until = self._known.graph.created[row] + days * _DAY + self._known.margin
        return until if until < _LAST else None


def moments_of(graph: Graph) -> list[int]:
    """The time of each commit, microseconds; after its main parent in any case, whatever the clocks said."""
    return along(graph, FOREVER, lambda before, row: max(graph.created[row], before + 1))


def _branches(known: Known) -> dict[int, str]:
    """A branch for each commit of a branch's history. Of several branches it is the one whose rule is the longest, of
    these the one with the longest history, of these the first by name. Commits of such a branch come first."""
    found: dict[int, str] = {}
    depths = along(known.graph, 0, lambda depth, _: depth + 1)

    def order(head: tuple[str, int]) -> tuple[int, int, str]:
        name, row = head
        return -known.judged_by.days(name) if known.judged_by else 0, -depths[row], name

    for name, row in sorted(known.heads, key=order):
        while row >= 0 and row not in found:
            found[row] = name
            row = known.graph.main_parent[row]
    return found
