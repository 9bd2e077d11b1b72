"""The other repositories of the same lakeFS: where their marks lie, and which of them is the newest complete one.

A neighbour may have imported objects of this repository by their full address, and only its own marks say so. Here is
found what marks there are; what they refer to is read by `references.of_neighbours`, what nobody knows is told by
the guard `neighbours`. A neighbour that cannot be read is a finding, never an error.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lakegc_core.clock import APART, is_to_come, minute, roughly
from lakegc_core.config.settings import NeighbourSettings
from lakegc_core.errors import LakegcError, StoreError
from lakegc_core.lakefs.models import Repository
from lakegc_core.marks.artifacts import HOME, Header, MarkArtifacts
from lakegc_core.marks.context import RepositoryContext, folder_beside
from lakegc_core.marks.shelf import marks
from lakegc_core.marks.workspaces import workspace_at
from lakegc_core.names import Json, Stage
from lakegc_core.policy.facts import ExpiredFacts, NeighbourFacts, read_facts
from lakegc_core.policy.namespace import Namespace
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.store.base import StoreConfig, heads
from lakegc_core.store.factory import config_for
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FEW = 64  # neighbours that are asked for in this process; more are by tasks
_TOGETHER = 16  # that one process asks for at a time
_PATIENCE = 90.0  # seconds in which at least one of them has to answer
_NAMED = 3  # in a warning
_WORDS = 60  # characters of an error


@dataclass(frozen=True)
class Neighbour:
    """Another repository, and where its marks lie; None, and the reason, where that cannot be said. Picklable."""

    name: str
    namespace: str
    created: int
    config: StoreConfig | None
    home: str = HOME
    problem: str = ""

    def artifacts(self, mark_id: str) -> MarkArtifacts:
        assert self.config is not None  # who has none has no marks
        return MarkArtifacts(self.config, mark_id, self.home)

    def owns(self, header: Header) -> bool:
        """True if a mark is of this repository as it is now, not of one that was re-created since."""
        place = (header.repository, header.storage_namespace, header.repository_created)
        return place == (self.name, self.namespace, self.created)


@dataclass(frozen=True)
class Sighting:
    """The newest complete mark of a neighbour; "" if it has none. `marked_at`: when that was begun, unix seconds.

    `refers`: how many addresses outside its namespace it noted, by authority. `problem`: why a newer one, or any,
    could not be read. `unread`: it has marks, none reads, and the store did not refuse them all.
    """

    name: str
    mark_id: str = ""
    marked_at: float = 0.0
    refers: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    unread: bool = False


def neighbours_of(context: RepositoryContext) -> list[Neighbour]:
    """Every other repository that lakeFS lists."""
    others = (each for each in context.client.repositories() if each.id != context.repository.id)
    return [_neighbour(context, each) for each in others]


Named = TypeVar("Named", Neighbour, Sighting)


def sightings(spark: SparkSession, neighbours: Sequence[Neighbour], now: float) -> list[Sighting]:
    """The newest complete mark of each neighbour, in the same order. `now`: unix seconds."""
    if len(neighbours) <= _FEW:
        found = sight_all(neighbours, now)
    else:
        width = 4 * spark_width(spark)
        shares = [tuple(neighbours[number::width]) for number in range(width)]
        results = run_tasks(spark, [share for share in shares if share], partial(_as_results, now=now))
        found = {each["name"]: Sighting(**each) for each in results}
    return [found[each.name] for each in neighbours]


def sight(neighbour: Neighbour, now: float, before: float = math.inf) -> Sighting:
    """The newest complete mark of a neighbour that was begun before a moment. Times are unix seconds.

    A mark that is still to come by `now` was made by a wrong clock. It is a problem unless the store says that it was
    begun before the newest of the others.
    """
    if neighbour.config is None:
        return Sighting(neighbour.name, problem=f"its store is not known: {neighbour.problem}")
    problems: dict[str, str] = {}
    refused = 0  # by the store: that says nothing of the marks
    found: list[tuple[float, MarkArtifacts]] = []
    dated_wrong: list[MarkArtifacts] = []
    try:
        ids = marks(neighbour.config, neighbour.home)
    except LakegcError as error:
        return Sighting(neighbour.name, problem=f"its marks cannot be listed: {in_short(error)}")
    for mark_id in ids:
        try:
            header = (mark := neighbour.artifacts(mark_id)).header()
        except LakegcError as error:
            problems[mark_id] = why_unread(error)
            refused += isinstance(error, StoreError)
            continue
        if header is None or not neighbour.owns(header) or header.started_at >= before:
            continue
        if is_to_come(header.started_at, now):
            problems[mark_id] = f"a clock that was wrong dated its mark {mark_id} {minute(header.started_at)}"
            dated_wrong.append(mark)
        else:
            found.append((header.started_at, mark))
    for started, mark in sorted(found, key=lambda each: each[0], reverse=True):
        try:
            last = mark.manifest(Stage.EXPIRED_ADDRESSES)
            refers = read_facts(ExpiredFacts, last.facts).refers_elsewhere if last else None
        except LakegcError as error:
            problems[mark.mark_id] = why_unread(error)
            refused += isinstance(error, StoreError)
            continue
        if refers is not None:
            # Whether one that cannot be read is newer only its id can tell.
            older = _begun_before(mark, started, dated_wrong)
            newer = [problem for each, problem in problems.items() if each > mark.mark_id and each not in older]
            return Sighting(neighbour.name, mark.mark_id, started, dict(refers), newer[0] if newer else "")
    problem = next(iter(problems.values()), "")
    return Sighting(neighbour.name, problem=problem, unread=len(problems) > refused)


def not_ignored(found: Iterable[Named], wanted: NeighbourSettings) -> list[Named]:
    """Those neighbours, or sightings of them, that lakegc.yaml does not say to ignore."""
    return [each for each in found if not any(fnmatch.fnmatchcase(each.name, pattern) for pattern in wanted.ignore)]


def what_is_known(
    found: Sequence[Sighting], wanted: NeighbourSettings, now: float, addresses: int = 0
) -> NeighbourFacts:
    """The facts that the guard judges by: the number of neighbours, and those of which too little is known.

    `addresses`: the number of addresses here to which they refer, if that was read.
    """
    counted = sorted(not_ignored(found, wanted), key=lambda each: each.name)
    told = [(each.name, why) for each in counted if (why := _unknown(each, wanted, now))]
    facts = NeighbourFacts(len(found), len(told), tuple(told[:_NAMED]), wanted.within.total_seconds(), addresses)
    names = tuple(each.name for each in counted if each.unread)
    return replace(facts, unread=names, ignored=len(found) - len(counted))


def why_unread(error: Exception) -> str:
    """The reason why the newest mark of a neighbour is no help."""
    return f"its newest mark cannot be read: {in_short(error)}"


def in_short(error: Exception) -> str:
    """The beginning of what an error says."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _WORDS else f"{text[:_WORDS]} …"


