"""The results of sweeps, backups, restores and retirements; and the keepers of objects that stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import dagster as dg

from lakegc_core.answers.du import Usage
from lakegc_core.answers.whatif import Point, WhatIf
from lakegc_core.copies.copied import CopyResult
from lakegc_core.marks.retire import Retirement
from lakegc_core.names import FAILED, Json, Outcome, counted
from lakegc_core.sweep.result import SweepResult
from lakegc_core.views.report import sweep_report
from lakegc_core.views.words import (
    CHANGED_REMARK,
    NOT_IN_BACKUP_REMARK,
    deleted,
    gone_by,
    human_bytes,
    nothing_left,
    on_condition,
    over_budget,
    time_it_takes,
)
from lakegc_dagster.metadata.shown import Metadata, cost, place, plain, records

_OUTCOMES = {  # by plain strings: Dagster stores no enums that it does not know
    Outcome.DELETED.value: "gone from the store",
    Outcome.ALREADY_GONE.value: "",  # see `gone_by`
    Outcome.RESCUED.value: "live again: kept",
    Outcome.UNCONFIRMED.value: "not yet unreferenced for long enough: kept for a later sweep",
    Outcome.HELD.value: "kept: a hold keeps it now",
    Outcome.CHANGED.value: CHANGED_REMARK,
    Outcome.LEFT.value: "not deleted: the sweep was closed",
    Outcome.OVER_BUDGET.value: "not deleted: the budget of the sweep was spent; left to a later sweep",
    Outcome.NOT_IN_BACKUP.value: NOT_IN_BACKUP_REMARK,
    Outcome.LOST.value: "found referenced after it was deleted: restore it, and report this",
}


def sweep_metadata(result: SweepResult) -> Metadata:
    """The outcomes of the objects of a sweep."""
    report = sweep_report(result)
    failures = {name: count for name, count in result.outcomes.items() if name.startswith(FAILED)}
    rows = [
        (
            name,
            result.outcomes.get(name, 0),
            human_bytes(result.bytes_deleted) if name == Outcome.DELETED else "",
            gone_by(report) if name == Outcome.ALREADY_GONE else means,
        )
        for name, means in _OUTCOMES.items()
    ]
    rows += [(name, count, "", "launch the sweep again") for name, count in sorted(failures.items())]
    return {
        "in_short": dg.MetadataValue.text(_in_short(result, report)),  # lists of events hide markdown behind a link
        **_refused(result),
        "dagster/row_count": sum(result.outcomes.values()),
        "dry_run": result.dry_run,
        "outcomes": records(("outcome", "objects", "size", "meaning"), rows, ("string", "int")),
        "planned": result.planned,
        **_planned(result, report),
        "stopped_by_budget": bool(result.over_budget),
        **({"over_budget_bytes": result.over_budget["bytes"]} if result.over_budget else {}),
        **{name: result.outcomes.get(name, 0) for name in _OUTCOMES},
        "failed": result.failed,
        "bytes_deleted": result.bytes_deleted,
        **({"deletes": said} if (said := on_condition(report)) else {}),
        **cost("freed_per_month", result.bytes_freed, None if result.dry_run else report["price"]),
        "seconds": round(result.seconds, 3),
        "sweep": result.sweep,
        **({"unreadable": dict(result.unreadable)} if result.unreadable else {}),
        **({"report": place(result.report)} if result.report else {}),
    }


def _in_short(result: SweepResult, report: Json) -> str:
    if result.dry_run:
        size, objects = human_bytes(result.planned_bytes or 0), counted(result.planned, "object")
        said = [f"Dry run: nothing was deleted. {size} in {objects} would be", *time_it_takes(report)]
        if waiting := result.outcomes.get(Outcome.UNCONFIRMED, 0):
            said.append(f"Not yet unreferenced for long enough: {counted(waiting, 'object')}")
        if result.refused_by:
            said.append(f"A sweep is refused until a person accepts {', '.join(result.refused_by)}")
    else:
        said = [nothing_left(report) or deleted(report)]
    if result.over_budget:
        said.append(f"{counted(result.over_budget['objects'], 'object')}, {over_budget(report)}")
    return ". ".join(each[:1].upper() + each[1:] for each in said) + "."


def _refused(result: SweepResult) -> Metadata:
    """The guards that refuse a real sweep, by a dry run."""
    said = [f"- **{name}**: {plain(sentence)}" for name, sentence in result.refused_by.items()]
    return {"refused_by": dg.MetadataValue.md("\n".join(said))} if said else {}


def _planned(result: SweepResult, report: Json) -> Metadata:
    """The amount that a sweep would delete, by a dry run, and what it costs a month."""
    if result.planned_bytes is None:
        return {}
    size = result.planned_bytes
    found = {"would_take_seconds": round(result.estimate["seconds"])} if result.estimate else {}
    return {"planned_bytes": size, **found, **cost("planned_per_month", size, report["price"])}


def copy_metadata(result: CopyResult) -> Metadata:
    """The outcomes of the objects of a backup or a restore."""
    problems = [(str(each.get("address")), str(each.get("problem"))) for each in result.problems]
    return {
        "outcomes": records(("outcome", "objects"), result.outcomes.items(), ("string", "int")),
        **result.outcomes,
        "bytes_copied": result.bytes,
        "place": place(result.place),
        "seconds": round(result.seconds, 3),
        **({"problems": records(("address", "problem"), problems)} if problems else {}),
    }


def retirement_metadata(results: Iterable[Retirement], removed: Sequence[str]) -> Metadata:
    """The result of a retirement, a line a mark; the records in the stores say all of it."""
    done = list(results)
    rows = [
        (result.repository, mark_id, each["expired"], each["deleted"], human_bytes(each["bytes_deleted"]))
        for result in done
        for mark_id, each in result.retired.items()
    ]
    titles, kinds = ("repository", "mark", "expired", "deleted", "deleted bytes"), ("string", "string", "int", "int")
    unclosed = [(result.repository, *each) for result in done for each in result.unclosed.items()]
    copies = [result.quarantine for result in done]
    emptied = [amount for each in copies for amount in each.emptied.values()]
    kept = [(result.repository, *each) for result in done for each in result.quarantine.kept.items()]
    return {
        **({"in_quarantine": records(("repository", "mark", "why"), kept)} if kept else {}),
        "quarantines_emptied": len(emptied),
        "copy_bytes_deleted": sum(each["bytes"] for each in emptied),
        **({"unclosed_sweeps": records(("repository", "mark", "why"), unclosed)} if unclosed else {}),
        "retired": records(titles, rows, kinds),
        "retired_marks": len(rows),
        "artifacts_deleted": sum(result.artifacts for result in done),
        "artifact_bytes": sum(result.bytes for result in done),
        "partitions_removed": list(removed),
    }


_CURVES = 6
"""Rules whose curves are shown; `lakegc whatif` shows all."""


def answers_metadata(usage: Usage, rules: WhatIf) -> Metadata:
    """The amounts that each number of days would keep, a table for each rule, and what keeps most; as a mark saw it."""
    curves = list(rules.curves.items())[:_CURVES]
    titles = ("kept by", "frees in the end", "bytes", "frees at once", "shows")
    return {
        "answers_of_mark": dg.MetadataValue.text(usage.mark_id),
        **{f"kept_by_days_of_{name}": records(_POINT, map(_point, points), _POINT_KINDS) for name, points in curves},
        "largest_keepers": records(titles, _keepers(usage), ("string", "string", "int")),
        "kept_by_several_bytes": usage.shared.bytes,
        "rules": len(rules.curves),
    }


_POINT, _POINT_KINDS = ("days", "objects", "bytes", "size"), ("string", "int", "int", "string")


def _point(point: Point) -> tuple[str, int, int, str]:
    days = "for ever" if point.days is None else str(point.days)
    return days, point.kept.objects, point.kept.bytes, human_bytes(point.kept.bytes)


def _keepers(usage: Usage) -> Iterator[tuple[str, str, int, str, str]]:
    """The keepers that keep anything alone or show anything, the most first."""
    for each in usage.keepers:
        if each.only.objects or each.shows:
            shown = human_bytes(each.shows.bytes) if each.shows else ""
            yield each.name, human_bytes(each.only.bytes), each.only.bytes, human_bytes(each.at_once.bytes), shown
