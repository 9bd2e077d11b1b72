"""Reads the changes of commits: metaranges that came or went since the mark below, and the ranges that differ.

The mark below knows how many retained metaranges contain each range; the metaranges that changed give the counts of
now. New ranges are read; the addresses of ranges that no retained metarange contains any more may be garbage. A clean
mark has none below it: all that is retained is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer
from lakegc_core.marks.stage_run import StageOutput
from lakegc_core.names import Json, Stage, Symptom, see
from lakegc_core.policy.facts import ChangedFacts
from lakegc_core.references.commits.commit_walk import way_out
from lakegc_core.references.ranges.lost_ranges import UNREAD, ignored_in
from lakegc_core.references.ranges.range_files import (
    CHECKSUMS,
    CHECKSUMS_SCHEMA,
    METARANGES,
    METARANGES_SCHEMA,
    NOT_KNOWN,
    RANGES,
    RANGES_SCHEMA,
    RangeReader,
    RangeWriter,
    check_metaranges,
    check_references,
    holding_metaranges,
    holding_ranges,
    partitions_of,
    range_reader,
    range_writer,
    sum_metaranges,
    sum_ranges,
    summary,
)
from lakegc_core.spark.tasks import collected, count_of, many, run_on_rows
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import HASH, KIND, Feed, columns_of, gather, with_hash
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.parts import spark_width, tasks_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMER = "former_metaranges"
_ADDED, _GONE = "ranges_added", "ranges_dropped"
_ODD = "odd"
_LEFT = "left"  # gone, and nobody has read its addresses
_NAMED_COMMITS = 10
_IN_WAY_OUT = 300  # a list that can be copied whole, and still fits into an error
_ANEW = "This mark cannot rest on the one below. Make a new mark: it will be a clean one."
_NOW, _BEFORE = range(2)  # `_judged` relies on the order: a known range has _BEFORE as its greatest kind

_NAMED = pa.schema([KIND, HASH, *(field.with_nullable(True) for field in CHECKSUMS_SCHEMA)])
_READ = pa.schema([*METARANGES_SCHEMA, pa.field("verdict", pa.string(), nullable=False)])
_COUNTED = pa.schema(
    [
        KIND,
        HASH,
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("references", pa.int64(), nullable=False),  # those of the mark below; 1 or -1 in a metarange
        pa.field("count", pa.int64()),  # entries, by the mark below
        pa.field("stated", pa.int64()),  # by metaranges, which may be wrong
        pa.field("read_in", pa.string()),
    ]
)
_JUDGED = pa.schema([*RANGES_SCHEMA.remove(3), _COUNTED.field("read_in"), _READ.field("verdict")])


def read_changes(
    spark: SparkSession,
    context: MarkContext,
    layers: Sequence[Layer],
    commits: Dataset,
    out: DatasetFolder,
    *,
    expected: int,
) -> StageOutput[ChangedFacts]:
    """Read the ranges of the metaranges of retained commits. Those that the mark below knew are not read again.

    `layers`: that mark and those that it rests on, newest first; none for a clean mark. `commits`: those that are
    retained now. `expected`: the number of distinct metaranges that they have.
    """
    metaranges = _read_metaranges(spark, context, layers, commits, out, expected)
    checksums = metaranges[CHECKSUMS]
    check_metaranges(checksums, expected)
    ignored = ignored_in(spark, context, commits)
    work = range_writer(context, out, ignored)
    with _naming_commits(spark, context, metaranges[METARANGES], commits):
        results = _read_ranges(spark, context, layers, metaranges, work)
    datasets = work.datasets(results)
    read = summary(checksums, datasets)
    check_references(read)
    added, dropped = (sum(each[name] for each in results if name in each) for name in (_ADDED, _GONE))
    facts = ChangedFacts(**read.as_json(), ranges_added=added, ranges_dropped=dropped)
    datasets |= {METARANGES: metaranges[METARANGES], CHECKSUMS: checksums}
    return StageOutput({name: dataset.parts for name, dataset in datasets.items()}, facts)


@contextmanager
def _naming_commits(spark: SparkSession, context: MarkContext, metaranges: Dataset, commits: Dataset) -> Iterator[None]:
    """Add to the error of a range that cannot be read which commits have it that are not ignored, and what to do."""
    try:
        yield
    except (CorruptFileError, ObjectNotFoundError) as error:
        lost = re.match("Range ([0-9a-f]{64}): ", str(error))
        if lost is None:
            raise
        having = metaranges.frame(spark, "metarange_id", "range_id").where(f"range_id = '{lost[1]}'")
        found = commits.frame(spark, "commit_id", "metarange_id").join(many(having), "metarange_id", "left_semi")
        found = found.where(~found["commit_id"].isin(*context.header.ignore_commits))
        ids = [row["commit_id"] for row in collected(found.orderBy("commit_id").limit(_IN_WAY_OUT))]
        if not ids:  # their metaranges were read by an earlier mark
            raise type(error)(f"{error} {see(Symptom.UNREADABLE_COMMIT)}") from None
        raise type(error)(
            f"{error} {count_of(found):,} retained commits have it, such as {', '.join(ids[:_NAMED_COMMITS])}. "
            f"{way_out(ids)}"
        ) from None


def _read_metaranges(
    spark: SparkSession,
    context: MarkContext,
    layers: Sequence[Layer],
    commits: Dataset,
    out: DatasetFolder,
    expected: int,
) -> dict[str, Dataset]:
    """Rows of the metaranges that are retained only now, and of those that were only before; checksums of all that are
    retained."""
    feeds, files = commits.feeds("metarange_id", make=_named_now), expected
    for base in layers[:1]:
        before = base.dataset(Stage.COMMITTED_ADDRESSES, CHECKSUMS_SCHEMA, CHECKSUMS)
        feeds, files = (
            [*feeds, *before.feeds(make=partial(with_hash, of="metarange_id", kind=_BEFORE))],
            files + before.rows,
        )
    width = spark_width(spark)
    tasks = width if layers else tasks_for(expected, 64, 4 * width)
    partitions = partitions_of(context, feeds, tasks)
    rows = gather(
        spark, feeds, _NAMED, _Comparing(range_reader(context)), _READ, partitions, holding=holding_metaranges(files)
    )
    schemas = {METARANGES: METARANGES_SCHEMA, _FORMER: METARANGES_SCHEMA, CHECKSUMS: CHECKSUMS_SCHEMA}
    return out.divide(rows, schemas, _split_metaranges, sum_metaranges)


def _named_now(rows: pa.RecordBatch) -> Mapping[str, Any]:
    ids = rows["metarange_id"]
    ids = ids.filter(pc.not_equal(ids, ""))
    return {"kind": _NOW, "hash": hash_strings(ids), "metarange_id": ids}


@dataclass(frozen=True)
class _Comparing:
    """Compares the metaranges of now with those of before, and reads those that differ."""

    work: RangeReader

    def __call__(self, rows: pa.Table) -> Iterator[pa.Table]:
        now, before = (rows.filter(pc.equal(rows["kind"], kind)) for kind in (_NOW, _BEFORE))
        kept = before.filter(pc.is_in(before["metarange_id"], now["metarange_id"])).select(CHECKSUMS_SCHEMA.names)
        own = {"range_id": pa.repeat("", len(kept)), **dict.fromkeys(("min_key", "max_key"), pa.repeat(b"", len(kept)))}
        yield _with_verdict(pa.table(columns_of(kept) | own), CHECKSUMS)
        yield from self._differing(METARANGES, now, before)
        with _of_mark_below():
            yield from self._differing(_FORMER, before, now)

    def _differing(self, verdict: str, mine: pa.Table, others: pa.Table) -> Iterator[pa.Table]:
        differ = mine.filter(pc.invert(pc.is_in(mine["metarange_id"], others["metarange_id"])))
        for found in self.work.metarange_rows(pc.unique(differ["metarange_id"]).to_pylist()):
            yield _with_verdict(found, verdict)


@contextmanager
def _of_mark_below() -> Iterator[None]:
    """Files are read that nothing retained needs: only the counts of the mark below do, which a clean mark does
    without. CorruptFileError if one cannot be read."""
    try:
        yield
    except (CorruptFileError, ObjectNotFoundError) as error:
        what = str(error).partition(NOT_KNOWN)[0]
        raise CorruptFileError(f"The mark below counted a file that cannot be read now. {what} {_ANEW}") from None


def _with_verdict(rows: pa.Table, verdict: str) -> pa.Table:
    return rows.append_column("verdict", pa.repeat(verdict, len(rows)))


def _split_metaranges(table: pa.Table) -> dict[str, pa.Table]:
    found = {name: table.filter(pc.equal(table["verdict"], name)) for name in (METARANGES, _FORMER, CHECKSUMS)}
    new = found[METARANGES]
    return found | {CHECKSUMS: pa.concat_tables([found[CHECKSUMS], new.filter(pc.equal(new["range_id"], ""))])}


def _read_ranges(
    spark: SparkSession,
    context: MarkContext,
    layers: Sequence[Layer],
    metaranges: Mapping[str, Dataset],
    work: RangeWriter,
) -> list[Json]:
    """Divide the ranges of now and of before into unchanged, added and dropped ones. Read the added and the dropped."""
    feeds: list[Feed] = []
    before = partial(with_hash, of="range_id", kind=_BEFORE)
    for base in layers[:1]:
        feeds += base.dataset(Stage.COMMITTED_ADDRESSES, RANGES_SCHEMA, RANGES).feeds(make=before)
    for name, sign in ((METARANGES, 1), (_FORMER, -1)):
        feeds += metaranges[name].feeds("range_id", "count", make=partial(_counted, sign))
    changed = metaranges[METARANGES].rows + metaranges[_FORMER].rows
    few = holding_ranges([metaranges[METARANGES], metaranges[_FORMER]])
    # The work is in the ranges that changed: at most as many as there are references to such.
    partitions = partitions_of(context, feeds, tasks_for(changed, 32, 4 * spark_width(spark)))
    judge = partial(_judged, tuple(layer.mark_id for layer in layers))
    judged = gather(spark, feeds, _COUNTED, judge, _JUDGED, partitions, holding=few)
    return run_on_rows(judged, partial(_changed_ranges, work))


def _changed_ranges(work: RangeWriter, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
    """Write the unchanged ranges, and read the added and the dropped ones.

    CorruptFileError if the counts of the mark below and the metaranges contradict each other, or if no layer has the
    addresses of a range.
    """
    rows = pa.Table.from_batches(batches, _JUDGED)
    judged = {name: rows.filter(pc.equal(rows["verdict"], name)) for name in (RANGES, _ADDED, _GONE, _ODD)}
    if len(judged[_ODD]):
        raise CorruptFileError(
            f"Ranges such as {judged[_ODD]['range_id'][0]} do not agree with what the mark below knew of them: the "
            f"counts of references do not add up. {_ANEW}"
        )
    yield from work.out.results(RANGES, judged[RANGES], RANGES_SCHEMA, sum_ranges)
    yield {name: len(judged[name]) for name in (_ADDED, _GONE)}
    yield from work.ranges(iter(judged[_ADDED].to_batches()))
    with _of_mark_below():
        yield from work.dropped(iter(judged[_GONE].to_batches()))


def _counted(sign: int, rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Turn rows of metaranges into changes of the counts of ranges. `sign`: 1 for metaranges of now, -1 for former.

    It makes one row for each range, because most metaranges contain the same ranges.
    """
    named = pa.Table.from_batches([rows.filter(pc.not_equal(rows["range_id"], ""))])
    found = named.group_by("range_id").aggregate([("range_id", "count"), ("count", "max")]).combine_chunks()
    return {
        "kind": _NOW,
        "hash": hash_strings(found["range_id"]),
        "range_id": found["range_id"].combine_chunks(),
        "references": found["range_id_count"].to_numpy() * sign,
        "stated": found["count_max"].combine_chunks(),
    }


