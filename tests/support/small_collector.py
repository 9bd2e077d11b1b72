"""The collector in small: a mark and a sweep as steps between which anything may happen, on a `small_lake.Lake`.

The order of the steps, what each one reads and what it remembers are lakegc's; retention, the memory of rules, limits
and guards are lakegc's own functions. Spark, stores, files and requests are not here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakegc_core.names import STAGES
from lakegc_core.policy import guards
from lakegc_core.policy.evidence import Evidence, FinishedStage, MarkTerms
from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.retention import Graph, NamedCommits, Rules, retain
from lakegc_core.policy.safety import Level
from lakegc_core.references.commits.rules_memory import RulesRecord, effective_rules
from tests.support.facts import whole_facts
from tests.support.small_lake import SECOND, Lake, name_of

LISTING, STAGED, COMMITS, COMMITTED, EXPIRED = STAGES
ACCEPTED = dict.fromkeys(("blast-radius", "shrink", "live-in-listing"), "a small repository")
NAMESPACE = Namespace("s3://bucket/repo")
BATCH = 1  # objects a delete call takes
_NAMES = pa.array([name_of(number) for number in range(1000)], pa.string())
_COLLECTABLE = {
    number for number, may in enumerate(NAMESPACE.deletable(_NAMES, unknown_names=False).to_pylist()) if may
}
Step = Iterator[str]  # names of steps, each yielded before it is done


class Refused(Exception):
    """A guard refused, or it is too early."""


@dataclass
class Mark:
    """A mark and what its stages wrote. Times are unix seconds by the collector's clock."""

    number: int
    started: int
    min_age: int
    manifests: dict[str, FinishedStage] = field(default_factory=dict)
    listing: dict[int, int] = field(default_factory=dict)
    staged: set[int] = field(default_factory=set)
    retained: set[int] = field(default_factory=set)
    heads: dict[str, int] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    shown: set[int] = field(default_factory=set)  # identical re-uploads that a branch shows
    expired: dict[int, int] = field(default_factory=dict)  # object -> since
    final: set[int] = field(default_factory=set)  # never asked for again

    @property
    def complete(self) -> bool:
        return EXPIRED in self.manifests

    @property
    def read_at(self) -> float:
        """When it last asked lakeFS for anything."""
        return max(self.manifests[stage].started_at for stage in STAGES[1:] if stage in self.manifests)


@dataclass
class Look:
    """What a look saw."""

    began: int
    rules: Rules | None
    live: set[int]
    heads: dict[str, int]


