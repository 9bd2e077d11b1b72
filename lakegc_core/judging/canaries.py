"""Canaries of a mark: objects that its heads, tags and held commits show, smuggled in among what lies there.

The mark's list of refs says which commits must count. What these show is asked of lakeFS's object API, and not read in
the metaranges, ranges and indexes that the subtraction reads. The subtraction has to take out each of them. If one is
left, the mark is blind and fails, even if age or name would keep that object: the same blindness misses others.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import IncompleteError, MarkError, ServerError
from lakegc_core.inventory.carried import OBJECTS_SCHEMA, unit_of
from lakegc_core.judging.summary import CANARIES, Findings
from lakegc_core.lakefs.listed_objects import NOT_TEXT
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Stage, Symptom, see
from lakegc_core.policy.holds import COMMIT, TAG, matching_names, patterns_of
from lakegc_core.policy.namespace import ADDRESS_FULL, Namespace
from lakegc_core.references.commits.commit_walk import REFS, REFS_SCHEMA
from lakegc_core.store.base import ObjectInfo, connect, heads
from lakegc_core.tables.dataset import Dataset

BRANCH, HELD = "branch", "held"
"""Kinds beside TAG: shown by a branch, by a tag that protects, and by a commit that a hold names."""
REFS_OF_A_KIND, OBJECTS_OF_A_REF = 5, 4
LONG_AGO = datetime.fromtimestamp(0, UTC)
T = TypeVar("T")


class Shown(NamedTuple):
    """An object as a ref shows it. `address`: as lakeFS tells it, a full URI."""

    kind: str
    repository: str
    ref: str
    path: str
    address: str


@dataclass(frozen=True)
class Canaries:
    """The canaries of one mark, by key; `objects`: the same as rows of a listing (OBJECTS_SCHEMA)."""

    found: Mapping[str, Shown] = field(default_factory=dict)
    objects: Dataset = field(default_factory=lambda: Dataset(OBJECTS_SCHEMA))

    @property
    def kinds(self) -> Mapping[str, int]:
        """The number of canaries of each kind."""
        return dict(sorted(Counter(each.kind for each in self.found.values()).items()))

    def check(self, findings: Findings) -> None:
        """MarkError if the subtraction left one of them in."""
        for dataset in (findings.expired, findings.kept):
            for source in (each for each in dataset.sources if each.part.sums.get(CANARIES)):
                for key in Dataset(dataset.schema, (source,)).values("address"):
                    if key in self.found:
                        raise MarkError(self._told(key))

    def _told(self, key: str) -> str:
        shown = self.found[key]
        return (
            f"Commit {shown.ref} counts ({shown.kind}), and lakeFS shows {shown.path!r} there. To this mark nothing "
            f"refers to its object {key}: the mark is blind, and fails. {see(Symptom.MARK_IS_BLIND)}"
        )


def smuggle(context: MarkContext, own: Layer) -> Canaries:
    """Ask lakeFS for canaries of every kind that the mark `own` has, and write them as rows of a listing; none at a
    level without samples. Objects that lie elsewhere are none."""
    if not context.level.samples:
        return Canaries()
    shown = [each for kind, refs in _refs(context, own).items() for each in on_refs(context, kind, some(refs))]
    keys = keys_of(context.namespace, [each.address for each in shown])
    named = {key: each for key, each in zip(reversed(keys), reversed(shown), strict=True) if key}
    # A mark's role may lack the right to ask whether they lie there. But on local, lists leave out what follows a
    # "?": an object may seem to be shown that is another one.
    found = {key: named[key] for key in lying(context, list(named))} if context.namespace.is_local else named
    if not found:
        return Canaries()
    addresses = pa.array(sorted(found), pa.string())
    columns = {
        "address": addresses,
        "size": pa.repeat(pa.scalar(0, pa.int64()), len(addresses)),
        "last_modified": pa.array([LONG_AGO] * len(addresses), OBJECTS_SCHEMA.field("last_modified").type),
        "etag": pa.nulls(len(addresses), pa.string()),
        "unit": unit_of(addresses),
        "foreign": pa.repeat(False, len(addresses)),
    }
    # No manifest names this dataset: what is smuggled in is no part of the mark.
    out = context.mark.out(Stage.EXPIRED_ADDRESSES)
    rows = pa.RecordBatch.from_pydict(columns, OBJECTS_SCHEMA)
    return Canaries(found, out.written(CANARIES, rows, OBJECTS_SCHEMA))


def _refs(context: MarkContext, own: Layer) -> Mapping[str, Iterator[str]]:
    """The commits that must count, by kind."""
    header, refs = context.header, own.dataset(Stage.RETENTION_COMMITS, REFS_SCHEMA, REFS)

    def of(kind: str, patterns: Sequence[str] = ("*",)) -> Iterator[str]:
        for rows in refs.batches(*REFS_SCHEMA.names):
            rows = rows.filter(pc.equal(rows["kind"], kind))
            named = [matching_names(each, rows["name"].to_pylist()) for each in patterns]
            for number, commit_id in enumerate(rows["commit_id"].to_pylist()):
                # One that lakegc.yaml says to ignore has no content for the mark.
                if any(each[number] for each in named) and commit_id not in header.ignore_commits:
                    yield commit_id

    def held() -> Iterator[str]:
        yield from held_commits(context, header.holds)
        if not header.protect_tags:
            yield from of(TAG, patterns_of(header.holds, TAG))

    return {BRANCH: of(BRANCH), TAG: of(TAG) if header.protect_tags else iter(()), HELD: held()}


def held_commits(context: MarkContext, holds: Iterable[str]) -> Iterator[str]:
    """The ids of commits that holds name, and that count. A hold's text is resolved to an id first: used as a
    ref, it could name a branch."""
    for written in patterns_of(holds, COMMIT):
        try:
            commit_id = context.client.commit(context.header.repository, written).id
        except ServerError:  # of one that lakeFS does not know, the guard over holds tells
            continue
        if commit_id not in context.header.ignore_commits:
            yield commit_id


def lying(context: MarkContext, keys: Sequence[str]) -> dict[str, ObjectInfo]:
    """The objects under those keys where one lies."""
    return {key: each for key, each in zip(keys, heads(connect(context.data), keys), strict=True) if each is not None}


def on_refs(context: MarkContext, kind: str, refs: Iterable[str]) -> Iterator[Shown]:
    """The first objects that refs show, as lakeFS's object API tells."""
    repository = context.header.repository
    for ref in refs:
        for each in if_told(partial(context.client.first_objects, repository, ref, OBJECTS_OF_A_REF)):
            if NOT_TEXT not in each.path:
                yield Shown(kind, repository, ref, each.path, each.physical_address)


