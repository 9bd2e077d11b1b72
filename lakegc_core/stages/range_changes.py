"""What an optimized mark reads of commits: metaranges that came or went since the mark below, and ranges that differ.

The mark below knows how many retained metaranges hold each range; from the metaranges that changed follow the counts
of now. Ranges that nothing held before are read; the addresses of those that nothing holds any more may be garbage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.context import MarkContext
from lakegc_core.errors import CorruptFileError
from lakegc_core.hashing import hash_strings
from lakegc_core.spark import run_on_rows
from lakegc_core.stages.base import StageOutput
from lakegc_core.stages.commit_walk import COMMITS
from lakegc_core.stages.gathering import HASH, KIND, Feed, columns_of, gather, partitions_for, rows_in
from lakegc_core.stages.hash_scan import Source
from lakegc_core.stages.layers import Layer
from lakegc_core.stages.range_reading import (
    CHECKSUMS,
    CHECKSUMS_SCHEMA,
    DROPPED,
    INDEX,
    METARANGES,
    METARANGES_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    STAGE,
    Reading,
    check_metaranges,
    check_references,
    reading,
    sum_metaranges,
    sum_ranges,
    summary,
    tasks_for,
)
from lakegc_core.store.parquet import Part, parts_of, read, rows_of, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMER = "former_metaranges"
_ADDED, _GONE, _CHANGED, _ODD = "added_ranges", "dropped_ranges", "changed_ranges", "odd_ranges"
_NOW, _BEFORE = range(2)

_NAMED = pa.schema([KIND, HASH, *(field.with_nullable(True) for field in CHECKSUMS_SCHEMA)])
_READ = pa.schema([*METARANGES_SCHEMA, pa.field("verdict", pa.string(), nullable=False)])
_COUNTED = pa.schema(
    [
        KIND,
        HASH,
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("references", pa.int64(), nullable=False),  # those of the mark below; 1 or -1 in a metarange
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary()),
        pa.field("max_key", pa.binary()),
        pa.field("read_in", pa.string()),
    ]
)
_JUDGED = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("references", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("most", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=True),
        pa.field("max_key", pa.binary(), nullable=True),
        pa.field("read_in", pa.string(), nullable=True),
        pa.field("verdict", pa.string(), nullable=False),
    ]
)


def read_changes(
    spark: SparkSession,
    context: MarkContext,
    layers: Sequence[Layer],
    commits: Sequence[Part],
    folder: str,
    *,
    expected: int,
) -> StageOutput:
    """What the metaranges of the retained commits refer to, from what the mark below knew of its own.

    `layers`: that mark and those that it rests on, newest first. `commits`: parts of the commits that are retained now.
    `expected`: how many distinct metaranges they have.
    """
    work, config = reading(context, folder), context.workspace
    metaranges = _read_metaranges(spark, context, layers[0], commits, folder)
    check_metaranges(metaranges[CHECKSUMS], expected)
    judged = _judge(spark, context, layers, metaranges, folder)
    parts: dict[str, list[Part]] = {name: [] for name in (STAGE, INDEX, RANGES, DROPPED)}
    if changed := judged[_CHANGED]:
        told = context.settings.scale.range_num_partitions
        width = told or tasks_for(rows_of(changed), 32, 8 * spark_width(spark))
        rows = read(spark, config, f"{folder}/{_CHANGED}", changed, _JUDGED).repartition(width)
        parts = parts_of(run_on_rows(rows, _Changed(work)), parts)
    ranges = [*judged[RANGES], *parts[RANGES]]
    facts = summary(metaranges[CHECKSUMS], ranges, parts)
    check_references(facts)
    added, gone = (sum(part.sums[name] for part in judged[_CHANGED]) for name in (_ADDED, _GONE))
    datasets = {**parts, RANGES: ranges, METARANGES: metaranges[METARANGES], CHECKSUMS: metaranges[CHECKSUMS]}
    return StageOutput(datasets, facts | {"ranges_added": added, "ranges_dropped": gone})


@dataclass(frozen=True)
class _Changed:
    """Reads ranges that came and ranges that went; a picklable value that tasks carry."""

    work: Reading

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        rows = pa.Table.from_batches(batches, _JUDGED)
        for verdict, task in ((_ADDED, self.work.ranges), (_GONE, self.work.dropped)):
            yield from task(iter(rows.filter(pc.equal(rows["verdict"], verdict)).to_batches()))


def _read_metaranges(
    spark: SparkSession, context: MarkContext, base: Layer, commits: Sequence[Part], folder: str
) -> dict[str, list[Part]]:
    """Rows of the metaranges that are retained only now, and of those that were only before; checksums of all that are
    retained."""
    place = context.mark.stage_folder(COMMITS)
    feeds = [
        Feed(Source(context.workspace, place, part, context.header.mark_id), ("metarange_id",), _named_now)
        for part in commits
    ]
    feeds += [Feed(source, tuple(CHECKSUMS_SCHEMA.names), _named_before) for source in base.sources(STAGE, CHECKSUMS)]
    partitions = context.settings.scale.range_num_partitions or spark_width(spark)
    rows = gather(spark, feeds, _NAMED, _Comparing(reading(context, folder)), _READ, partitions)
    return write(
        rows,
        context.workspace,
        {name: f"{folder}/{name}" for name in (METARANGES, _FORMER, CHECKSUMS)},
        METARANGES_SCHEMA,
        split=_split_metaranges,
        schemas={CHECKSUMS: CHECKSUMS_SCHEMA},
        summarise=sum_metaranges,
    )


def _named_now(rows: pa.RecordBatch) -> Mapping[str, Any]:
    ids = rows["metarange_id"]
    ids = ids.filter(pc.not_equal(ids, ""))
    return {"kind": _NOW, "hash": hash_strings(ids), "metarange_id": ids}


def _named_before(rows: pa.RecordBatch) -> Mapping[str, Any]:
    return columns_of(rows) | {"kind": _BEFORE, "hash": hash_strings(rows["metarange_id"])}


@dataclass(frozen=True)
class _Comparing:
    """Compares the metaranges of now with those of before, and reads those that differ; a picklable value."""

    work: Reading

    def __call__(self, rows: pa.Table) -> Iterator[pa.Table]:
        now, before = (rows.filter(pc.equal(rows["kind"], kind)) for kind in (_NOW, _BEFORE))
        kept = before.filter(pc.is_in(before["metarange_id"], now["metarange_id"])).select(CHECKSUMS_SCHEMA.names)
        own = {"range_id": pa.repeat("", len(kept)), **dict.fromkeys(("min_key", "max_key"), pa.repeat(b"", len(kept)))}
        yield _with_verdict(pa.table(columns_of(kept) | own), CHECKSUMS)
        for verdict, mine, others in ((METARANGES, now, before), (_FORMER, before, now)):
            differ = mine.filter(pc.invert(pc.is_in(mine["metarange_id"], others["metarange_id"])))
            for found in self.work.metarange_rows(pc.unique(differ["metarange_id"]).to_pylist()):
                yield _with_verdict(found, verdict)


def _with_verdict(rows: pa.Table, verdict: str) -> pa.Table:
    return rows.append_column("verdict", pa.repeat(verdict, len(rows)))


def _split_metaranges(table: pa.Table) -> dict[str, pa.Table]:
    found = {name: table.filter(pc.equal(table["verdict"], name)) for name in (METARANGES, _FORMER, CHECKSUMS)}
    new = found[METARANGES]
    return found | {CHECKSUMS: pa.concat_tables([found[CHECKSUMS], new.filter(pc.equal(new["range_id"], ""))])}


def _judge(
    spark: SparkSession,
    context: MarkContext,
    layers: Sequence[Layer],
    metaranges: Mapping[str, Sequence[Part]],
    folder: str,
) -> dict[str, list[Part]]:
    """Every range that is held now or was before, told apart: held still, added, dropped. CorruptFileError where the
    counts of the mark below and the metaranges contradict each other, or no layer holds what a range protects."""
    base, own = layers[0], context.header.mark_id
    columns = ("range_id", "min_key", "max_key", "count")
    feeds = [Feed(source, tuple(RANGES_SCHEMA.names), _counted_before) for source in base.sources(STAGE, RANGES)]
    for name, sign in ((METARANGES, 1), (_FORMER, -1)):
        place = f"{folder}/{name}"
        feeds += [
            Feed(Source(context.workspace, place, part, own), columns, _Counted(sign)) for part in metaranges[name]
        ]
    partitions = partitions_for(rows_in(feeds))
    judge = _Judging(tuple(layer.mark_id for layer in layers))
    names = (RANGES, _CHANGED, _ODD)
    found = write(
        gather(spark, feeds, _COUNTED, judge, _JUDGED, partitions),
        context.workspace,
        {name: f"{folder}/{name}" for name in names},
        _JUDGED,
        split=_split_judged,
        schemas={RANGES: RANGES_SCHEMA},
        summarise=_sum_judged,
    )
    if found[_ODD]:
        raise CorruptFileError(
            f"{rows_of(found[_ODD]):,} ranges do not agree with what mark {base.mark_id} knew of them: the counts of "
            "references do not add up. This mark cannot rest on it. Make a new mark: it will be a clean one."
        )
    return found


def _counted_before(rows: pa.RecordBatch) -> Mapping[str, Any]:
    return columns_of(rows) | {"kind": _BEFORE, "hash": hash_strings(rows["range_id"])}


@dataclass(frozen=True)
class _Counted:
    """What a metarange says of its ranges, as a change of their counts; a picklable value that tasks carry."""

    sign: int

    def __call__(self, rows: pa.RecordBatch) -> Mapping[str, Any]:
        rows = rows.filter(pc.not_equal(rows["range_id"], ""))
        return columns_of(rows) | {"kind": _NOW, "hash": hash_strings(rows["range_id"]), "references": self.sign}


@dataclass(frozen=True)
class _Judging:
    """Tells from their counts whether ranges are held still; a picklable value. `marks`: that the layers are of."""

    marks: tuple[str, ...]

    def __call__(self, rows: pa.Table) -> Iterator[pa.Table]:
        told = [("references", "sum"), ("count", "min"), ("count", "max"), ("kind", "max")]
        told += [("min_key", "min"), ("max_key", "max"), ("read_in", "max")]
        found = rows.group_by("range_id").aggregate(told)
        references = found["references_sum"].to_numpy()
        known = found["kind_max"].to_numpy() == _BEFORE
        nowhere = ~pc.is_in(found["read_in_max"], pa.array(self.marks)).to_numpy()
        differs = found["count_min"].to_numpy() != found["count_max"].to_numpy()
        odd = (references < 0) | differs | (known & nowhere) | (~known & (references == 0))
        verdicts = np.select([odd, ~known, references == 0], [_ODD, _ADDED, _GONE], RANGES)
        names = {"references_sum": "references", "count_min": "count", "count_max": "most"}
        names |= {f"{name}_{which}": name for name, which in told[4:]}
        yield _renamed(found, names).append_column("verdict", pa.array(verdicts.astype(object), pa.string()))


def _renamed(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return table.rename_columns([names.get(name, name) for name in table.column_names])


def _split_judged(table: pa.Table) -> dict[str, pa.Table]:
    verdicts = {RANGES: [RANGES], _CHANGED: [_ADDED, _GONE], _ODD: [_ODD]}
    return {name: table.filter(pc.is_in(table["verdict"], pa.array(told))) for name, told in verdicts.items()}


def _sum_judged(table: pa.Table) -> dict[str, int]:
    if "verdict" not in table.column_names:
        return sum_ranges(table)
    return {name: pc.sum(pc.equal(table["verdict"], name)).as_py() or 0 for name in (_ADDED, _GONE)}
