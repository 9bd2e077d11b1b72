"""lakeFS's own report of a garbage collection run, so that its Spark collector and its users can read ours.

Written for a sealed plan and before its first delete: nobody finds here what lakegc refused to sweep. An empty list
comes before the plan: where that cannot be written, there must be no plan. No file is ever removed, because no role
that sweeps needs the right to delete below `_lakefs/`. Nor is one written twice where the store locks new objects: it
refuses that, and would stop the sweep.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lakegc_core.errors import StoreError
from lakegc_core.marks.address_lists import as_lines, list_of
from lakegc_core.marks.catalogue import EMPTY_PART
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Json
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.store.base import Store, StoreConfig, connect, head_if_there
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import read_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOME = "_lakefs/retention/gc/unified"


def prepare(context: MarkContext) -> None:
    """Write a list without addresses, as `write` will write others, unless an earlier sweep did. StoreError if that
    fails, which names the right: a sweep whose plan is sealed before would stay open."""
    empty = io.BytesIO()
    pq.write_table(pa.table({"address": pa.array([], pa.string())}), empty)
    try:
        key = f"{HOME}/{context.header.mark_id}/deleted/{EMPTY_PART}"
        _write_once(connect(context.data), key, empty.getvalue())
    except StoreError as error:
        raise StoreError(
            f"{error}. A sweep lists there what it is about to delete, for lakeFS's tools: it needs the right to write "
            f"below {context.data.root}/{HOME}/ (deploy/README.md#policies). Nothing was deleted by this call."
        ) from error


def write(spark: SparkSession, context: MarkContext, plan: Dataset) -> None:
    """Write `deleted/`, `deleted.text/` and `summary.json` for a sealed plan, beside what earlier sweeps of the mark
    listed. Parts are called after their content, so that one that is there is the right one. A plan that was not sealed
    would leave files that nobody removes. Where the store refuses to write over `summary.json`, that of the first sweep
    stays: it counts the objects of that sweep alone.
    """
    prepare(context)
    folder = f"{HOME}/{context.header.mark_id}"
    counts = run_tasks(spark, plan.sources, partial(_write_lists, context.data, folder))
    store = connect(context.data)
    for name in ("deleted", "deleted.text"):
        _write_once(store, f"{folder}/{name}/_SUCCESS", b"")
    summary, key = _summary(context, sum(each["rows"] for each in counts)), f"{folder}/summary.json"
    try:
        store.write(key, summary)
    except StoreError as error:
        if head_if_there(store, key) is None:
            raise
        context.say(f"{error}. {key} stays as an earlier sweep wrote it; the lists beside it are whole")


def _write_once(store: Store, key: str, data: bytes) -> None:
    """Write what is not there yet."""
    if head_if_there(store, key) is None:
        store.write(key, data)


def _summary(context: MarkContext, objects: int) -> bytes:
    header = context.header
    value = {
        "run_id": header.mark_id,
        "success": True,
        "first_slice": "",
        "start_time": _instant(header.started_at),
        "cutoff_time": _instant(header.cutoff),
        "num_deleted_objects": objects,
    }
    return json.dumps(value).encode()


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _write_lists(data: StoreConfig, folder: str, source: Source) -> Iterator[Json]:
    """Write one part of a plan as lakeFS lists it."""
    sink = io.BytesIO()
    lines: list[str] = []
    with pq.ParquetWriter(sink, pa.schema([("address", pa.string())]), compression="snappy") as file:
        for batch in read_part(source.config, source.folder, source.part, ["address"]):
            addresses = batch.column(0)
            file.write_batch(pa.RecordBatch.from_arrays([addresses], names=["address"]))
            lines += addresses.to_pylist()
    store = connect(data)
    _write_once(store, f"{folder}/deleted/{source.part.name}", sink.getvalue())
    _write_once(store, f"{folder}/deleted.text/{list_of(source.part.name)}", as_lines(lines))
    yield {"rows": len(lines)}
