"""The look: a sweep reads all references again before it deletes anything.

A look is one whole staged dump, then everything that counts as of now; only ranges that the mark did not know are read.
It is believed for `look_validity`, then taken again. A glance looks at refs and rules alone, right before the first
delete and every minute or so after it, and reads the commits that new refs keep. `planning` keeps the objects that a
look finds referenced; `waves` stops if a glance finds any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.errors import IncompleteError, RefusedError
from lakegc_core.marks import rescues
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE
from lakegc_core.marks.findings import HELD
from lakegc_core.names import Json, Stage, see
from lakegc_core.policy.facts import CommitsFacts, NeighbourFacts, ReadFacts, StagedFacts
from lakegc_core.policy.namespace import overlapping
from lakegc_core.policy.retention import Rules, rules_json
from lakegc_core.references.commits.commit_walk import (
    COMMITS_SCHEMA,
    MOST_FETCHED,
    OTHERS,
    REFS,
    REFS_SCHEMA,
)
from lakegc_core.references.commits.known_walk import KnownCommits, margin_of
from lakegc_core.references.commits.newly_retained import NewlyRetained
from lakegc_core.references.commits.retained import find_retained, heads_digest, walk_until_known, write_branches
from lakegc_core.references.of_neighbours import NeighbourReferences, read_references
from lakegc_core.references.ranges.held_paths import held_by_path
from lakegc_core.references.ranges.lost_ranges import ignored_in
from lakegc_core.references.ranges.range_files import INDEX, RANGES
from lakegc_core.references.ranges.unknown_ranges import ReadSince, read_unknown
from lakegc_core.references.shown.heads import LOOK, BranchHeads, heads_of_mark
from lakegc_core.references.staged import STAGED_SCHEMA, dump_staged
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.tables.dataset import Dataset, DatasetFolder, readable
from lakegc_core.tables.joins import among
from lakegc_core.tables.key_scan import Wanted
from lakegc_core.tables.parts import parts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class LookFacts:
    """Facts of a look, one for each of its readings."""

    uncommitted_addresses: StagedFacts
    retention_commits: CommitsFacts
    committed_addresses: ReadFacts
    neighbours: NeighbourFacts


@dataclass(frozen=True)
class Reads:
    """The readings of commits by the looks and glances of one sweep. `held`: of commits that only holds keep;
    `committed`: of all others. `newly_retained`: the folder to which glances write the commits that count since the
    look."""

    committed: ReadSince
    held: ReadSince
    newly_retained: DatasetFolder

    @classmethod
    def below(cls, context: MarkContext, folder: str) -> Reads:
        """Begin with nothing. All readings will lie in folders below this one."""
        out = DatasetFolder(context.workspace, folder, LOOK)
        return cls(ReadSince(out.below("committed")), ReadSince(out.below(HELD)), out.below("newly_retained"))

    def read(self, spark: SparkSession, context: MarkContext, retained: Dataset, *, by_holds: bool) -> Dataset:
        """Read the ranges of these commits (COMMITS_SCHEMA) that neither the mark nor this sweep has read yet. Returns
        their entries (ENTRIES_SCHEMA). `by_holds`: True if there are holds."""
        marked = context.mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA)
        ignored = ignored_in(spark, context, marked + retained)
        found = read_unknown(spark, context, retained, self.committed, ignored, unread_too=True)
        if not by_holds:
            return found
        return found + read_unknown(spark, context, retained, self.held, ignored, by_hold=True, unread_too=True)


@dataclass(frozen=True)
class Look:
    """One reading of all references. Times are unix seconds; `began_at` is when its staged dump began,
    `began_uptime` the same on `clock.uptime`."""

    began_at: float
    began_uptime: float
    finished_at: float
    staged: Dataset
    commits: KnownCommits
    committed: Dataset
    """The entries that the mark did not know: all that this sweep has read so far (ENTRIES_SCHEMA)."""
    reads: Reads
    held: Dataset
    """The entries that holds keep. Other references to them may exist."""
    neighbours: NeighbourReferences
    heads: Sequence[str]
    """Digests of all heads, as they were before the staged dump and after it."""
    facts: LookFacts

    @property
    def age(self) -> float:
        """Seconds since it began, by the clock that went further: the collector's may be set, the other never is."""
        return max(clock.now().timestamp() - self.began_at, clock.uptime() - self.began_uptime)

    def live(self) -> Wanted:
        """The addresses that must not be deleted: those that are referred to, and those that holds keep."""
        return Wanted(self.referred_to().sources + self.kept_by_holds().sources)

    def referred_to(self) -> Wanted:
        """The addresses of all that is staged now or committed since the mark, and those to which other repositories
        refer."""
        return Wanted(self.staged.sources + self.committed.sources + self.neighbours.keys.sources)

    def kept_by_holds(self) -> Wanted:
        """The addresses that holds keep; something else may refer to them as well."""
        return self.held.keys()

    def remember(self, spark: SparkSession, context: MarkContext, objects: Dataset, *, lenient: bool) -> None:
        """Put those of the objects (column address) into the journal of rescues that this look found live. `lenient`:
        parts of the objects that cannot be read are passed over."""
        live = self.live()
        if live.rows:
            if lenient:
                (objects,) = readable(spark, [objects])
            rescues.rescue(context, among(spark, objects.mapped(spark, "address"), live))

    def branch_heads(self, context: MarkContext) -> BranchHeads:
        """The heads of branches when this look read them: their ranges are the mark's, or its own."""
        marked, read = heads_of_mark(context), self.reads.committed.datasets
        return replace(
            marked,
            commits=self.commits,
            index=marked.index + read[INDEX],
            entries=marked.entries + read[Stage.COMMITTED_ADDRESSES],
            outside=marked.outside + read[ELSEWHERE],
            new_ranges=read[RANGES],
            staged=self.staged,
            entries_bound=marked.entries_bound + self.facts.committed_addresses.entries,
        )

    def heads_moved(self, context: MarkContext) -> bool:
        """True if the heads of branches differ from those before the staged dump, or from those after it."""
        now = heads_digest(context.client.branches(context.header.repository))
        return any(seen != now for seen in self.heads)


