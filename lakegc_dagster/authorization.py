"""May this cell be swept? Asked by the sweep itself: a blocking check stops only the run that it is part of.

Two of three answers are found here, from what Dagster has recorded: every guard was checked on the latest
materialisation of this very partition and holds, and that materialisation is of the mark that lies in the store. The
third, every guard evaluated once more, is core's and would be enough for safety; these leave a trail to audit.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

# Private, for want of a public way to ask for the check of one partition: `get_latest_asset_check_evaluation_record`
# answers with the latest of any. A change in Dagster shows as an ImportError or in tests/dagster/test_authorization.py.
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)

from lakegc_core.marks.context import MarkContext
from lakegc_core.names import STAGES
from lakegc_core.policy.guards import GUARDS, Guard
from lakegc_dagster.checks import check_key, checked_asset
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.failures import refused
from lakegc_dagster.metadata.entries import DIGEST, STOPS, digest_of
from lakegc_dagster.partitions import GcCell

_BY_A_PERSON = {guard.name: "a dry run deletes nothing" for guard in GUARDS if guard.may_be_accepted}
_DONE = (AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED)


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
    latest = {asset: _latest_materialization(instance, options, asset, cell) for asset in checked}
    marked = latest[STAGES[-1]]
    if marked is None:
        return ["expired_addresses was never materialised for this partition. Materialise the marking assets first."]
    keys = {guard.name: check_key(options, guard) for guard in GUARDS}
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(
        list(keys.values()), partition_filter=PartitionKeyFilter(key=str(cell.key))
    )
    reasons = []
    for guard in GUARDS:
        asset = checked_asset(options, guard.name)
        reason = _refusal(guard, asset, records.get(keys[guard.name]), latest[asset], accepted)
        if reason is not None:
            reasons.append(f"{guard.name}: {reason}")
    return reasons + _digest_refusals(marked, mark)


def _latest_materialization(
    instance: dg.DagsterInstance, options: LakegcConfig, asset: str, cell: GcCell
) -> dg.EventLogRecord | None:
    which = dg.AssetRecordsFilter(asset_key=options.key(asset), asset_partitions=[str(cell.key)])
    records = instance.fetch_materializations(which, limit=1).records
    return records[0] if records else None


def _refusal(
    guard: Guard,
    asset: str,
    record: AssetCheckExecutionRecord | None,
    latest: dg.EventLogRecord | None,
    accepted: Mapping[str, str],
) -> str | None:
    """The reason why a guard's record stops a sweep, or None. `latest`: materialisation of the asset that it checks."""
    evaluation = record.evaluation if record is not None and record.status in _DONE else None
    if evaluation is None:
        return f"was never checked for this partition. Materialise {asset} of it, with its checks."
    target = evaluation.target_materialization_data
    if target is None:
        return f"was checked on no {asset} at all. Materialise it, with its checks."
    if latest is None or target.storage_id != latest.storage_id:
        return f"was checked on an older {asset}. Materialise it again, with its checks."
    if evaluation.passed or not _stops(evaluation):
        return None
    if guard.may_be_accepted and guard.name in accepted:
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
