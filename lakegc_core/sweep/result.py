"""The result of a sweep, in figures and in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakegc_core.config.settings import Price
from lakegc_core.errors import StoreError
from lakegc_core.names import FAILED, Outcome, Symptom, see
from lakegc_core.store.base import Store

_NAMED = 10  # paths


@dataclass(frozen=True)
class SweepResult:
    """The result of one sweep. `outcomes` counts objects by final outcome, failures by code."""

    repository: str
    mark_id: str
    sweep: int
    outcomes: Mapping[str, int]
    bytes_deleted: int
    planned: int
    seconds: float
    report: str | None  # URI of report.json; None when nothing was begun
    dry_run: bool = False
    planned_bytes: int | None = None  # what a dry run would free; None where it is no dry run
    refused_by: Mapping[str, str] = field(default_factory=dict)
    """Of a dry run: the guards that refuse a real sweep until a person accepts them, each with its sentence."""
    unreadable: Mapping[str, int] = field(default_factory=dict)
    """Sampled paths on branch heads that could be read before the sweep and cannot after it, with their status."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Objects and bytes that stay `unconfirmed` because the requests to lakeFS did not suffice to ask about them, or
    because compaction may hide them."""
    canaries: Mapping[str, int] = field(default_factory=dict)
    """Objects that lakeFS showed while the sweep planned, by kind (see `sweep.canaries`); none of them was planned."""
    delete_conditions: Mapping[str, bool | str] = field(default_factory=dict)
    """Whether deletes named the ETags that were listed (`named`), and why they did not (`why`); see `sweep.conditions`.
    Empty where nobody asked the store: by default, and where nothing was to be deleted."""
    rings: Mapping[str, Any] = field(default_factory=dict)
    """The rings of the plan: how many have `passed`, their `count`, how many paths were `read` after them; the paths
    that are `gone`, with their addresses, the number of the ring that took them (`stopped_at`), and what was
    `brought_back`."""
    over_budget: Mapping[str, int] = field(default_factory=dict)
    """Objects and bytes that stay `over_budget`, if any do: the sweep was stopped by its budget."""
    budget: Mapping[str, int | str | None] = field(default_factory=dict)  # the limits of this call, by their names
    estimate: Mapping[str, float] = field(default_factory=dict)
    """How long a dry run's plan would take, see `rates`; empty if nobody knows, or if it is no dry run."""
    delay: Mapping[str, float] = field(default_factory=dict)
    """Of the deleted `objects`, the median (`p50`) and the 99th percentile (`p99`) of the seconds from `since` to the
    delete. Empty if none was deleted."""
    oldest: Mapping[str, Any] = field(default_factory=dict)
    """Of the objects that this sweep was to delete and left, the one that is unreferenced for longest: `since` (unix
    seconds), `address`, `outcome`. Empty if nothing waits."""
    gone_by_sweeps: int = 0  # objects that were `already_gone` and that sweeps of other marks had deleted
    gone_by_others: int | None = None
    """Objects that were `already_gone` and that no sweep deleted; None if a sweep that broke off may have done so."""
    brought_back: Mapping[str, int] = field(default_factory=dict)
    """Objects and bytes of the mark that sweeps of it deleted and restores or drills brought back: no sweep of the mark
    deletes them again."""
    confirmed_from: float | None = None
    """From when a sweep may delete more of what is `unconfirmed`, unix seconds; None if the mark does not tell."""
    backup: str | None = None  # the place of the mark's backup, if anything was deleted and it is there
    versioned: bool | None = None  # True if the store keeps deleted objects as old versions; None: not known
    recoverable_until: float | None = None  # unix seconds, for what was deleted first; None: not, or not known
    undeletes: bool = True  # False if the store can bring back what it keeps till then, and lakegc cannot
    quarantine: Mapping[str, float] = field(default_factory=dict)
    """`age`: the seconds for which copies of what was deleted stay in quarantine; `until`: up to when, unix seconds,
    which a dry run lacks, and a sweep whose record of it cannot be read; `objects` and `bytes` that have a copy, where
    not all have one. Empty if there are none."""
    statement: str | None = None  # digest of the statement that the sweep left; None when nothing was begun
    price: Price | None = None  # of the store, as it was set when this was swept

    @property
    def lost(self) -> int:
        """Objects that were found referenced after they had been deleted. Never silent."""
        return self.outcomes.get(Outcome.LOST, 0)

    @property
    def bytes_freed(self) -> int:
        """Bytes that are surely freed: neither the store nor a quarantine can bring any of them back."""
        size, copied = self.bytes_deleted, in_quarantine(self.quarantine, self.bytes_deleted)
        return freed(size, copied, versioned=self.versioned, recoverable=self.recoverable_until is not None)

    @property
    def trouble(self) -> str:
        """Sentences on what went wrong and what to do; empty when nothing did."""
        said = []
        if self.lost:
            said.append(
                f"{self.lost:,} objects were found referenced after they had been deleted: restore them, and report "
                f"this. {see(Symptom.LOST_OBJECTS)}"
            )
        if self.rings.get("gone"):
            said.append(self._stopped_by_a_ring)
        if self.unreadable:
            said.append(
                f"{len(self.unreadable):,} sampled paths could be read before the sweep, and cannot now: find out why. "
                f"{see(Symptom.PATHS_DO_NOT_READ)}"
            )
        if self.failed:
            over = self.over_budget.get("objects", 0)
            rest = "the rest is done. Run the same sweep again to finish"
            then = f"the budget kept {over:,} others back" if over else rest
            when = " in this sweep, or in one within a week before it" if self.budget else ""
            said.append(f"{self.failed:,} objects could not be deleted{when}; {then}. {see(Symptom.DELETES_FAIL)}")
        return " ".join(said)

    @property
    def _stopped_by_a_ring(self) -> str:
        gone, back = self.rings["gone"], self.rings.get("brought_back", "nothing of it was brought back")
        named = ", ".join(f"{path} ({address})" for path, address in list(gone.items())[:_NAMED])
        return (
            f"Ring {self.rings['stopped_at']} of {self.rings['count']} took live data: {len(gone):,} paths near to "
            f"what it deleted could be read before, and cannot now: {named}. The sweep was stopped; {back}. "
            f"{see('rings')}"
        )

    @property
    def refusal(self) -> str:
        """The guards that refuse a real sweep, after a dry run; empty if none does."""
        found = "\n".join(f"  {name}: {sentence}" for name, sentence in self.refused_by.items())
        first = f"A sweep of mark {self.mark_id} of {self.repository} is refused until a person accepts the guards."
        return f"{first}\n{found}" if found else ""

    @property
    def failed(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome.startswith(FAILED))


