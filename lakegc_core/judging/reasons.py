"""Reasons that keep an object to which no commit refers: found row by row, in the tasks that write the findings.

Staged and held addresses, and those that other repositories refer to, are compared by hash: a collision keeps garbage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import KEPT, instant
from lakegc_core.names import Reason, Stage
from lakegc_core.policy.namespace import UPLOAD_PART
from lakegc_core.policy.xids import latest_told, told_until

LOOKED_UP = (Reason.STAGED, Reason.HELD, Reason.NEIGHBOUR)
"""Reasons that come from lists of addresses. `tables.joins.flagged` adds a column to the rows for each."""
Times = Callable[[pa.Array], np.ndarray]
Names = Callable[[pa.Array], pa.Array]


def divide(judge: Callable[[pa.Table], pa.Table], rows: pa.Table) -> dict[str, pa.Table]:
    """Divide rows between what is expired and what is kept, by the column `reason` that `judge` gives them."""
    judged = judge(rows)
    expired = pc.equal(judged["reason"], Reason.UNREFERENCED)
    return {Stage.EXPIRED_ADDRESSES: judged.filter(expired), KEPT: judged.filter(pc.invert(expired))}


@dataclass(frozen=True)
class MinimumAge:
    """Tells which objects are too young. `cutoff`, and `part_cutoff` for upload parts: unix seconds; an object that was
    modified at that time or later is young. `times`: see `xid_times`. A time in a name that is after `latest` (unix
    seconds) tells nothing (`told_until`)."""

    cutoff: float
    part_cutoff: float
    latest: float
    times: Times

    @classmethod
    def of(cls, context: MarkContext, times: Times) -> MinimumAge:
        """By the settings of a mark."""
        cutoff = context.header.cutoff
        part_cutoff = cutoff - context.level.part_age.total_seconds()
        return cls(cutoff, part_cutoff, latest_told(context.header.started_at), times)

    def young(self, addresses: pa.Array, modified: pa.Array) -> pa.Array:
        """For each object: is it too young, by the store's date or by the time in its name?"""
        part, named = pc.match_substring_regex(addresses, UPLOAD_PART), told_until(self.times(addresses), self.latest)
        by_name = pa.array(named >= self.cutoff)
        return pc.or_(
            pc.or_(pc.greater_equal(modified, instant(self.cutoff)), by_name),
            pc.and_(part, pc.greater_equal(modified, instant(self.part_cutoff))),
        )


@dataclass(frozen=True)
class Judge:
    """Adds the column `reason` to rows (address, last_modified, foreign, and a column of each reason in LOOKED_UP): the
    first reason that keeps the object, in the order `foreign`, LOOKED_UP, `young`, `unknown`; or else `unreferenced`.

    `unknown`: finds names that lakeFS never gives; None where these keep no object (`collect_unknown_names`). It is
    checked last: a young object is `young`, whatever its name.
    """

    age: MinimumAge
    unknown: Names | None

    @classmethod
    def of(cls, context: MarkContext, times: Times) -> Judge:
        """By the settings of a mark."""
        unknown = None if context.header.collect_unknown_names else context.namespace.unknown
        return cls(MinimumAge.of(context, times), unknown)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The rows with their reasons. CorruptFileError if a value is missing by which a reason is decided."""
        addresses = rows["address"].combine_chunks()
        kept_by = [(reason, rows[reason].combine_chunks()) for reason in (Reason.FOREIGN, *LOOKED_UP)]
        kept_by += [(Reason.YOUNG, self.age.young(addresses, rows["last_modified"].combine_chunks()))]
        if self.unknown is not None:
            kept_by.append((Reason.UNKNOWN, self.unknown(addresses)))
        if any(column.null_count for _, column in kept_by):
            raise CorruptFileError("A row lacks its date, or what its reason is decided by. Make a new mark.")
        names = [name for name, _ in kept_by]
        reasons = pc.case_when(
            pa.StructArray.from_arrays([is_kept for _, is_kept in kept_by], names), *names, Reason.UNREFERENCED
        )
        return rows.append_column("reason", reasons)
