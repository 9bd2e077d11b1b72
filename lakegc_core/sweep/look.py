"""The look: before anything is deleted, what refers to what is read once more, and what came back to life is taken out.

A look is one whole staged dump, then everything that counts as of now; only ranges that the mark did not know are read.
It is believed for `look_validity`, then taken again; a glance looks at refs and rules alone, right before the first
delete and every minute or so after it.
What is done with what they see is decided in `sweep`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakegc_core import clock
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE
from lakegc_core.names import Stage, see
from lakegc_core.policy.facts import CommitsFacts, NeighbourFacts, ReadFacts, StagedFacts
from lakegc_core.policy.namespace import overlapping
from lakegc_core.policy.retention import HOLD, Rules, rules_json
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS, REFS, REFS_SCHEMA
from lakegc_core.references.commits.retained import fetch_commit, find_retained, heads_digest, write_heads
from lakegc_core.references.of_neighbours import KEYS_SCHEMA, read_references
from lakegc_core.references.ranges.held_paths import HELD, held_by_path
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.ranges.range_files import INDEX, RANGES
from lakegc_core.references.ranges.unknown_ranges import ReadSince, read_unknown
from lakegc_core.references.shown.heads import LOOK, BranchHeads, heads_of_mark
from lakegc_core.references.staged import STAGED_SCHEMA, dump_staged
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.key_scan import Wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class LookFacts:
    """Facts of a look, by what it read."""

    uncommitted_addresses: StagedFacts
    retention_commits: CommitsFacts
    committed_addresses: ReadFacts
    neighbours: NeighbourFacts


@dataclass(frozen=True)
class Reads:
    """Commits that the looks and glances of one sweep have read: `held` those that only holds keep."""

    committed: ReadSince
    held: ReadSince

    @classmethod
    def below(cls, context: MarkContext, folder: str) -> Reads:
        """Nothing yet; to lie in folders below this one."""
        out = DatasetFolder(context.workspace, folder, LOOK)
        return cls(ReadSince(out.below("committed")), ReadSince(out.below(HELD)))


@dataclass(frozen=True)
class Look:
    """One reading of all references. Times are unix seconds; `began_at` is when its staged dump began."""

    began_at: float
    finished_at: float
    staged: Dataset
    commits: Dataset
    """The commits that the look found retained (COMMITS_SCHEMA)."""
    refs: Dataset
    """Heads and tags as the look saw them (REFS_SCHEMA)."""
    committed: Dataset
    """Of what the looks of this sweep have read: all of it, or, of a glance, what is new (ENTRIES_SCHEMA)."""
    reads: Reads
    held: Dataset
    """What holds keep; nothing else may."""
    neighbours: Dataset
    """What other repositories refer to here."""
    heads: Sequence[str] = ()
    """Digests of all heads, as they were before the staged dump and after it."""
    facts: LookFacts | None = None
    """None of a glance."""

    def live(self) -> Wanted:
        """The addresses of all that must not be deleted: what is referred to, and what holds keep."""
        return Wanted(self.referred_to().sources + self.kept_by_holds().sources)

    def referred_to(self) -> Wanted:
        """The addresses of all that is staged now or newly committed since the mark, and of what other repositories
        refer to."""
        return Wanted(self.staged.sources + self.committed.sources + self.neighbours.sources)

    def kept_by_holds(self) -> Wanted:
        """The addresses of what holds keep; something else may refer to it as well."""
        return self.held.keys()

    @property
    def found(self) -> LookFacts:
        """The facts of a whole look."""
        assert self.facts is not None, "a glance reads neither the dump nor the rules"
        return self.facts

    def branch_heads(self, context: MarkContext) -> BranchHeads:
        """The heads of branches when this look read them: their ranges are the mark's, or its own."""
        marked, read = heads_of_mark(context), self.reads.committed.datasets
        return replace(
            marked,
            refs=self.refs,
            commits=self.commits,
            index=marked.index + read[INDEX],
            entries=marked.entries + read[Stage.COMMITTED_ADDRESSES],
            outside=marked.outside + read[ELSEWHERE],
            new_ranges=read[RANGES],
            staged=self.staged,
            names=self.found.retention_commits.branches,
            most=marked.most + self.found.committed_addresses.entries,
        )

    def heads_moved(self, context: MarkContext) -> bool:
        """True if heads of branches are others now than before the staged dump or after it."""
        now = heads_digest(context.client.branches(context.header.repository))
        return any(seen != now for seen in self.heads)


