"""Classes of candidates by size, and their order. The candidates of a class are asked for together or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.references.shown.intervals import CLASS

PLANNED = pa.schema([FINDINGS_SCHEMA.field(name) for name in ("address", "size", "etag")])
SIZES = pa.schema(
    [
        PLANNED.field("size"),  # bytes, of all candidates of the class
        pa.field("objects", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        CLASS,  # its rank: the least is asked for first
    ]
)

EVERY = 0
"""Rank of entries that are alike to all classes."""

_FINE = 16  # ranks of one doubling of bytes
_SPREAD = 8  # classes of about equal bytes get one of so many ranks, by size, so that a budget can end between them
_EMPTY_RANK = 2**20


def ranked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """SIZES of rows with size, objects, bytes and waited. Classes that waited come first, then those that free the most
    bytes; empty objects come last."""
    for batch in batches:
        sizes, total = batch["size"].to_numpy(), batch["bytes"].to_numpy()
        waited = batch["waited"].to_numpy(zero_copy_only=False)
        doublings = np.log2(np.maximum(total, 1).astype(np.float64))
        ranks = ((64 - doublings) * _FINE).astype(np.int64) * _SPREAD + sizes % _SPREAD + 1
        # A class that did not wait gets a rank above all ranks of classes that waited.
        ranks = np.where(total == 0, _EMPTY_RANK, ranks + np.where(waited, 0, 2 * 64 * _FINE * _SPREAD))
        columns = [batch["size"], batch["objects"], batch["bytes"], pa.array(ranks.astype(np.int32))]
        yield pa.RecordBatch.from_arrays(columns, schema=SIZES)


def sum_classes(table: pa.Table) -> dict[str, int]:
    """The objects and bytes of classes (SIZES), added up."""
    return {name: int(np.sum(table[name].to_numpy())) for name in ("objects", "bytes")}
