"""The judgement of the guard `blast-radius`: how much the next sweep of a mark can take.

A sweep takes only what is unreferenced for the gap when the guards judge it. What is not waits for a later sweep, and
is judged before that one. So an accident is stopped before the first sweep that can take what it left.
"""

from __future__ import annotations

from datetime import timedelta

from lakegc_core.policy import causes
from lakegc_core.policy.evidence import Evidence
from lakegc_core.policy.facts import Amount, ExpiredFacts
from lakegc_core.policy.judgements import Finding, if_meant


def ready_at(found: ExpiredFacts, moment: float, gap: timedelta) -> Amount:
    """The expired objects that are unreferenced for the gap at a moment (unix seconds), at most: all of them where the
    mark did not count that."""
    ready = found.expired
    for since, amount in found.unconfirmed or ():
        if since > moment - gap.total_seconds():
            ready -= amount
    return ready


def next_sweep(found: ExpiredFacts, now: float, gap: timedelta) -> float:
    """The time of the next sweep of a mark, unix seconds: now, or when the first of its garbage can go."""
    if found.confirmed.objects or found.first_since is None:
        return now
    return max(now, found.first_since + gap.total_seconds())


def blast_radius(evidence: Evidence) -> Finding:
    found, level, own_limit = evidence.expired, evidence.level, evidence.blast_radius
    ready, own = ready_at(found, next_sweep(found, evidence.now, level.gap), level.gap), found.listed - found.foreign
    limits = {"objects": own_limit or level.blast_radius_objects, "bytes": own_limit or level.blast_radius_bytes}
    more, later = ready - found.accepted, found.expired - ready
    if evidence.at_most:
        more, later = _least(more, evidence.at_most), Amount(0, 0)
    shares = _shares(more, own)
    figures = " and ".join(f"{share:.1%} of lakeFS's {of}" for of, share in shares.items())
    if found.accepted.objects:
        figures = (
            f"Of the garbage that a person accepted for an earlier mark, {found.accepted.objects:,} objects are left. "
            f"Beyond these, {figures}"
        )
    beyond = [f"{_percent(limits[of])} of the {of}" for of, share in shares.items() if share > limits[of]]
    if beyond:
        by = " (`blast_radius` in lakegc.yaml)" if own_limit else " (`blast_radius` in lakegc.yaml sets another limit)"
        return False, (
            f"{figures} would go; one sweep may take at most {' and '.join(beyond)}{by}. A changed rule, an emptied "
            f"branch or a dropped table looks like this.{causes.largest(found)} {if_meant('blast-radius')}"
        )
    most = f" `blast_radius` in lakegc.yaml lets {_percent(own_limit)} go." if own_limit else ""
    return True, f"{figures} would go.{most}{_waiting(_shares(later, own), limits)}"


def _waiting(shares: dict[str, float], limits: dict[str, float]) -> str:
    """A passage on the garbage that no sweep can take yet, with a blank before it; "" if there is none."""
    if not any(shares.values()):
        return ""
    said = f" {' and '.join(f'{share:.1%} of the {of}' for of, share in shares.items())} must wait for the gap"
    if any(share > limits[of] for of, share in shares.items()):
        return f"{said}: more than one sweep may take. Then this guard stops it. See if that was meant."
    return f"{said}."


def _shares(amount: Amount, own: Amount) -> dict[str, float]:
    """The shares that some objects are of lakeFS's own."""
    return {
        "objects": max(0, amount.objects) / max(1, own.objects),
        "bytes": max(0, amount.bytes) / max(1, own.bytes),
    }


def _least(one: Amount, other: Amount) -> Amount:
    return Amount(min(one.objects, other.objects), min(one.bytes, other.bytes))


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
