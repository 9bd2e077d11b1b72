"""What is on record of some addresses: what marks found, what sweeps did with them, and what lies in the store now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.answers.workers import Workers
from lakegc_core.marks.artifacts import facts_of
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import KEPT
from lakegc_core.marks.layers import Layer
from lakegc_core.marks.ledger import journals
from lakegc_core.names import Stage
from lakegc_core.past.ranges import ORIGINS
from lakegc_core.policy.facts import ExpiredFacts
from lakegc_core.references.of_neighbours import NEIGHBOURS
from lakegc_core.references.ranges.held_paths import HELD
from lakegc_core.spark.session import Json
from lakegc_core.store.base import ObjectInfo, connect, heads
from lakegc_core.tables.key_scan import Source, sources_of
from lakegc_core.tables.parts import read_part

_TOLD = ("address", "reason", "since", "outcome", "at")  # columns, where a dataset has them

Named = Sequence[tuple[str, Source]]
"""Names of datasets, and their parts."""


def records(context: MarkContext, own: Layer) -> Named:
    """What a mark and the sweeps of all marks have on record of addresses."""
    named = (
        ("staged", own.sources(Stage.UNCOMMITTED_ADDRESSES)),
        ("held", own.sources(Stage.COMMITTED_ADDRESSES, HELD)),
        ("neighbour", own.sources(Stage.EXPIRED_ADDRESSES, NEIGHBOURS)),
        ("expired", own.sources(Stage.EXPIRED_ADDRESSES)),
        ("kept", own.sources(Stage.EXPIRED_ADDRESSES, KEPT)),
    )
    work = [(name, source) for name, sources in named for source in sources]
    for journal in journals(context, 0.0):
        work += [("swept", source) for source in journal.rows.sources]
    return work


def records_of(workers: Workers, work: Named, addresses: Sequence[str]) -> Mapping[str, Sequence[Json]]:
    """What is on record of each of some addresses: rows with `dataset`, and of sweeps with `mark_id`."""
    wanted = pa.array(sorted(set(addresses)), pa.string())

    def task(each: tuple[str, Source]) -> Iterator[Json]:
        name, source = each
        for row in _rows(source, wanted, _TOLD):
            yield {"dataset": name, "mark_id": source.layer, **{key: _plain(value) for key, value in row.items()}}

    found: dict[str, list[Json]] = {}
    for row in workers.run(work, task) if addresses else ():
        found.setdefault(row["address"], []).append(row)
    return found


def origins_of(workers: Workers, layers: Sequence[Layer], addresses: Sequence[str]) -> list[Json]:
    """Where a mark found that addresses were last shown: `address`, `path` and `commit_id`, of those it knew."""
    wanted = pa.array(addresses, pa.string())

    def task(source: Source) -> Iterator[Json]:
        yield from _rows(source, wanted, ("address", "path", "commit_id"))

    return workers.run(sources_of_origins(layers), task) if addresses else []


def sources_of_origins(layers: Sequence[Layer]) -> list[Source]:
    """The parts of the origins that a mark knows: those of the newest of its layers that looked for them."""
    stage = Stage.EXPIRED_ADDRESSES
    for layer in layers:
        if facts_of(layer.manifests, ExpiredFacts).origins is not None:
            parts = layer.manifests[stage].datasets.get(ORIGINS, ())
            return sources_of(layer.mark.config, layer.mark.stage_folder(stage, ORIGINS), parts, layer.mark_id)
    return []


def stored(context: MarkContext, addresses: Sequence[str]) -> Mapping[str, ObjectInfo]:
    """What the store says of those of some objects that are there, by address."""
    return {info.address: info for info in heads(connect(context.data), addresses) if info is not None}


def _rows(source: Source, wanted: pa.Array, columns: Sequence[str]) -> Iterator[Json]:
    """The rows of a part that are of some addresses, with those of the columns that it has."""
    for batch in read_part(source.config, source.folder, source.part):
        own = [name for name in columns if name in batch.schema.names]
        yield from batch.select(own).filter(pc.is_in(batch["address"], value_set=wanted)).to_pylist()


def _plain(value: Any) -> Any:
    """A value as JSON has it; times as unix seconds."""
    return value.timestamp() if hasattr(value, "timestamp") else value