def take_look(spark: SparkSession, context: MarkContext, folder: str, reads: Reads) -> Look:
    """Look at what is staged, then at what is retained, and read the ranges that neither the mark nor an earlier look
    (`reads`) had read.

    RefusedError if the server is not the one that was marked, or another repository shares the namespace by now.
    """
    began = clock.now().timestamp()
    out = DatasetFolder(context.workspace, folder, LOOK)
    at_commits = out.below("commits")
    _check_same_server(context)
    heads = write_heads(context, at_commits.at(REFS))
    staged = dump_staged(spark, context, out.at("uncommitted"))
    commits = find_retained(spark, context, at_commits.path, former=context.mark, heads=heads.parts)
    if commits.facts.former_heads_unknown:
        raise RefusedError(
            f"{commits.facts.former_heads_unknown:,} heads that the mark saw are unknown to lakeFS now: the server "
            "was restored or re-created. Nothing more is deleted. Make a new mark when the server is whole. "
            f"{see('known-heads')}"
        )
    retained = at_commits.dataset("", commits.datasets[Stage.RETENTION_COMMITS], COMMITS_SCHEMA)
    rows = retained.frame(spark)
    by_hold = rows["kept_by"].startswith(f"{HOLD}:")
    read_unknown(spark, context, rows.where(~by_hold), reads.committed)
    others = at_commits.dataset(OTHERS, commits.datasets[OTHERS], COMMITS_SCHEMA)
    held = held_by_path(spark, context, others, reads.held.out)
    if commits.facts.kept_by.get(HOLD):
        read_unknown(spark, context, rows.where(by_hold), reads.held)
    neighbours = read_references(spark, context, out)
    return Look(
        began_at=began,
        finished_at=clock.now().timestamp(),
        staged=out.dataset("uncommitted", staged.datasets[Stage.UNCOMMITTED_ADDRESSES], STAGED_SCHEMA),
        commits=retained,
        refs=at_commits.dataset(REFS, commits.datasets[REFS], REFS_SCHEMA),
        committed=reads.committed.datasets[Stage.COMMITTED_ADDRESSES],
        reads=reads,
        neighbours=neighbours.keys,
        held=reads.held.datasets[Stage.COMMITTED_ADDRESSES] + held.addresses,
        heads=(heads.digest, commits.facts.heads),
        facts=LookFacts(staged.facts, commits.facts, reads.committed.facts, neighbours.facts),
    )


@dataclass
class Glance:
    """Watches the refs and the rules from a look on. Knows every commit that a look has taken into account."""

    spark: SparkSession
    context: MarkContext
    look: Look
    _known: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for rows in self.look.refs.batches("commit_id"):
            self._known.update(rows.column(0).to_pylist())

    def rules_changed(self) -> bool:
        """True when the rules in force are other ones than the look saw: a whole look is due."""
        rules = self.context.client.gc_rules(self.context.header.repository)
        now = None if rules is None else rules_json(Rules(rules.default_retention_days, dict(rules.branches)))
        return bool(now != self.look.found.retention_commits.rules)

    def new_metaranges(self) -> list[str]:
        """Metaranges of heads and tags that appeared since, each told once."""
        client, repository = self.context.client, self.context.header.repository
        refs = [*client.branches(repository), *client.tags(repository)]
        unknown = {ref.commit_id for ref in refs} - self._known
        self._known |= unknown
        return sorted({fetch_commit(self.context, commit_id).metarange_id for commit_id in unknown} - {""})

    def read(self, metaranges: Sequence[str]) -> Look:
        """A look at these metaranges alone: what they refer to that neither the mark nor a look of this sweep knew."""
        retained = self.spark.createDataFrame([(each,) for each in metaranges], "metarange_id string")
        return Look(
            began_at=self.look.began_at,
            finished_at=clock.now().timestamp(),
            staged=Dataset(STAGED_SCHEMA),
            commits=Dataset(COMMITS_SCHEMA),
            refs=Dataset(REFS_SCHEMA),
            held=Dataset(ENTRIES_SCHEMA),
            neighbours=Dataset(KEYS_SCHEMA),
            committed=read_unknown(self.spark, self.context, retained, self.look.reads.committed),
            reads=self.look.reads,
        )


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
