"""The asset that deletes. It authorises itself: how it was launched, and what else was in the run, does not count."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import dagster as dg
from pydantic import Field

from lakegc_core import clock
from lakegc_core.config.budget import BudgetSettings
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.config.sizes import parse_size, parse_time_of_day
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext, open_mark
from lakegc_core.policy import guards
from lakegc_core.policy.facts import ExpiredFacts
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA
from lakegc_core.sweep.result import SweepResult
from lakegc_dagster import records
from lakegc_dagster.authorization import authorize_sweep
from lakegc_dagster.checks import accepting
from lakegc_dagster.config import BACKUP, SWEEP, LakegcConfig
from lakegc_dagster.failures import told_as_failures
from lakegc_dagster.metadata.results import sweep_metadata
from lakegc_dagster.metadata.shown import Metadata, lakefs_page, plain
from lakegc_dagster.metadata.stages import causes_shown, columns_of
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.repository import show_sweep
from lakegc_dagster.resources import resource_of
from lakegc_dagster.workplace import Step, Workplace


class SweepConfig(dg.Config):
    """What a sweep may do. Nothing, unless it is said: backfills and the UI launch with the defaults."""

    dry_run: bool = Field(default=True, description="Do everything but delete.")
    accept: dict[str, str] = Field(
        default={},
        description="Sweep although these guards refused: name of the guard, and why that is right. The reason goes "
        "into the report.",
    )

    most_bytes: str | None = Field(
        default=None,
        description="Delete at most so much, such as 2TB, the largest objects first. By default as lakegc.yaml says.",
    )
    most_objects: int | None = Field(default=None, ge=1, description="Delete at most so many objects.")
    until: str | None = Field(
        default=None,
        description="Delete nothing from this time of day on, UTC, such as 06:00, counted from when the run begins.",
    )
    most_requests: int | None = Field(default=None, ge=1, description="Send at most so many requests for deletes.")

    def budget(self) -> BudgetSettings:
        """The budget of this run; what it leaves out is as lakegc.yaml says. SettingsError if it cannot be read."""
        return BudgetSettings(
            None if self.most_bytes is None else parse_size(self.most_bytes),
            self.most_objects,
            None if self.until is None else parse_time_of_day(self.until),
            self.most_requests,
        )

    def accepted(self) -> dict[str, str]:
        """Reasons by guard; SettingsError for a guard that cannot be accepted, or without a reason."""
        return guards.check_accepted({name.replace("_", "-"): reason for name, reason in self.accept.items()})


def sweep_assets(options: LakegcConfig, workplace: Workplace) -> list[dg.AssetsDefinition]:
    """The one asset that deletes, under the names and labels of `options`, which does its work at `workplace`."""

    before = ["expired_addresses", *([BACKUP] if options.backup else [])]

    @options.asset(
        SWEEP,
        group=options.sweep_group,
        deps=before,
        kinds={"pyspark", "parquet"},
        output_required=False,
        metadata=columns_of(OUTCOMES_SCHEMA),
    )
    def swept_report(
        context: dg.AssetExecutionContext, config: SweepConfig
    ) -> Iterator[dg.AssetObservation | dg.MaterializeResult[None]]:
        """What became of every object of the mark: deleted, already gone, live again, not yet confirmed, or failed.

        By default a dry run, which deletes nothing: an observation says what a sweep would delete, and the partition
        stays missing. It is missing, too, if its repository has no mark of this id. To delete, open the launchpad in
        the menu beside Materialize, choose the partition, and set dry_run: false in the config.

        Refuses unless every guard was checked on the latest `expired_addresses` of this very partition and holds, and
        unless every guard holds now. A dry run goes past guards that a person may accept, and warns. Then lakeFS is
        asked once more what it refers to, and only what is still garbage is deleted.
        """
        lakegc = resource_of(options, context)
        with told_as_failures(context.retry_number):
            accepted, given = config.accepted(), config.budget()
            cell = GcCell.of(context)
            _check_backfill(options, context, config)
            if records.REQUESTED in context.run.tags:
                _check_wanted(lakegc.settings().policy_for(cell.repository), cell)
            mark = open_mark(lakegc.open(cell, context.log.info), cell.mark_id)
            refused = authorize_sweep(context.instance, options, cell, mark, accepted, dry_run=config.dry_run)
            # A step that waited for the lease begins anew, and must not have time until the next day.
            began = clock.now() - records.at_work_for(context.instance, context.run_id)
            budget = Budget.of(mark.policy.budget, began, given)
            step = Step(context, lakegc, mark)
            with _told_if_terminated(context, cell, config.dry_run):
                result = workplace.sweep(step, dry_run=config.dry_run, accepted=accepted, budget=budget)
        result = replace(result, refused_by={**refused, **result.refused_by})
        if result.refusal:
            context.log.warning(result.refusal)
        show_sweep(context, options, mark, result)
        yield from _told(options, cell, mark, result)

    return [swept_report]


@contextmanager
def _told_if_terminated(context: dg.AssetExecutionContext, cell: GcCell, dry_run: bool) -> Iterator[None]:
    """Say how to go on with a sweep whose run somebody terminates: Dagster says no more than that."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        if dry_run:
            raise
        context.log.warning(
            f"What this sweep deleted is on record in mark {cell.mark_id}. To go on with it, launch the same again; to "
            f"end it, `lakegc sweep {cell.repository} {cell.mark_id} --close`. sweep_confirmed does not ask for "
            "it again."
        )
        raise


