"""Counts of the listed objects by what became of them: made part by part, while the parts are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.judging import statistics
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT, MISSING, instant
from lakegc_core.names import Reason, Stage
from lakegc_core.policy.facts import Amount, Groups, ListingFacts
from lakegc_core.policy.namespace import Namespace
from lakegc_core.spark.tasks import Mapped
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CANARIES = "canaries"
"""The number of canaries among a part's rows. No part of a finished mark has any."""
STRANGE = (Reason.FOREIGN, Reason.UNKNOWN)
"""Reasons that keep objects which are not lakeFS's."""


@dataclass(frozen=True)
class Summary:
    """Counts the rows of a part by reason, and checks again that each expired row may go: by its name and the
    store's date alone. `canaries`: addresses that no row may have."""

    namespace: Namespace
    unknown_names: bool  # whether names that lakeFS never gives may be expired
    cutoff: float
    now: float  # unix seconds
    confirmed: float  # what is unreferenced at least since then may be swept now
    canaries: tuple[str, ...] = ()

    @classmethod
    def of(cls, context: MarkContext, canaries: Iterable[str] = ()) -> Summary:
        now = clock.now().timestamp()
        header = context.header
        confirmed = now - context.level.gap.total_seconds()
        unknown_names = header.collect_unknown_names
        return cls(context.namespace, unknown_names, header.cutoff, now, confirmed, tuple(canaries))

    def __call__(self, table: pa.Table) -> dict[str, int]:
        grouped = table.group_by("reason").aggregate([("size", "sum"), ("size", "count")]).to_pylist()
        found: dict[str, int] = {}
        for row in grouped:
            found[f"{row['reason']}:objects"] = row["size_count"]
            found[f"{row['reason']}:bytes"] = row["size_sum"]
        expired = table.filter(pc.equal(table["reason"], Reason.UNREFERENCED))
        old = pc.less(expired["last_modified"], instant(self.cutoff))
        fit = pc.and_(self.namespace.deletable(expired["address"], unknown_names=self.unknown_names), old)
        is_ready = pc.less_equal(expired["since"], instant(self.confirmed))
        ready = expired.filter(is_ready)
        found["confirmed:objects"] = ready.num_rows
        found["confirmed:bytes"] = pc.sum(ready["size"]).as_py() or 0
        if left := pc.sum(pc.is_in(table["address"], pa.array(self.canaries, pa.string()))).as_py():
            found[CANARIES] = left
        found["violations"] = expired.num_rows - (pc.sum(fit).as_py() or 0)
        found |= statistics.unconfirmed_sums(expired.filter(pc.invert(is_ready)))
        return found | statistics.sums(expired, self.now)


@dataclass(frozen=True)
class Findings:
    """Objects by what becomes of them: expired, kept, and missing in the store. All have FINDINGS_SCHEMA."""

    expired: Dataset
    kept: Dataset
    missing: Dataset

    @classmethod
    def put(
        cls,
        out: DatasetFolder,
        rows: DataFrame | Mapped,
        split: Callable[[pa.Table], Mapping[str, pa.Table]],
        summarise: Summary,
    ) -> Findings:
        """Write rows, which `split` divides between the expired and the kept ones."""
        schemas = dict.fromkeys((Stage.EXPIRED_ADDRESSES, KEPT), FINDINGS_SCHEMA)
        parts = out.divide(rows, schemas, split, summarise)
        return cls(parts[Stage.EXPIRED_ADDRESSES], parts[KEPT], Dataset(FINDINGS_SCHEMA))

    @property
    def parts(self) -> dict[str, tuple[Part, ...]]:
        """Their parts, by the names of their datasets."""
        return {Stage.EXPIRED_ADDRESSES: self.expired.parts, KEPT: self.kept.parts, MISSING: self.missing.parts}

    def sums(self) -> Counter[str]:
        """The totals of all parts (see `Summary`)."""
        found = Counter[str]()
        for part in (part for parts in self.parts.values() for part in parts):
            found.update(part.sums)
        return found


def amount_of(sums: Counter[str], reason: str) -> Amount:
    return Amount(sums[f"{reason}:objects"], sums[f"{reason}:bytes"])


def groups_of(sums: Counter[str], listing: ListingFacts, learnt: Dataset) -> Groups:
    """The listed objects by what became of them; what is in no other group is committed."""
    listed = Amount(listing.objects, listing.bytes)
    listed += Amount(learnt.rows, learnt.sum("bytes"))
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
