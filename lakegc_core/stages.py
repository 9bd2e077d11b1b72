"""The six stages, by the names of their assets: what each writes, and which room does the work.

A marking stage runs once, after the one before it. It counts only when its manifest stands (`marks.stage_run`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lakegc_core.inventory.listing import list_namespace
from lakegc_core.judging.expired import find_expired
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.previous import former_state
from lakegc_core.marks.stage_run import StageOutput, StageResult, run_stage
from lakegc_core.names import Stage
from lakegc_core.policy.facts import CommitsFacts, StagedFacts
from lakegc_core.references.commits.retained import find_retained
from lakegc_core.references.ranges.committed import read_committed
from lakegc_core.references.staged import dump_staged
from lakegc_core.store.clock import ahead
from lakegc_core.sweep import sweep
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.chosen import Chosen
from lakegc_core.sweep.other_tools import OtherMark
from lakegc_core.sweep.result import SweepResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def namespace_listing(spark: SparkSession, context: MarkContext) -> StageResult:
    """List the namespace. Columns: address, size (bytes), last_modified (the store's clock), etag, unit, foreign.

    Datasets: `units`, what each folder held and which mark listed it; `gone`, what sweeps deleted of units that are
    taken over.
    """
    return run_stage(Stage.NAMESPACE_LISTING, spark, context, list_namespace)


def uncommitted_addresses(spark: SparkSession, context: MarkContext) -> StageResult:
    """Dump what is staged. Columns: address, exact. Dataset `elsewhere`: what branches show of other namespaces."""

    def body(spark: SparkSession, context: MarkContext) -> StageOutput[StagedFacts]:
        return dump_staged(spark, context, context.mark.stage_folder(Stage.UNCOMMITTED_ADDRESSES))

    return run_stage(Stage.UNCOMMITTED_ADDRESSES, spark, context, body)


def retention_commits(spark: SparkSession, context: MarkContext) -> StageResult:
    """Find the commits that count. Columns: commit_id, metarange_id, kept_by. Dataset `refs`: heads and tags."""

    def body(spark: SparkSession, context: MarkContext) -> StageOutput[CommitsFacts]:
        folder = context.mark.stage_folder(Stage.RETENTION_COMMITS)
        found = find_retained(spark, context, folder, former=former_state(context))
        # By this clock commits have expired. It need not be the one of the listing: a mark may be resumed elsewhere.
        return replace(found, facts=replace(found.facts, clock_skew=ahead(context.data)))

    return run_stage(Stage.RETENTION_COMMITS, spark, context, body)


def committed_addresses(spark: SparkSession, context: MarkContext) -> StageResult:
    """Read what retained commits refer to. Columns: range_id, address, exact, size, e_tag: of the ranges read here.

    Datasets: `ranges`, all that are retained, with the mark that read each; `index`, hashes of what was read here;
    `checksums` of all retained metaranges; `held`, and `dropped`: what was referred to at the mark before, and is not;
    `elsewhere`: of what was read here, the addresses that lie in other namespaces.
    """
    return run_stage(Stage.COMMITTED_ADDRESSES, spark, context, read_committed)


def expired_addresses(spark: SparkSession, context: MarkContext) -> StageResult:
    """Find the garbage. Columns: address, size, last_modified, etag, reason, since.

    Datasets: `kept` (unreferenced by commits, but staged, held, referred to by another repository, too young, foreign,
    of unknown name), `missing` (live addresses that the store lacks), `learnt` (objects that nobody had listed, in
    units that were taken over) and `neighbours` (what other repositories refer to here).
    """
    return run_stage(Stage.EXPIRED_ADDRESSES, spark, context, find_expired)


MARKING: dict[str, Callable[[SparkSession, MarkContext], StageResult]] = {
    Stage.NAMESPACE_LISTING.value: namespace_listing,
    Stage.UNCOMMITTED_ADDRESSES.value: uncommitted_addresses,
    Stage.RETENTION_COMMITS.value: retention_commits,
    Stage.COMMITTED_ADDRESSES.value: committed_addresses,
    Stage.EXPIRED_ADDRESSES.value: expired_addresses,
}
"""The five marking stages by name, in order. The names are plain strings: Dagster stores no enums that it does not
know."""


def swept_report(
    spark: SparkSession,
    context: MarkContext,
    *,
    dry_run: bool = False,
    accepted: Mapping[str, str] | None = None,
    only: OtherMark | Chosen | None = None,
    budget: Budget | None = None,
) -> SweepResult:
    """Sweep a mark, see `sweep.sweep.run`."""
    return sweep.run(spark, context, dry_run=dry_run, accepted=accepted, only=only, budget=budget)
