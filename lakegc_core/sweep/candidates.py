"""Candidates of a sweep while it plans: rows of JUDGED, and what becomes of their outcomes. `planning` says when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.marks.findings import instant
from lakegc_core.names import Json, Outcome
from lakegc_core.spark.tasks import Few, Mapped, both
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA
from lakegc_core.tables.gather import columns_of
from lakegc_core.tables.hashing import hash_strings

PLANNED = "planned"
"""The outcome of a candidate that may be deleted."""
JUDGED = pa.schema([*PLAN_SCHEMA, OUTCOMES_SCHEMA.field("outcome"), pa.field("canary", pa.bool_(), nullable=False)])
WITH_RANK = pa.schema([*PLAN_SCHEMA, OUTCOMES_SCHEMA.field("outcome"), pa.field("rank", pa.int8(), nullable=False)])


def sides_of(candidates: Mapped, canaries: Mapped) -> list[Mapped]:
    """Candidates and canaries as one; or as two where tasks read the candidates in Python: a union would pass them
    through the JVM."""
    as_one = isinstance(candidates.of, Few) or candidates.make is None
    return [both(candidates, canaries)] if as_one else [candidates, canaries]


def as_judged(batches: Iterator[pa.RecordBatch], *, is_canary: bool) -> Iterator[pa.RecordBatch]:
    """Candidates as rows of JUDGED: what has no `outcome` yet is planned."""
    for rows in batches:
        told = rows["outcome"] if "outcome" in rows.schema.names else pa.nulls(rows.num_rows, pa.string())
        more = {"outcome": pc.fill_null(told, PLANNED), "canary": pa.repeat(is_canary, rows.num_rows)}
        yield batch_of(JUDGED, columns_of(rows) | more)


def looked_at(ready: float, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of JUDGED with their outcomes after a look, by what it found (columns `referred` and `held`). `ready`: unix
    seconds; what came to be unreferenced after that has not waited long enough, and stays."""
    for rows in batches:
        before = rows["outcome"]
        late = pc.and_(pc.equal(before, PLANNED), pc.greater(rows["since"], instant(ready)))
        told = pc.case_when(
            pa.StructArray.from_arrays(
                # It was gone before this sweep. If something refers to it, the next mark names it as missing.
                [pc.equal(before, str(Outcome.ALREADY_GONE)), rows["referred"], rows["held"], late],
                ["gone", "referred", "held", "late"],
            ),
            before,
            *map(str, (Outcome.RESCUED, Outcome.HELD, Outcome.UNCONFIRMED)),
            before,
        )
        yield batch_of(JUDGED, columns_of(rows) | {"outcome": told})


def answered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of JUDGED with their outcomes after lakeFS was asked about those planned (column verdict; null: nothing
    shows it)."""
    for rows in batches:
        before = rows["outcome"]
        told = pc.if_else(pc.equal(before, PLANNED), pc.coalesce(rows["verdict"], before), before)
        yield batch_of(JUDGED, columns_of(rows) | {"outcome": told})


def of_mark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The candidates of the mark, without canaries."""
    return (rows.filter(pc.invert(rows["canary"])) for rows in batches)


def gone(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The objects that are already gone."""
    return (rows.filter(pc.equal(rows["outcome"], Outcome.ALREADY_GONE)) for rows in batches)


def there(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The others."""
    return (rows.filter(pc.not_equal(rows["outcome"], Outcome.ALREADY_GONE)) for rows in batches)


def live(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The objects of the mark that a look found live."""
    outcomes = pa.array([Outcome.RESCUED, Outcome.HELD], pa.string())
    return (rows.filter(pc.and_not(pc.is_in(rows["outcome"], value_set=outcomes), rows["canary"])) for rows in batches)


def shown_of(shown: pa.Array, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
    """The planned rows that are among these addresses: address, and canary."""
    for rows in batches:
        yield from rows.filter(_planned_of(shown, rows)).select(["address", "canary"]).to_pylist()


def not_shown(shown: pa.Array, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The candidates of the mark; those at these addresses are `unconfirmed`."""
    for rows in batches:
        told = pc.if_else(_planned_of(shown, rows), str(Outcome.UNCONFIRMED), rows["outcome"])
        yield batch_of(JUDGED, columns_of(rows) | {"outcome": told}).filter(pc.invert(rows["canary"]))


def _planned_of(addresses: pa.Array, rows: pa.RecordBatch) -> pa.Array:
    return pc.and_(pc.equal(rows["outcome"], PLANNED), pc.is_in(rows["address"], value_set=addresses))


def with_rank(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with `rank`, by the hash of the address: nine rows in ten have 5, nine in a hundred 4, and so on. Parts are
    sorted by it."""
    for rows in batches:
        rank = np.log10(1 + hash_strings(rows["address"]) % 999_999).astype(np.int8)
        yield batch_of(WITH_RANK, columns_of(rows) | {"rank": pa.array(rank)})


def by_rank(shape: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    every = pa.Table.from_batches(batches, shape)
    yield from every.sort_by([("rank", "ascending"), ("address", "ascending")]).to_batches()


def stamped(rows: Mapped, attempt: int, at: float | None = None) -> Mapped:
    """The rows with the columns `attempt` and `at` of the journal: `at`, unix seconds, or now."""
    at = clock.now().timestamp() if at is None else at
    shape = pa.schema([*rows.schema, *(OUTCOMES_SCHEMA.field(name) for name in ("attempt", "at"))])
    return rows.then(shape, partial(_each_stamped, shape, attempt, instant(at)))


def _each_stamped(
    shape: pa.Schema, attempt: int, at: pa.Scalar, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for rows in batches:
        more = {"attempt": pa.repeat(pa.scalar(attempt, pa.int32()), rows.num_rows), "at": pa.repeat(at, rows.num_rows)}
        yield batch_of(shape, columns_of(rows) | more)


def batch_of(shape: pa.Schema, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """These columns as a batch of the schema."""
    return pa.RecordBatch.from_arrays([columns[each.name].cast(each.type) for each in shape], schema=shape)
