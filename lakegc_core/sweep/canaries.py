"""Canaries: objects that lakeFS shows while a sweep plans. None of them may be in the plan.

They are found through the object API, not in lakeFS's dumps and files, which marks and looks read: what is blind there
cannot blind them as well. Those that only the look can know are smuggled in among the candidates: what is staged, and
what is younger than the mark's commits. The look has to take them out. If one passes and lakeFS still shows it,
something is blind, and nothing is deleted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.clock import APART
from lakegc_core.errors import RefusedError, ServerError
from lakegc_core.lakefs.listed_objects import NOT_TEXT
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Stage, Symptom, see
from lakegc_core.policy.namespace import ADDRESS_FULL, Namespace
from lakegc_core.policy.xids import xid_times
from lakegc_core.spark.versions import frame_of
from lakegc_core.store.base import ObjectInfo, connect, heads
from lakegc_core.sweep.deletion import PLAN_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BRANCH, TAG, STAGED, NEW = "branch", "tag", "staged", "new"
"""The kinds: shown by a branch, shown by a tag, staged, and made after the mark had asked for commits."""
_REFS, _A_REF = 5, 4  # so many refs of a kind, and objects of each
_LONG_AGO = datetime.fromtimestamp(0, UTC)
T = TypeVar("T")


@dataclass(frozen=True)
class Canary:
    """An object that a ref showed under a path. `address`: its key; `info`: what the store says of it."""

    kind: str
    ref: str
    path: str
    address: str
    info: ObjectInfo

    @property
    def is_for_the_look(self) -> bool:
        """True if the mark cannot have known it as it is now, so that the look has to know it."""
        return self.kind in (STAGED, NEW)


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

    def smuggled(self, spark: SparkSession) -> DataFrame | None:
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
                    "since": _LONG_AGO,
                }
                for address, info in rows.items()
            ],
            schema=PLAN_SCHEMA,
        )
        return frame_of(spark, table)

    def check(self, planned: Collection[str]) -> None:
        """RefusedError if one of these addresses, which would be deleted, is one that lakeFS still shows."""
        for each in self.found:
            if each.address in planned and self._is_shown(each):
                way_out = f" Commit or reset {each.path!r}." if each.kind == STAGED else ""
                raise RefusedError(
                    f"lakeFS shows {each.path!r} on {each.ref}, and its object {each.address} would be deleted "
                    f"({each.kind}). Mark or look is blind.{way_out} Nothing more is deleted. "
                    f"{see(Symptom.SWEEP_IS_BLIND)}"
                )

    def _is_shown(self, canary: Canary) -> bool:
        shown = self.context.client.stat(self.context.header.repository, canary.ref, canary.path)
        return shown is not None and canary.address in _keys(self.context.namespace, [shown.physical_address])


def choose(context: MarkContext, paths: Iterable[tuple[str, str]]) -> Canaries:
    """Ask lakeFS for canaries of every kind that the repository has. `paths`: (branch, path) of objects on heads, as a
    mark saw them. Objects that lie elsewhere, or that the store lacks, are none."""
    branches = some(each.name for each in context.client.branches(context.header.repository))
    shown = [*_staged(context, branches), *_at(context, paths), *_on(context, BRANCH, branches), *_on_tags(context)]
    keys = _keys(context.namespace, [address for _, _, _, address in shown])
    each_once = {key: (*each[:3], key) for each, key in zip(reversed(shown), reversed(keys), strict=True) if key}
    named = list(each_once.values())
    said = heads(connect(context.data), [key for _, _, _, key in named])
    times = xid_times(pa.array([key for _, _, _, key in named], pa.string()))
    # By three clocks, each of which may be a little off. One that was far ahead once makes nothing new.
    new, now = context.mark.require(Stage.RETENTION_COMMITS).finished_at + APART, clock.now().timestamp()
    return Canaries(
        context,
        tuple(
            Canary(_kind(kind, at, info.last_modified.timestamp(), new, now), ref, path, key, info)
            for (kind, ref, path, key), info, at in zip(named, said, times, strict=True)
            if info is not None
        ),
    )


def _kind(kind: str, named: float, modified: float, after: float, now: float) -> str:
    is_new = min(named, modified) > after and not clock.is_to_come(max(named, modified), now)
    return NEW if is_new and kind != STAGED else kind


_Shown = tuple[str, str, str, str]
"""Kind, ref, path and physical address."""


def _keys(namespace: Namespace, addresses: Sequence[str]) -> list[str | None]:
    """The likely key of each address; None where it is none of lakeFS's data in this namespace."""
    found = namespace.protected_keys(
        pa.array(addresses, pa.string()), pa.repeat(pa.scalar(ADDRESS_FULL, pa.int8()), len(addresses))
    )
    found = found.filter(pc.and_(found["exact"], namespace.deletable(found["address"], unknown_names=False)))
    keys = dict(zip(found["index"].to_pylist(), found["address"].to_pylist(), strict=True))
    return [keys.get(number) for number in range(len(addresses))]


def _staged(context: MarkContext, branches: Iterable[str]) -> Iterator[_Shown]:
    for branch in branches:
        for path in if_told(partial(context.client.staged_paths, context.header.repository, branch, _A_REF)):
            yield from _shown(context, STAGED, branch, path)


def _at(context: MarkContext, paths: Iterable[tuple[str, str]]) -> Iterator[_Shown]:
    for branch, path in paths:
        yield from _shown(context, BRANCH, branch, path)


def _on_tags(context: MarkContext) -> Iterator[_Shown]:
    tags = context.client.tags(context.header.repository) if context.header.protect_tags else ()
    yield from _on(context, TAG, some(each.name for each in tags))


def _on(context: MarkContext, kind: str, refs: Iterable[str]) -> Iterator[_Shown]:
    """The first objects that refs show."""
    for ref in refs:
        for each in if_told(partial(context.client.first_objects, context.header.repository, ref, _A_REF)):
            if NOT_TEXT not in each.path:
                yield kind, ref, each.path, each.physical_address


def if_told(ask: Callable[[], list[T]]) -> list[T]:
    """The answer about a ref; nothing if the ref is gone meanwhile, or if lakeFS cannot tell at once."""
    try:
        return ask()
    except ServerError:
        return []


def _shown(context: MarkContext, kind: str, ref: str, path: str) -> Iterator[_Shown]:
    """What a ref shows under a path, if anything, and if lakeFS lets this key see it."""
    if NOT_TEXT in path:
        return
    try:
        found = context.client.stat(context.header.repository, ref, path)
    except ServerError:
        return
    if found is not None:
        yield kind, ref, path, found.physical_address


def some(names: Iterable[str]) -> list[str]:
    """A few of the names, each as likely as the others."""
    chosen: list[str] = []
    for number, name in enumerate(names):
        if number < _REFS:
            chosen.append(name)
        elif (place := random.randrange(number + 1)) < _REFS:
            chosen[place] = name
    return chosen
