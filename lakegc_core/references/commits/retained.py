"""retention_commits: the commits that count, by the exact rule of `retention`, and those that the server retains.

The commit graph comes whole from one dump, taken after the staged dump; heads newer than it are asked for one by one.
One task on an executor walks the graph: nothing that grows with the number of commits reaches the driver.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.errors import IncompleteError, RefusedError, ServerError
from lakegc_core.lakefs.files import graveler
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import Commit, DumpRefs, PreparedCommits, Ref
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext, output_key
from lakegc_core.marks.stage_run import StageOutput
from lakegc_core.names import Json, Stage, Symptom, counted, see
from lakegc_core.policy.facts import CommitsFacts
from lakegc_core.policy.retention import Rules, main_parent, rules_json
from lakegc_core.references.commits.commit_walk import (
    MOST_FETCHED,
    OTHERS,
    REFS,
    REFS_SCHEMA,
    Ancestry,
    CommitWalk,
    Walk,
)
from lakegc_core.references.commits.known_walk import margin_of
from lakegc_core.references.commits.rules_memory import remember
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import Part, PartWriter, parts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[[Sequence[Walk], Callable[[Walk], Iterator[Json]]], list[Json]]
"""Runs tasks, and gives back what they yield."""

KEEP_ALL = "keep-all-commits"
_TRIES = 3
_SECOND = 1_000_000
_NOT_FOUND = 404
_SHORT_ID = 40  # digits of a commit id that are as good as all 64


def find_retained(
    spark: SparkSession,
    context: MarkContext,
    folder: str,
    *,
    former: MarkArtifacts | None,
    seen_heads: Sequence[Part] = (),
) -> StageOutput[CommitsFacts]:
    """Find the commits that are retained now, and write them below `folder`. The mark and each look of a sweep do so.

    `former`: the mark at whose heads and tags the server must still know the commits. `seen_heads`: parts of heads that
    were seen before, and count as well.
    """
    began = clock.now().timestamp()
    answers = _RulesAndDump.ask(spark, context)
    out = DatasetFolder(context.workspace, folder, context.header.mark_id)
    digest, refs = _refs(context, out.at(REFS))
    listed = {each.name for each in refs}
    refs = [*refs, *(part for part in seen_heads if part.name not in listed)]
    walk = _commit_walk(context, answers, out, refs, former)
    results = walk_until_known(partial(run_tasks, spark), context, walk)
    facts = CommitsFacts(
        **next(result["facts"] for result in results if "facts" in result),
        began_at=began,
        heads=digest,
        rules=rules_json(answers.in_force),
        judged_by=rules_json(answers.judged_by),
        rules_remembered=answers.united_from,
        dump=answers.dump.commits_metarange_id,
        run_id=answers.prepared.run_id if answers.prepared else None,
        clock_skew=None,
    )
    parts = parts_of(results, [Stage.RETENTION_COMMITS, OTHERS, REFS])
    return StageOutput(
        {Stage.RETENTION_COMMITS: parts[Stage.RETENTION_COMMITS], OTHERS: parts[OTHERS], REFS: [*refs, *parts[REFS]]},
        facts,
    )


@dataclass(frozen=True)
class _RulesAndDump:
    """Answers of lakeFS about its commits: the rules in force, its own list of retained commits (None without rules,
    or if lakeFS would die of the question: see `ask`), and its dump. `judged_by`: the rules to judge by; `united_from`:
    the number of rules that they unite."""

    in_force: Rules | None
    judged_by: Rules | None
    united_from: int
    prepared: PreparedCommits | None
    dump: DumpRefs

    @classmethod
    def ask(cls, spark: SparkSession, context: MarkContext) -> _RulesAndDump:
        """Ask lakeFS, and remember its rules.

        The dump comes first. lakeFS (1.84) dies when it is asked for its own list while a commit names a main parent
        that it does not know. So lakegc looks for such commits first, and does not ask if there is one. A branch's head
        cannot be one: the staged dump, which is earlier in marks and looks, fails on it. The list can only add commits
        to those that lakegc's own rule retains. Commits that the list has and the dump lacks are fetched one by one.
        """
        client, repository = context.client, context.header.repository
        in_force = rules_in_force(context)
        _tell_of_negative_days(context, in_force)
        judged_by, united_from = remember(context, in_force)
        dump, prepared = client.dump(repository), None
        if in_force is not None and not _orphans(spark, context, dump):
            prepared = client.prepare_commits(repository)
        return cls(in_force, judged_by, united_from, prepared, dump)


def _tell_of_negative_days(context: MarkContext, rules: Rules | None) -> None:
    """lakeFS keeps 32 bits of a rule's days: who sets 3000000000 for ever has set -1294967296, which keeps heads."""
    negative = [days for days in (rules.default_days, *rules.branch_days.values()) if days < 0] if rules else []
    if negative:
        context.say(
            f"{Stage.RETENTION_COMMITS}: a rule of {min(negative)} days keeps no history at all, as in lakeFS. If "
            f"that was not meant, set it anew before a sweep: lakegc doctor {context.header.repository}"
        )


