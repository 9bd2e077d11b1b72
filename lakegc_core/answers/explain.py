"""Why an object is kept, or gone: every version that a path ever had, or one address, and all that keeps each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.answers.places import (
    HITS,
    HITS_SCHEMA,
    HOLDING,
    HOLDING_SCHEMA,
    Wish,
    hits_anywhere,
    holding_of,
    origin_of,
    records_of,
    retained_hits,
    stored,
)
from lakegc_core.answers.scratch import Scratch, scratch
from lakegc_core.errors import SettingsError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import layers_of
from lakegc_core.names import Reason
from lakegc_core.policy.holders import Holder, Holders, Past
from lakegc_core.policy.scenarios import Known
from lakegc_core.spark.session import Json, runs_here
from lakegc_core.stages.retention_commits.known_walk import KnowingWalk, Place
from lakegc_core.stages.retention_commits.stage import walk_until_known
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.parts import Part, read_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = 50
"""Objects of one path that are explained, newest first, and holders that are named of each."""


@dataclass(frozen=True)
class Explained:
    """One object. Times are ISO 8601.

    `size`, `written`: as the store has it now; None if it is not there. `holders`: what keeps it, each with `name`,
    `why`, `commit`, `days` and `until` (None for as long as it stands); `holders_in_all`: how many there are. `past`:
    of what no holder keeps, the last commit that showed it, and what became of it. `staged`, `held`, `neighbour`:
    whether the mark found it so. `reason`, `since`: what the mark says of it where no commit keeps it. `swept`: what
    sweeps did with it.
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
    reason: str | None
    since: str | None
    swept: tuple[Mapping[str, Any], ...]


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


def explain(spark: SparkSession, context: MarkContext, what: str) -> Explanation:
    """Answer from a complete mark. `what`: `lakefs://repository/ref/path`, a path, or the address of an object."""
    wish = wish_of(context, what)
    layers = layers_of(context.mark)
    with scratch(context, here=runs_here(spark)) as aside:
        hits = retained_hits(spark, context, layers, wish, aside) if wish.address is not None else []
        origin = origin_of(spark, layers[-1], wish) if wish.address is not None and not hits else None
        if not hits and origin is None:
            hits = hits_anywhere(spark, context, layers, wish, aside)
        holding = holding_of(spark, context, hits, aside)
        place = Place.of(context)
        walk = _HolderWalk(place=place, aside=aside, hits=tuple(hits), holding=tuple(holding), origin=origin)
        told = walk_until_known(spark, context, walk)
    found = [each for each in told if "hash" in each]
    if wish.address is not None and not found:
        found = [{"hash": wish.hash, "address": None, "paths": [], "holders": [], "past": None, "in_all": 0}]
    for each in found:
        each["address"] = each["address"] or wish.address
    records = records_of(spark, context, layers[0], [each["address"] for each in found])
    return Explanation(
        repository=context.header.repository,
        mark_id=context.header.mark_id,
        at=clock.instant(context.header.started_at),
        what=what,
        objects=tuple(_explained(context, each, records) for each in found),
        objects_in_all=next((each["objects"] for each in told if "objects" in each), len(found)),
    )


def wish_of(context: MarkContext, what: str) -> Wish:
    """What is asked for. SettingsError for another repository, and for a ref or a path that lakeFS does not know."""
    name, namespace = context.repository.id, context.namespace
    if what.startswith("lakefs://"):
        repository, _, rest = what.removeprefix("lakefs://").partition("/")
        ref, _, path = rest.partition("/")
        if repository != name or not ref or not path:
            raise SettingsError(f"{what} names no object of repository {name}; write lakefs://{name}/REF/PATH.")
        stat = context.client.stat(name, ref, path)
        if stat is None:
            raise SettingsError(f"lakeFS shows nothing at {what}. A path alone asks for all versions of it: {path}")
        return Wish(None, _relative(context, stat.physical_address))
    if "://" in what:
        return Wish(None, _relative(context, what))
    if namespace.deletable(pa.array([what]), unknown_names=False)[0].as_py():
        return Wish(None, what)
    return Wish(what, None)


def _relative(context: MarkContext, physical: str) -> str:
    """An address as lakeFS gives it, relative to the namespace."""
    keys = context.namespace.protected_keys(pa.array([physical]), pa.array([2], pa.int8()))
    inside = keys.filter(keys["exact"])["address"].to_pylist()
    if not inside:
        raise SettingsError(f"{physical} does not lie in {context.namespace.uri}: lakegc never deletes it.")
    return str(inside[0])


