"""Reports of a mark, a sweep or a retirement for machines: one JSON object, the contract of `--json`.

The figures come from manifests and results; nothing is computed here that decides anything. `screen` and `page` make of
these objects what people are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from lakegc_core.clock import instant
from lakegc_core.config.settings import Price
from lakegc_core.marks.artifacts import CLEAN, INCREMENTAL, Manifest, facts_of
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import FAILED, STAGES, Json
from lakegc_core.policy import causes, guards
from lakegc_core.policy.facts import CommitsFacts, CommittedFacts, ExpiredFacts, ListingFacts
from lakegc_core.policy.guards import Verdict
from lakegc_core.sweep.authorize import confirmed_at, first_young_at
from lakegc_core.sweep.result import SweepResult
from lakegc_core.views.waits import of_sweep

if TYPE_CHECKING:
    from lakegc_core.marks.retire import Retirement


def mark_report(context: MarkContext, manifests: Mapping[str, Manifest], verdicts: Sequence[Verdict]) -> Json:
    """The contract of `lakegc mark --json` and `lakegc review --json`."""
    header, facts = context.header, facts_of(manifests, ExpiredFacts)
    commits, committed = facts_of(manifests, CommitsFacts), facts_of(manifests, CommittedFacts)
    kept = ("committed", "uncommitted", "held", "neighbour", "foreign", "unknown", "young", "unasked")
    groups = ("listed", *kept, "expired", "confirmed")
    return {
        "repository": header.repository,
        "mark_id": header.mark_id,
        "started_at": instant(header.started_at),
        "cutoff": instant(header.cutoff),
        "safety": header.safety,
        "objects": {group: getattr(facts, group).objects for group in groups}
        | {"missing": facts.missing, "swept_before": facts.swept_before, "came_back": facts.came_back.objects},
        "bytes": {group: getattr(facts, group).bytes for group in groups} | {"came_back": facts.came_back.bytes},
        "commits": {
            "known": commits.known,
            "retained": commits.retained,
            "kept_by": dict(commits.kept_by),
            "ignored": list(commits.commits_ignored),
            "ranges_ignored": {"count": committed.ranges_ignored, "examples": list(committed.ranges_ignored_ids)},
        },
        "holds": list(commits.holds),
        "guards": [verdict_json(verdict) for verdict in verdicts],
        "authorized": guards.authorized(verdicts),
        "missing": [dict(each) for each in facts.missing_paths],
        "came_back": {
            "examples": list(facts.came_back_examples),
            "taken_back": [asdict(each) for each in facts.taken_back],
        },
        "ages": [asdict(each) for each in facts.ages],
        "sizes": [asdict(each) for each in facts.sizes],
        "prefixes": [asdict(each) for each in facts.prefixes],
        "origins": _origins_json(facts),
        "asked": {"pages": facts.pages_asked, "heads": facts.heads, "waiting": asdict(facts.waiting)},
        "foreign_prefixes": [asdict(each) for each in facts.foreign_prefixes],
        "collect_unknown_names": header.collect_unknown_names,
        "run": run_json(manifests),
        "price": price_json(context.settings.price),
        "confirmed_at": instant(confirmed_at(context)),
        "first_young": first_young_json(context),
        "seconds": {stage: round(manifests[stage].seconds, 3) for stage in STAGES},
        "artifacts": context.mark.location,
    }


def first_young_json(context: MarkContext) -> Json | None:
    """When the first of the young objects is old enough, and when it may be deleted at the earliest; None if the mark
    found garbage, or nothing too young."""
    found = first_young_at(context)
    return found and {"old_enough_at": instant(found[0]), "deletable_from": instant(found[1])}


def _origins_json(facts: ExpiredFacts) -> Json | None:
    """The causes of garbage, and the folders in which it was shown; None if nobody looked."""
    if facts.origins is None:
        return None
    return {
        "causes": [{"words": share.words, **asdict(share.amount)} for share in causes.shares(facts)],
        "folders": [asdict(each) for each in facts.origins.folders],
        "unread_metaranges": facts.origins.unread,
    }


def run_json(manifests: Mapping[str, Manifest]) -> Json:
    """The way a mark read: all anew, or what may have changed since the marks that it rests on, newest first."""
    listing = facts_of(manifests, ListingFacts)
    below = [mark_id for mark_id, _ in listing.rests_on]
    return {
        "mode": INCREMENTAL if below else CLEAN,
        "rests_on": below,
        "why_clean": listing.why_clean or None,
        "units": listing.units,
        "units_listed": listing.units_listed,
    }


def verdict_json(verdict: Verdict) -> Json:
    """One guard in the contract's form."""
    found: Json = {name: getattr(verdict, name) for name in ("name", "passed", "severity", "description")}
    if verdict.accepted_because is not None:
        found["accepted_because"] = verdict.accepted_because
    return found


