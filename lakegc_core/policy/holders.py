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
        self._built_upon = set(known.graph.main_parent)
        self._next: dict[int, int] = {}  # for a commit what a branch was built upon it: the branch that comes first
        for row in self._branch:
            self._next.setdefault(known.graph.main_parent[row], row)

    def of(self, rows: Collection[int]) -> list[Holder]:
        """All that keeps one of some commits by itself."""
        known = self._known
        found = [Holder(f"{BRANCH}:{name}", "shows", row) for name, row in known.heads if row in rows]
        if known.protect_tags:
            found += [Holder(f"{TAG}:{name}", "shows", row) for name, row in known.tags if row in rows]
        held = held_rows(known.graph, known.heads, known.tags, known.holds)
        found += {hold: Holder(f"{HOLD}:{hold}", HOLD, row) for hold, row in held if row in rows}.values()
        if known.judged_by is None:
            return [*found, Holder(EVERYTHING, "all", max(rows))] if rows else found
        shown = {holder.name for holder in found}
        found += [holder for holder in self._by_rules(known.judged_by, rows) if holder.name not in shown]
        kept = set(known.server) & set(rows)
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
        known, graph = self._known, self._known.graph
        for name, head in known.heads:
            if last := self._kept_longest(rows, head, rules.days(name)):
                yield Holder(f"{BRANCH}:{name}", "history", last[0], rules.days(name), _end(last[1]))
        heads, best = {row for _, row in known.heads}, None
        for row in set(range(len(graph.commit_ids))) - self._built_upon - heads:
            found = self._kept_longest(rows, row, rules.default_days, itself=True)
            if found is not None and (best is None or found[1] > best[1]):
                best = found
        if best is not None:
            yield Holder(UNNAMED, "dangling", best[0], rules.default_days, _end(best[1]))

    def _kept_longest(
        self, rows: Collection[int], start: int, days: int, *, itself: bool = False
    ) -> tuple[int, int] | None:
        """The row that a rule keeps longest below a commit, and until when. `itself`: the commit is not a head, and the
        rule keeps it as well while it is young."""
        known, graph, best = self._known, self._known.graph, None
        reach = threshold(known.now, days, known.margin)
        row = start
        while row >= 0 and self._newest[row] > reach:
            kept = [each for each in (graph.main_parent[row], start if itself and row == start else -1) if each in rows]
            if kept and graph.created[row] > reach:
                until = graph.created[row] + days * _DAY + known.margin
                if best is None or until > best[1]:
                    best = (kept[-1], until)
            row = graph.main_parent[row]
        return best


def moments_of(graph: Graph) -> list[int]:
    """The time of each commit, microseconds; after its main parent in any case, whatever the clocks said."""
    return along(graph, FOREVER, lambda before, row: max(graph.created[row], before + 1))


def _end(until: int) -> int | None:
    """A moment; None where it lies beyond all dates."""
    return until if until < _LAST else None


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