class Collector:
    """All that lakegc knows of one repository. `skew`: how much its clock is ahead of lakeFS's and the store's."""

    def __init__(self, lake: Lake, level: Level) -> None:
        self.lake, self.level, self.skew = lake, level, 0
        self.marks: list[Mark] = []
        self.seen: list[RulesRecord] = []
        self.rescued: dict[int, int] = {}
        self.sightings: list[tuple[int, Rules | None]] = []  # for those who judge
        self.deleted: set[int] = set()
        self.lost: set[int] = set()

    @property
    def now(self) -> int:
        return self.lake.now + self.skew

    # --- mark ---

    def begin(self, min_age: int) -> Mark:
        mark = Mark(len(self.marks), self.now, min_age)
        self.marks.append(mark)
        return mark

    def mark(self, mark: Mark) -> Step:
        """The five stages, but for those that stand already."""
        bodies = (self._list, self._dump, self._commits, self._read, self._subtract)
        for stage, body in zip(STAGES, bodies, strict=True):
            if stage in mark.manifests:
                continue
            yield stage
            started, facts = self.now, {}
            yield from body(mark, facts)
            mark.manifests[stage] = FinishedStage(
                started_at=started, finished_at=self.now, facts=whole_facts(stage, facts)
            )

    def _list(self, mark: Mark, facts: dict[str, Any]) -> Step:
        mark.listing = {}
        for unit in (0, 1):
            yield "unit"
            mark.listing |= {each: at for each, at in self.lake.store.items() if each % 2 == unit}
        skew = self.lake.now - self.now
        facts |= {"objects": len(mark.listing), "clock_skew": skew, "overlapping": [], "nested": 0}

    def _dump(self, mark: Mark, facts: dict[str, Any]) -> Step:
        mark.staged = yield from self._staged()
        facts |= {"files": 1, "pages_with_location": 1, "pages": 1}

    def _commits(self, mark: Mark, facts: dict[str, Any]) -> Step:
        _, mark.retained, mark.heads, known = yield from self._retained()
        facts |= {
            "retained": len(mark.retained),
            "known": known,
            "branches": len(mark.heads),
            "tags": len(self.lake.tags),
            "tags_protected": True,
            "refs_not_retained": len(set(mark.heads.values()) - mark.retained),
            "retained_metaranges": len(mark.retained),
            "former_heads_unknown": 0,
        }

    def _read(self, mark: Mark, facts: dict[str, Any]) -> Step:
        yield "ranges"
        mark.committed = self._trees(mark.retained)
        read = {
            "metaranges": len(mark.retained),
            "references": 1,
            "references_read": 1,
            "ranges": 1,
            "checksum": 1,
            "checksum_read": 1,
        }
        facts |= read | {"entries": len(mark.committed)}

    def _subtract(self, mark: Mark, facts: dict[str, Any]) -> Step:
        cutoff = mark.started - mark.min_age
        at = int(mark.manifests[COMMITS].started_at)
        before = self._carried(mark)
        unreferenced = mark.listing.keys() - mark.committed - mark.staged
        since = {each: min(before.get(each, at), at) for each in unreferenced}
        old = {each for each in unreferenced if mark.listing[each] < cutoff}
        yield "suspects"
        mark.shown = self._suspects(old, mark.heads)
        old -= mark.shown
        mark.expired = {each: since[each] for each in old}
        groups = {
            "listed": len(mark.listing),
            "committed": len(mark.committed & mark.listing.keys()),
            "uncommitted": len(mark.staged & mark.listing.keys()),
            "expired": len(old),
        }
        facts |= {name: {"objects": count, "bytes": count} for name, count in groups.items()}
        facts["neighbours"] = {"repositories": 0, "unknown": 0, "named": [], "within": 0, "addresses": 0}
        facts["violations"] = len(old - _COLLECTABLE)
        facts["missing"] = len((mark.committed | mark.staged) - mark.listing.keys())
        facts["previous"] = None

    def _carried(self, mark: Mark) -> dict[int, int]:
        """`since` of what the mark before found unreferenced, unless something may have found it live in between."""
        complete = [each for each in self.marks if each.complete and each.started < mark.started]
        before = max(complete, key=lambda each: each.started, default=None)
        if before is None or any(each is not mark for each in self._read_later(before)):
            return {}
        return {each: since for each, since in before.expired.items() if self.rescued.get(each, since - 1) < since}

    def _read_later(self, mark: Mark) -> list[Mark]:
        """Marks that asked lakeFS for anything since this one had read its commits, the last one last."""
        at = mark.manifests[COMMITS].started_at
        others = [each for each in self.marks if each is not mark and STAGED in each.manifests]
        return sorted((each for each in others if each.read_at >= at), key=lambda each: each.read_at)

    def _interrupted(self, mark: Mark) -> dict[int, float]:
        """`since` of a mark's findings, as later marks and looks leave it: in the future where one found them live."""
        since = {each: at if self.rescued.get(each, at - 1) < at else float("inf") for each, at in mark.expired.items()}
        later = self._read_later(mark)
        if not later:
            return since
        if not later[-1].complete:
            return dict.fromkeys(since, float("inf"))
        found = later[-1].expired
        return {each: max(at, found.get(each, float("inf"))) for each, at in since.items()}

    # --- what marks and looks read alike ---

    def _staged(self) -> Iterator[str]:
        """One complete dump, branch by branch in the order of names."""
        found: set[int] = set()
        last = ""
        while True:
            yield "dump"
            name = min((each for each in self.lake.branches if each > last), default=None)
            if name is None:
                return found
            found |= self.lake.dumped(name)
            last = name

    def _retained(self) -> Iterator[str]:
        """Rules, then the dump of all commits and refs, then branches until two listings agree."""
        yield "rules"
        rules = self.lake.rules
        self.sightings.append((self.now, rules))
        if not self.seen or self.seen[-1].rules != rules:
            self.seen.append(RulesRecord(self.now, rules))
        memory = self.level.rules_memory
        judged_by = effective_rules(self.seen, self.now, memory) if memory else rules
        yield "dump of commits"
        commits = list(self.lake.commits)
        refs = {(name, branch.head) for name, branch in self.lake.branches.items()}
        tags = set(self.lake.tags.items())
        yield "tags"
        tags |= set(self.lake.tags.items())
        listings: list[set[tuple[str, int]]] = []
        for _ in range(3):
            yield "branches"
            listings.append({(name, branch.head) for name, branch in self.lake.branches.items()})
            if listings[-1] in listings[:-1]:
                break
        refs |= listings[-1] if listings[-1] in listings[:-1] else set.union(*listings)
        commits += self.lake.commits[len(commits) :]  # heads newer than the dump are asked for
        graph = Graph(
            [str(row) for row in range(len(commits))],
            [str(row) for row in range(len(commits))],
            [each.created * SECOND for each in commits],
            [each.parents[0] if each.parents else -1 for each in commits],
        )
        margin = int(self.level.retention_margin.total_seconds()) * SECOND
        named = NamedCommits(sorted(refs), sorted(tags))
        kept = retain(graph, named, judged_by, self.now * SECOND, margin=margin)
        return rules, set(kept), dict(sorted(refs)), len(commits)

    def _trees(self, commits: set[int]) -> set[int]:
        return {number for each in commits for number in self.lake.commits[each].tree.values()}

    def _suspects(self, candidates: set[int], heads: dict[str, int]) -> set[int]:
        """Candidates of the content of a head's entry that the branch shows at that path."""
        contents = {self.lake.contents[each] for each in candidates}
        shown = set()
        for name, head in heads.items():
            for path, number in self.lake.commits[head].tree.items():
                if self.lake.contents[number] in contents:
                    shown.add(self.lake.shown(name).get(path))
        return {each for each in candidates if each in shown}

    # --- sweep ---

    def sweep(self, mark: Mark) -> Step:
        """Guards, look, plan, delete in batches with an eye on the clock, look again. Refused if it may not."""
        yield "guards"
        verdicts = guards.evaluate(Evidence(_terms(mark), mark.manifests, self.level, self.now), ACCEPTED)
        if not guards.authorized(verdicts):
            raise Refused(", ".join(verdict.name for verdict in verdicts if verdict.stops))
        listed = mark.manifests[LISTING].finished_at
        if self.now < listed + self.level.look_delay.total_seconds():
            raise Refused("look delay")
        deleted: set[int] = set()
        while True:
            look = yield from self._look()
            plan = yield from self._plan(mark, look)
            done = yield from self._delete(mark, look, plan, deleted)
            if done:
                break
        last = yield from self._look()
        self.lost |= deleted & last.live

    def _look(self) -> Iterator[str]:
        began = self.now
        staged = yield from self._staged()
        rules, retained, heads, _ = yield from self._retained()
        return Look(began, rules, staged | self._trees(retained), heads)

    def _plan(self, mark: Mark, look: Look) -> Iterator[str]:
        ready = look.began - self.level.gap.total_seconds()
        candidates = mark.expired.keys() - mark.final
        yield "suspects"
        suspects = self._suspects(candidates - look.live, look.heads)
        rescued = candidates & (look.live | suspects)
        for each in rescued:
            self.rescued[each] = self.now
        mark.final |= rescued
        since = self._interrupted(mark) if self.level.gap else mark.expired
        return sorted(each for each in candidates - rescued if since[each] <= ready)

    def _delete(self, mark: Mark, look: Look, plan: list[int], deleted: set[int]) -> Iterator[str]:
        """True when the plan is done, False when a whole look is due."""
        expires = look.began + self.level.look_validity.total_seconds()
        watched = -math.inf  # the first batch is not sent without a glance either
        known = set(look.heads.values())
        for start in range(0, len(plan), BATCH):
            yield "delete again" if start else "delete"
            if self.now >= expires:
                return False
            if self.now >= watched + self.level.watch_interval.total_seconds():
                watched = self.now
                new = {branch.head for branch in self.lake.branches.values()} | set(self.lake.tags.values())
                if self.lake.rules != look.rules or self._trees(new - known) & set(plan):
                    return False
            batch = plan[start : start + BATCH]
            self.delete(batch)
            deleted.update(batch)
            mark.final.update(batch)
        return True

    def delete(self, batch: list[int]) -> None:
        for each in batch:
            self.lake.store.pop(each, None)
        self.deleted.update(batch)


def _terms(mark: Mark) -> MarkTerms:
    return MarkTerms(
        repository="repo",
        mark_id=f"m{mark.number}",
        storage_namespace=NAMESPACE.uri,
        started_at=mark.started,
        cutoff=mark.started - mark.min_age,
    )
