"""The guards over a mark: pure functions from what was recorded to verdicts. No mark is swept past a failed one.

One table, GUARDS, holds every guard with its name, its severity and the sentence on the danger it stops; the Dagster
checks, the command line and the sweep use the same functions. Nothing is read or asked here: the facts are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from lakegc_core.errors import SettingsError
from lakegc_core.names import see
from lakegc_core.policy.drilled import can_come_back
from lakegc_core.policy.evidence import Evidence
from lakegc_core.policy.judgements import (
    Finding,
    candidates,
    clocks,
    completeness,
    deleted_is_gone,
    heads_and_tags,
    holds,
    known_heads,
    live_in_listing,
    mark_age,
    namespace,
    order,
    reads,
    rings,
    shrink,
)
from lakegc_core.policy.known_neighbours import neighbours, neighbours_stop
from lakegc_core.policy.too_much import blast_radius

Severity = Literal["ERROR", "WARN"]
_SETTINGS = "lakegc.yaml"
NEIGHBOURS, BACKUP = "neighbours", "backup"
"""Guards that may stop a mark and let its sweep pass: the sweep asks anew what is known of neighbours, and whether the
mark has a backup by then."""


@dataclass(frozen=True)
class Verdict:
    """The finding of one guard. `description`: a sentence with the figures that decided; on failure what to do, and
    where the runbook says more."""

    name: str
    passed: bool
    severity: Severity
    description: str
    accepted_because: str | None = None

    @property
    def stops(self) -> bool:
        """True when this verdict alone forbids a sweep."""
        return not self.passed and self.severity == "ERROR" and self.accepted_because is None


@dataclass(frozen=True)
class Guard:
    """One guard: its name, how hard it stops, the danger it averts, and the function that judges."""

    name: str
    severity: Severity
    danger: str
    judge: Callable[[Evidence], Finding]
    may_be_accepted: bool = False
    hardens: Callable[[Evidence], bool] | None = None
    """The condition under which a guard stops that otherwise only warns."""

    def evaluate(self, evidence: Evidence) -> Verdict:
        passed, found = self.judge(evidence)
        if not evidence.settings_read and _SETTINGS in found:
            found = f"{found} No {_SETTINGS} was read."
        description = found if passed else f"{found} {see(self.name)}"
        severity = "ERROR" if self.hardens is not None and self.hardens(evidence) else self.severity
        return Verdict(self.name, passed, severity, description)


def evaluate(evidence: Evidence, accepted: Mapping[str, str] | None = None) -> list[Verdict]:
    """Every guard's verdict, in the table's order. `accepted` maps names of guards to the operator's reason."""
    verdicts = [guard.evaluate(evidence) for guard in GUARDS]
    return [accept(verdict, accepted or {}) for verdict in verdicts]


def accept(verdict: Verdict, accepted: Mapping[str, str]) -> Verdict:
    """The verdict with the operator's reason attached, where the guard allows that."""
    reason = accepted.get(verdict.name)
    if reason is None or verdict.passed or not BY_NAME[verdict.name].may_be_accepted:
        return verdict
    return replace(verdict, accepted_because=reason)


def check_accepted(reasons: Mapping[str, str]) -> dict[str, str]:
    """Reasons by guard, as an operator gave them. SettingsError for a guard that cannot be accepted, or no reason."""
    for name, reason in reasons.items():
        if name not in BY_NAME or not BY_NAME[name].may_be_accepted:
            allowed = ", ".join(each for each, guard in BY_NAME.items() if guard.may_be_accepted)
            raise SettingsError(f"The guard {name!r} cannot be accepted; these can: {allowed}.")
        if not reason.strip():
            raise SettingsError(f"To accept the guard {name!r} needs a reason: it goes into the report.")
    return {name: reason.strip() for name, reason in reasons.items()}


def authorized(verdicts: Iterable[Verdict]) -> bool:
    """True when nothing stops a sweep."""
    return not any(verdict.stops for verdict in verdicts)


GUARDS: tuple[Guard, ...] = (
    Guard("order", "ERROR", "data that moves between two readings is in neither", order),
    Guard("completeness", "ERROR", "what was not read looks like garbage", completeness),
    Guard("heads-and-tags", "ERROR", "a branch or tag that was overlooked loses its data", heads_and_tags),
    Guard("candidates", "ERROR", "a fresh upload or somebody else's file is deleted", candidates),
    Guard("live-in-listing", "ERROR", "listing and references speak of different places", live_in_listing, True),
    Guard("blast-radius", "ERROR", "a mistaken rule or an emptied branch looks like garbage", blast_radius, True),
    Guard("shrink", "ERROR", "a short answer of the server looks like garbage", shrink, True),
    Guard("known-heads", "ERROR", "a restored server refers to less than the store holds", known_heads),
    Guard("reads", "ERROR", "something is wrong that no other guard sees", reads),
    Guard("rings", "ERROR", "what took live data for garbage goes on", rings, True),
    Guard(BACKUP, "ERROR", "what is deleted by mistake cannot be brought back", can_come_back),
    Guard("mark-age", "ERROR", "an old mark knows nothing of what came back to life since", mark_age),
    Guard("clocks", "ERROR", "a wrong clock makes young objects look old", clocks),
    Guard("namespace", "ERROR", "another repository's data looks like garbage here", namespace),
    Guard(
        NEIGHBOURS,
        "WARN",
        "what another repository imported from here by address looks like garbage",
        neighbours,
        True,
        neighbours_stop,
    ),
    Guard("deleted-is-gone", "WARN", "a delete that was not carried out passes for done", deleted_is_gone),
    Guard("holds", "WARN", "a misspelt hold keeps nothing, and nobody notices", holds),
)
BY_NAME = {guard.name: guard for guard in GUARDS}