def take_look(spark: SparkSession, context: MarkContext, folder: str, reads: Reads) -> Look:
    """Read what is staged, then the retained commits, and of these the ranges that neither the mark nor an earlier look
    (`reads`) had read.

    RefusedError if the server is not the one that was marked, or another repository shares the namespace by now.
    """
    began, uptime = clock.now().timestamp(), clock.uptime()
    out = DatasetFolder(context.workspace, folder, LOOK)
    at_commits = out.below("commits")
    _check_same_server(context)
    heads = write_branches(context, at_commits.at(REFS))
    staged = dump_staged(spark, context, out.at("uncommitted"))
    commits = find_retained(spark, context, at_commits.path, former=context.mark, seen_heads=heads.parts)
    if commits.facts.former_heads_unknown:
        raise RefusedError(
            f"{commits.facts.former_heads_unknown:,} heads that the mark saw are unknown to lakeFS now: the server "
            "was restored or re-created. Nothing more is deleted. Make a new mark when the server is whole. "
            f"{see('known-heads')}"
        )
    known = KnownCommits(
        files=context.metadata,
        facts=commits.facts,
        retained=at_commits.dataset("", commits.datasets[Stage.RETENTION_COMMITS], COMMITS_SCHEMA),
        others=at_commits.dataset(OTHERS, commits.datasets[OTHERS], COMMITS_SCHEMA),
        refs=at_commits.dataset(REFS, commits.datasets[REFS], REFS_SCHEMA),
        margin=margin_of(context),
    )
    reads.read(spark, context, known.retained, by_holds=bool(known.facts.holds))
    held = held_by_path(spark, context, known.others, reads.held.out)
    neighbours = read_references(spark, context, out)
    return Look(
        began_at=began,
        began_uptime=uptime,
        finished_at=clock.now().timestamp(),
        staged=out.dataset("uncommitted", staged.datasets[Stage.UNCOMMITTED_ADDRESSES], STAGED_SCHEMA),
        commits=known,
        committed=reads.committed.datasets[Stage.COMMITTED_ADDRESSES],
        reads=reads,
        neighbours=neighbours,
        held=reads.held.datasets[Stage.COMMITTED_ADDRESSES] + held.addresses,
        heads=(heads.digest, commits.facts.heads),
        facts=LookFacts(staged.facts, commits.facts, reads.committed.facts, neighbours.facts),
    )


