"""What lies in the namespace, as a mark knows it: the units it listed itself, and those it takes over from marks below.

A unit is taken over where nothing new can have appeared in it since it was listed. What sweeps deleted since is
subtracted, by their journals. Listing itself is in `namespace_listing`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import safety
from lakegc_core.context import MarkContext
from lakegc_core.errors import ObjectNotFoundError
from lakegc_core.mark import STAGES, MarkArtifacts, decode, marks
from lakegc_core.namespace import slice_time
from lakegc_core.spark import many
from lakegc_core.stages.deletion import OUTCOMES_SCHEMA
from lakegc_core.stages.hash_scan import Source, Wanted, by_address, scan
from lakegc_core.stages.layers import CLOCKS, Layer
from lakegc_core.stages.sweep_record import sweeps_of
from lakegc_core.store.base import ALREADY_GONE, DELETED, LISTING_SCHEMA
from lakegc_core.store.parquet import Part, list_parts, read, read_part, rows_of, write

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STAGE = STAGES[0]
DATA = "data/"
UNITS = "units"
GONE = "gone"
LEARNT = "learnt"
"""Of the last stage: objects of units that were taken over which nobody had listed, and that turned out to be there."""

_DATASETS = ((STAGE, ""), (STAGES[-1], LEARNT))

SCHEMA = pa.schema(
    [
        *LISTING_SCHEMA,
        pa.field("unit", pa.string(), nullable=False),  # folder it was listed in; "" for the namespace's root
        pa.field("foreign", pa.bool_(), nullable=False),  # not lakeFS's: never a candidate
    ]
)
COUNTS = ("objects", "bytes", "foreign", "foreign_bytes", "nested")
UNITS_SCHEMA = pa.schema(
    [
        pa.field("unit", pa.string(), nullable=False),
        pa.field("listed_in", pa.string(), nullable=False),  # the mark whose listing counts for it
        pa.field("listed_at", pa.float64(), nullable=False),  # when that began, unix seconds
        *(pa.field(name, pa.int64(), nullable=False) for name in COUNTS),
    ]
)
GONE_SCHEMA = pa.schema([LISTING_SCHEMA.field("address"), LISTING_SCHEMA.field("size")])

_DAY = 86_400.0


def carried_units(layers: Sequence[Layer], units: Sequence[str], now: float) -> dict[str, dict[str, Any]]:
    """Those of the units that need not be listed again, with their rows of UNITS_SCHEMA in the mark below."""
    layer, known = layers[0], {layer.mark_id for layer in layers}
    window = safety.RELIST.total_seconds()
    wanted = {unit: begun for unit in units if (begun := _begun(unit)) is not None and begun < now + _DAY}
    found = {
        row["unit"]: row
        for row in _rows(layer, STAGE, UNITS)
        if row["unit"] in wanted and row["listed_in"] in known and row["listed_at"] >= wanted[row["unit"]] + window
    }
    for row in _rows(layer, STAGES[-1], LEARNT):
        if row["unit"] in found:
            found[row["unit"]]["objects"] += 1
            found[row["unit"]]["bytes"] += row["size"]
    return found


def _rows(layer: Layer, stage: str, dataset: str) -> Iterator[dict[str, Any]]:
    folder = layer.mark.stage_folder(stage, dataset)
    for part in layer.parts(stage, dataset):
        for batch in read_part(layer.mark.config, folder, part):
            yield from batch.to_pylist()


def _begun(unit: str) -> int | None:
    """When a unit was begun, if it is a slice."""
    return slice_time(unit[len(DATA) : -1]) if unit.startswith(DATA) else None


def unit_of(address: Column) -> Column:
    """The unit in which an address is listed."""
    from pyspark.sql import functions as F

    first = F.substring_index(address, "/", 1)
    second = F.substring_index(address, "/", 2)
    return (
        F.when(~address.contains("/"), "")
        .when(~address.startswith(DATA), F.concat(first, F.lit("/")))
        .when(second == address, DATA)
        .otherwise(F.concat(second, F.lit("/")))
    )


def write_gone(
    spark: SparkSession, context: MarkContext, carried: Sequence[Part], since: float, folders: Mapping[str, str]
) -> tuple[list[Part], dict[str, int]]:
    """What sweeps deleted of the carried units since they were listed, and how many objects and bytes that is.

    `carried`: parts of the units that are taken over; `since`: when the first of them was listed.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    frames = [
        read(spark, context.workspace, journal, parts, OUTCOMES_SCHEMA, ["address", "size", "outcome", "at"])
        for journal, parts in _journals(context, since)
    ]
    if not frames:
        return [], {"objects": 0, "bytes": 0}
    rows = functools.reduce(DataFrame.unionByName, frames)
    units = read(spark, context.workspace, folders[UNITS], carried, UNITS_SCHEMA, ["unit", "listed_at"])
    gone = (
        rows.where(F.col("outcome").isin(DELETED, ALREADY_GONE))
        .withColumn("unit", unit_of(F.col("address")))
        .join(many(units, rows_of(carried)), "unit")
        .where(F.col("at") >= F.timestamp_seconds(F.col("listed_at") - CLOCKS))
        .groupBy("address")
        .agg(F.max("size").alias("size"))
    )
    parts = write(gone, context.workspace, {GONE: folders[GONE]}, GONE_SCHEMA, summarise=_bytes)[GONE]
    return parts, {
        "objects": rows_of(parts),
        "bytes": sum(part.sums["bytes"] for part in parts),
    }


