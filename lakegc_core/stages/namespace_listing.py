"""namespace_listing: what lies in the storage namespace, listed in parallel by unit, before anything else is read.

A unit is a slice or another folder below data/. Foreign objects are listed and marked, never candidates; lakeFS's own
metadata is not listed. The listing is complete and durable before the first prepare call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.context import DEFAULT_PREFIX, MarkContext
from lakegc_core.errors import IncompleteError
from lakegc_core.namespace import Namespace, overlapping
from lakegc_core.spark import Json, run_tasks
from lakegc_core.stages.base import StageOutput, StageResult, run_stage
from lakegc_core.store.base import LISTING_SCHEMA, Store, StoreConfig, connect
from lakegc_core.store.parquet import Part, PartWriter, part_results, parts_of, spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAGE = "namespace_listing"
DATA = "data/"
_UNITS_PER_TASK = 4  # a slice holds up to 50,000 objects

SCHEMA = pa.schema(
    [
        *LISTING_SCHEMA,
        pa.field("unit", pa.string(), nullable=False),  # folder it was listed in; "" for the namespace's root
        pa.field("foreign", pa.bool_(), nullable=False),  # not lakeFS's: never a candidate
    ]
)


def namespace_listing(spark: SparkSession, context: MarkContext) -> StageResult:
    """List the namespace. Columns: address, size (bytes), last_modified (the store's clock), etag, unit, foreign."""
    return run_stage(STAGE, spark, context, _list)


def _list(spark: SparkSession, context: MarkContext) -> StageOutput:
    listing = _Listing(
        data=context.data,
        artifacts=context.workspace,
        folder=context.mark.stage_folder(STAGE),
        namespace=context.namespace,
        metadata=tuple(sorted({f"{DEFAULT_PREFIX}/", f"{context.header.block_prefix}/"})),
    )
    units, found_metadata, parts = listing.top()
    if not found_metadata:
        raise IncompleteError(
            f"{context.data.root} holds no {context.header.block_prefix}/, where lakeFS keeps its metadata. "
            "This is not where the server writes: check endpoint, credentials and `stores` in lakegc.yaml."
        )
    context.say(f"{STAGE}: {len(units):,} units to list")
    wanted = context.settings.scale.listing_parallelism
    width = min(wanted or 4 * spark_width(spark), len(units) if wanted else -(-len(units) // _UNITS_PER_TASK))
    shares = [units[number::width] for number in range(width)]
    results = run_tasks(spark, shares, listing.units)
    parts += parts_of(results, [STAGE])[STAGE]
    totals: dict[str, Any] = {"objects": 0, "bytes": 0, "foreign": 0, "foreign_bytes": 0, "nested": 0}
    for part in parts:
        for name in totals:
            totals[name] += part.sums.get(name, 0)
    others = [(each.id, each.storage_namespace) for each in context.client.repositories()]
    if context.header.repository not in {name for name, _ in others}:
        raise IncompleteError(
            f"lakeFS's list of repositories lacks {context.header.repository} itself, so it is not whole, and nothing "
            "says whether another repository shares this namespace. Let the key list all repositories "
            "(fs:ListRepositories on *), and run the mark again."
        )
    facts = totals | {
        "units": len(units),
        "clock_skew": (connect(context.data).probe().clock - clock.now()).total_seconds(),
        "overlapping": overlapping(
            context.namespace, (each for each in others if each[0] != context.header.repository)
        ),
    }
    return StageOutput({STAGE: parts}, facts)


class _Listing:
    """The work of this stage, as a picklable value that tasks carry."""

    def __init__(
        self,
        data: StoreConfig,
        artifacts: StoreConfig,
        folder: str,
        namespace: Namespace,
        metadata: tuple[str, ...],
    ) -> None:
        self._data, self._artifacts, self._folder = data, artifacts, folder
        self._namespace, self._metadata = namespace, metadata

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
        for unit in units:
            for batch in connect(self._data).list(unit):
                self._write(writer, batch, unit)
        yield from part_results(STAGE, writer.close())

    def _writer(self) -> PartWriter:
        return PartWriter(self._artifacts, self._folder, SCHEMA, _totals)

    def _write(self, writer: PartWriter, batch: pa.RecordBatch, unit: str) -> None:
        for prefix in self._metadata:  # a prefix setting such as `meta/lakefs` lies inside a unit
            if prefix.startswith(unit) or unit.startswith(prefix):
                batch = batch.filter(pc.invert(pc.starts_with(batch["address"], prefix)))
        allowed = self._namespace.collectable(batch["address"])
        columns = [*batch.columns, pa.array([unit] * batch.num_rows, pa.string()), pc.invert(allowed)]
        writer.write(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def _totals(table: pa.Table) -> Mapping[str, Any]:
    foreign = table.filter(table["foreign"])
    return {
        "objects": table.num_rows,
        "bytes": pc.sum(table["size"]).as_py() or 0,
        "foreign": foreign.num_rows,
        "foreign_bytes": pc.sum(foreign["size"]).as_py() or 0,
        # Metadata of another repository below data/: its data lies among ours.
        "nested": pc.sum(pc.match_substring_regex(foreign["address"], "^data/(.*/)?_lakefs/")).as_py() or 0,
    }