@dataclass(frozen=True, kw_only=True)
class _HolderWalk(KnowingWalk):
    """Tells for every object among the hits what keeps it, or what its past is; newest first."""

    aside: Scratch
    hits: tuple[Part, ...]
    holding: tuple[Part, ...]
    origin: Json | None  # of the one object that is asked for, where a mark knows it

    def decide(self, known: Known) -> Iterator[Json]:
        objects = self._objects()
        rows: dict[str, list[int]] = {}
        for row, metarange in enumerate(known.graph.metarange_ids):
            rows.setdefault(metarange, []).append(row)
        commits: dict[int, set[int]] = {}
        for each in self._read(HOLDING, self.holding, HOLDING_SCHEMA):
            commits.setdefault(each["hash"], set()).update(rows.get(each["metarange_id"], ()))
        if self.origin is not None:
            number = int(hash_strings(pa.array([self.origin["address"]]))[0])
            objects[number] = {"address": self.origin["address"], "paths": {self.origin["path"]}}
            commits[number] = {known.graph.commit_ids.index(self.origin["commit_id"])}
        created = known.graph.created
        newest = {number: max((created[row] for row in commits.get(number, ())), default=0) for number in objects}
        yield {"objects": len(objects)}
        tell = Holders(known)
        for number in sorted(objects, key=lambda each: -newest[each])[:MOST]:
            yield _told(known, tell, {"hash": number, **objects[number]}, commits.get(number, set()))

    def _objects(self) -> dict[int, dict[str, Any]]:
        """Address and paths by hash."""
        found: dict[int, dict[str, Any]] = {}
        for each in self._read(HITS, self.hits, HITS_SCHEMA):
            own = found.setdefault(each["hash"], {"address": None, "paths": set()})
            own["address"] = own["address"] or each["address"]
            if each["path"] is not None:
                own["paths"].add(each["path"])
        return found

    def _read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> Iterator[Json]:
        for part in parts:
            for batch in read_part(self.aside.config, f"{self.aside.folder}/{name}", part, schema.names):
                yield from batch.to_pylist()


def _told(known: Known, tell: Holders, own: Json, rows: set[int]) -> Json:
    """What the driver is told of an object that some commits show."""
    kept = rows & set(known.kept)
    holders = sorted(tell.of(kept), key=lambda each: (each.until is not None, -(each.until or 0), each.name))
    past = None if kept else tell.past(rows)
    return {
        "hash": own["hash"],
        "address": own["address"],
        "paths": sorted(own["paths"]),
        "holders": [_holder(known, holder) for holder in holders[:MOST]],
        "in_all": len(holders),
        "past": None if past is None else _past(known, past),
    }


def _holder(known: Known, holder: Holder) -> Json:
    return {
        "name": holder.name,
        "why": holder.why,
        "commit": known.graph.commit_ids[holder.row],
        "days": holder.days,
        "until": None if holder.until is None else clock.instant(holder.until / 1e6),
    }


def _past(known: Known, past: Past) -> Json:
    created = known.graph.created
    return {
        "commit": known.graph.commit_ids[past.row],
        "committed": clock.instant(created[past.row] / 1e6),
        "cause": past.cause,
        "by": known.graph.commit_ids[past.by] if past.by >= 0 else None,
        "by_committed": clock.instant(created[past.by] / 1e6) if past.by >= 0 else None,
        "branch": past.branch or None,
        "days": past.days,
    }


def _explained(context: MarkContext, told: Json, records: Sequence[Json]) -> Explained:
    own = [each for each in records if each["address"] == told["address"]]
    names = {each["dataset"] for each in own}
    judged = next((each for each in own if each["dataset"] in ("expired", "kept")), None)
    there = stored(context, told["address"])
    # The mark names as staged what the dump names, and what a branch showed when it was asked.
    staged = "staged" in names or (judged is not None and judged["reason"] == Reason.STAGED)
    # On `local` every branch is listed, and what a head shows is among what is staged.
    shown = context.namespace.is_local and any(holder["why"] == "shows" for holder in told["holders"])
    return Explained(
        address=told["address"],
        paths=tuple(told["paths"]),
        size=there["size"] if there else None,
        written=clock.instant(there["last_modified"]) if there else None,
        holders=tuple(told["holders"]),
        holders_in_all=told["in_all"],
        past=told["past"],
        staged=staged and not shown,
        held="held" in names,
        neighbour="neighbour" in names,
        reason=judged["reason"] if judged else None,
        since=clock.instant(judged["since"]) if judged else None,
        swept=tuple(
            {"mark_id": each["mark_id"], "outcome": each["outcome"], "at": clock.instant(each["at"])}
            for each in own
            if each["dataset"] == "swept"
        ),
    )
