"""Live objects that the store lacks, with the paths under which users know them: a free check of the repository."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.spark.session import Json, clear_errors, run_tasks
from lakegc_core.stages.committed_addresses.stage import protected_rows
from lakegc_core.store.base import connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 100
"""Most of them that are named with their paths; the dataset `missing` holds all addresses."""


def missing_paths(
    spark: SparkSession, context: MarkContext, missing: DataFrame, committed: DataFrame
) -> list[dict[str, str]]:
    """Up to SHOWN of the missing addresses, each with one path that shows it ("" for staged ones)."""
    with clear_errors():
        addresses = [row[0] for row in missing.select("address").limit(SHOWN).collect()]
        holding = committed.where(committed["address"].isin(addresses)).select("address", "range_id")
        rows = holding.limit(4 * SHOWN).collect() if addresses else []
    wanted: dict[str, set[str]] = {}
    for row in rows:
        wanted.setdefault(row["range_id"], set()).add(row["address"])
    data, prefix, namespace = context.data, context.header.block_prefix, context.namespace

    def task(item: tuple[str, Sequence[str]]) -> Iterator[Json]:
        range_id, sought = item
        entries = graveler.read_range(connect(data).read(f"{prefix}/{range_id}"), paths=True)
        rows = protected_rows(namespace, [range_id], [len(entries)], entries)
        found = rows.filter(pc.is_in(rows["address"], pa.array(sought, pa.string())))
        for each in found.to_pylist():
            yield {"address": each["address"], "path": each["path"].decode("utf-8", "replace")}

    items = [(range_id, sorted(sought)) for range_id, sought in wanted.items()]
    known = {each["address"]: each["path"] for each in run_tasks(spark, items, task)}
    return [{"address": address, "path": known.get(address, "")} for address in sorted(addresses)]
