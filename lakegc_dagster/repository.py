"""An asset of its own for each repository that the config names: its curves, its check, its freshness.

All repositories share the assets of marks and sweeps. So a repository that fails marks the pages of all others there.
On this asset stand the marks and sweeps of one repository alone. Marks materialise it and sweeps observe it, so that a
repository whose marks fail never looks fresh. Nothing is decided by it.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import dagster as dg

from lakegc_core import clock, pipeline
from lakegc_core.errors import LakegcError, MarkError
from lakegc_core.marks.context import MarkContext, RepositoryContext, open_mark
from lakegc_core.marks.shelf import Shelf
from lakegc_core.marks.sweeps import finished_sweeps
from lakegc_core.names import STAGES, Outcome
from lakegc_core.pipeline import Review
from lakegc_core.policy import guards
from lakegc_core.policy.facts import ExpiredFacts
from lakegc_core.sweep.result import SweepResult
from lakegc_core.views.report import sweep_report
from lakegc_core.views.screen import swept_lines
from lakegc_core.views.words import deleted
from lakegc_dagster.checks import waits_for_a_person
from lakegc_dagster.config import REPOSITORY_ASSET, SWEEP, LakegcConfig
from lakegc_dagster.failures import READING_RETRIES, said_by, told_as_failures
from lakegc_dagster.metadata.entries import STARTED
from lakegc_dagster.metadata.in_short import in_short, refusing
from lakegc_dagster.metadata.shown import Metadata, cost, lakefs_page, place, uri
from lakegc_dagster.metadata.stages import causes_shown
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.resources import resource_of
from lakegc_dagster.rounds import next_slot, some_slots, watched_slot

LAST_MARK = "last_mark"
"""The check on such an asset: how the repository's last mark ended, failures too."""
_Context = dg.AssetExecutionContext | dg.OpExecutionContext
_MOST_MARKS = 20  # of the last ones that are looked through for the one before; a mark may be materialised again


def repository_specs(options: LakegcConfig) -> list[dg.AssetSpec]:
    """The assets. Dagster says of each whether a mark has ended well as often as rounds are opened."""
    warns, fails = fresh_for(options)
    return [
        options.spec(
            REPOSITORY_ASSET,
            repository=name,
            description=f"What lakegc found and freed in the repository {name}. Each complete mark materialises it, "
            "and each sweep observes it. lakegc does this itself; there is nothing to launch.\n\n"
            "The figures below are those of the last mark. What sweeps deleted since, the check says.\n\n"
            "The assets of marks and sweeps, from which it comes, are those of all repositories: choose a partition "
            f"of {name} there.",
            group=options.repository_group,
            kinds={"lakefs"},
            deps=[STAGES[-1], SWEEP],
            freshness_policy=dg.FreshnessPolicy.time_window(fail_window=fails, warn_window=warns),
            metadata={"dagster/code_references": _where(show_mark)},
        )
        for name in options.repositories
    ]