def _told(
    options: LakegcConfig, cell: GcCell, mark: MarkContext, result: SweepResult
) -> Iterator[dg.AssetObservation | dg.MaterializeResult[None]]:
    """The records of a sweep in Dagster. A dry run is no materialisation; a sweep in trouble fails the step."""
    causes = causes_shown(mark.mark.facts(ExpiredFacts)) if result.dry_run else {}
    metadata = sweep_metadata(result) | _way_out(result) | {"lakefs": lakefs_page(mark)} | causes
    if result.trouble or result.dry_run:
        # What was deleted stays recorded on the asset although the step fails; logged events would be lost.
        yield dg.AssetObservation(options.key(SWEEP), partition=str(cell.key), metadata=metadata)
    if result.trouble:
        raise dg.Failure(result.trouble, metadata=metadata, allow_retries=False)
    if not result.dry_run:
        yield dg.MaterializeResult(metadata=metadata)


def _way_out(result: SweepResult) -> Metadata:
    """The way to sweep what guards refuse, after a dry run."""
    if not result.refused_by:
        return {}
    said = [f"- {plain(accepting(guards.BY_NAME[name]))}" for name in result.refused_by]
    return {"if_it_was_meant": dg.MetadataValue.md("\n".join(said))}


def _check_wanted(policy: RepositoryPolicy, cell: GcCell) -> None:
    """RefusedError for a run of the sensor whose repository is not to be swept any more: it may have been queued for
    hours, or be tried again."""
    if not (policy.sweep and policy.mark):
        raise RefusedError(
            f"The sensor asked for the sweep of mark {cell.mark_id} of {cell.repository}; meanwhile lakegc.yaml does "
            "not say `sweep: true` of it, or says `mark: false`. Nothing was deleted. To sweep it all the same, launch "
            "swept_report for this one partition by hand."
        )


def _check_backfill(options: LakegcConfig, context: dg.AssetExecutionContext, config: SweepConfig) -> None:
    """RefusedError in a run of a backfill, or one that executes such a run again, but for dry runs of a job. Dagster
    calls a backfill of assets failed in which a partition is not materialised."""
    if config.dry_run and context.run.job_name in {options.job_name(job) for job in ("gc_sweep", "gc")}:
        return
    if records.of_backfill(context.instance, context.run_id):
        raise RefusedError(
            "A backfill sweeps nothing, whatever its config says: it is for marks. Nor does a run of it that is "
            "executed again. Nothing was deleted. Backfill the marking assets, or the job gc_sweep for dry runs. To "
            "sweep, launch swept_report anew for this one partition, or turn on the sensor sweep_confirmed."
        )
