"""What keeps an object that no commit refers to: decided row by row, in the tasks that write what was found.

Staged and held addresses, and those that other repositories refer to, are compared by hash: a collision keeps garbage.
Every worker looks them up for itself; where they are too many for that, Spark joins them first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Reason
from lakegc_core.policy.namespace import UPLOAD_PART
from lakegc_core.spark.session import Mapped, many
from lakegc_core.stages.expired_addresses.since import instant
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.key_scan import MOST, Wanted, filter_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOOKED_UP = (Reason.STAGED, Reason.HELD, Reason.NEIGHBOUR)
Times = Callable[[pa.Array], np.ndarray]
Names = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Keeper:
    """Addresses that keep what they name, for one reason: in parts, and what gives them as a frame if they are many."""

    reason: str
    wanted: Wanted
    rows: Callable[[], DataFrame]

    @property
    def fits(self) -> bool:
        """Whether a worker can hold them."""
        return self.wanted.rows <= MOST

    def join(self, objects: Mapped) -> Mapped:
        """The objects, with a column of the reason's name that is not null for those that are kept."""
        from pyspark.sql import functions as F

        kept = self.rows().select(F.xxhash64("address").alias("h")).distinct().withColumn(self.reason, F.lit(True))
        rows = objects.as_frame().withColumn("h", F.xxhash64("address")).join(many(kept), "h", "left").drop("h")
        return Mapped(rows, pa.schema([*objects.schema, pa.field(self.reason, pa.bool_())]))


@dataclass(frozen=True)
class MinimumAge:
    """Says what is too young. `cutoff`, `part_cutoff`: unix seconds; what is not older is young. `times`: see
    `xid_times`. A picklable value that tasks carry."""

    cutoff: float
    part_cutoff: float
    times: Times

    @classmethod
    def of(cls, context: MarkContext, times: Times) -> MinimumAge:
        """By the settings of a mark."""
        cutoff = context.header.cutoff
        return cls(cutoff, cutoff - context.level.part_age.total_seconds(), times)

    def young(self, addresses: pa.Array, modified: pa.Array) -> pa.Array:
        """For each object: is it too young, by the store's date or by the time in its name?"""
        part = pc.match_substring_regex(addresses, UPLOAD_PART)
        return pc.or_(
            pc.or_(pc.greater_equal(modified, instant(self.cutoff)), pa.array(self.times(addresses) >= self.cutoff)),
            pc.and_(part, pc.greater_equal(modified, instant(self.part_cutoff))),
        )


@dataclass(frozen=True)
class Judge:
    """Adds the column `reason` to rows (address, last_modified, foreign): the first that keeps the object, or
    `unreferenced`. A picklable value that tasks carry.

    `keepers`: what is looked up; a reason that is not among them has a column, see `Keeper.join`. `unknown`: which
    addresses bear a name that keeps them; None where no name does. It comes last: what is young gets no verdict by it.
    """

    age: MinimumAge
    keepers: tuple[tuple[str, Wanted], ...]
    unknown: Names | None

    @classmethod
    def of(cls, context: MarkContext, times: Times, keepers: tuple[Keeper, ...]) -> Judge:
        """By the settings of a mark."""
        looked_up = tuple((keeper.reason, keeper.wanted) for keeper in keepers if keeper.fits)
        unknown = None if context.header.collect_unknown_names else context.namespace.unknown
        return cls(MinimumAge.of(context, times), looked_up, unknown)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The rows with their reasons. CorruptFileError where nothing says whether one is kept."""
        addresses = rows["address"].combine_chunks()
        kept_by = [(Reason.FOREIGN, rows[Reason.FOREIGN].combine_chunks())]
        kept_by += [(reason, self._kept(reason, rows, addresses)) for reason in _LOOKED_UP]
        kept_by += [(Reason.YOUNG, self.age.young(addresses, rows["last_modified"].combine_chunks()))]
        if self.unknown is not None:
            kept_by.append((Reason.UNKNOWN, self.unknown(addresses)))
        if any(column.null_count for _, column in kept_by):
            raise CorruptFileError("An object was listed without a time or a reading of its name. Make a new mark.")
        names = [name for name, _ in kept_by]
        reasons = pc.case_when(
            pa.StructArray.from_arrays([is_kept for _, is_kept in kept_by], names), *names, Reason.UNREFERENCED
        )
        return rows.append_column("reason", reasons)

    def _kept(self, reason: str, rows: pa.Table, addresses: pa.Array) -> pa.Array:
        wanted = dict(self.keepers).get(reason)
        if wanted is None:
            return pc.is_valid(rows[reason].combine_chunks())
        kept = np.zeros(len(addresses), np.bool_)
        kept[filter_of(wanted).rows(hash_strings(addresses))] = True
        return pa.array(kept)


@dataclass(frozen=True)
class NamedBefore:
    """Of rows with an address the addresses whose name was given out before a moment (unix seconds), or does not say
    when. A picklable value that tasks carry."""

    times: Times
    moment: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            old = ~(self.times(batch["address"]) >= self.moment)
            yield batch.select(["address"]).filter(pa.array(old))
