"""May this cell be swept? Asked by the sweep itself: a blocking check stops only the run that it is part of.

Two of three answers are found here, from what Dagster has recorded: every guard was checked on the latest
materialisation of this very partition and holds, and that materialisation is of the mark that lies in the store. The
third, every guard evaluated once more, is core's and would be enough for safety; these leave a trail to audit. Of what
is done after the check, such as a backup by hand or the mark of a neighbour, core alone knows.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from lakegc_core.marks.context import MarkContext
from lakegc_core.names import STAGES
from lakegc_core.policy.guards import GUARDS
from lakegc_dagster.checks import check_key, checked_asset, judged_anew
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.failures import refused
from lakegc_dagster.metadata.entries import DIGEST, STOPS, digest_of
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.records import evaluations, latest_materialization

_BY_A_PERSON = {guard.name: "a dry run deletes nothing" for guard in GUARDS if guard.may_be_accepted}


def authorize_sweep(
    instance: dg.DagsterInstance,
    options: LakegcConfig,
    cell: GcCell,
    mark: MarkContext,
    accepted: Mapping[str, str],
    *,
    dry_run: bool = False,
) -> dict[str, str]:
    """Return if the cell may be swept as far as Dagster knows; else raise a failure with every reason.

    A dry run goes past guards that a person may accept. Returns the reasons of these, by guard.
    """
    reasons = refusals(instance, options, cell, mark, accepted)
    final = refusals(instance, options, cell, mark, {**_BY_A_PERSON, **accepted}) if dry_run and reasons else reasons
    if final:
        first = f"Mark {cell.mark_id} of {cell.repository} is not swept. Nothing was deleted."
        raise refused([first, *final])
    return {guard: said for guard, _, said in (reason.partition(": ") for reason in reasons)}


def refusals(
    instance: dg.DagsterInstance,
    options: LakegcConfig,
    cell: GcCell,
    mark: MarkContext,
    accepted: Mapping[str, str],
) -> list[str]:
    """The reason why the cell may not be swept; empty if it may."""
    checked = {checked_asset(options, guard.name) for guard in GUARDS}
    latest = {asset: latest_materialization(instance, options, asset, cell) for asset in checked}
    marked = latest[STAGES[-1]]
    if marked is None:
        return ["expired_addresses was never materialised for this partition. Materialise the marking assets first."]
    keys = {guard.name: check_key(options, guard) for guard in GUARDS}
    found = evaluations(instance, list(keys.values()), cell)
    reasons = []
    for guard in GUARDS:
        asset = checked_asset(options, guard.name)
        past = (guard.may_be_accepted and guard.name in accepted) or judged_anew(options, guard)
        reason = _refusal(asset, found.get(keys[guard.name]), latest[asset], past=past)
        if reason is not None:
            reasons.append(f"{guard.name}: {reason}")
    return reasons + _digest_refusals(marked, mark)


def _refusal(
    asset: str, evaluation: dg.AssetCheckEvaluation | None, latest: dg.EventLogRecord | None, *, past: bool
) -> str | None:
    """The reason why the record of a guard stops a sweep, or None. `latest`: materialisation of the asset that it
    checks. `past`: go past what the guard found; it must have been checked all the same."""
    if evaluation is None:
        return f"was never checked for this partition. Materialise {asset} of it, with its checks."
    target = evaluation.target_materialization_data
    if target is None:
        return f"was checked on no {asset} at all. Materialise it, with its checks."
    if latest is None or target.storage_id != latest.storage_id:
        return f"was checked on an older {asset}. Materialise it again, with its checks."
    if past or evaluation.passed or not _stops(evaluation):
        return None
    return evaluation.description or "its check failed."


def _stops(evaluation: dg.AssetCheckEvaluation) -> bool:
    """True if a check that failed stops a sweep. Checks of earlier versions say it by their severity."""
    told = evaluation.metadata.get(STOPS)
    return evaluation.severity == dg.AssetCheckSeverity.ERROR if told is None else told.value is not False


def _digest_refusals(latest: dg.EventLogRecord, mark: MarkContext) -> list[str]:
    materialization = latest.asset_materialization
    recorded = materialization.metadata.get(DIGEST) if materialization is not None else None
    if recorded is None:
        return ["The latest expired_addresses names no digest: it was reported by hand. Materialise it."]
    if digest_of(recorded.value) != mark.mark.require("expired_addresses").digest:
        return [
            "The mark in the store is not the one that was materialised (its digest differs). Materialise "
            "expired_addresses of this partition again and look at it."
        ]
    return []
