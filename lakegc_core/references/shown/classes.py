"""Classes of candidates by size, and their order. The candidates of a class are asked for together or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.references.shown.intervals import CLASS, of_ranks
from lakegc_core.spark.tasks import Mapped
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import HASH, gather, partitions_for, rows_in
from lakegc_core.tables.hashing import mixed
from lakegc_core.tables.relations import selected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANNED = pa.schema([FINDINGS_SCHEMA.field(name) for name in ("address", "size", "etag")])
SIZES = pa.schema(
    [
        PLANNED.field("size"),  # bytes, of all candidates of the class
        pa.field("objects", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("waited", pa.int32(), nullable=False),  # marks in a row before this one that could not ask
        CLASS,  # its rank: the least is asked for first
    ]
)

SIZED = pa.schema([HASH, *list(SIZES)[:4]])
"""Candidates of a size, counted, and sizes that waited: then without candidates. Hashes differ if sizes do."""

HAD_ITS_TURN = -1
"""`waited` of a class that was asked about and still waits, because no answer shows what it hides, or that takes more
than any budget. The next mark adds 1 and gets 0: the class does not come first."""
EVERY = 0
"""Rank of entries that are alike to all classes."""

_SUMMED = (("objects", "sum"), ("bytes", "sum"), ("waited", "max"))
_FINE = 16  # ranks of one doubling of bytes
_SPREAD = 8  # ranks for classes of about equal bytes, dealt by size, so that a budget can end between them
_TURN = 2 * 64 * _FINE * _SPREAD  # ranks of all classes that have waited equally long
_LONGEST = 50_000  # marks; a longer wait counts as this
_EMPTY_RANK = 2**30


def of_candidates(rows: pa.RecordBatch) -> Mapping[str, Any]:
    """SIZED of candidates."""
    sizes, counts = np.unique(rows["size"].to_numpy(), return_counts=True)
    return {"hash": _hash(sizes), "size": sizes, "objects": counts, "bytes": sizes * counts, "waited": 0}


def of_waited(rows: pa.RecordBatch) -> Mapping[str, Any]:
    """SIZED of classes that waited (SIZES). Marks of earlier versions did not count for how long: once."""
    sizes = rows["size"].to_numpy()
    before = rows["waited"].to_numpy() if "waited" in rows.schema.names else np.zeros(len(sizes), np.int32)
    return {"hash": _hash(sizes), "size": sizes, "objects": 0, "bytes": 0, "waited": before + 1}


def find_classes(spark: SparkSession, candidates: Dataset, waited: Dataset, out: DatasetFolder) -> Dataset:
    """The classes of candidates, one for each size: SIZES. `waited`: classes that were left over last time."""
    feeds = [*candidates.feeds("size", make=of_candidates), *waited.feeds("size", "waited", make=of_waited)]
    rows = gather(spark, feeds, SIZED, ranked_classes, SIZES, partitions_for(rows_in(feeds)))
    return out.put("sizes", rows, SIZES)


def _hash(sizes: np.ndarray) -> np.ndarray:
    return mixed(np.zeros(len(sizes), np.int64), sizes)


def ranked_classes(rows: pa.Table) -> Iterator[pa.Table]:
    """SIZES of all rows (SIZED) of some sizes. A size that waited, and has no candidates any more, is no class."""
    found = rows.group_by("size").aggregate(list(_SUMMED))
    found = found.rename_columns({f"{name}_{how}": name for name, how in _SUMMED})
    found = found.filter(pc.greater(found["objects"], 0)).combine_chunks()
    yield pa.Table.from_batches(ranked(iter(found.to_batches())), SIZES)


def ranked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """SIZES of rows with size, objects, bytes and waited. Classes that waited longest come first, so that each has its
    turn; of these, those that free the most bytes. Empty objects come last, but first of all if they waited: else a
    budget that others spend never gets to them.
    """
    for batch in batches:
        sizes, total = batch["size"].to_numpy(), batch["bytes"].to_numpy()
        waited = np.minimum(batch["waited"].to_numpy(), _LONGEST)
        doublings = np.log2(np.maximum(total, 1).astype(np.float64))
        ranks = ((64 - doublings) * _FINE).astype(np.int64) * _SPREAD + sizes % _SPREAD + 1
        # A class gets a rank above all ranks of classes that waited longer.
        turns = ranks + (_LONGEST - waited).astype(np.int64) * _TURN
        ranks = np.where(total == 0, np.where(waited > 0, EVERY + 1, _EMPTY_RANK), turns)
        columns = [batch["size"], batch["objects"], batch["bytes"], batch["waited"], pa.array(ranks.astype(np.int32))]
        yield pa.RecordBatch.from_arrays(columns, schema=SIZES)


def sum_classes(table: pa.Table) -> dict[str, int]:
    """The objects and bytes of classes (SIZES), added up."""
    return {name: int(np.sum(table[name].to_numpy())) for name in ("objects", "bytes")}


def that_wait(classes: Mapped, last: int, left_out: Sequence[int], dear: Sequence[int]) -> Mapped:
    """The classes above rank `last` or of the ranks in `left_out`: SIZES. Those that are too `dear` have had their
    turn: more of them than can be left out would keep all others waiting."""
    rows = selected(classes, SIZES, partial(_waits, last, left_out))
    return selected(rows, SIZES, waited=partial(_waited, dear))


def _waits(last: int, left_out: Sequence[int], rows: pa.RecordBatch) -> pa.Array:
    return pc.or_(pc.greater(rows["rank"], last), of_ranks(left_out, rows))


def _waited(dear: Sequence[int], rows: pa.RecordBatch) -> pa.Array:
    return pc.if_else(of_ranks(dear, rows), pa.scalar(HAD_ITS_TURN, pa.int32()), rows["waited"])
