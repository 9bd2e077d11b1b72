"""The evidence of the guards: the records of a mark, its level, and the present. Nothing is read or asked here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lakegc_core.policy.facts import (
    Amount,
    BackupFacts,
    CommitsFacts,
    CommittedFacts,
    DrillFacts,
    ExpiredFacts,
    F,
    ListingFacts,
    NeighbourFacts,
    Previous,
    StagedFacts,
    read_facts,
)
from lakegc_core.policy.safety import Level


@dataclass(frozen=True, kw_only=True)
class MarkTerms:
    """The part of a mark's header that the guards need. Times are unix seconds."""

    repository: str
    mark_id: str
    storage_namespace: str
    started_at: float
    cutoff: float  # objects modified at or after it are too young
    collect_unknown_names: bool = False  # below data/, what bears no name that lakeFS gives


@dataclass(frozen=True, kw_only=True)
class FinishedStage:
    """The part of a stage's manifest that the guards need. Times are unix seconds, by the collector's clock."""

    started_at: float
    finished_at: float
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """All that the guards judge by: the mark's own records, its level, and the present (unix seconds)."""

    header: MarkTerms
    manifests: Mapping[str, FinishedStage]
    level: Level
    now: float
    previous: Previous | None = None
    """The mark that this one is compared with; None on the first mark."""
    unreadable: Mapping[str, int] | None = None
    """Paths of the sample that could not be read, with their status; None while none were asked for."""
    sampled: int = 0
    known_gone: Mapping[str, str] = field(default_factory=dict)
    """Paths of heads that were left out of the sample: the mark knows that their objects are gone, and why."""
    gone_in_rings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By mark: paths that could be read before a ring of its sweep and not after it, with their addresses."""
    in_quarantine: tuple[str, ...] = ()
    """The marks whose quarantine has copies of live objects that are gone."""
    backup_required: bool = False
    backup_to: str | None = None
    """Where `lakegc backup` puts a backup that is told no place; None where lakegc.yaml does not say it."""
    backup: BackupFacts | None = None
    """The backup of this very mark; None where there is none."""
    drill_within: float | None = None
    """Seconds within which a drill must have passed before a sweep; None where none is asked for."""
    drill: DrillFacts | None = None
    """The last drill of the repository; None where there was none."""
    at_most: Amount | None = None
    """The most that can go, at a drill; None: all that the mark found."""
    neighbours: NeighbourFacts | None = None
    """Facts about other repositories, asked anew at the sweep; None: what the mark found counts."""
    neighbours_strict: bool = False
    """True if a neighbour that is not known well enough stops a sweep (`neighbours: {strict: true}`)."""
    throw_away: bool = False
    """True of the repository that `lakegc try` has made: nobody had the time to import anything from it."""
    blast_radius: float | None = None
    """The share of lakeFS's objects, and of their bytes, that one sweep may take by lakegc.yaml; None: as the level
    says."""
    settings_read: bool = True
    """False if no lakegc.yaml was read: then what a guard says of it is no person's word."""
    skew_now: float | None = None
    """Seconds by which the store's clock is ahead of the collector's at the sweep; None while nobody asked."""

    def _read(self, kind: type[F]) -> F:
        return read_facts(kind, self.manifests[kind.stage].facts)

    @cached_property
    def listing(self) -> ListingFacts:
        return self._read(ListingFacts)

    @cached_property
    def staged(self) -> StagedFacts:
        return self._read(StagedFacts)

    @cached_property
    def commits(self) -> CommitsFacts:
        return self._read(CommitsFacts)

    @cached_property
    def committed(self) -> CommittedFacts:
        return self._read(CommittedFacts)

    @cached_property
    def expired(self) -> ExpiredFacts:
        return self._read(ExpiredFacts)