def _where(function: Callable[..., object]) -> dg.CodeReferencesMetadataValue:
    """The lines that materialise such an asset. Dagster itself finds those of assets that have a step alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        code = function.__code__
        line = dg.LocalFileCodeReference(file_path=code.co_filename, line_number=code.co_firstlineno)
        return dg.CodeReferencesMetadataValue(code_references=[line])


def fresh_for(options: LakegcConfig) -> tuple[timedelta, timedelta]:
    """For how long a mark counts as the last one, until it warns and until it fails: the longest time between two
    rounds, and half or all of the time from a round to the watch that looks for its marks."""
    slots = some_slots(options.round_cron)
    longest = max(after - before for before, after in pairwise(slots))
    watched = next_slot(options.watch_cron, slots[-1])
    rest = watched - watched_slot(options.round_cron, watched)
    return longest + rest / 2, longest + rest


def repository_checks(options: LakegcConfig) -> list[dg.AssetChecksDefinition]:
    """A check on each of the assets. Launched by hand, it judges the newest complete mark again."""
    return [_check(options, name) for name in options.repositories]


def _check(options: LakegcConfig, name: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=options.repository_key(name),
        name=LAST_MARK,
        description="How the last mark ended: complete, and which guards would refuse its sweep.",
        required_resource_keys={options.resource_key},
        config_schema={},
        retry_policy=READING_RETRIES,
    )
    def last_mark(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        with told_as_failures():
            mark = newest_mark(resource_of(options, context).open(GcCell.checked(name, "any"), context.log.info))
            found = _outcome(options, mark, pipeline.review(mark))
        return dg.AssetCheckResult(
            passed=found.passed, severity=found.severity, description=found.description, metadata=found.metadata
        )

    return last_mark


def newest_mark(opened: RepositoryContext) -> MarkContext:
    """The newest complete mark of a repository whose time is not to come. MarkError if there is none."""
    now = clock.now().timestamp()
    newest = Shelf.of(opened).newest_complete(lambda header, each: not clock.is_to_come(header.started_at, now))
    if newest is None:
        raise MarkError(f"{opened.repository.id} has no complete mark. Launch gc_mark for it.")
    return open_mark(opened, newest.mark_id)


@contextmanager
def failures_shown(context: _Context, options: LakegcConfig, cell: GcCell) -> Iterator[None]:
    """Let the check of a repository say why its mark failed."""
    try:
        yield
    except dg.RetryRequested:
        raise
    except Exception as error:
        if cell.repository in options.repositories:
            failed = dg.AssetCheckEvaluation(**_of_mark(options, cell, {}), passed=False, description=said_by(error))
            _report(context, failed)
        raise


def show_mark(context: _Context, options: LakegcConfig, mark: MarkContext, review: Review) -> None:
    """A complete mark, on its repository's asset."""
    name, facts = mark.header.repository, mark.mark.facts(ExpiredFacts)
    if name not in options.repositories:
        return
    metadata: Metadata = {
        "in_short": dg.MetadataValue.text(in_short(options, facts, mark, review)),
        **_amounts(facts),
        **cost("garbage_per_month", facts.expired.bytes, review.report["price"]),
        **_since_last(context, options, mark),
        **causes_shown(facts),
        STARTED: dg.MetadataValue.timestamp(mark.header.started_at),
        **_links(context, mark),
        "artifacts": place(mark.mark.location),
        **uri(mark.header.storage_namespace),
    }
    _report(context, dg.AssetMaterialization(options.repository_key(name), metadata=metadata))
    _report(context, _outcome(options, mark, review))


def show_sweep(context: _Context, options: LakegcConfig, mark: MarkContext, result: SweepResult) -> None:
    """A sweep that deleted, on its repository's asset. A dry run leaves nothing there. If no newer mark is complete,
    the check says what came of the sweep."""
    name = mark.header.repository
    if result.dry_run or name not in options.repositories:
        return
    report = sweep_report(result)
    metadata: Metadata = {
        "in_short": dg.MetadataValue.text(f"{deleted(report)}."),
        "deleted_objects": result.outcomes.get(Outcome.DELETED, 0),
        "deleted_bytes": result.bytes_deleted,
        "failed": result.failed,
        **cost("freed_per_month", result.bytes_freed, report["price"]),
        **_links(context, mark),
    }
    _report(context, dg.AssetObservation(options.repository_key(name), metadata=metadata))
    try:
        if newest_mark(mark).header.mark_id == mark.header.mark_id:
            _report(context, _outcome(options, mark, pipeline.review(mark)))
    except LakegcError as error:  # what was deleted is on record all the same
        context.log.warning(f"The check of {name} still shows the mark before its sweep. {error}")