@dataclass
class Glance:
    """Watches the refs and the rules from a look on.

    `_refs`: kind, name and commit of each ref when they were last asked for; `_fetched`: the commits that lakeFS was
    asked for, by id.
    """

    spark: SparkSession
    context: MarkContext
    look: Look
    _refs: set[tuple[str, str, str]] = field(default_factory=set)
    _fetched: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._refs.update((each["kind"], each["name"], each["commit_id"]) for each in self.look.commits.refs.dicts())

    def has_many_commits(self) -> bool:
        """True when so many commits are newer than the look that a whole look is due: the walk has a limit."""
        return len(self._fetched) > MOST_FETCHED // 2

    def rules_changed(self) -> bool:
        """True when the rules in force differ from those that the look saw: a whole look is due."""
        rules = self.context.client.gc_rules(self.context.header.repository)
        now = None if rules is None else rules_json(Rules(rules.default_retention_days, dict(rules.branches)))
        return bool(now != self.look.commits.facts.rules)

    def changed_refs(self) -> Dataset | None:
        """All branches and tags (REFS_SCHEMA); None if they are unchanged since the last call, or since the look before
        any call."""
        client, repository = self.context.client, self.context.header.repository
        named = (("branch", client.branches(repository)), ("tag", client.tags(repository)))
        now = {(kind, ref.name, ref.commit_id) for kind, refs in named for ref in refs}
        if now == self._refs:
            return None
        self._refs = now
        out = self.look.reads.newly_retained.below(REFS)
        rows = [dict(zip(REFS_SCHEMA.names, ref, strict=True)) for ref in sorted(now)]
        return out.written("", pa.Table.from_pylist(rows, REFS_SCHEMA), REFS_SCHEMA)

    def read(self, refs: Dataset) -> Dataset:
        """The entries of all commits that count with these refs, if neither the mark nor this sweep knew them
        (ENTRIES_SCHEMA). IncompleteError if the walk does not say how many commits there are, or says another
        number."""
        out = self.look.reads.newly_retained
        walk = NewlyRetained(commits=replace(self.look.commits, refs=refs), out=out, extra=self._fetched)
        results = walk_until_known(partial(run_tasks, self.spark), self.context, walk)
        parts = parts_of(results, [Stage.RETENTION_COMMITS])[Stage.RETENTION_COMMITS]
        commits = out.dataset("", parts, COMMITS_SCHEMA)
        if [result["newly_retained"] for result in results if "newly_retained" in result] != [commits.rows]:
            raise IncompleteError("The walk over commits that count now is not whole. Run the sweep again.")
        by_holds = bool(walk.commits.facts.holds)
        return self.look.reads.read(self.spark, self.context, commits, by_holds=by_holds)


def _check_same_server(context: MarkContext) -> None:
    now = context.client.repository(context.header.repository)
    if (now.storage_namespace, now.creation_date) != (
        context.header.storage_namespace,
        context.header.repository_created,
    ):
        raise RefusedError(
            f"Repository {context.header.repository} is not the one that was marked: it was re-created or restored "
            "since. Make a new mark."
        )
    others = ((each.id, each.storage_namespace) for each in context.client.repositories() if each.id != now.id)
    if sharing := overlapping(context.namespace, others):
        raise RefusedError(
            f"The namespace of {now.id} is now shared with, or nested in or around, that of {', '.join(sharing)}: "
            f"they may refer to what looks like garbage here. Nothing more is deleted. {see('namespace')}"
        )
