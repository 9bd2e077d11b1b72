"""Canaries: objects that lakeFS shows while a sweep plans. None of them may be in the plan.

They are found through the object API, not in lakeFS's dumps and files, which marks and looks read: what is blind there
cannot blind them as well. Those that the look itself has to find are smuggled in among the candidates: what is staged,
what is younger than the mark's commits, what a hold by path keeps of commits that are not retained, and what another
repository refers to. The look has to take them out. If one passes and lakeFS still shows it, something is blind, and
nothing is deleted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.clock import APART
from lakegc_core.errors import LakegcError, RefusedError, ServerError
from lakegc_core.judging.canaries import (
    BRANCH,
    HELD,
    LONG_AGO,
    OBJECTS_OF_A_REF,
    Shown,
    held_commits,
    if_told,
    keys_of,
    lying,
    on_refs,
    some,
)
from lakegc_core.lakefs.listed_objects import NOT_TEXT
from lakegc_core.lakefs.models import Ref
from lakegc_core.lakefs.named import ref_of_tag
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import may_refer
from lakegc_core.marks.neighbours import neighbours_of, not_ignored, sight_all
from lakegc_core.names import Stage, Symptom, see
from lakegc_core.policy.holds import PATH, TAG, PathGlobs, fixed_prefix, patterns_of
from lakegc_core.policy.xids import xid_times
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS, REFS, REFS_SCHEMA
from lakegc_core.spark.tasks import Few, Mapped
from lakegc_core.store.base import ObjectInfo
from lakegc_core.sweep.deletion import PLAN_SCHEMA
from lakegc_core.sweep.look import Look
from lakegc_core.tables.parts import read_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAGED, NEW, HELD_PATH, NEIGHBOUR = "staged", "new", "held path", "neighbour"
"""More kinds: staged; made after the mark had asked for commits; shown at a held path by a commit that is not retained;
shown by a ref that another repository's newest mark saw, and that counts there."""


@dataclass(frozen=True)
class Canary:
    """An object that a ref of a repository showed under a path. `address`: its key; `info`: what the store says.
    `of_tag`: the ref stands for a tag."""

    kind: str
    repository: str
    ref: str
    path: str
    address: str
    info: ObjectInfo
    of_tag: bool

    @property
    def is_for_the_look(self) -> bool:
        """True if the look finds it, whatever the mark knew of it. What is in ranges that the mark read, no look reads
        again."""
        return self.kind in (STAGED, NEW, HELD_PATH, NEIGHBOUR)


