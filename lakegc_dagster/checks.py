"""Core's guards as blocking checks on expired_addresses: evidence for people, and a stop for the run they are part of.

They guard no other run; `authorization` does. Names, severities and sentences come from `lakegc_core.guards`.
"""

import warnings
from collections.abc import Iterator

import dagster as dg

from lakegc_core import guards
from lakegc_core.context import open_mark
from lakegc_core.guards import Guard, Verdict
from lakegc_core.stages.swept_report import effective_level, judge
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.failures import READING_RETRIES, told_as_failures
from lakegc_dagster.partitions import GC_PARTITIONS, GcCell
from lakegc_dagster.resources import LakegcResource


def check_key(options: LakegcConfig, guard: Guard) -> dg.AssetCheckKey:
    """The key of the check that records what a guard found."""
    return dg.AssetCheckKey(options.key("expired_addresses"), check_name(guard.name))


def check_name(guard: str) -> str:
    """A guard's name as Dagster allows it: `blast_radius` for `blast-radius`."""
    return guard.replace("-", "_")


def accepting(guard: Guard) -> str:
    """How to sweep in spite of a guard that may be accepted, in words for the launchpad."""
    return f'launch swept_report with the config `accept: {{{guard.name}: "why that is right"}}`'


def guard_checks(options: LakegcConfig) -> list[dg.AssetChecksDefinition]:
    """One check a guard, all evaluated in one step.

    They cannot be subset: the UI would run a single check of them without a partition.
    """
    with warnings.catch_warnings():
        # Partitions on checks are a preview in Dagster 1.13; tests/dagster holds what lakegc relies on.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        specs = [_spec(options, guard) for guard in guards.GUARDS]

    @dg.multi_asset_check(name=options.job_name("guards"), specs=specs, can_subset=False, retry_policy=READING_RETRIES)
    def guards_hold(context: dg.AssetCheckExecutionContext, lakegc: LakegcResource) -> Iterator[dg.AssetCheckResult]:
        with told_as_failures():
            cell = GcCell.of(context)
            mark = open_mark(lakegc.open(cell, context.log.info), cell.mark_id)
            level = effective_level(mark).name
            for verdict in judge(mark):
                yield _result(options, verdict, level)

    return [guards_hold]


def _spec(options: LakegcConfig, guard: Guard) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name=check_name(guard.name),
        asset=options.key("expired_addresses"),
        description=f"Stops this: {guard.danger}.",
        blocking=True,
        partitions_def=GC_PARTITIONS,
    )


def _result(options: LakegcConfig, verdict: Verdict, level: str) -> dg.AssetCheckResult:
    guard = guards.BY_NAME[verdict.name]
    return dg.AssetCheckResult(
        check_name=check_name(verdict.name),
        asset_key=options.key("expired_addresses"),
        passed=verdict.passed,
        severity=dg.AssetCheckSeverity.WARN if verdict.severity == "WARN" else dg.AssetCheckSeverity.ERROR,
        description=verdict.description,
        metadata={
            "found": verdict.description,
            "danger": guard.danger,
            "safety_level": level,
            **({"if_it_was_meant": accepting(guard)} if guard.may_be_accepted and not verdict.passed else {}),
        },
    )