def _orphans(spark: SparkSession, context: MarkContext, dump: DumpRefs) -> list[str]:
    """A few commits of a dump whose main parent lakeFS does not know."""
    walk = Ancestry(files=context.metadata, dump=dump.commits_metarange_id)
    results = walk_until_known(partial(run_tasks, spark), context, walk)
    found: list[str] = next(result["orphans"] for result in results if "orphans" in result)
    if found:
        context.say(
            f"{Stage.RETENTION_COMMITS}: lakeFS does not know the parents of {', '.join(found)}; it is not asked for "
            "its own list of retained commits, at which it would die"
        )
    return found


def _commit_walk(
    context: MarkContext, answers: _RulesAndDump, out: DatasetFolder, refs: Sequence[Part], former: MarkArtifacts | None
) -> CommitWalk:
    header, dump, prepared = context.header, answers.dump, answers.prepared
    before = former.dataset(Stage.RETENTION_COMMITS, REFS_SCHEMA, REFS) if former else Dataset(REFS_SCHEMA)
    return CommitWalk(
        outputs=context.outputs,
        files=context.metadata,
        out=out,
        refs=out.dataset(REFS, refs, REFS_SCHEMA),
        former=before,
        commits_metarange=dump.commits_metarange_id,
        branches_metarange=dump.branches_metarange_id,
        tags_metarange=dump.tags_metarange_id,
        server_csv=output_key(context, prepared.commits_location) if prepared else None,
        rules=answers.judged_by,
        protect_tags=header.protect_tags,
        holds=tuple(sorted({*header.holds, *context.policy.holds})),
        now=int(clock.now().timestamp() * _SECOND),
        margin=margin_of(context),
        ignored=header.ignore_commits,
    )


def rules_in_force(context: MarkContext) -> Rules | None:
    """lakeFS's rules; None where there are none and every commit counts. RefusedError where that is not wanted."""
    header = context.header
    rules = context.client.gc_rules(header.repository)
    if rules is not None:
        return Rules(rules.default_retention_days, dict(rules.branches))
    if header.rules == KEEP_ALL:
        return None
    raise RefusedError(
        f"Repository {header.repository} has no garbage collection rules, so nothing says which commits may go. "
        f"Set rules in lakeFS; or, to collect only what no commit refers to, say so: --rules {KEEP_ALL} "
        f"(or `rules: {KEEP_ALL}` in lakegc.yaml). {see(Symptom.NO_RULES)}"
    )


@dataclass(frozen=True)
class ListedRefs:
    """Parts of refs (REFS_SCHEMA), and the digest of their names and commits."""

    digest: str
    parts: list[Part]


def _refs(context: MarkContext, folder: str) -> tuple[str, list[Part]]:
    """All branches and tags, and the digest of the heads. Branches are listed until a listing equals an earlier one:
    a branch that is renamed between two pages would be missed. After three tries the union counts."""
    client, repository = context.client, context.header.repository
    tags = _write_refs(context, folder, "tag", client.tags(repository)).parts
    seen: set[str] = set()
    every: list[Part] = []
    for _ in range(_TRIES):
        listed = write_branches(context, folder)
        if listed.digest in seen:
            return listed.digest, [*tags, *listed.parts]
        seen.add(listed.digest)
        every += listed.parts
    return listed.digest, [*tags, *every]


def write_branches(context: MarkContext, folder: str) -> ListedRefs:
    """One listing of all branches. IncompleteError if there is none."""
    repository = context.header.repository
    listed = _write_refs(context, folder, "branch", context.client.branches(repository))
    if not listed.parts:
        raise IncompleteError(
            f"lakeFS lists no branch of {repository}, although it had one when the mark began. "
            "Without branches, nothing can be called garbage. Run this again, unless the repository was just deleted."
        )
    return listed


