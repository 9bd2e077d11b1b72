"""Records of some addresses: what marks found, what sweeps did with them, and what lies in the store now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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

SWEPT = "swept"
"""What is said of addresses in journals of sweeps."""
UNREAD = ""
"""Stands for an address where a part cannot be read; no object has it."""

Named = Sequence[tuple[str, Dataset]]
"""Datasets, and what is said of the addresses in each."""


def records(context: MarkContext, own: Layer) -> Named:
    """All that a mark and the sweeps of all marks have on record of addresses."""
    return [
        ("staged", own.dataset(Stage.UNCOMMITTED_ADDRESSES, STAGED_SCHEMA)),
        ("held", own.dataset(Stage.COMMITTED_ADDRESSES, ENTRIES_SCHEMA, HELD)),
        ("neighbour", own.dataset(Stage.EXPIRED_ADDRESSES, KEYS_SCHEMA, NEIGHBOURS)),
        ("expired", own.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA)),
        ("kept", own.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA, KEPT)),
        *((SWEPT, journal.rows) for journal in ledger.journals(context, 0.0)),
    ]


def journals_of_all(context: MarkContext) -> Named:
    """The journals of all sweeps, also of retired marks: far more than those that stand, after years."""
    found = ledger.records_of(context).found
    return [(SWEPT, each.rows) for each in found if each.kind == ledger.Kind.SWEPT and each.rows.parts]


def records_of(workers: Workers, named: Named, addresses: Sequence[str]) -> Mapping[str, Sequence[Json]]:
    """The records of each of some addresses: rows with `dataset`, and of sweeps with `mark_id`. Of parts of journals
    that cannot be read, which nobody can mend: rows of the address UNREAD, with `file`."""
    wanted = pa.array(sorted(set(addresses)), pa.string())

    def task(each: tuple[str, Feed]) -> Iterator[Json]:
        name, feed = each
        try:
            rows = list(_rows(feed, wanted))
        except CorruptFileError:
            if name != SWEPT:
                raise
            yield {"address": UNREAD, "file": f"{feed.source.folder}/{feed.source.part.name}"}
            return
        for row in rows:
            yield {"dataset": name, "mark_id": feed.source.layer, **{key: _plain(value) for key, value in row.items()}}

    work: list[tuple[str, Feed]] = []
    for name, dataset in named:
        columns = (each for each in _TOLD if each in dataset.schema.names)
        work += [(name, feed) for feed in dataset.feeds(*columns)]
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
