"""The task that tells of objects who keeps them, or what their past is: over all commits that a mark knew."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.answers.places import HITS_SCHEMA, HOLDING_SCHEMA, hashes_of
from lakegc_core.names import Json
from lakegc_core.policy.holders import Holder, Holders, Past
from lakegc_core.policy.retention import Graph
from lakegc_core.policy.scenarios import Known
from lakegc_core.references.commits.known_walk import KnowingWalk
from lakegc_core.tables.dataset import Dataset

MOST = 50
"""Objects of one path that are told of, newest first, and holders that are named of each object."""


@dataclass(frozen=True, kw_only=True)
class HolderWalk(KnowingWalk):
    """Tells for every object among the hits what keeps it, or what its past is.

    Yields `objects`, how many there are, and of each: `hash`, `address` (None where only the hash is known), `paths`,
    `holders`, `in_all` (how many) and `past`. `hits`: entries of the objects (HITS_SCHEMA); `holding`: metaranges that
    hold their ranges (HOLDING_SCHEMA). `origins`: what a mark knows of some objects. `most`: of how many it tells,
    newest first; 0: of all, in no order.
    """

    hits: Dataset
    holding: Dataset
    origins: tuple[Json, ...] = ()
    most: int = 0

    def decide(self, known: Known) -> Iterator[Json]:
        hits = pa.Table.from_batches(self.hits.batches(), HITS_SCHEMA)
        holding = pa.Table.from_batches(self.holding.batches(), HOLDING_SCHEMA)
        numbers = hashes_of([each["address"] for each in self.origins]).tolist()
        origins = [{**each, "hash": number} for each, number in zip(self.origins, numbers, strict=True)]
        objects = _objects(hits, origins)
        shown = _Shown(known.graph, hits, holding, origins)
        yield {"objects": len(objects)}
        tell = _Teller(known)
        for number in shown.newest(objects, self.most) if self.most else objects:
            yield {"hash": number, **objects[number], **tell(shown.rows(number))}


def _objects(hits: pa.Table, origins: Sequence[Json]) -> dict[int, Json]:
    """Address and paths by hash."""
    columns = ["hash", "address", "path"]
    named = hits.select(columns).group_by(columns).aggregate([]).to_pylist()
    addresses: dict[int, str | None] = {}
    paths: dict[int, set[str]] = {}
    for each in (*named, *origins):
        addresses[each["hash"]] = each["address"] or addresses.get(each["hash"])
        paths.setdefault(each["hash"], set()).update({each["path"]} - {None})
    return {number: {"address": addresses[number], "paths": sorted(paths[number])} for number in paths}


class _Shown:
    """The commits that show each object, as rows of the graph: by the ranges among the hits, by the commits that hold
    these, and by origins."""

    def __init__(self, graph: Graph, hits: pa.Table, holding: pa.Table, origins: Sequence[Json]) -> None:
        self._created = np.array(graph.created, np.int64)
        ids = pc.unique(hits["range_id"])
        self._ranges = _Lists(hits["hash"].to_numpy(), _places(hits["range_id"], ids))
        every = np.arange(len(graph.commit_ids))
        commits = pa.table({"metarange_id": pa.array(graph.metarange_ids, pa.string()), "row": every})
        pairs = holding.join(commits, "metarange_id", join_type="inner")
        self._rows = _Lists(_places(pairs["range_id"], ids), pairs["row"].to_numpy())
        places = _places(pa.array([each["commit_id"] for each in origins], pa.string()), pa.array(graph.commit_ids))
        numbers = np.array([each["hash"] for each in origins], np.int64)
        self._origins = _Lists(numbers[places >= 0], places[places >= 0])

    def rows(self, number: int) -> np.ndarray:
        """Each commit once, in order."""
        own = [self._rows.of(each) for each in np.unique(self._ranges.of(number)).tolist()]
        found: np.ndarray = np.unique(np.concatenate([*own, self._origins.of(number)]))
        return found

    def newest(self, numbers: Collection[int], most: int) -> list[int]:
        """Those of some objects that the newest commits show, newest first."""
        made = {each: max(self._created[self.rows(each)].tolist(), default=0) for each in numbers}
        return sorted(numbers, key=lambda each: (-made[each], each))[:most]


class _Lists:
    """A list of values for each key: pairs in two arrays."""

    def __init__(self, keys: np.ndarray, values: np.ndarray) -> None:
        self._values = values[np.argsort(keys, kind="stable")]
        found, counts = np.unique(keys, return_counts=True)
        self._ends = dict(
            zip(found.tolist(), zip(np.cumsum(counts).tolist(), counts.tolist(), strict=True), strict=True)
        )

    def of(self, key: int) -> np.ndarray:
        """The values of a key."""
        end, count = self._ends.get(key, (0, 0))
        return self._values[end - count : end]


def _places(names: pa.Array | pa.ChunkedArray, among: pa.Array) -> np.ndarray:
    """The place of each name among some others; -1 for none."""
    found: np.ndarray = pc.fill_null(pc.index_in(names, value_set=among), -1).to_numpy(zero_copy_only=False)
    return found


class _Teller:
    """Tells of what some commits show. Objects that the same commits show have the same to be told of them."""

    def __init__(self, known: Known) -> None:
        self._known, self._tell, self._kept = known, Holders(known), set(known.kept)
        self._told: dict[bytes, Json] = {}

    def __call__(self, rows: np.ndarray) -> Json:
        """`holders`, `in_all` and `past`."""
        key = hashlib.sha256(rows.tobytes()).digest()
        if key not in self._told:
            self._told[key] = self._of(set(rows.tolist()))
        return self._told[key]

    def _of(self, rows: set[int]) -> Json:
        kept = rows & self._kept
        holders = sorted(self._tell.of(kept), key=lambda each: (each.until is not None, -(each.until or 0), each.name))
        past = None if kept else self._tell.past(rows)
        return {
            "holders": [_holder(self._known, holder) for holder in holders[:MOST]],
            "in_all": len(holders),
            "past": None if past is None else _past(self._known, past),
        }


def _holder(known: Known, holder: Holder) -> Json:
    return {
        "name": holder.name,
        "why": holder.why,
        "commit": known.graph.commit_ids[holder.row],
        "days": holder.days,
        "until": None if holder.until is None else clock.instant(holder.until / 1e6),
    }


def _past(known: Known, past: Past) -> dict[str, Any]:
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
