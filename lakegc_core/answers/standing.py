"""The objects that a complete mark knows to be there, with what keeps each besides commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.inventory.carried import OBJECTS_SCHEMA, find
from lakegc_core.judging.reasons import Judge
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT, NEIGHBOURS
from lakegc_core.marks.last_known import gone, readable_records
from lakegc_core.marks.layers import Layer
from lakegc_core.marks.ledger import Kind, records_of
from lakegc_core.names import Reason, Stage
from lakegc_core.policy.facts import CommitsFacts
from lakegc_core.policy.xids import xid_times
from lakegc_core.references.of_neighbours import KEYS_SCHEMA
from lakegc_core.references.ranges.held_paths import held_by_path
from lakegc_core.references.staged import STAGED_SCHEMA
from lakegc_core.spark.tasks import Mapped
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.joins import among, flagged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        pa.field("hash", pa.int64(), nullable=False),  # of the address
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("reason", pa.string(), nullable=False),  # `unreferenced` if only commits can keep it
        pa.field("staged", pa.bool_(), nullable=False),  # where branches are listed, also if a head shows it
    ]
)
_DELETED = "deleted"
_ASIDE = "kept_by_mark"
_STAGED = "named_as_staged"
_ADDRESS = pa.schema([OBJECTS_SCHEMA.field("address")])


def objects_of(
    spark: SparkSession, context: MarkContext, layers: Sequence[Layer], commits: Dataset, aside: DatasetFolder
) -> Mapped:
    """The objects (SCHEMA) that the mark listed and no sweep has deleted since. `layers`: the mark and those that it
    rests on; `commits`: all, in the folder OTHERS of `aside`."""
    own = layers[0]
    holds = context.mark.facts(CommitsFacts).holds  # lakegc.yaml may have others by now, of which the mark knew nothing
    held = held_by_path(spark, context, commits, aside, holds)
    keepers = {
        _STAGED: own.dataset(Stage.UNCOMMITTED_ADDRESSES, STAGED_SCHEMA),
        Reason.HELD: held.addresses,
        Reason.NEIGHBOUR: own.dataset(Stage.EXPIRED_ADDRESSES, KEYS_SCHEMA, NEIGHBOURS),
        _ASIDE: own.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA, KEPT),
    }
    rows = find(spark, layers)
    rows = among(spark, rows, _deleted_since(spark, context, own, aside).keys(), found=False)
    for reason, keeper in keepers.items():
        rows = flagged(spark, rows, reason, keeper.keys())
    return rows.then(SCHEMA, partial(_judged, Judge.of(context, xid_times)))


def _deleted_since(spark: SparkSession, context: MarkContext, own: Layer, aside: DatasetFolder) -> Dataset:
    """The addresses that sweeps have deleted since the mark was begun, as the ledger last knows it."""
    records = records_of(context, own.manifests[Stage.NAMESPACE_LISTING].started_at)
    if not any(record.kind == Kind.SWEPT and record.rows.parts for record in records.found):
        return Dataset(_ADDRESS)
    return aside.put(_DELETED, gone(spark, readable_records(spark, records)), _ADDRESS)


def _judged(judge: Judge, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make rows of SCHEMA of rows of the inventory with their flags."""
    for batch in batches:
        unknown = pa.repeat(False, batch.num_rows)
        rows = judge(pa.Table.from_batches([batch]).append_column(Reason.STAGED.value, unknown))
        judged = _beyond_age(judge, rows)
        alone = pc.equal(judged, Reason.UNREFERENCED)
        # The mark knows more of what is unreferenced: what branches show, and what it could not ask for.
        aside = pc.and_not(rows[_ASIDE], rows[_STAGED])
        reasons = pc.if_else(pc.and_(alone, aside), Reason.UNASKED, judged)
        found = pa.table(
            {
                "hash": hash_strings(rows["address"]) if len(rows) else pa.array([], pa.int64()),
                "size": rows["size"],
                "reason": reasons,
                "staged": rows[_STAGED],
            }
        )
        yield from found.cast(SCHEMA).combine_chunks().to_batches()


def _beyond_age(judge: Judge, rows: pa.Table) -> pa.ChunkedArray:
    """The reasons of judged rows; of what is young and has a name that keeps it at any age, that name is the reason."""
    if judge.unknown is None:
        return rows["reason"]
    named = judge.unknown(rows["address"].combine_chunks())
    return pc.if_else(pc.and_(pc.equal(rows["reason"], Reason.YOUNG), named), Reason.UNKNOWN, rows["reason"])