def heads_digest(refs: Iterable[Ref]) -> str:
    """The digest of names and commits, in their order."""
    found = hashlib.sha256()
    for ref in refs:
        found.update(_for_digest(ref))
    return found.hexdigest()


def _for_digest(ref: Ref) -> bytes:
    return repr((ref.name, ref.commit_id)).encode()


def _write_refs(context: MarkContext, folder: str, kind: str, refs: Iterable[Ref]) -> ListedRefs:
    writer = PartWriter(context.workspace, folder, REFS_SCHEMA)
    found = hashlib.sha256()
    for page in _batched(refs, 1000):
        rows = [{"kind": kind, "name": ref.name, "commit_id": ref.commit_id} for ref in page]
        for ref in page:
            found.update(_for_digest(ref))
        writer.write(pa.RecordBatch.from_pylist(rows, schema=REFS_SCHEMA))
    return ListedRefs(found.hexdigest(), writer.close())


def _batched(refs: Iterable[Ref], size: int) -> Iterator[tuple[Ref, ...]]:
    left = iter(refs)
    while page := tuple(itertools.islice(left, size)):
        yield page


def walk_until_known(run: Run, context: MarkContext, walk: Walk) -> list[Json]:
    """Walk; ask the server for commits that are newer than the dump; walk again, until every ref is known. `run` runs
    the walk as a task. Adds the commits to `walk.extra`, and ids that lakeFS does not know to `walk.missing`: an id
    that a later walk still calls unknown is an error.

    Each round asks for twice as many ancestors as the round before: a line of n new commits takes log n rounds.
    """
    depth = 1
    while True:
        results = run([walk], type(walk).run)
        unknown: list[str] = next((result["unknown"] for result in results if "unknown" in result), [])
        if not unknown:
            return results
        if len(walk.extra) + len(unknown) > MOST_FETCHED:
            raise IncompleteError(
                f"More than {MOST_FETCHED:,} commits of {context.header.repository} are missing from lakeFS's own "
                "dump of all commits. Nothing can be called garbage on such a graph. Run this again."
            )
        context.say(f"{Stage.RETENTION_COMMITS}: not in the dump: {counted(len(unknown), 'commit')}")
        for commit_id in unknown:
            _fetch_line(context, commit_id, depth, walk)
        depth *= 2


def fetch_commit(context: MarkContext, commit_id: str) -> Commit:
    """One commit, by its id. ServerError if lakeFS answers with another one, or knows none.

    Once a commit was cherry-picked, some servers answer 404 to its full id for minutes, from a spoilt cache entry; the
    beginning of the id finds it all the same.
    """
    if not graveler.is_id(commit_id):  # lakeFS would take it for the name of a ref
        raise LakeFSError(f"{commit_id!r} is no id of a commit", _NOT_FOUND, "no id")
    try:
        commit = context.client.commit(context.header.repository, commit_id)
    except LakeFSError as error:
        if error.status != _NOT_FOUND:
            raise
        commit = context.client.commit(context.header.repository, commit_id[:_SHORT_ID])
    if commit.id != commit_id:
        raise ServerError(f"lakeFS answered with commit {commit.id} when asked for {commit_id}. Run this again.")
    return commit


def _fetch_line(context: MarkContext, commit_id: str, depth: int, walk: Walk) -> None:
    """Ask for a commit and its main ancestors, `depth` commits in all, up to one that was fetched already, or that
    lakeFS does not know. LakeFSError if the walk already misses the commit: a ref needs it, and not only a child of
    it."""
    for _ in range(depth):
        if commit_id in walk.extra:
            return
        try:
            found = walk.extra[commit_id] = _row(fetch_commit(context, commit_id))
        except LakeFSError as error:
            # A 404 without a message may be a proxy's: it says nothing of the commit.
            if error.status != _NOT_FOUND or not error.message or commit_id in walk.missing:
                raise
            walk.missing.add(commit_id)
            return
        if not found["parents"]:
            return
        commit_id = main_parent(found["parents"], found["version"])


def _row(commit: Commit) -> Json:
    return {
        "commit_id": commit.id,
        "metarange_id": commit.metarange_id,
        # REST drops the fraction of the second. Rounded up, a commit is younger, and more is kept.
        "creation_us": (graveler.bounded(commit.creation_date) + 1) * _SECOND,
        "parents": list(commit.parents),
        "version": commit.version,
    }