def _judged(marks: tuple[str, ...], rows: pa.Table) -> Iterator[pa.Table]:
    """Judge ranges by their counts: unchanged, added, dropped, or odd. What is retained and no mark has read is read
    like what was added. `marks`: ids of the layers."""
    told = [("references", "sum"), *((name, "max") for name in ("count", "stated", "kind", "read_in"))]
    found = rows.group_by("range_id").aggregate(told)
    references = found["references_sum"].to_numpy()
    known = found["kind_max"].to_numpy() == _BEFORE
    unread = pc.fill_null(pc.equal(found["read_in_max"], UNREAD), False).to_numpy()
    nowhere = ~unread & ~pc.is_in(found["read_in_max"], pa.array(marks, pa.string())).to_numpy()
    odd = (references < 0) | (known & nowhere) | (~known & (references == 0))
    is_gone = references == 0
    verdicts = np.select([odd, unread & is_gone, ~known | unread, is_gone], [_ODD, _LEFT, _ADDED, _GONE], RANGES)
    counts = pc.coalesce(found["count_max"], found["stated_max"])
    columns = (found["range_id"], found["references_sum"], counts, found["read_in_max"], verdicts.astype(object))
    yield pa.table(dict(zip(_JUDGED.names, columns, strict=True)), schema=_JUDGED)
