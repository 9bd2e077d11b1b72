"""The asset between mark and sweep, where a team wants one: what a sweep would delete, copied away before."""

from collections.abc import Iterator

import dagster as dg

from lakegc_core.errors import SettingsError
from lakegc_core.marks.context import open_mark
from lakegc_core.views.words import human_bytes
from lakegc_dagster.checks import guard_keys
from lakegc_dagster.config import BACKUP, LakegcConfig
from lakegc_dagster.failures import READING_RETRIES, told_as_failures
from lakegc_dagster.metadata.results import copy_metadata
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.resources import resource_of
from lakegc_dagster.unasked import with_checks_told
from lakegc_dagster.workplace import Step, Workplace


def backup_assets(options: LakegcConfig, workplace: Workplace) -> list[dg.AssetsDefinition]:
    """The asset, under the names and labels of `options`; none unless they ask for one. Its work is at `workplace`."""
    if not options.backup:
        return []

    @options.asset(
        BACKUP, group=options.sweep_group, deps=["expired_addresses"], kinds={"pyspark"}, retry_policy=READING_RETRIES
    )
    def backup(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckEvaluation]:
        """Every object that the mark would delete, copied to lakegc.yaml's `backup_to` under its own key.

        What lies there already is not copied again. A repository without `backup_to` has no backup, and says so; with
        `backup: required` that is an error. With that, a few objects may lack their copies: the sweep leaves them.
        """
        yield from with_checks_told(context, guard_keys(options), _copy(context, options, workplace))

    return [backup]


def _copy(
    context: dg.AssetExecutionContext, options: LakegcConfig, workplace: Workplace
) -> Iterator[dg.MaterializeResult[None]]:
    lakegc = resource_of(options, context)
    with told_as_failures(context.retry_number):
        cell = GcCell.of(context)
        mark = open_mark(lakegc.open(cell, context.log.info), cell.mark_id)
        place = mark.policy.backups_of(mark.repository.id)
        if place is None and mark.policy.backup:
            raise SettingsError(
                f"lakegc.yaml says `backup: required` for {mark.repository.id} and not where to: set `backup_to`, for "
                "instance s3://spare/{repository}."
            )
        if place is None:
            yield dg.MaterializeResult(
                metadata={"summary": "No backup: lakegc.yaml names no `backup_to` for this repository."}
            )
            return
        result = workplace.backup(Step(context, lakegc, mark), place)
    if result.failed and not (mark.policy.backup and result.counts):  # else the sweep leaves what has no copy
        raise dg.Failure(
            f"{result.failed:,} objects were not backed up to {result.place}. The others are ("
            f"{human_bytes(result.bytes)} now); run it again.",
            metadata=copy_metadata(result),
        )
    if result.failed:
        context.log.warning(f"{result.failed:,} objects were not backed up to {result.place}. The sweep leaves them.")
    yield dg.MaterializeResult(metadata=copy_metadata(result))