def keys_of(namespace: Namespace, addresses: Sequence[str]) -> list[str | None]:
    """The key of each address as lakeFS shows it; None where it is none of lakeFS's data in this namespace, or not
    spelled as the key is: for a key with a `?`, lakeFS shows `data/a/b?x`, which read as a URL names `data/a/b`."""
    found = namespace.protected_keys(
        pa.array(addresses, pa.string()), pa.repeat(pa.scalar(ADDRESS_FULL, pa.int8()), len(addresses))
    )
    found = found.filter(pc.and_(found["exact"], namespace.deletable(found["address"], unknown_names=False)))
    keys = dict(zip(found["index"].to_pylist(), found["address"].to_pylist(), strict=True))
    told = [keys.get(number) for number in range(len(addresses))]
    return [key if key and text.endswith(f"/{key}") else None for key, text in zip(told, addresses, strict=True)]


def if_told(ask: Callable[[], list[T]]) -> list[T]:
    """The answer about a ref; nothing if the ref is gone meanwhile, or if lakeFS cannot tell at once."""
    try:
        return ask()
    except (ServerError, IncompleteError):
        return []


def some(choices: Iterable[T]) -> list[T]:
    """A few of them, each as likely as the others."""
    chosen: list[T] = []
    for number, each in enumerate(choices):
        if number < REFS_OF_A_KIND:
            chosen.append(each)
        elif (place := random.randrange(number + 1)) < REFS_OF_A_KIND:
            chosen[place] = each
    return chosen