def show_never_marked(context: _Context, options: LakegcConfig, name: str, said: str) -> None:
    """A repository whose rounds pass without a mark, on its check. Where a mark failed, its own reason stands there."""
    if name not in options.repositories:
        return
    key = options.repository_key(name)
    last = context.instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(key, LAST_MARK))
    found = last.evaluation if last else None
    if not (isinstance(found, dg.AssetCheckEvaluation) and "mark" in found.metadata):
        evaluation = dg.AssetCheckEvaluation(asset_key=key, check_name=LAST_MARK, passed=False, description=said)
        _report(context, evaluation)


def show_answers(context: _Context, options: LakegcConfig, mark: MarkContext, answers: Metadata) -> None:
    """Report answers about a mark on its repository's asset, beside what the mark says itself."""
    name = mark.header.repository
    if name in options.repositories:
        metadata = answers | {"answered_in": dg.MetadataValue.dagster_run(context.run_id)}
        _report(context, dg.AssetObservation(options.repository_key(name), metadata=metadata))


def _outcome(options: LakegcConfig, mark: MarkContext, review: Review) -> dg.AssetCheckEvaluation:
    """The evaluation of the check whether the guards let a sweep of a complete mark begin, and what sweeps did."""
    stopping = refusing(options, mark, review.verdicts)
    hard = [each for each in stopping if not waits_for_a_person(options, guards.BY_NAME[each.name])]
    severity = dg.AssetCheckSeverity.ERROR if hard else dg.AssetCheckSeverity.WARN
    stopping.sort(key=lambda verdict: verdict not in hard)
    said = "\n".join([*swept_lines(finished_sweeps(mark)), *(f"{each.name}: {each.description}" for each in stopping)])
    cell, facts = GcCell(mark.header.repository, mark.header.mark_id), mark.mark.facts(ExpiredFacts)
    return dg.AssetCheckEvaluation(
        **_of_mark(options, cell, {"guards_that_stop": len(stopping), **_amounts(facts)}),
        passed=not stopping,
        severity=severity,
        description=said or in_short(options, facts, mark, review),
    )


def _of_mark(options: LakegcConfig, cell: GcCell, figures: Metadata) -> Metadata:
    """The asset, the check and the metadata of an evaluation."""
    metadata = {"mark": dg.MetadataValue.text(cell.mark_id), **figures}
    return {"asset_key": options.repository_key(cell.repository), "check_name": LAST_MARK, "metadata": metadata}


def _amounts(facts: ExpiredFacts) -> Metadata:
    """The findings of a mark, in numbers to plot."""
    return {
        "garbage_bytes": facts.expired.bytes,
        "garbage_objects": facts.expired.objects,
        "sweepable_bytes": facts.confirmed.bytes,
        "unconfirmed_bytes": facts.expired.bytes - facts.confirmed.bytes,
        "namespace_bytes": facts.listed.bytes,
    }


def _since_last(context: _Context, options: LakegcConfig, mark: MarkContext) -> Metadata:
    """The time from the beginning of the mark before to this one's, if Dagster has recorded one: a number to plot."""
    key, began = options.repository_key(mark.header.repository), mark.header.started_at
    recorded = context.instance.fetch_materializations(key, limit=_MOST_MARKS).records
    shown = [each.asset_materialization.metadata.get(STARTED) for each in recorded if each.asset_materialization]
    earlier = [float(each.value) for each in shown if isinstance(each, dg.TimestampMetadataValue)]
    earlier = [each for each in earlier if each < began]
    return {"hours_since_last_mark": round((began - max(earlier)) / 3_600, 2)} if earlier else {}


def _links(context: _Context, mark: MarkContext) -> Metadata:
    """Links to the mark, its run, and the repository in lakeFS."""
    return {
        "mark": dg.MetadataValue.text(mark.header.mark_id),
        "run": dg.MetadataValue.dagster_run(context.run_id),
        "lakefs": lakefs_page(mark),
    }


def _report(context: _Context, event: dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation) -> None:
    context.instance.report_runless_asset_event(event)
