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
from lakegc_core.stages.hash_scan import Wanted, by_address, scan
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
_UNSURE = "unsure"
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
    spark: SparkSession, context: MarkContext, layers: Sequence[Layer], carried: Sequence[Part], since: float
) -> tuple[list[Part], dict[str, int]]:
    """Objects of the layers that sweeps deleted of the units that are taken over, and how many objects and bytes.

    `carried`: parts of the units that are taken over; `since`: when the first of them was listed, unix seconds.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    columns = ["address", "size", "outcome", "at"]
    ages = _ages(layers)
    frames = [
        read(spark, context.workspace, journal, parts, OUTCOMES_SCHEMA, columns).withColumn(
            "age", F.lit(ages.get(mark_id)).cast("int")
        )
        for mark_id, journal, parts in _journals(context, since)
    ]
    if not frames:
        return [], {"objects": 0, "bytes": 0}
    folders = {name: context.mark.stage_folder(STAGE, name) for name in (UNITS, GONE, _UNSURE)}
    units = many(read(spark, context.workspace, folders[UNITS], carried, UNITS_SCHEMA), rows_of(carried))
    gone = (
        functools.reduce(DataFrame.unionByName, frames)
        .where(F.col("outcome").isin(DELETED, ALREADY_GONE))
        .withColumn("unit", unit_of(F.col("address")))
        .join(units.select("unit", "listed_in", "listed_at"), "unit")
        .where(F.col("at") >= F.timestamp_seconds(F.col("listed_at") - CLOCKS))
        # What a mark found in a unit that was not listed again since is there. Any other sweep may have been the second
        # that was told to delete it.
        .withColumn("sure", F.coalesce(F.col("age") <= _age("listed_in", ages), F.lit(False)))
        .groupBy("address")
        .agg(F.max("size").alias("size"), F.max("sure").alias("sure"))
    )
    targets = {name: folders[name] for name in (GONE, _UNSURE)}
    found = write(gone, context.workspace, targets, GONE_SCHEMA, split=_split_sure, summarise=_bytes)
    parts = found[GONE]
    if unsure := found[_UNSURE]:
        addresses = read(spark, context.workspace, folders[_UNSURE], unsure, GONE_SCHEMA, ["address"])
        wanted = Wanted(context.workspace, ((folders[_UNSURE], unsure),), ("address",), by_address)
        lying = _newest(_scan(spark, layers, wanted), units, ages)
        known = lying.join(many(addresses, rows_of(unsure)), "address", "left_semi").select(*GONE_SCHEMA.names)
        parts += write(known, context.workspace, {GONE: folders[GONE]}, GONE_SCHEMA, summarise=_bytes)[GONE]
    return parts, {"objects": rows_of(parts), "bytes": sum(part.sums["bytes"] for part in parts)}


def _split_sure(table: pa.Table) -> dict[str, pa.Table]:
    return {GONE: table.filter(table["sure"]), _UNSURE: table.filter(pc.invert(table["sure"]))}


def _bytes(table: pa.Table) -> dict[str, int]:
    return {"bytes": pc.sum(table["size"]).as_py() or 0}


def _journals(context: MarkContext, since: float) -> Iterator[tuple[str, str, list[Part]]]:
    """The journals of all sweeps that were not over by then: of which mark, where, and their parts."""
    for mark_id in marks(context.workspace, context.home):
        mark = context.artifacts(mark_id)
        for number in sweeps_of(mark.store, mark.folder):
            folder = f"{mark.folder}/sweeps/{number}"
            if _over_at(mark, folder) < since - CLOCKS:
                continue
            if parts := list_parts(context.workspace, f"{folder}/outcomes"):
                yield mark_id, f"{folder}/outcomes", parts


def _over_at(mark: MarkArtifacts, folder: str) -> float:
    """When a sweep was over, unix seconds; endless if it is not."""
    try:
        report = decode(mark.store.read(f"{folder}/report.json"), folder)
    except ObjectNotFoundError:
        return float("inf")
    return float(report["finished_at"])


def find(spark: SparkSession, layers: Sequence[Layer], wanted: Wanted) -> DataFrame:
    """Objects whose address may be wanted, as the top one of the layers knows them: SCHEMA."""
    return _that_count(spark, layers, _scan(spark, layers, wanted))


def _scan(spark: SparkSession, layers: Sequence[Layer], wanted: Wanted) -> DataFrame:
    """Rows of the layers whose address may be wanted: SCHEMA, and `layer`."""
    sources = [source for layer in layers for place in _DATASETS for source in layer.sources(*place)]
    return scan(spark, sources, SCHEMA, wanted, by_address)


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
    top = layers[0]
    units = many(top.frame(spark, STAGE, UNITS, UNITS_SCHEMA), top.rows(STAGE, UNITS))
    gone = top.frame(spark, STAGE, GONE, GONE_SCHEMA).select("address")
    return _newest(rows, units, _ages(layers)).join(many(gone, top.rows(STAGE, GONE)), "address", "left_anti")


def _newest(rows: DataFrame, units: DataFrame, ages: Mapping[str, int]) -> DataFrame:
    """The rows (SCHEMA, `layer`) that no newer listing of their unit replaces: SCHEMA."""
    return (
        rows.join(units.select("unit", "listed_in"), "unit")
        .where(_age("layer", ages) <= _age("listed_in", ages))
        .select(*SCHEMA.names)
    )


def _ages(layers: Sequence[Layer]) -> dict[str, int]:
    """The number of each layer's mark, from the newest on."""
    return {layer.mark_id: number for number, layer in enumerate(layers)}


def _age(column: str, ages: Mapping[str, int]) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(*(F.when(F.col(column) == mark_id, number) for mark_id, number in ages.items()))
