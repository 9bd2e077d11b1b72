"""Lost objects: referenced, and yet gone from the store. The store itself is asked, not only the journal.

A journal cannot know everything: a sweep may be killed between a delete and its record, and the answer to a delete may
be lost on the way. What such a delete took must not pass for rescued when a later look finds it referenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.names import NO_ANSWER, SEEN_AGAIN, STILL_THERE, Json, Outcome
from lakegc_core.spark.tasks import Mapped, count_of
from lakegc_core.store.base import ObjectInfo, StoreConfig, connect, heads
from lakegc_core.sweep.other_tools import FOREIGN
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


PREVIOUS_AT = "previous_at"
"""Column of objects: the time of the previous event. The one that is put on record is dated later."""


def absent(rows: DataFrame, config: StoreConfig) -> DataFrame:
    """The rows whose object (column `address`) the store does not hold, by a request each on the executors."""
    return _those(rows, config, want_absent=True)


def present(rows: DataFrame, config: StoreConfig) -> DataFrame:
    """The other rows: those whose object the store holds."""
    return _those(rows, config, want_absent=False)


def spread(rows: DataFrame) -> DataFrame:
    """Rows about which the store is asked, in several tasks: the work is in the requests, not in the rows."""
    return rows.repartition(2 * spark_width(rows.sparkSession))


def still_there(deleted: DataFrame, config: StoreConfig, samples: int, salt: str) -> DataFrame | None:
    """Ask the store for a sample of objects (by the hash of `address`, with a salt) that it said it had deleted. If it
    shows one of them, ask for all, and return those that it shows, with `outcome` STILL_THERE and PREVIOUS_AT; else
    None.

    `deleted`: rows of a journal; an object may have several. They are brought together by object only where the store
    shows one of the sample: that is a shuffle of all rows.
    """
    from pyspark.sql import functions as F

    some = deleted.orderBy(F.xxhash64("address", F.lit(salt))).limit(samples)
    if not count_of(present(some, config).limit(1)):
        return None
    each = deleted.groupBy("address", "size").agg(F.max("at").alias(PREVIOUS_AT))
    return present(spread(each), config).withColumn("outcome", F.lit(STILL_THERE))


def _those(rows: DataFrame, config: StoreConfig, *, want_absent: bool) -> DataFrame:
    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = _are_absent(config, batch.column("address").to_pylist())
            yield batch.filter(pa.array([each == want_absent for each in found], pa.bool_()))

    return rows.mapInArrow(body, rows.schema)


def seen_again(rows: Mapped, config: StoreConfig) -> Mapped:
    """Ask the store about objects that sweeps of other marks recorded as deleted, or that restores were to bring back
    (columns address, size, last_modified, as this mark listed them). The store has the last word: records may be of
    another moment.

    Returns address, size and `outcome`: `already_gone` if the store has no object, SEEN_AGAIN if it has the one that
    the mark listed. If it has another object, there are two rows, SEEN_AGAIN and `unconfirmed`; the next mark judges
    it.
    """
    if not rows.few(_FEW):
        rows = Mapped(spread(rows.as_frame()), rows.schema)
    return rows.then(_TOLD, partial(_told, config, _outcomes))


_FEW = 256  # requests that this process makes
_TOLD = pa.schema([("address", pa.string()), ("size", pa.int64()), ("outcome", pa.string())])


def _told(
    config: StoreConfig,
    outcomes: Callable[[Json, ObjectInfo | None], list[str]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Ask the store about the objects of rows. `outcomes`: those of a row, by what the store says; each is a row of
    _TOLD."""
    for batch in batches:
        rows, told = batch.to_pylist(), heads(connect(config), batch.column("address").to_pylist())
        found = [
            {"address": row["address"], "size": row["size"], "outcome": outcome}
            for row, info in zip(rows, told, strict=True)
            for outcome in outcomes(row, info)
        ]
        yield pa.RecordBatch.from_pylist(found, schema=_TOLD)


def _outcomes(row: Json, found: ObjectInfo | None) -> list[str]:
    if found is None:
        return [Outcome.ALREADY_GONE.value]
    apart = abs((found.last_modified - row["last_modified"]).total_seconds())
    is_same = found.size == row["size"] and apart < 1  # a HEAD tells whole seconds
    return [SEEN_AGAIN] if is_same else [SEEN_AGAIN, Outcome.UNCONFIRMED.value]


def settled(rows: DataFrame, config: StoreConfig, there: Outcome) -> DataFrame:
    """Add the column `outcome` to planned objects that have none (columns address, size), by asking the store.

    A gone object gets two rows, NO_ANSWER and `already_gone`, so that the totals count it as deleted by this sweep. One
    that is there gets the outcome `there`.
    """

    def outcomes(_: Json, found: ObjectInfo | None) -> list[str]:
        return [str(there)] if found else [NO_ANSWER, Outcome.ALREADY_GONE.value]

    ask = partial(_told, config, outcomes)
    return rows.select("address", "size").mapInArrow(ask, "address string, size bigint, outcome string")


_MAY_BE_LOST = pa.array([Outcome.RESCUED, Outcome.HELD], pa.string())


def mark_lost(table: pa.Table, config: StoreConfig) -> pa.Table:
    """The rows (columns `address`, `outcome`), in which rescued and held objects that are gone are `lost`."""
    outcomes = table["outcome"].combine_chunks()
    asked = pc.is_in(outcomes, value_set=_MAY_BE_LOST)
    gone = pa.array(_are_absent(config, table.filter(asked)["address"].to_pylist()), pa.bool_())
    told = pc.if_else(gone, str(Outcome.LOST), outcomes.filter(asked))
    found = pc.replace_with_mask(outcomes, asked, told)
    return table.set_column(table.schema.get_field_index("outcome"), "outcome", found)


_WAITING = (Outcome.UNCONFIRMED, Outcome.OVER_BUDGET)
_KEPT_NOW = (Outcome.NOT_IN_BACKUP, FOREIGN)


def mark_gone(table: pa.Table, config: StoreConfig, *, asked: bool) -> pa.Table:
    """The rows (columns `address`, `outcome`), in which objects that wait for a later sweep (unconfirmed, or over the
    budget) and that are gone are `already_gone`: no mark will find them again. `asked`: a sweep that broke off had
    planned all of them. Then objects that lakegc.yaml now keeps (without a backup, or of unknown name) count too,
    and each gone object gets a second row, NO_ANSWER, because a delete of that sweep may have had no answer."""
    waiting = pc.is_in(table["outcome"], pa.array([*_WAITING, *(_KEPT_NOW if asked else ())], pa.string()))
    rows = table.filter(waiting)
    gone = pa.array(_are_absent(config, rows["address"].to_pylist()), pa.bool_())
    found, place = rows.filter(gone), table.schema.get_field_index("outcome")
    told = [
        found.set_column(place, table.schema.field(place), pa.array([str(outcome)] * found.num_rows, pa.string()))
        for outcome in ((NO_ANSWER, Outcome.ALREADY_GONE) if asked else (Outcome.ALREADY_GONE,))
    ]
    return pa.concat_tables([table.filter(pc.invert(waiting)), rows.filter(pc.invert(gone)), *told])


def _are_absent(config: StoreConfig, addresses: Sequence[str]) -> list[bool]:
    return [found is None for found in heads(connect(config), addresses)]
