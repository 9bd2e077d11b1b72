"""How many of the listed objects became what: counted part by part, while the parts are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.judging import statistics
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import instant
from lakegc_core.names import Reason
from lakegc_core.policy.facts import Amount, Groups, ListingFacts
from lakegc_core.policy.namespace import Namespace
from lakegc_core.tables.parts import Part

STRANGE = (Reason.FOREIGN, Reason.UNKNOWN)
"""Why objects are kept that are not lakeFS's."""


@dataclass(frozen=True)
class Summary:
    """Counts the rows of a part by reason, and judges once more, apart from Spark, that each expired row may go."""

    namespace: Namespace
    unknown_names: bool  # whether names that lakeFS never gives may be expired
    cutoff: float
    now: float  # unix seconds
    confirmed: float  # what is unreferenced at least since then may be swept now

    @classmethod
    def of(cls, context: MarkContext) -> Summary:
        now = clock.now().timestamp()
        header = context.header
        confirmed = now - context.level.gap.total_seconds()
        return cls(context.namespace, header.collect_unknown_names, header.cutoff, now, confirmed)

    def __call__(self, table: pa.Table) -> dict[str, int]:
        grouped = table.group_by("reason").aggregate([("size", "sum"), ("size", "count")]).to_pylist()
        found: dict[str, int] = {}
        for row in grouped:
            found[f"{row['reason']}:objects"] = row["size_count"]
            found[f"{row['reason']}:bytes"] = row["size_sum"]
        expired = table.filter(pc.equal(table["reason"], Reason.UNREFERENCED))
        old = pc.less(expired["last_modified"], instant(self.cutoff))
        fit = pc.and_(self.namespace.deletable(expired["address"], unknown_names=self.unknown_names), old)
        ready = expired.filter(pc.less_equal(expired["since"], instant(self.confirmed)))
        found["confirmed:objects"] = ready.num_rows
        found["confirmed:bytes"] = pc.sum(ready["size"]).as_py() or 0
        found["violations"] = expired.num_rows - (pc.sum(fit).as_py() or 0)
        return found | statistics.sums(expired, self.now)


def sums_of(parts: Mapping[str, list[Part]]) -> dict[str, int]:
    """The totals of all parts."""
    sums: dict[str, int] = {}
    for part in (part for dataset in parts.values() for part in dataset):
        for name, value in part.sums.items():
            sums[name] = sums.get(name, 0) + value
    return sums


def amount_of(sums: Mapping[str, int], reason: str) -> Amount:
    return Amount(sums.get(f"{reason}:objects", 0), sums.get(f"{reason}:bytes", 0))


def groups_of(sums: Mapping[str, int], listing: ListingFacts, learnt: Sequence[Part]) -> Groups:
    """The listed objects by what became of them; what is in no other group is committed."""
    listed = Amount(listing.objects, listing.bytes)
    listed += Amount(sum(part.rows for part in learnt), sum(part.sums["bytes"] for part in learnt))
    groups = {
        "expired": amount_of(sums, Reason.UNREFERENCED),
        "uncommitted": amount_of(sums, Reason.STAGED),
        "held": amount_of(sums, Reason.HELD),
        "neighbour": amount_of(sums, Reason.NEIGHBOUR),
        "young": amount_of(sums, Reason.YOUNG),
        "unasked": amount_of(sums, Reason.UNASKED),
        "foreign": amount_of(sums, Reason.FOREIGN) + amount_of(sums, Reason.UNKNOWN),
    }
    committed = listed
    for group in groups.values():
        committed -= group
    unknown, confirmed = amount_of(sums, Reason.UNKNOWN), amount_of(sums, "confirmed")
    return Groups(listed=listed, committed=committed, unknown=unknown, confirmed=confirmed, **groups)
