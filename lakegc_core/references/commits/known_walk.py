"""Walks that begin with the commits that a mark knew: the graph of the same dump, the refs, the retained commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.names import Json, Stage
from lakegc_core.policy.facts import CommitsFacts
from lakegc_core.policy.retention import rules_of
from lakegc_core.policy.scenarios import Known
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS, REFS, REFS_SCHEMA, Walk, told_unknown
from lakegc_core.references.commits.dump_files import DumpFiles
from lakegc_core.tables.dataset import Dataset

_SECOND = 1_000_000
_BY_SERVER = "server"


@dataclass(frozen=True)
class KnownCommits:
    """The commits that a mark or a look knew, and the facts by which it judged them. Tasks carry it.

    `retained`, `others`: those that are retained, and all other ones (COMMITS_SCHEMA). `refs`: heads and tags
    (REFS_SCHEMA). `margin`: added to every retention period, microseconds.
    """

    files: MetadataFiles
    facts: CommitsFacts
    retained: Dataset
    others: Dataset
    refs: Dataset
    margin: int

    @classmethod
    def of(cls, context: MarkContext) -> KnownCommits:
        """Take it from a mark whose stage retention_commits is complete."""
        mark = context.mark
        manifest = mark.require(Stage.RETENTION_COMMITS)
        return cls(
            files=context.metadata,
            facts=mark.facts(CommitsFacts),
            retained=mark.dataset_of(manifest, COMMITS_SCHEMA),
            others=mark.dataset_of(manifest, COMMITS_SCHEMA, OTHERS),
            refs=mark.dataset_of(manifest, REFS_SCHEMA, REFS),
            margin=margin_of(context),
        )


def margin_of(context: MarkContext) -> int:
    """The time by which a mark of this level keeps commits longer than lakeFS, microseconds."""
    return int(context.level.retention_margin.total_seconds() * _SECOND)


@dataclass(frozen=True, kw_only=True)
class KnowingWalk(Walk):
    """Reads the dump, the refs and the retained commits of a mark, and decides on what that mark knew."""

    commits: KnownCommits

    def decide(self, known: Known) -> Iterator[Json]:
        """The results, once all commits are known."""
        raise NotImplementedError

    def run(self) -> Iterator[Json]:
        commits, facts = self.commits, self.commits.facts
        graph, unknown, _ = DumpFiles(commits.files, facts.commits_ignored).graph(facts.dump, self.extra, self.missing)
        row = {commit_id: number for number, commit_id in enumerate(graph.commit_ids)}
        refs, retained = list(commits.refs.dicts()), list(commits.retained.dicts())
        unknown |= {each["commit_id"] for each in (*refs, *retained)} - row.keys()
        if unknown:
            yield told_unknown(unknown)
            return
        named: dict[str, set[tuple[str, int]]] = {"branch": set(), "tag": set()}
        for each in refs:
            named[each["kind"]].add((each["name"], row[each["commit_id"]]))
        known = Known(
            graph=graph,
            heads=sorted(named["branch"]),
            tags=sorted(named["tag"]),
            judged_by=rules_of(facts.judged_by),
            protect_tags=facts.tags_protected,
            holds=tuple(facts.holds),
            kept=[row[each["commit_id"]] for each in retained],
            server=[row[each["commit_id"]] for each in retained if each["kept_by"] == _BY_SERVER],
            now=int(facts.began_at * _SECOND),
            margin=commits.margin,
        )
        yield from self.decide(known)


@dataclass(frozen=True, kw_only=True)
class NewCommits(Walk):
    """Counts the commits of a newer dump that a mark did not know, also those that no ref shows any more. Yields
    `new`. `dump`: the dump's metarange of commits."""

    commits: KnownCommits
    dump: str

    def run(self) -> Iterator[Json]:
        known = self.commits
        graph, _, _ = DumpFiles(known.files, known.facts.commits_ignored).graph(self.dump, self.extra)
        new = set(graph.commit_ids).difference(known.retained.values("commit_id"), known.others.values("commit_id"))
        yield {"new": len(new)}
