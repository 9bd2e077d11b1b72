"""Chooses the old commits to read for the paths of garbage, and says what became of the objects that they showed.

It chooses commits that are not retained and whose metaranges no mark has read for paths, the newest first. It remembers
branches that earlier marks saw and that are gone: they are the cause of garbage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakegc_core.names import Json
from lakegc_core.policy.holders import DELETED, Holders, Past
from lakegc_core.policy.scenarios import Known
from lakegc_core.references.commits.known_walk import KnowingWalk
from lakegc_core.tables.dataset import Dataset, DatasetFolder

PASTS = "pasts"
LOST_BRANCHES = "lost_branches"
PAST = [
    pa.field("commit_id", pa.string(), nullable=False),  # the last that held the object
    pa.field("moment", pa.int64(), nullable=False),  # when that was made, microseconds, see `moments_of`
    pa.field("cause", pa.string(), nullable=False),  # replaced | deleted
    pa.field("by", pa.string(), nullable=False),  # replaced: the commit that did it; "" for deleted
    pa.field("branch", pa.string(), nullable=False),  # on which it did, or with which it went; "" if that is not known
    pa.field("gone", pa.int64(), nullable=True),  # deleted: when a mark missed the branch first, unix seconds
]
PASTS_SCHEMA = pa.schema([pa.field("metarange_id", pa.string(), nullable=False), *PAST])
LOST_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("commit_id", pa.string(), nullable=False),  # its last head that a mark saw
        pa.field("gone", pa.int64(), nullable=False),  # unix seconds
    ]
)
_MOST_LOST = 10_000  # branches that are remembered, the newest; no sum depends on them


@dataclass(frozen=True, kw_only=True)
class PastWalk(KnowingWalk):
    """Chooses the commits to read, in parts of PASTS_SCHEMA, and remembers branches, in parts of LOST_SCHEMA; runs as
    one task on an executor. Yields `unread`: the number of metaranges that are left for later marks.

    `out`: where the parts are written. `looked`: ids that earlier marks have read; `lost`: branches that they knew to
    be gone; `former`: refs as they saw them. `most`: metaranges to read.
    """

    out: DatasetFolder
    looked: Dataset
    lost: Dataset
    former: Dataset
    most: int

    def run(self) -> Iterator[Json]:
        yield from self._write(LOST_BRANCHES, LOST_SCHEMA, self._lost())
        if self._unread():  # the graph is read only where there is something new
            yield from super().run()

    def decide(self, known: Known) -> Iterator[Json]:
        """The parts of PASTS, and how many metaranges are left."""
        graph, unread, tell = known.graph, self._unread(), Holders(known)
        kept, newest = set(known.kept), dict[str, int]()
        for row in sorted(range(len(graph.commit_ids)), key=lambda row: -tell.moments[row]):
            if row not in kept and graph.metarange_ids[row] in unread:
                newest.setdefault(graph.metarange_ids[row], row)
        chosen = list(newest.items())[: self.most]
        yield from self._write(PASTS, PASTS_SCHEMA, self._pasts(known, tell, chosen))
        yield {"unread": len(newest) - len(chosen)}

    def _pasts(self, known: Known, tell: Holders, chosen: Sequence[tuple[str, int]]) -> list[Json]:
        """The fate of each of these metaranges, by the newest commit that has it."""
        lost = self._branch_of(known)
        return [
            {"metarange_id": metarange_id, "moment": tell.moments[row], **_past(known, tell.past([row]), lost)}
            for metarange_id, row in chosen
        ]

    def _unread(self) -> set[str]:
        """The metaranges that only commits which are not retained have, and that no mark has read for paths."""
        others = set(self.commits.others.values("metarange_id"))
        return others.difference(self.commits.retained.values("metarange_id"), self.looked.values("id"), {""})

    def _branch_of(self, known: Known) -> dict[int, Json]:
        """The deleted branch of each commit in its history, by row; of several branches the one that went last."""
        row_of = {commit_id: row for row, commit_id in enumerate(known.graph.commit_ids)}
        found: dict[int, Json] = {}
        for lost in self._lost():
            row = row_of.get(lost["commit_id"], -1)
            while row >= 0 and row not in found:
                found[row] = lost
                row = known.graph.main_parent[row]
        return found

    def _lost(self) -> list[Json]:
        """The branches that earlier marks saw and that are gone, the newest first, each head once."""
        here = {each["name"] for each in self.commits.refs.dicts() if each["kind"] == "branch"}
        lost = {(each["name"], each["commit_id"]): each for each in self.lost.dicts()}
        for each in self.former.dicts():
            if each["kind"] == "branch" and each["name"] not in here:
                head = {"name": each["name"], "commit_id": each["commit_id"]}
                lost.setdefault((each["name"], each["commit_id"]), {**head, "gone": int(self.commits.facts.began_at)})
        return sorted(lost.values(), key=lambda each: (-each["gone"], each["name"]))[:_MOST_LOST]

    def _write(self, dataset: str, schema: pa.Schema, rows: Sequence[Json]) -> Iterator[Json]:
        yield from self.out.results(dataset, pa.RecordBatch.from_pylist(list(rows), schema=schema), schema)


def _past(known: Known, past: Past | None, lost: Mapping[int, Json]) -> Json:
    assert past is not None, "a commit has a past"
    graph = known.graph
    with_it = lost.get(past.row) if past.cause == DELETED else None
    return {
        "commit_id": graph.commit_ids[past.row],
        "cause": past.cause,
        "by": graph.commit_ids[past.by] if past.by >= 0 else "",
        "branch": with_it["name"] if with_it else past.branch,
        "gone": with_it["gone"] if with_it else None,
    }