def _begun_before(mark: MarkArtifacts, started: float, others: Sequence[MarkArtifacts]) -> set[str]:
    """The ids of those marks that were begun before one, by the store's clock, which dated the headers of all. A store
    that does not say says of none, and so does one to which the marks were copied later: it dates the copies.
    `started`: when the mark was begun by its own clock, unix seconds."""
    headers = [f"{each.folder}/mark.json" for each in (mark, *others)]
    try:
        first, *rest = heads(mark.store, headers) if others else (None,)
    except LakegcError:
        return set()
    if first is None or abs(first.last_modified.timestamp() - started) > APART:
        return set()
    dated = [(each.mark_id, info) for each, info in zip(others, rest, strict=True) if info]
    return {mark_id for mark_id, info in dated if info.last_modified < first.last_modified}


def _unknown(found: Sighting, wanted: NeighbourSettings, now: float) -> str:
    """The reason why too little is known of a neighbour; "" if enough is."""
    if found.problem:
        return found.problem
    if not found.mark_id:
        return "no complete mark"
    age = now - found.marked_at
    return f"last marked {roughly(age)} ago" if age > wanted.within.total_seconds() else ""


def _neighbour(context: RepositoryContext, other: Repository) -> Neighbour:
    settings = context.settings
    told = (other.id, other.storage_namespace, other.creation_date)
    try:
        policy = settings.policy_for(other.id)
        if policy.workspace:
            return Neighbour(*told, *_at_root(workspace_at(policy.workspace, settings), other.id))
        namespace = Namespace(other.storage_namespace)
        config = config_for(namespace, settings, local_folder=folder_beside(context, namespace))
    except LakegcError as error:
        return Neighbour(*told, config=None, problem=in_short(error))
    return Neighbour(*told, *_at_root(config, HOME))


def _at_root(config: StoreConfig, home: str) -> tuple[StoreConfig, str]:
    """The same place by the root of its bucket: thousands of namespaces then share a few clients."""
    prefix = getattr(config, "prefix", "")
    if not prefix:
        return config, home
    shared: Any = config
    return replace(shared, prefix=""), f"{prefix}/{home}"


def sight_all(neighbours: Sequence[Neighbour], now: float) -> dict[str, Sighting]:
    """The sighting of each, by name. A store that does not answer is not waited for for ever. `now`: unix seconds."""
    pool = ThreadPoolExecutor(_TOGETHER)
    try:
        waiting = {pool.submit(sight, each, now): each.name for each in neighbours}
        found: dict[str, Sighting] = {}
        while waiting:
            done, _ = wait(waiting, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
            if not done:
                problem = f"its store did not answer within {_PATIENCE:.0f} s"
                return found | {name: Sighting(name, problem=problem) for name in waiting.values()}
            for future in done:
                found[waiting.pop(future)] = future.result()
        return found
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _as_results(share: Sequence[Neighbour], now: float) -> Iterator[Json]:
    for each in sight_all(share, now).values():
        yield asdict(each)