def in_quarantine(told: Mapping[str, float] | None, deleted: int) -> int:
    """The bytes that lie in quarantine of those that a sweep deleted. `told`: see `SweepResult.quarantine`."""
    return int(told.get("bytes", deleted)) if told else 0


def not_freed(deleted: int, copied: int, *, versioned: bool | None, recoverable: bool) -> dict[str, int]:
    """The bytes of those `deleted` that still take space, or may, by the reason: `kept_as_versions` by the store,
    `recoverable` by its soft delete, `in_quarantine` those of which a copy lies there (`copied`), `unknown`."""
    if versioned:
        return {"kept_as_versions": deleted}
    copied = min(deleted, copied)
    if recoverable:
        return {"in_quarantine": copied, "recoverable": deleted - copied}
    return {"in_quarantine": copied, "unknown": deleted - copied if versioned is None else 0}


def freed(deleted: int, copied: int, *, versioned: bool | None, recoverable: bool) -> int:
    """The bytes of those `deleted` that take no more space. All arguments: see `not_freed`."""
    return deleted - sum(not_freed(deleted, copied, versioned=versioned, recoverable=recoverable).values())


def keeps(store: Store, since: float | None) -> dict[str, Any]:
    """Ask the store if it keeps deleted objects, and until when all of them: fields of a result. `since`: before the
    first delete, unix seconds; None: not known."""
    try:
        probe = store.probe()
    except StoreError:
        return {}  # the sweep is done all the same
    if not probe.soft_delete:
        return {"versioned": probe.versioning, "recoverable_until": None}
    if since is None:
        return {}  # of such deletes nobody can say whether they have freed anything
    until = since + probe.soft_delete.total_seconds()
    return {"versioned": probe.versioning, "recoverable_until": until, "undeletes": probe.undeletes is not False}
