"""Core's guards as checks on expired_addresses: evidence for people, and a stop for the run they are part of.

A guard that waits for a person only warns here: the mark is in order, and somebody has to say a word, or make the
backup, before its sweep. All others are blocking errors. Core judges all of them again before a sweep, and
`authorization` before it, but for those that core judges by what was done after the mark.

Where backups are an asset, the guard over them is a check on that one: it cannot hold before. They guard no other run;
`authorization` does. Names, severities and sentences come from `lakegc_core.policy.guards`.
"""

import warnings
from collections.abc import Iterator

import dagster as dg

from lakegc_core.marks.context import open_mark
from lakegc_core.names import STAGES
from lakegc_core.policy import guards
from lakegc_core.policy.guards import Guard, Verdict
from lakegc_core.sweep.authorize import judge
from lakegc_core.sweep.what_counts import effective_level
from lakegc_dagster.config import BACKUP, JUDGED_ANEW, OVER_BACKUPS, LakegcConfig
from lakegc_dagster.failures import READING_RETRIES, told_as_failures
from lakegc_dagster.metadata.entries import STOPS
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.resources import resource_of
from lakegc_dagster.unasked import with_checks_told


def checked_asset(options: LakegcConfig, guard: str) -> str:
    """The asset on which a guard is a check."""
    return BACKUP if options.backup and guard == OVER_BACKUPS else STAGES[-1]


def check_key(options: LakegcConfig, guard: Guard) -> dg.AssetCheckKey:
    """The key of the check that records what a guard found."""
    return dg.AssetCheckKey(options.key(checked_asset(options, guard.name)), check_name(guard.name))


def guard_keys(options: LakegcConfig) -> list[dg.AssetCheckKey]:
    """The keys of the checks of all guards."""
    return [check_key(options, guard) for guard in guards.GUARDS]


def judged_anew(options: LakegcConfig, guard: Guard) -> bool:
    """True for a guard that checks the mark, and whose fault somebody may mend after that: the sweep judges it anew.
    Where backups are an asset, the guard over them is none: it checks that asset."""
    return guard.name in JUDGED_ANEW and checked_asset(options, guard.name) == STAGES[-1]


def waits_for_a_person(options: LakegcConfig, guard: Guard) -> bool:
    """True if a guard that stops sweeps says nothing against the mark itself."""
    return guard.may_be_accepted or judged_anew(options, guard)


def check_name(guard: str) -> str:
    """A guard's name as Dagster allows it: `blast_radius` for `blast-radius`."""
    return guard.replace("-", "_")


def accepting(guard: Guard) -> str:
    """The way to sweep in spite of a guard that may be accepted, in words for the launchpad."""
    return f'launch swept_report with the config `accept: {{{guard.name}: "why that is right"}}`'


def guard_checks(options: LakegcConfig) -> list[dg.AssetChecksDefinition]:
    """One check a guard, those of an asset evaluated in one step.

    They cannot be subset: the UI would run a single check of them without a partition.
    """
    found = [_checks(options, STAGES[-1], "guards")]
    return [*found, _checks(options, BACKUP, "backup_guard")] if options.backup else found


def _checks(options: LakegcConfig, asset: str, name: str) -> dg.AssetChecksDefinition:
    mine = [guard for guard in guards.GUARDS if checked_asset(options, guard.name) == asset]
    with warnings.catch_warnings():
        # Partitions on checks are a preview in Dagster 1.13; tests/dagster holds what lakegc relies on.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        specs = [_spec(options, guard) for guard in mine]

    @dg.multi_asset_check(
        name=options.job_name(name),
        specs=specs,
        description=f"Ask every guard about the mark, with {asset} materialised.",
        can_subset=False,
        required_resource_keys={options.resource_key},
        retry_policy=READING_RETRIES,
    )
    def guards_hold(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult | dg.AssetCheckEvaluation]:
        yield from with_checks_told(context, guard_keys(options), _judged(context, options, asset))

    return guards_hold


def _judged(context: dg.AssetCheckExecutionContext, options: LakegcConfig, asset: str) -> Iterator[dg.AssetCheckResult]:
    lakegc = resource_of(options, context)
    with told_as_failures():
        cell = GcCell.of(context)
        mark = open_mark(lakegc.open(cell, context.log.info), cell.mark_id)
        level = effective_level(mark).name
        for verdict in judge(mark):
            if checked_asset(options, verdict.name) == asset:
                yield _result(options, verdict, level)


def _spec(options: LakegcConfig, guard: Guard) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name=check_name(guard.name),
        asset=check_key(options, guard).asset_key,
        description=_description(options, guard),
        blocking=True,
        partitions_def=options.grid.definition,
    )


def _description(options: LakegcConfig, guard: Guard) -> str:
    if waits_for_a_person(options, guard):
        ways = (
            "somebody does what it says" if judged_anew(options, guard) else "",
            "a person accepts it" if guard.may_be_accepted else "",
        )
        until = " or ".join(way for way in ways if way)
        return f"What it guards against: {guard.danger}. A sweep refuses until {until}; here it only warns."
    return f"What it guards against: {guard.danger}."


def _result(options: LakegcConfig, verdict: Verdict, level: str) -> dg.AssetCheckResult:
    guard = guards.BY_NAME[verdict.name]
    warns = verdict.severity == "WARN" or waits_for_a_person(options, guard)
    return dg.AssetCheckResult(
        check_name=check_name(verdict.name),
        asset_key=check_key(options, guard).asset_key,
        passed=verdict.passed,
        severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
        description=verdict.description,
        metadata={
            "found": verdict.description,
            "danger": guard.danger,
            "safety_level": level,
            STOPS: verdict.stops,
            **({"if_it_was_meant": accepting(guard)} if guard.may_be_accepted and not verdict.passed else {}),
        },
    )