def _bytes(table: pa.Table) -> dict[str, int]:
    return {"bytes": pc.sum(table["size"]).as_py() or 0}


def _journals(context: MarkContext, since: float) -> Iterator[tuple[str, list[Part]]]:
    """The journals of all sweeps that were not over by then, with their parts."""
    for mark_id in marks(context.workspace, context.home):
        mark = context.artifacts(mark_id)
        for number in sweeps_of(mark.store, mark.folder):
            folder = f"{mark.folder}/sweeps/{number}"
            if _over_at(mark, folder) < since - CLOCKS:
                continue
            if parts := list_parts(context.workspace, f"{folder}/outcomes"):
                yield f"{folder}/outcomes", parts


def _over_at(mark: MarkArtifacts, folder: str) -> float:
    """When a sweep was over, unix seconds; endless if it is not."""
    try:
        report = decode(mark.store.read(f"{folder}/report.json"), folder)
    except ObjectNotFoundError:
        return float("inf")
    return float(report["finished_at"])


def find(spark: SparkSession, layers: Sequence[Layer], wanted: Wanted) -> DataFrame:
    """Objects whose address may be wanted, as the top one of the layers knows them: SCHEMA."""
    sources = [
        Source(layer.mark.stage_folder(stage, dataset), part, layer.mark_id)
        for layer in layers
        for stage, dataset in _DATASETS
        for part in layer.parts(stage, dataset)
    ]
    return _that_count(spark, layers, scan(spark, sources, SCHEMA, wanted, by_address))


def everything(spark: SparkSession, layers: Sequence[Layer]) -> DataFrame:
    """All that lies in the namespace as the top one of the layers knows it: SCHEMA."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    frames = [
        layer.frame(spark, stage, dataset, SCHEMA).withColumn("layer", F.lit(layer.mark_id))
        for layer in layers
        for stage, dataset in _DATASETS
        if layer.parts(stage, dataset) or (layer, dataset) == (layers[0], "")
    ]
    rows = functools.reduce(DataFrame.unionByName, frames)
    return rows.drop("layer") if len(layers) == 1 else _that_count(spark, layers, rows)


def _that_count(spark: SparkSession, layers: Sequence[Layer], rows: DataFrame) -> DataFrame:
    """The rows of layers that no newer listing of their unit replaces, and that no sweep has deleted."""
    from pyspark.sql import functions as F

    ages = {layer.mark_id: number for number, layer in enumerate(layers)}

    def age(column: str) -> Column:
        return F.coalesce(*(F.when(F.col(column) == mark_id, number) for mark_id, number in ages.items()))

    top = layers[0]
    units = top.frame(spark, STAGE, UNITS, UNITS_SCHEMA).select("unit", "listed_in")
    gone = top.frame(spark, STAGE, GONE, GONE_SCHEMA).select("address")
    return (
        rows.join(many(units, top.rows(STAGE, UNITS)), "unit")
        .where(age("layer") <= age("listed_in"))
        .drop("layer", "listed_in")
        .join(many(gone, top.rows(STAGE, GONE)), "address", "left_anti")
    )
