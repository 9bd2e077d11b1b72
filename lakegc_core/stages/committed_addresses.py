"""committed_addresses: everything that the retained commits refer to, each metarange and each range read once.

Metaranges are immutable and shared by many commits, ranges by many metaranges, so neither is ever read twice. Reading
is whole or an error: every count is compared with what the level above says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.context import MarkContext
from lakegc_core.errors import CorruptFileError, IncompleteError
from lakegc_core.lakefs import graveler
from lakegc_core.namespace import Namespace
from lakegc_core.spark import Json, many, run_on_rows
from lakegc_core.stages.base import StageOutput, StageResult, run_stage
from lakegc_core.stages.commit_walk import COMMITS, COMMITS_SCHEMA, OTHERS
from lakegc_core.stages.path_holds import held_by_path
from lakegc_core.stages.protected import ROWS_SCHEMA, protected_rows
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.parquet import Part, PartWriter, part_results, parts_of, read, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGE = "committed_addresses"
METARANGES = "metaranges"
RANGES = "ranges"

SCHEMA = ROWS_SCHEMA
METARANGES_SCHEMA = pa.schema(
    [
        pa.field("metarange_id", pa.string(), nullable=False),
        pa.field("range_id", pa.string(), nullable=False),  # "" on the one row that counts the metarange's ranges
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),  # entries of the range; ranges of the metarange on its own row
    ]
)
RANGES_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("references", pa.int64(), nullable=False),  # retained metaranges that hold it
        pa.field("count", pa.int64(), nullable=False),  # entries
    ]
)


def committed_addresses(spark: SparkSession, context: MarkContext) -> StageResult:
    """Read what retained commits refer to. Columns: range_id, address, exact, size, e_tag.

    Datasets: `metaranges` and `ranges`, as they were read.
    """

    def body(spark: SparkSession, context: MarkContext) -> StageOutput:
        commits = context.mark.require(COMMITS).datasets[COMMITS]
        folder = context.mark.stage_folder(COMMITS)
        retained = read(spark, context.workspace, folder, commits, COMMITS_SCHEMA, ["metarange_id"])
        expected = context.mark.require(COMMITS).facts["retained_metaranges"]
        target = context.mark.stage_folder(STAGE)
        output = read_committed(spark, context, retained, target, expected=expected)
        others = context.mark.require(COMMITS).datasets[OTHERS]
        held = held_by_path(spark, context, folder, others, target)
        facts = {**output.facts, "held_by_path": sum(part.rows for part in held)}
        return StageOutput({**output.datasets, STAGE: [*output.datasets[STAGE], *held]}, facts)

    return run_stage(STAGE, spark, context, body)


def read_committed(
    spark: SparkSession,
    context: MarkContext,
    retained: DataFrame,
    folder: str,
    *,
    expected: int,
    known: Sequence[Part] | None = None,
) -> StageOutput:
    """Read all ranges of the metaranges in `retained` (column metarange_id) into parts below `folder`.

    `expected`: how many distinct metaranges that must be. `known`: the mark's own list of ranges, whose addresses need
    not be read again (for the look of a sweep).
    """
    from pyspark.sql import functions as F

    work = _Reading(context.data, context.workspace, folder, context.header.block_prefix, context.namespace)
    told = context.settings.scale.range_num_partitions
    tasks = told or _tasks(expected, 16, 4 * spark_width(spark))
    distinct = retained.where(F.col("metarange_id") != "").distinct().repartition(tasks)
    metaranges = write(
        _with_schema(distinct, work.metaranges, METARANGES_SCHEMA),
        context.workspace,
        {METARANGES: f"{folder}/{METARANGES}"},
        METARANGES_SCHEMA,
        summarise=_count_metaranges,
    )[METARANGES]
    read_metaranges = _total(metaranges, "metaranges")
    if read_metaranges != expected:
        raise IncompleteError(
            f"{expected:,} metaranges are retained, {read_metaranges:,} were read. Run the mark again."
        )

    references = _total(metaranges, "ranges")
    if references != _total(metaranges, "stated_ranges"):
        raise IncompleteError("Metaranges hold fewer ranges than they say. Run the mark again.")
    rows = read(spark, context.workspace, f"{folder}/{METARANGES}", metaranges, METARANGES_SCHEMA)
    ranges = (
        rows.where(F.col("range_id") != "")
        .groupBy("range_id")
        .agg(
            F.count("*").alias("references"),
            F.min("count").alias("count"),
            F.max("count").alias("most"),
            F.min("min_key").alias("min_key"),
            F.max("max_key").alias("max_key"),
        )
    )
    if known is not None:
        mine = read(spark, context.workspace, _ranges_folder(context), known, RANGES_SCHEMA, ["range_id"])
        ranges = ranges.join(many(mine), "range_id", "left_anti")
    wanted = ranges.select("range_id", "references", "count", "most", "min_key", "max_key")
    results = run_on_rows(wanted.repartition(told or _tasks(references, 32, 512)), work.ranges)
    parts = parts_of(results, [STAGE, RANGES])
    facts: dict[str, Any] = {
        "metaranges": read_metaranges,
        "ranges": sum(part.rows for part in parts[RANGES]),
        "entries": _total(parts[RANGES], "entries"),
        "references": references,
        "references_read": _total(parts[RANGES], "references"),
        "addresses": sum(part.rows for part in parts[STAGE]),
    }
    if known is None and facts["references_read"] != references:
        raise IncompleteError(
            f"The retained metaranges refer {references:,} times to ranges, but the ranges that were read account for "
            f"{facts['references_read']:,}. Run the mark again."
        )
    return StageOutput({STAGE: parts[STAGE], RANGES: parts[RANGES], METARANGES: metaranges}, facts)


def _tasks(files: int, each: int, most: int) -> int:
    """How many tasks share the reading of files: the work is in the files, not in the few rows that name them."""
    return max(1, min(most, -(-files // each)))


def _ranges_folder(context: MarkContext) -> str:
    return context.mark.stage_folder(STAGE, RANGES)


def _with_schema(frame: DataFrame, body: Any, schema: pa.Schema) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    return frame.mapInArrow(body, from_arrow_schema(schema))


def _count_metaranges(table: pa.Table) -> dict[str, int]:
    own = pc.equal(table["range_id"], "")
    return {
        "metaranges": pc.sum(own).as_py() or 0,
        "ranges": table.num_rows - (pc.sum(own).as_py() or 0),
        "stated_ranges": pc.sum(table["count"].filter(own)).as_py() or 0,
    }


def _total(parts: Sequence[Part], name: str) -> int:
    return sum(part.sums.get(name, 0) for part in parts)


@dataclass(frozen=True)
class _Reading:
    """Reads metadata files of the namespace; a picklable value that tasks carry."""

    data: StoreConfig
    artifacts: StoreConfig
    folder: str
    prefix: str
    namespace: Namespace

    def metaranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For each metarange id: one row that counts its ranges, then one row a range."""
        store = connect(self.data)
        for batch in batches:
            for metarange_id in batch.column("metarange_id").to_pylist():
                data = store.read(f"{self.prefix}/{metarange_id}")
                ranges = graveler.read_metarange(data, expected_id=metarange_id)
                own = {"metarange_id": [metarange_id], "range_id": [""], "min_key": [b""], "max_key": [b""]}
                yield pa.RecordBatch.from_pydict({**own, "count": [ranges.num_rows]}, schema=METARANGES_SCHEMA)
                named = ranges.append_column("metarange_id", pa.array([metarange_id] * ranges.num_rows, pa.string()))
                yield from named.select(METARANGES_SCHEMA.names).cast(METARANGES_SCHEMA).to_batches()

    def ranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        """Read every range of the batches and write what it protects."""
        addresses = PartWriter(self.artifacts, f"{self.folder}", SCHEMA)
        ranges = PartWriter(self.artifacts, f"{self.folder}/{RANGES}", RANGES_SCHEMA, _count_entries)
        for batch in batches:
            for each in batch.to_pylist():
                if each["count"] != each["most"]:
                    raise CorruptFileError(
                        f"Two metaranges disagree on range {each['range_id']}: {each['count']:,} and "
                        f"{each['most']:,} entries."
                    )
                for table in self._entries(each):
                    addresses.write(table)
                row = {name: [each[name]] for name in RANGES_SCHEMA.names}
                ranges.write(pa.RecordBatch.from_pydict(row, schema=RANGES_SCHEMA))
        yield from part_results(STAGE, addresses.close())
        yield from part_results(RANGES, ranges.close())

    def _entries(self, each: Json) -> Iterator[pa.RecordBatch]:
        range_id = each["range_id"]
        data = connect(self.data).read(f"{self.prefix}/{range_id}")
        try:
            entries = graveler.read_range(
                data,
                count=each["count"],
                min_key=each["min_key"],
                max_key=each["max_key"],
                expected_id=range_id,  # another range of the same paths would have the same count and keys
            )
        except CorruptFileError as error:
            raise CorruptFileError(f"Range {range_id}: {error}") from None
        yield from protected_rows(self.namespace, range_id, entries).to_batches()


def _count_entries(table: pa.Table) -> dict[str, int]:
    return {
        "entries": pc.sum(table["count"]).as_py() or 0,
        "references": pc.sum(table["references"]).as_py() or 0,
    }
