"""Records of some addresses: what marks found, what sweeps did with them, and what lies in the store now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.answers.workers import Workers
from lakegc_core.errors import CorruptFileError
from lakegc_core.marks import ledger
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, HELD, KEPT, NEIGHBOURS
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Json, Stage
from lakegc_core.references.of_neighbours import KEYS_SCHEMA
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.staged import STAGED_SCHEMA
from lakegc_core.store.base import ObjectInfo, connect, heads
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.gather import Feed

_TOLD = ("address", "reason", "since", "outcome", "at")  # columns, where a dataset has them

SWEPT, RESTORED = ledger.Kind.SWEPT.value, ledger.Kind.RESTORED.value
"""What is said of addresses in journals of sweeps and of restores."""
UNREAD = ""
"""Stands for an address where a part cannot be read; no object has it."""


@dataclass(frozen=True)
class Named:
    """A dataset, and what is said of the addresses in it. `at`: of a restore, when it was over, unix seconds."""

    name: str
    rows: Dataset
    at: float = 0.0


def records(context: MarkContext, own: Layer) -> Sequence[Named]:
    """All that a mark, and the sweeps and restores of all marks, have on record of addresses."""
    return [
        Named("staged", own.dataset(Stage.UNCOMMITTED_ADDRESSES, STAGED_SCHEMA)),
        Named("held", own.dataset(Stage.COMMITTED_ADDRESSES, ENTRIES_SCHEMA, HELD)),
        Named("neighbour", own.dataset(Stage.EXPIRED_ADDRESSES, KEYS_SCHEMA, NEIGHBOURS)),
        Named("expired", own.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA)),
        Named("kept", own.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA, KEPT)),
        *_named(ledger.sweeps_and_restores(context)),
    ]


def journals_of_all(context: MarkContext) -> Sequence[Named]:
    """The journals of all sweeps and restores, also of retired marks: far more than those that stand, after years."""
    return list(_named(ledger.records_of(context).found))


def _named(found: Iterable[ledger.Record]) -> Iterator[Named]:
    """Those records that are of sweeps and restores."""
    for each in found:
        if each.kind in (SWEPT, RESTORED) and each.rows.parts:
            yield Named(each.kind, each.rows, each.at)


def records_of(workers: Workers, named: Sequence[Named], addresses: Sequence[str]) -> Mapping[str, Sequence[Json]]:
    """The records of each of some addresses: rows with `dataset` and `mark_id`, of sweeps and restores with `outcome`
    and `at`. Of parts of journals that cannot be read, and that nobody can mend: rows of the address UNREAD, with
    `file`."""
    wanted = pa.array(sorted(set(addresses)), pa.string())

    def task(each: tuple[str, float, Feed]) -> Iterator[Json]:
        name, at, feed = each
        try:
            rows = list(_rows(feed, wanted))
        except CorruptFileError:
            if name not in (SWEPT, RESTORED):
                raise
            yield {"address": UNREAD, "file": f"{feed.source.folder}/{feed.source.part.name}"}
            return
        for row in rows:
            told = {key: _plain(value) for key, value in row.items()}
            yield {"dataset": name, "mark_id": feed.source.layer, "at": at, **told}

    work: list[tuple[str, float, Feed]] = []
    for each in named:
        columns = (column for column in _TOLD if column in each.rows.schema.names)
        work += [(each.name, each.at, feed) for feed in each.rows.feeds(*columns)]
    found: dict[str, list[Json]] = {}
    for row in workers.run(work, task) if addresses else ():
        found.setdefault(row["address"], []).append(row)
    return found


def origins_of(workers: Workers, known: Dataset, addresses: Sequence[str]) -> list[Json]:
    """Rows of `address`, `path` and `commit_id`, which last showed an address, among the origins that are known."""
    wanted = pa.array(addresses, pa.string())

    def task(feed: Feed) -> Iterator[Json]:
        yield from _rows(feed, wanted)

    return workers.run(known.feeds("address", "path", "commit_id"), task) if addresses else []


def stored(context: MarkContext, addresses: Sequence[str]) -> Mapping[str, ObjectInfo]:
    """The objects that are there of some addresses, as the store has them."""
    return {info.address: info for info in heads(connect(context.data), addresses) if info is not None}


def _rows(feed: Feed, wanted: pa.Array) -> Iterator[Json]:
    """The rows of a part that are of some addresses."""
    for batch in feed.read():
        yield from batch.filter(pc.is_in(batch["address"], value_set=wanted)).to_pylist()


def _plain(value: Any) -> Any:
    """A value as JSON has it; times as unix seconds."""
    return value.timestamp() if hasattr(value, "timestamp") else value


def told_by(dataset: str, own: Sequence[Json]) -> tuple[Json, ...]:
    """Those of the records of an object that sweeps or restores made, the first one first."""
    found = {(each["at"], each["mark_id"], each["outcome"]) for each in own if each["dataset"] == dataset}
    return tuple({"mark_id": of, "outcome": outcome, "at": clock.instant(at)} for at, of, outcome in sorted(found))
