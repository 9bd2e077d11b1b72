"""The watch: which repositories missed their round, and which are not swept although lakegc.yaml says so.

What is a fault is decided in `rounds`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import dagster as dg

from lakegc_core import clock
from lakegc_core.names import Symptom, see
from lakegc_dagster import records, rounds
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.failures import READING_RETRIES, failed_by_name, told_as_failures
from lakegc_dagster.metadata.shown import records as records_shown
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.repository import show_never_marked
from lakegc_dagster.resources import resource_of
from lakegc_dagster.rounds import Marked
from lakegc_dagster.sensors import taking_part


@dataclass(frozen=True)
class _Runs:
    """Unfinished runs by repository: of the last day, those of them that are not queued, and older ones. `cells`:
    what those of the last day are for, and of older ones the newest at work on each repository. `asked`: the
    repositories whose sweep was asked for in the last day."""

    busy: dict[str, str]
    at_work: dict[str, str]
    cells: set[GcCell]
    stuck: dict[str, str]
    asked: set[str]

    @classmethod
    def known(cls, instance: dg.DagsterInstance, options: LakegcConfig, day_ago: datetime) -> Self:
        recent, by_repository = records.unfinished(instance, options, since=day_ago), records.busy_repositories
        older, at_work = records.unfinished(instance, options, before=day_ago), records.at_work(recent)
        asked, cells = records.asked_to_sweep(instance, options, day_ago), records.cells_of(recent)
        # One that has been at work for long may be so still; others that seem so have died: a lease lets one work.
        cells |= records.cells_of(records.newest_by_repository(records.at_work(older)))
        return cls(by_repository(recent), by_repository(at_work), cells, by_repository(older), asked)


def watch(options: LakegcConfig) -> Any:
    """The op of `gc_watch`. It fails by name of each repository that has a fault."""

    @dg.op(
        name=options.job_name("watch"),
        description="Look for repositories that missed their round, for sweeps that nobody asks for, and for sweeps "
        "that guards stop or that come to no end.",
        required_resource_keys={options.resource_key},
        config_schema={},
        retry_policy=READING_RETRIES,
    )
    def look(context: dg.OpExecutionContext) -> None:
        lakegc = resource_of(options, context)
        with told_as_failures():
            choice = taking_part(lakegc)
        instance, now = context.instance, clock.now()
        slot = rounds.watched_slot(options.round_cron, now)
        runs, settings = _Runs.known(instance, options, now - rounds.LONGEST_RUN), lakegc.settings()
        problems: dict[str, str] = {}
        stopped: dict[str, str] = {}
        unswept: dict[str, str] = {}
        known = options.grid.marks_of(instance)
        for repository in choice.taken:
            name = repository.id
            mark = records.newest_mark(instance, options, name, known)
            created, busy, stuck = repository.creation_date, runs.busy.get(name), runs.stuck.get(name)
            if wrong := rounds.overdue(name, created, mark, slot, busy=busy, stuck=stuck):
                problems[name] = wrong
                if mark is None:
                    show_never_marked(context, options, name, f"{wrong}. {see(Symptom.ROUNDS_MISSED)}")
            if mark is None or not settings.policy_for(name).sweep:
                continue
            if mark.stopped_by:
                stopped[name] = mark.stopped_by
            busy = runs.at_work.get(name)
            in_vain = records.stopped_marks(instance, options, mark, known, runs.cells, now - rounds.STOPPED_FOR)
            wrong = rounds.stopped(in_vain, now, busy=busy)
            if not wrong and name not in runs.asked:
                wrong = _unswept(instance, options, mark, known, now, busy)
            if wrong:
                unswept[name] = wrong
        counts = {"overdue": len(problems), "unswept": len(unswept), "stopped": len(stopped)}
        shown = records_shown(("repository", "stopped by"), stopped.items())
        metadata = {"repositories": len(choice.taken), **counts, **({"stopped_by_guards": shown} if stopped else {})}
        context.add_output_metadata(metadata)
        if problems or unswept:
            title = "These repositories missed their round, or their sweep"
            faults = {
                name: ". ".join(each[name] for each in (problems, unswept) if name in each)
                for name in problems | unswept
            }
            raise failed_by_name(title, faults, metadata, Symptom.ROUNDS_MISSED)

    return look


def _unswept(
    instance: dg.DagsterInstance,
    options: LakegcConfig,
    newest: Marked,
    known: Sequence[str],
    now: datetime,
    busy: str | None,
) -> str:
    """The fault that nobody asks for sweeps of a repository; empty if there is none. Where marks end shortly before
    each watch, the one before the newest tells."""
    name, asked_by = newest.repository, (now - rounds.ASKED_WITHIN).timestamp()
    is_in_time = newest.completed_at <= asked_by
    mark = newest if is_in_time else records.newest_mark(instance, options, name, known, completed_by=asked_by)
    if mark is None:
        return ""
    requested = records.request_of(instance, options, GcCell(name, mark.mark_id))
    return rounds.unswept(mark, now, busy=busy, requested=requested)