@dataclass(frozen=True)
class Canaries:
    """The canaries of one plan."""

    context: MarkContext
    found: tuple[Canary, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """The keys of all."""
        return tuple(sorted({each.address for each in self.found}))

    @property
    def kinds(self) -> Mapping[str, int]:
        """The number of canaries of each kind."""
        return dict(sorted(Counter(each.kind for each in self.found).items()))

    def smuggled(self, spark: SparkSession) -> Mapped | None:
        """Those that the look has to know, as candidates that have waited long enough (PLAN_SCHEMA); None: there are
        none."""
        rows = {each.address: each.info for each in self.found if each.is_for_the_look}
        if not rows:
            return None
        table = pa.Table.from_pylist(
            [
                {
                    "address": address,
                    "size": info.size,
                    "last_modified": info.last_modified,
                    "etag": info.etag,
                    "since": LONG_AGO,
                }
                for address, info in rows.items()
            ],
            schema=PLAN_SCHEMA,
        )
        return Mapped(Few(spark, lambda: iter(table.to_batches())), PLAN_SCHEMA)

    def check(self, planned: Collection[str], smuggled: Collection[str], look: Look) -> None:
        """RefusedError if one of these addresses, which would be deleted, is one that lakeFS still shows. `smuggled`:
        those that would be if they were candidates of the mark."""
        for each in self.found:
            passed = each.address in planned or (each.address in smuggled and not self._is_beyond(each, look))
            if passed and self._is_shown(each):
                way_out = f" Commit or reset {each.path!r}." if each.kind == STAGED else ""
                raise RefusedError(
                    f"lakeFS shows {each.path!r} on {each.ref} of {each.repository}, and its object {each.address} "
                    f"would be deleted ({each.kind}). Mark or look is blind.{way_out} Nothing more is deleted. "
                    f"{see(Symptom.SWEEP_IS_BLIND)}"
                )

    def _is_shown(self, canary: Canary) -> bool:
        shown = self.context.client.stat(canary.repository, canary.ref, canary.path)
        if shown is None or canary.address not in keys_of(self.context.namespace, [shown.physical_address]):
            return False
        # The commit by which a tag was asked for shows it for ever.
        return not canary.of_tag or any(ref_of_tag(each) == canary.ref for each in _tags(self.context))

    def _is_beyond(self, canary: Canary, look: Look) -> bool:
        """True if the look need not have found it: its commit came to be retained, and the mark may have read those
        ranges; or the mark of its neighbour cannot be read, which is told elsewhere."""
        if canary.kind == HELD_PATH:
            return canary.ref in look.commits.retained.values("commit_id")
        return canary.kind == NEIGHBOUR and canary.repository in look.neighbours.unread


def choose(context: MarkContext, paths: Iterable[tuple[str, str]]) -> Canaries:
    """Ask lakeFS for canaries of every kind that the repository has. `paths`: (branch, path) of objects on heads, as a
    mark saw them. Objects that lie elsewhere, or that the store lacks, are none."""
    branches = some(each.name for each in context.client.branches(context.header.repository))
    shown = [
        *_staged(context, branches),
        *_at_held_paths(context),
        *_of_neighbours(context),
        *_at(context, paths),
        *on_refs(context, BRANCH, branches),
        *on_refs(context, HELD, some(held_commits(context, _holds(context)))),
        *_on_tags(context),
    ]
    keys = keys_of(context.namespace, [each.address for each in shown])
    # The first kind of an object counts.
    named = {key: each for each, key in zip(reversed(shown), reversed(keys), strict=True) if key}
    told = lying(context, list(named))
    times = xid_times(pa.array(told, pa.string()))
    # By three clocks, each of which may be a little off. One that was far ahead once makes nothing new.
    new, now = context.mark.require(Stage.RETENTION_COMMITS).finished_at + APART, clock.now().timestamp()
    return Canaries(
        context,
        tuple(
            Canary(
                _kind(named[key].kind, at, info.last_modified.timestamp(), new, now),
                *named[key][1:4],
                key,
                info,
                of_tag=named[key].kind == TAG,
            )
            for (key, info), at in zip(told.items(), times, strict=True)
        ),
    )


def _kind(kind: str, named: float, modified: float, after: float, now: float) -> str:
    is_new = min(named, modified) > after and not clock.is_to_come(max(named, modified), now)
    return NEW if is_new and kind in (BRANCH, TAG) else kind


def _holds(context: MarkContext) -> set[str]:
    return {*context.header.holds, *context.policy.holds}


def _staged(context: MarkContext, branches: Iterable[str]) -> Iterator[Shown]:
    client, repository = context.client, context.header.repository
    for branch in branches:
        for path in if_told(partial(client.staged_paths, repository, branch, OBJECTS_OF_A_REF, attempts=1)):
            yield from _shown(context, STAGED, branch, path)


def _at(context: MarkContext, paths: Iterable[tuple[str, str]]) -> Iterator[Shown]:
    for branch, path in paths:
        yield from _shown(context, BRANCH, branch, path)


def _on_tags(context: MarkContext) -> Iterator[Shown]:
    tags = _tags(context) if context.header.protect_tags else ()
    yield from on_refs(context, TAG, some(ref_of_tag(each) for each in tags))


def _tags(context: MarkContext) -> Iterator[Ref]:
    return context.client.tags(context.header.repository)


def _at_held_paths(context: MarkContext) -> Iterator[Shown]:
    """What commits that the mark does not retain show at held paths: a few of the commits, a held path of each."""
    globs = patterns_of(_holds(context), PATH)
    if not globs:
        return
    repository = context.header.repository
    for commit_id in some(_not_retained(context)):
        glob = random.choice(globs)
        prefix = fixed_prefix(glob).decode()
        listing = context.client.objects(repository, commit_id, prefix)
        page = if_told(partial(next, listing, []))
        is_held = PathGlobs((glob,)).any(pa.array([each.path for each in page], pa.string())).to_pylist()
        held = [each for each, here in zip(page, is_held, strict=True) if here and NOT_TEXT not in each.path]
        for each in random.sample(held, min(OBJECTS_OF_A_REF, len(held))):
            yield Shown(HELD_PATH, repository, commit_id, each.path, each.physical_address)


def _not_retained(context: MarkContext) -> Iterator[str]:
    """The commits of a part, as far as one reading of it goes, that the mark does not retain, and that have content."""
    sources = context.mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA, OTHERS).sources
    for source in random.sample(sources, min(1, len(sources))):
        rows = next(read_part(source.config, source.folder, source.part, ["commit_id", "metarange_id"]), None)
        for commit_id, metarange_id in zip(*(rows.to_pydict().values() if rows else ((), ())), strict=True):
            if metarange_id and commit_id not in context.header.ignore_commits:
                yield commit_id


def _of_neighbours(context: MarkContext) -> Iterator[Shown]:
    """What other repositories show of this one, on refs that their newest marks saw and that count there: of what they
    import later, no look can know. Not of those that lakegc.yaml says to ignore."""
    near = {each.name: each for each in some(not_ignored(neighbours_of(context), context.settings.neighbours))}
    for name, seen in sight_all(list(near.values()), clock.now().timestamp()).items():
        if not (seen.mark_id and may_refer(context.namespace, seen.refers)):
            continue
        try:
            commit_ids = some(_that_count(near[name].artifacts(seen.mark_id)))
        except LakegcError:  # the guard over neighbours tells of it
            continue
        for commit_id in commit_ids:
            page = if_told(partial(next, context.client.objects(name, commit_id), []))
            keys = keys_of(context.namespace, [each.physical_address for each in page])
            here = [each for each, key in zip(page, keys, strict=True) if key and NOT_TEXT not in each.path]
            for each in random.sample(here, min(OBJECTS_OF_A_REF, len(here))):
                yield Shown(NEIGHBOUR, name, commit_id, each.path, each.physical_address)


def _that_count(mark: MarkArtifacts) -> Iterator[str]:
    """The commits of the refs that a mark saw, as far as they count for it."""
    header, refs = mark.header(), mark.dataset(Stage.RETENTION_COMMITS, REFS_SCHEMA, REFS)
    kinds = (BRANCH, TAG) if header is not None and header.protect_tags else (BRANCH,)
    for ref in refs.dicts("kind", "commit_id"):
        if ref["kind"] in kinds and header is not None and ref["commit_id"] not in header.ignore_commits:
            yield ref["commit_id"]


def _shown(context: MarkContext, kind: str, ref: str, path: str) -> Iterator[Shown]:
    """What a ref shows under a path, if anything, and if lakeFS lets this key see it."""
    if NOT_TEXT in path:
        return
    try:
        found = context.client.stat(context.header.repository, ref, path)
    except ServerError:
        return
    if found is not None:
        yield Shown(kind, context.header.repository, ref, path, found.physical_address)
