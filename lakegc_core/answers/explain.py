"""Explains why objects are kept, or gone: all versions that a path ever had, or one address, and what keeps them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.answers.asked import key_of, wish_of
from lakegc_core.answers.by_neighbours import referring
from lakegc_core.answers.holder_walk import MOST, HolderWalk
from lakegc_core.answers.in_backups import backups_of
from lakegc_core.answers.in_quarantine import copies_of
from lakegc_core.answers.places import HITS_SCHEMA, Search, Wish, hashes_of
from lakegc_core.answers.records import (
    RESTORED,
    SWEPT,
    UNREAD,
    Named,
    journals_of_all,
    origins_of,
    records,
    records_of,
    stored,
    told_by,
)
from lakegc_core.answers.scratch import scratch
from lakegc_core.answers.workers import InThisProcess, Little, MoreThanLittleError, SparkTasks, Workers
from lakegc_core.errors import SettingsError
from lakegc_core.marks.backups import SAVED
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer, layers_of, of_all
from lakegc_core.names import Json, Reason, Stage
from lakegc_core.past.origins import known_origins
from lakegc_core.references.commits.commit_walk import OTHERS, REFS
from lakegc_core.references.commits.known_walk import KnownCommits
from lakegc_core.references.commits.retained import walk_until_known
from lakegc_core.references.ranges.range_files import INDEX, INDEX_SCHEMA, RANGES, RANGES_SCHEMA
from lakegc_core.references.staged import were_listed
from lakegc_core.store.base import ObjectInfo
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.parts import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LITTLE = Little()
AT_ONCE = 2000
"""Addresses that are explained at once, at most: the driver holds what is told of so many."""

_NOT_SHOWN: Json = {"paths": (), "holders": (), "in_all": 0, "past": None}


@dataclass(frozen=True)
class Explained:
    """One object. Times are ISO 8601.

    `size`, `written`: as the store has it now; None if it is not there. `holders`: what keeps it, each with `name`,
    `why`, `commit`, `days` and `until` (None for as long as it stands); `holders_in_all`: how many there are. `past`:
    of what no holder keeps, the last commit that showed it, and what became of it. `staged`, `held`, `neighbour`:
    whether the mark found it so. `neighbours`: the repositories that refer to it, where their marks tell. `reason`,
    `since`: what the mark says of it where no commit keeps it. `kept_by_name`: whether its name keeps it however old it
    is. `swept`: what sweeps did with it, and `restored`: what restores did, undo and drills among them; the first one
    first. `quarantine`: of what is not there and was swept, the mark in whose quarantine a copy lies, and until when
    (`mark_id`, `until`); `backup`: the mark that has a backup, which may hold a copy, and its place (`mark_id`,
    `place`).
    """

    address: str
    paths: tuple[str, ...]
    size: int | None
    written: str | None
    holders: tuple[Mapping[str, Any], ...]
    holders_in_all: int
    past: Mapping[str, Any] | None
    staged: bool
    held: bool
    neighbour: bool
    neighbours: tuple[str, ...]
    reason: str | None
    since: str | None
    kept_by_name: bool
    swept: tuple[Mapping[str, Any], ...]
    restored: tuple[Mapping[str, Any], ...]
    quarantine: Mapping[str, Any] | None
    backup: Mapping[str, Any] | None


@dataclass(frozen=True)
class Explanation:
    """The answer from a mark. `objects_in_all`: how many objects the path had; `objects` are the newest of them."""

    repository: str
    mark_id: str
    at: str
    what: str
    objects: tuple[Explained, ...]
    objects_in_all: int

    def as_json(self) -> Json:
        """The answer as it is printed."""
        return asdict(self)


def explain(
    spark: Callable[[], SparkSession], context: MarkContext, what: str, *, little: Little = LITTLE
) -> Explanation:
    """Answer from a complete mark. `what`: `lakefs://repository/ref/path`, a path, or the address of an object.

    `spark` starts a session; it is called only where there is more than `little` to read.
    """
    wish = wish_of(context, what)
    found, count = _Question.of(context, wish).answer(spark, little)
    if wish.path is not None and not count and (key := key_of(context, what)):
        found, count = _Question.of(context, Wish(addresses=(key,))).answer(spark, little)
    return Explanation(
        repository=context.header.repository,
        mark_id=context.header.mark_id,
        at=clock.instant(context.header.started_at),
        what=what,
        objects=tuple(found),
        objects_in_all=count,
    )


def explain_each(
    spark: Callable[[], SparkSession], context: MarkContext, addresses: Sequence[str], *, little: Little = LITTLE
) -> Iterator[Explained]:
    """Answer for many addresses of objects at once, relative to the namespace: everything is read once for all.

    One answer for each, in their order. SettingsError for more than AT_ONCE addresses.
    """
    if len(addresses) > AT_ONCE:
        raise SettingsError(
            f"{len(addresses):,} addresses are too many for one answer; ask about at most {AT_ONCE:,} at once."
        )
    if not addresses:
        return iter(())
    found, _ = _Question.of(context, Wish(addresses=tuple(addresses))).answer(spark, little)
    return found


@dataclass(frozen=True)
class _Question:
    """A question, and the artifacts that answer it: `layers`, the mark and those that it rests on; `records`, events of
    addresses that marks and sweeps have on record."""

    context: MarkContext
    wish: Wish
    layers: Sequence[Layer]
    records: Sequence[Named]

    @classmethod
    def of(cls, context: MarkContext, wish: Wish) -> _Question:
        """Ask of the artifacts of a complete mark."""
        layers = layers_of(context.mark)
        return cls(context, wish, layers, records(context, layers[0]))

    @property
    def rows(self) -> int:
        """Rows of all artifacts that are read for the answer, but for commits."""
        stage = Stage.COMMITTED_ADDRESSES
        ranges = self.layers[0].dataset(stage, RANGES_SCHEMA, RANGES)
        index = of_all(self.layers, stage, INDEX_SCHEMA, INDEX)
        others = (known_origins(self.context), *(each.rows for each in self.records))
        return sum(dataset.rows for dataset in (ranges, index, *others))

    @property
    def commits(self) -> int:
        """The commits, branches and tags that the mark knew."""
        datasets = self.layers[0].manifests[Stage.RETENTION_COMMITS].datasets
        return sum(rows_of(datasets[name]) for name in (Stage.RETENTION_COMMITS, OTHERS, REFS))

    def answer(self, spark: Callable[[], SparkSession], little: Little) -> tuple[Iterator[Explained], int]:
        """The objects, and how many there are in all."""
        if self.rows <= little.rows and self.commits <= little.commits:
            try:
                return self._answer(InThisProcess(little.files), little.rows)
            except MoreThanLittleError as error:
                self.context.say(f"explain: {error} Spark reads them.")
        return self._answer(SparkTasks(spark()))

    def _answer(self, workers: Workers, most_rows: float = math.inf) -> tuple[Iterator[Explained], int]:
        told = self._told(workers)
        found, count = [each for each in told if "hash" in each], sum(each.get("objects", 0) for each in told)
        if self.wish.path is None:
            by_hash = {each["hash"]: each for each in found}
            named = zip(self.wish.addresses, self.wish.hashes.to_pylist(), strict=True)
            found = [{**by_hash.get(number, _NOT_SHOWN), "address": address} for address, number in named]
            count = len(found)
        addresses = [each["address"] for each in found]
        recorded, there = records_of(workers, self.records, addresses), stored(self.context, addresses)
        gone = [each for each in addresses if each not in there and not told_by(SWEPT, recorded.get(each, ()))]
        former = self._former(workers, gone, most_rows) if gone else {}
        for file in sorted({each["file"] for told in (recorded, former) for each in told.get(UNREAD, ())}):
            self.context.say(f"explain: {file} cannot be read: what only it tells is left out")
        listed = were_listed(self.context)
        own = {each: [*recorded.get(each, ()), *former.get(each, ())] for each in addresses}
        deleted = _deleted(own.items(), there)
        copies, saved = copies_of(self.context, deleted), backups_of(self.context, deleted)
        asked = [each for each in addresses if "neighbour" in {event["dataset"] for event in own[each]}]
        referring_to = referring(workers, self.context, asked, LITTLE.rows)
        return (
            _explained(
                each,
                own[each["address"]],
                there.get(each["address"]),
                (copies.get(each["address"]), saved.get(each["address"])),
                referring_to.get(each["address"], ()),
                branches_listed=listed,
                kept_by_name=self._kept_by_name(each["address"]),
            )
            for each in found
        ), count

    def _kept_by_name(self, address: str) -> bool:
        """True if an object of this name is kept however old it is."""
        unknown = self.context.namespace.unknown(pa.array([address], pa.string()))[0].as_py()
        return bool(unknown) and not self.context.header.collect_unknown_names

    def _former(self, workers: Workers, addresses: Sequence[str], most_rows: float) -> Mapping[str, Sequence[Json]]:
        """What sweeps and restores of retired marks did with addresses of which no journal of a mark that stands
        tells."""
        named = journals_of_all(self.context)
        if (rows := sum(each.rows.rows for each in named)) > most_rows:
            raise MoreThanLittleError(f"{rows:,} rows of journals are more than one process should read.")
        return records_of(workers, named, addresses)

    def _told(self, workers: Workers) -> list[Json]:
        """Walk over the commits, and return its results on the objects."""
        wish, context = self.wish, self.context
        with scratch(context, here=workers.here) as aside:
            search = Search(workers, context, self.layers, aside)
            hits = Dataset(HITS_SCHEMA)
            origins: list[Json] = []
            if wish.path is None:
                hits = search.indexed(wish)
                more, retained = search.retained(wish, hits)
                hits += more
                wish = _without(wish, retained)
                origins = origins_of(workers, known_origins(context), wish.addresses)
                wish = _without(wish, set(hashes_of([each["address"] for each in origins]).tolist()))
            if wish.path is not None or wish.addresses:
                hits += search.anywhere(wish)
            walk = HolderWalk(
                commits=KnownCommits.of(context),
                hits=hits,
                holding=search.holding(hits),
                origins=tuple(origins),
                most=MOST if wish.path is not None else 0,
            )
            return walk_until_known(workers.run, context, walk)


def _deleted(own: Iterable[tuple[str, Sequence[Json]]], there: Collection[str]) -> Mapping[str, set[str]]:
    """The addresses that sweeps dealt with and that are not `there`, each with the marks of these sweeps."""
    swept = {address: {each["mark_id"] for each in told_by(SWEPT, told)} for address, told in own}
    return {address: marks for address, marks in swept.items() if marks and address not in there}


def _without(wish: Wish, gone: Collection[int]) -> Wish:
    """The wish without the addresses of these hashes."""
    named = zip(wish.addresses, wish.hashes.to_pylist(), strict=True)
    return replace(wish, addresses=tuple(address for address, number in named if number not in gone))


def _explained(
    told: Json,
    own: Sequence[Json],
    there: ObjectInfo | None,
    copies: tuple[Json | None, Json | None],
    neighbours: tuple[str, ...],
    *,
    branches_listed: bool,
    kept_by_name: bool,
) -> Explained:
    """An object by what a walk tells of it, by its records, by what the store says, by its `copies` in quarantine and
    in a backup, and by the `neighbours` that refer to it. `branches_listed`: the mark listed what branches show.
    `kept_by_name`: of this object."""
    names = {each["dataset"] for each in own}
    judged = next((each for each in own if each["dataset"] in ("expired", "kept")), None)
    # The mark names as staged what the dump names, and what a branch showed when it was asked.
    staged = "staged" in names or (judged is not None and judged["reason"] == Reason.STAGED)
    # What a head shows is among what is staged then.
    shown = branches_listed and any(holder["why"] == "shows" for holder in told["holders"])
    return Explained(
        address=told["address"],
        paths=tuple(told["paths"]),
        size=there.size if there else None,
        written=clock.instant(there.last_modified.timestamp()) if there else None,
        holders=tuple(told["holders"]),
        holders_in_all=told["in_all"],
        past=told["past"],
        staged=staged and not shown,
        held="held" in names,
        neighbour="neighbour" in names,
        neighbours=neighbours,
        reason=judged["reason"] if judged else None,
        since=clock.instant(judged["since"]) if judged else None,
        kept_by_name=kept_by_name,
        swept=told_by(SWEPT, own),
        restored=tuple(each for each in told_by(RESTORED, own) if each["outcome"] in SAVED),
        quarantine=copies[0],
        backup=copies[1],
    )
