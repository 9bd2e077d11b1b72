"""namespace_listing: what lies in the storage namespace, listed in parallel by unit, before anything else is read.

A unit is a slice or another folder below data/; one in which nothing new can have appeared is taken over from the mark
before. Foreign objects are listed and marked, never candidates; lakeFS's own metadata is not listed. The listing is
complete and durable before the first prepare call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.context import DEFAULT_PREFIX, MarkContext
from lakegc_core.errors import IncompleteError
from lakegc_core.namespace import Namespace, overlapping
from lakegc_core.spark import Json, run_tasks
from lakegc_core.stages.base import StageOutput, StageResult, run_stage
from lakegc_core.stages.inventory import (
    COUNTS,
    DATA,
    GONE,
    SCHEMA,
    STAGE,
    UNITS,
    UNITS_SCHEMA,
    carried_units,
    write_gone,
)
from lakegc_core.stages.layers import choose
from lakegc_core.store.base import Store, StoreConfig, connect
from lakegc_core.store.parquet import Part, PartWriter, part_results, parts_of, spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNITS_PER_TASK = 4  # a slice holds up to 50,000 objects


def namespace_listing(spark: SparkSession, context: MarkContext) -> StageResult:
    """List the namespace. Columns: address, size (bytes), last_modified (the store's clock), etag, unit, foreign."""
    return run_stage(STAGE, spark, context, _list)


def _list(spark: SparkSession, context: MarkContext) -> StageOutput:
    began = clock.now().timestamp()
    basis = choose(context)
    listing = _Listing(
        data=context.data,
        artifacts=context.workspace,
        folder=context.mark.stage_folder(STAGE),
        namespace=context.namespace,
        metadata=tuple(sorted({f"{DEFAULT_PREFIX}/", f"{context.header.block_prefix}/"})),
        mark_id=context.header.mark_id,
        began=began,
    )
    units, found_metadata, parts = listing.top()
    if not found_metadata:
        raise IncompleteError(
            f"{context.data.root} holds no {context.header.block_prefix}/, where lakeFS keeps its metadata. "
            "This is not where the server writes: check endpoint, credentials and `stores` in lakegc.yaml."
        )
    carried = carried_units(basis.layers, units, began) if basis.layers else {}
    anew = [unit for unit in units if unit not in carried]
    how = f"those changed since mark {basis.layers[0].mark_id}" if basis.layers else f"a clean mark: {basis.why_clean}"
    context.say(f"{STAGE}: {len(anew):,} of {len(units):,} units to list ({how})")
    wanted = context.settings.scale.listing_parallelism
    width = min(wanted or 4 * spark_width(spark), len(anew) if wanted else -(-len(anew) // _UNITS_PER_TASK))
    shares = [anew[number::width] for number in range(width)]
    found = parts_of(run_tasks(spark, shares, listing.units), [STAGE, UNITS])
    parts += found[STAGE]
    taken = listing.write_units(carried.values())
    beside = listing.write_units(listing.listed(unit, dict.fromkeys(COUNTS, 0)) for unit in ("", DATA))
    oldest = min((row["listed_at"] for row in carried.values()), default=began)
    gone, freed = write_gone(spark, context, basis.layers, taken, oldest) if taken else ([], {})
    totals = dict.fromkeys(COUNTS, 0)
    for part in (*parts, *taken):
        for name in totals:
            totals[name] += part.sums.get(name, 0)
    others = [(each.id, each.storage_namespace) for each in context.client.repositories()]
    if context.header.repository not in {name for name, _ in others}:
        raise IncompleteError(
            f"lakeFS's list of repositories lacks {context.header.repository} itself, so it is not whole, and nothing "
            "says whether another repository shares this namespace. Let the key list all repositories "
            "(fs:ListRepositories on *), and run the mark again."
        )
    facts = {
        **{name: count - freed.get(name, 0) for name, count in totals.items()},
        **basis.facts,
        "units": len(units),
        "units_listed": len(anew),
        "clock_skew": (connect(context.data).probe().clock - clock.now()).total_seconds(),
        "overlapping": overlapping(
            context.namespace, (each for each in others if each[0] != context.header.repository)
        ),
    }
    return StageOutput({STAGE: parts, UNITS: [*found[UNITS], *beside, *taken], GONE: gone}, facts)


class _Listing:
    """The work of this stage, as a picklable value that tasks carry."""

    def __init__(
        self,
        data: StoreConfig,
        artifacts: StoreConfig,
        folder: str,
        namespace: Namespace,
        metadata: tuple[str, ...],
        mark_id: str,
        began: float,
    ) -> None:
        self._data, self._artifacts, self._folder = data, artifacts, folder
        self._namespace, self._metadata = namespace, metadata
        self._mark_id, self._began = mark_id, began

    def top(self) -> tuple[list[str], bool, list[Part]]:
        """The units, whether lakeFS's metadata is there, and the parts of objects that lie beside the units.

        Streams: the root of a repository that servers before v0.84 wrote holds all its data.
        """
        store = connect(self._data)
        writer = self._writer()
        units: list[str] = []
        found_metadata = False
        for prefix in ("", DATA):
            for level in store.list_level(prefix):
                self._write(writer, level.objects, prefix)
                for unit in level.prefixes:
                    found_metadata |= unit in self._metadata or unit == f"{DEFAULT_PREFIX}/"
                    if unit != DATA and unit not in self._metadata:
                        units.append(unit)
        found_metadata = found_metadata or any(self._has(store, prefix) for prefix in self._metadata)
        return units, found_metadata, writer.close()

    def _has(self, store: Store, prefix: str) -> bool:
        return any(level.prefixes or level.objects.num_rows for level in store.list_level(prefix))

    def units(self, units: list[str]) -> Iterator[Json]:
        """List some units, one after the other, into parts."""
        writer = self._writer()
        listed: list[Json] = []
        for unit in units:
            counts = dict.fromkeys(COUNTS, 0)
            for batch in connect(self._data).list(unit):
                for name, count in self._write(writer, batch, unit).items():
                    counts[name] += count
            listed.append(self.listed(unit, counts))
        yield from part_results(STAGE, writer.close())
        yield from part_results(UNITS, self.write_units(listed))

    def listed(self, unit: str, counts: Mapping[str, int]) -> Json:
        """What is known of a unit that was listed just now."""
        return {"unit": unit, "listed_in": self._mark_id, "listed_at": self._began, **counts}

    def write_units(self, rows: Iterable[Json]) -> list[Part]:
        """Write what is known of units."""
        writer = PartWriter(self._artifacts, f"{self._folder}/{UNITS}", UNITS_SCHEMA, _sums)
        writer.write(pa.RecordBatch.from_pylist(list(rows), schema=UNITS_SCHEMA))
        return writer.close()

    def _writer(self) -> PartWriter:
        return PartWriter(self._artifacts, self._folder, SCHEMA, _totals)

    def _write(self, writer: PartWriter, batch: pa.RecordBatch, unit: str) -> Mapping[str, int]:
        for prefix in self._metadata:  # a prefix setting such as `meta/lakefs` lies inside a unit
            if prefix.startswith(unit) or unit.startswith(prefix):
                batch = batch.filter(pc.invert(pc.starts_with(batch["address"], prefix)))
        allowed = self._namespace.collectable(batch["address"])
        columns = [*batch.columns, pa.array([unit] * batch.num_rows, pa.string()), pc.invert(allowed)]
        rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        writer.write(rows)
        return _totals(pa.Table.from_batches([rows]))


def _sums(table: pa.Table) -> Mapping[str, int]:
    return {name: pc.sum(table[name]).as_py() or 0 for name in COUNTS}


def _totals(table: pa.Table) -> Mapping[str, int]:
    foreign = table.filter(table["foreign"])
    return {
        "objects": table.num_rows,
        "bytes": pc.sum(table["size"]).as_py() or 0,
        "foreign": foreign.num_rows,
        "foreign_bytes": pc.sum(foreign["size"]).as_py() or 0,
        # Metadata of another repository below data/: its data lies among ours.
        "nested": pc.sum(pc.match_substring_regex(foreign["address"], "^data/(.*/)?_lakefs/")).as_py() or 0,
    }
