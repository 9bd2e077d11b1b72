"""Reads the metaranges and ranges of commits that a mark did not know, for a look.

A mark reads with `range_counts`, which counts what came and what went. A look needs no counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import IncompleteError
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Stage
from lakegc_core.policy.facts import CommittedFacts, ReadFacts
from lakegc_core.policy.retention import HOLD
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA
from lakegc_core.references.ranges.lost_ranges import NOTHING_IGNORED, UNREAD, Ignored
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.ranges.range_files import (
    CHECKSUMS,
    CHECKSUMS_SCHEMA,
    DROPPED,
    METARANGES,
    METARANGES_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    SCHEMAS,
    RangeReader,
    check_metaranges,
    holding_metaranges,
    holding_ranges,
    partitions_of,
    range_reader,
    range_writer,
    split_metaranges,
    sum_metaranges,
    summary,
)
from lakegc_core.spark.tasks import run_on_rows
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import BY_TASKS, HASH, KIND, gather, partitions_for, rows_in, with_hash
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.parts import spark_width, tasks_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNKNOWN = "unknown"
_WANTED, _KNOWN = range(2)
_IDS = pa.schema([COMMITS_SCHEMA.field("metarange_id")])
_METARANGE_ROWS = pa.schema([KIND, HASH, *_IDS])
_RANGE = RANGES_SCHEMA.remove(RANGES_SCHEMA.get_field_index("read_in"))
_RANGE_ROWS = pa.schema([KIND, HASH, *(field.with_nullable(True) for field in _RANGE)])
_SCHEMAS = {CHECKSUMS: CHECKSUMS_SCHEMA} | {name: each for name, each in SCHEMAS.items() if name != DROPPED}


@dataclass
class ReadSince:
    """Metaranges and ranges that looks have read and the mark had not, each once. Grows with each reading.

    `out`: the folder of its datasets; the addresses lie in `out` itself. `datasets`: by their names (`range_files`).
    """

    out: DatasetFolder
    datasets: dict[str, Dataset] = field(
        default_factory=lambda: {name: Dataset(schema) for name, schema in _SCHEMAS.items()}
    )

    @property
    def facts(self) -> ReadFacts:
        return summary(self.datasets[CHECKSUMS], self.datasets)

    def add(self, found: Mapping[str, Dataset]) -> None:
        """Take over a reading that is whole."""
        self.datasets = {name: known + found[name] for name, known in self.datasets.items()}


def read_unknown(
    spark: SparkSession,
    context: MarkContext,
    retained: Dataset,
    so_far: ReadSince,
    ignored: Ignored = NOTHING_IGNORED,
    *,
    by_hold: bool = False,
    unread_too: bool = False,
) -> Dataset:
    """Read the metaranges of `retained` (COMMITS_SCHEMA) that neither the mark nor `so_far` has, and of their ranges
    those that neither has. Adds them to `so_far`. Returns the new addresses (ENTRIES_SCHEMA).

    `by_hold`: of the commits that only holds keep; False: of all others. `ignored`: whose ranges are passed over where
    they cannot be read; each call tries again. `unread_too`: read the ranges, too, that the mark passed over.
    """
    mark, out = context.mark, so_far.out
    marked = mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA)
    feeds = retained.feeds("metarange_id", "kept_by", make=partial(_wanted, by_hold))
    feeds += marked.feeds("metarange_id", make=partial(_known, ()))
    feeds += so_far.datasets[CHECKSUMS].feeds("metarange_id", make=partial(_known, ignored.metarange_ids))
    unknown = out.put(
        _UNKNOWN, gather(spark, feeds, _METARANGE_ROWS, _unknown, _IDS, partitions_for(rows_in(feeds))), _IDS
    )
    unread_too = unread_too and mark.facts(CommittedFacts).ranges_ignored > 0
    if unknown.rows == 0 and not unread_too:  # the usual case: nothing was committed since
        return Dataset(ENTRIES_SCHEMA)
    found = _read_metaranges(spark, context, unknown, out)
    of_mark = mark.dataset(Stage.COMMITTED_ADDRESSES, RANGES_SCHEMA, RANGES)
    feeds = found[METARANGES].feeds("range_id", "count", make=_ranges_of)
    feeds += (of_mark + so_far.datasets[RANGES]).feeds("range_id", "read_in", make=_read_already)
    if unread_too:
        feeds += of_mark.feeds(make=_passed_over)
    references = found[METARANGES].sum("ranges") + (of_mark.rows if unread_too else 0)
    tasks = tasks_for(references, 32, 8 * spark_width(spark))
    few = BY_TASKS if unread_too else holding_ranges([found[METARANGES]])
    partitions = partitions_of(context, feeds, tasks)
    ranges = gather(spark, feeds, _RANGE_ROWS, _not_read, _RANGE, partitions, holding=few)
    work = range_writer(context, out, ignored)
    read = work.datasets(run_on_rows(ranges, work.ranges)) | {CHECKSUMS: found[CHECKSUMS]}
    summary(found[CHECKSUMS], read)  # a check: IncompleteError unless each address is in the index
    so_far.add(read)
    return read[Stage.COMMITTED_ADDRESSES]


def _wanted(by_hold: bool, rows: pa.RecordBatch) -> Mapping[str, Any]:
    is_held = pc.starts_with(rows["kept_by"], f"{HOLD}:")
    ids = rows["metarange_id"].filter(is_held if by_hold else pc.invert(is_held))
    ids = ids.filter(pc.not_equal(ids, ""))
    return {"kind": _WANTED, "hash": hash_strings(ids), "metarange_id": ids}


def _known(but: tuple[str, ...], rows: pa.RecordBatch) -> Mapping[str, Any]:
    ids = rows["metarange_id"]
    ids = ids.filter(pc.invert(pc.is_in(ids, pa.array(but, pa.string()))))
    return {"kind": _KNOWN, "hash": hash_strings(ids), "metarange_id": ids}


def _unknown(rows: pa.Table) -> Iterator[pa.Table]:
    """The ids that are wanted and not known, each once."""
    wanted, known = (rows.filter(pc.equal(rows["kind"], kind))["metarange_id"] for kind in (_WANTED, _KNOWN))
    ids = pc.unique(wanted)
    yield pa.table({"metarange_id": ids.filter(pc.invert(pc.is_in(ids, known.combine_chunks())))})


def _read_metaranges(
    spark: SparkSession, context: MarkContext, unknown: Dataset, out: DatasetFolder
) -> Mapping[str, Dataset]:
    """The ranges of the `unknown` metaranges, and their checksums. IncompleteError if they are not whole."""
    feeds = unknown.feeds(make=partial(_known, ()))  # only their ids: nothing looks at the kind here
    tasks = tasks_for(unknown.rows, 16, 4 * spark_width(spark))
    few, partitions = holding_metaranges(unknown.rows), partitions_of(context, feeds, tasks)
    rows = gather(
        spark, feeds, _METARANGE_ROWS, partial(_read, range_reader(context)), METARANGES_SCHEMA, partitions, holding=few
    )
    schemas = {METARANGES: METARANGES_SCHEMA, CHECKSUMS: CHECKSUMS_SCHEMA}
    found = out.divide(rows, schemas, split_metaranges, sum_metaranges)
    check_metaranges(found[CHECKSUMS], unknown.rows)
    if found[METARANGES].sum("ranges") != found[CHECKSUMS].sum("stated_ranges"):
        raise IncompleteError("Metaranges have fewer ranges than they say. Run this again.")
    return found


def _read(work: RangeReader, rows: pa.Table) -> Iterator[pa.Table]:
    """Read the metaranges that rows name: METARANGES_SCHEMA."""
    return work.metarange_rows(rows["metarange_id"].to_pylist())


def _ranges_of(rows: pa.RecordBatch) -> Mapping[str, Any]:
    """The ranges of metaranges: each is wanted."""
    named = rows.filter(pc.not_equal(rows["range_id"], ""))
    return with_hash(named, of="range_id", kind=_WANTED, references=1)


def _read_already(rows: pa.RecordBatch) -> Mapping[str, Any]:
    """The ranges whose addresses somebody has read."""
    ids = rows["range_id"].filter(pc.not_equal(rows["read_in"], UNREAD))
    return {"kind": _KNOWN, "hash": hash_strings(ids), "range_id": ids}


def _passed_over(rows: pa.RecordBatch) -> Mapping[str, Any]:
    """The ranges that the mark passed over: each is wanted."""
    found = rows.filter(pc.equal(rows["read_in"], UNREAD)).select(_RANGE.names)
    return with_hash(found, of="range_id", kind=_WANTED)


def _not_read(rows: pa.Table) -> Iterator[pa.Table]:
    """The ranges that are wanted and that nobody has read, each once. `count`: the most that a metarange says."""
    wanted, read = (rows.filter(pc.equal(rows["kind"], kind)) for kind in (_WANTED, _KNOWN))
    wanted = wanted.filter(pc.invert(pc.is_in(wanted["range_id"], read["range_id"].combine_chunks())))
    found = wanted.group_by("range_id").aggregate([("references", "sum"), ("count", "max")])
    yield found.rename_columns({"references_sum": "references", "count_max": "count"})
