"""A digest of all rows of a dataset that does not depend on how they lie in parts: the root of a Merkle tree.

docs/proof.md says how to compute it elsewhere. The tasks read the parts; the driver holds a digest for each branch.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.spark.tasks import FEW, collected
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.gather import HASH, gather, partitions_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BRANCHES = 256
"""Branches of a tree, by the first byte of the SHA-256 of the first column."""

_SIZE = hashlib.sha256().digest_size

_LEAVES = pa.schema(
    [
        HASH,  # the number of the branch
        pa.field("label", pa.string(), nullable=False),
        pa.field("leaves", pa.binary(), nullable=False),  # of some rows, end to end
    ]
)
_BRANCHES = pa.schema(
    [
        HASH,  # the number of the branch
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("digest", pa.binary(), nullable=False),
        pa.field("counts", pa.string(), nullable=False),  # rows by label, as JSON
    ]
)


@dataclass(frozen=True)
class Tree:
    """The digests of some rows, in hex. `branches`: rows and digest by number, of branches that have rows. `counts`:
    rows by their label."""

    branches: Mapping[int, tuple[int, str]]
    counts: Mapping[str, int]

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.branches.values())

    @property
    def root(self) -> str:
        """The digest of all rows."""
        nothing = (0, root_of([]).hex())
        return root_of([bytes.fromhex(self.branches.get(each, nothing)[1]) for each in range(BRANCHES)]).hex()


def tree_of(spark: SparkSession, rows: Dataset, label: str) -> Tree:
    """The tree of the rows. `label`: the column whose values are counted, of which there are few. Each part is checked
    by whoever reads it, a task, or this process where there are few rows: CorruptFileError."""
    make = partial(_packed_leaves, label)
    if rows.rows <= FEW:
        here = [pa.RecordBatch.from_pydict(make(each), _LEAVES) for each in rows.batches()]
        found = [row for each in _branches(pa.Table.from_batches(here, _LEAVES)) for row in each.to_pylist()]
    else:
        shuffled = gather(spark, rows.feeds(make=make), _LEAVES, _branches, _BRANCHES, partitions_for(rows.rows))
        found = [row.asDict() for row in collected(shuffled.as_frame())]
    counts: Counter[str] = Counter()
    for row in found:
        counts.update(json.loads(row["counts"]))
    return Tree({row["hash"]: (row["rows"], bytes(row["digest"]).hex()) for row in found}, dict(sorted(counts.items())))


def leaves(rows: pa.RecordBatch | pa.Table) -> list[bytes]:
    """The digest of each row. A row is its values in order, each as `<length in bytes>:<value>,`; times are unix
    microseconds."""
    columns = [_netstrings(_texts(rows[name])) for name in rows.schema.names]
    whole = pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.binary()))
    return [hashlib.sha256(b"\0" + each).digest() for each in whole.to_pylist()]


def root_of(digests: Sequence[bytes]) -> bytes:
    """The root over digests in this order: two and two are hashed together, one that is left over stays as it is."""
    level = list(digests) or [hashlib.sha256(b"").digest()]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        above = [hashlib.sha256(b"\1" + left + right).digest() for left, right in pairs]
        level = above + (level[-1:] if len(level) % 2 else [])
    return level[0]


def branch_of(first: bytes) -> int:
    """The number of the branch of a row, by its first value."""
    return hashlib.sha256(first).digest()[0]


def _packed_leaves(label: str, rows: pa.RecordBatch) -> Mapping[str, Any]:
    """The leaves of rows (_LEAVES), those of one branch and one label in one row: Spark takes much longer for as many
    rows as there are leaves."""
    firsts, labels = _texts(rows.column(0)).to_pylist(), rows[label].dictionary_encode()
    branches = np.fromiter((branch_of(each) for each in firsts), np.int64, len(firsts))
    pairs = branches * len(labels.dictionary) + labels.indices.to_numpy()
    order = np.argsort(pairs)
    found, starts = np.unique(pairs[order], return_index=True)
    digests = leaves(rows)
    packed = b"".join(digests[number] for number in order.tolist())
    ends = (_SIZE * np.append(starts, len(order))).tolist()
    return {
        "hash": found // len(labels.dictionary),
        "label": labels.dictionary.take(pa.array(found % len(labels.dictionary))),
        "leaves": pa.array([packed[start:end] for start, end in pairwise(ends)], pa.binary()),
    }


def _branches(table: pa.Table) -> Iterator[pa.Table]:
    """The digest of each branch of a table, which has all of its rows."""
    for number in pc.unique(table["hash"]).to_pylist():
        own: list[bytes] = []
        counts: Counter[str] = Counter()
        for row in table.filter(pc.equal(table["hash"], number)).to_pylist():
            packed = row["leaves"]
            own += [packed[at : at + _SIZE] for at in range(0, len(packed), _SIZE)]
            counts[row["label"]] += len(packed) // _SIZE
        found = {"hash": number, "rows": len(own), "digest": root_of(sorted(own)), "counts": json.dumps(counts)}
        yield pa.Table.from_pylist([found], _BRANCHES)


def _texts(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values of a column as bytes, none of which is null."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.null_count:
        raise ValueError("a null has no digest")
    column = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return column.cast(pa.string()).cast(pa.binary())


def _netstrings(values: pa.Array) -> pa.Array:
    lengths = pc.binary_length(values).cast(pa.string()).cast(pa.binary())
    marks = [pa.scalar(each, pa.binary()) for each in (b":", b",", b"")]
    return pc.binary_join_element_wise(lengths, marks[0], values, marks[1], marks[2])