def sweep_report(result: SweepResult) -> Json:
    """The contract of `lakegc sweep --json`."""
    failures = {outcome: count for outcome, count in result.outcomes.items() if outcome.startswith(FAILED)}
    others = {outcome: count for outcome, count in result.outcomes.items() if outcome not in failures}
    return {
        "repository": result.repository,
        "mark_id": result.mark_id,
        "sweep": result.sweep,
        "outcomes": {**others, "failed": sum(failures.values()), **failures},
        "bytes_deleted": result.bytes_deleted,
        "gone_by_sweeps": result.gone_by_sweeps,
        "gone_by_others": result.gone_by_others,
        "price": price_json(result.price),
        **of_sweep(asdict(result)),
        "planned": result.planned,
        **({} if result.planned_bytes is None else {"planned_bytes": result.planned_bytes}),
        **({} if result.planned_bytes is None else {"estimate": dict(result.estimate) or None}),
        "stopped_by_budget": bool(result.over_budget),
        "over_budget": {"objects": 0, "bytes": 0} | dict(result.over_budget),
        "budget": dict(result.budget) or None,
        "dry_run": result.dry_run,
        **({"refused_by": dict(result.refused_by)} if result.dry_run else {}),
        "versioned": result.versioned,
        "recoverable_until": instant(result.recoverable_until) if result.recoverable_until else None,
        "undeletes": result.undeletes,
        "quarantine": _quarantine_json(result.quarantine),
        "unreadable": dict(result.unreadable),
        "waiting": dict(result.waiting),
        "canaries": dict(result.canaries),
        "delete_conditions": dict(result.delete_conditions) or None,
        "rings": dict(result.rings) or None,
        "brought_back": dict(result.brought_back) or None,
        "confirmed_from": instant(result.confirmed_from) if result.confirmed_from else None,
        "backup": result.backup,
        "statement": result.statement,
        "seconds": round(result.seconds, 3),
        "report": result.report,
    }


def _quarantine_json(told: Mapping[str, float]) -> Json | None:
    """For how long copies of what a sweep deletes stay in quarantine, and of how much if not of all; None if there are
    none."""
    until = told.get("until")
    part = {name: told[name] for name in ("objects", "bytes") if name in told}
    return {"seconds": told["age"], "until": instant(until) if until else None, **part} if told else None


def retirement_report(result: Retirement) -> Json:
    """The contract of `lakegc retire --json`."""
    copies = result.quarantine
    return {
        "repository": result.repository,
        "dry_run": result.dry_run,
        "retired": list(result.retired.values()),
        "kept": [{"mark_id": mark_id, "because": reason} for mark_id, reason in result.kept.items()],
        "unclosed": list(result.unclosed),
        "artifacts_deleted": result.artifacts,
        "artifact_bytes": result.bytes,
        "emptied": [{"mark_id": mark_id, **amount} for mark_id, amount in copies.emptied.items()],
        "in_quarantine": [
            {"mark_id": mark_id, "because": why, "stuck": mark_id in copies.stuck, **copies.amounts.get(mark_id, {})}
            for mark_id, why in copies.kept.items()
        ],
    }


def price_json(price: Price | None) -> Json | None:
    """A price in the reports' form."""
    return None if price is None else {"per_gb_month": price.per_gb_month, "currency": price.currency}
