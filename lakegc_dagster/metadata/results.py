"""What became of the objects of a sweep, of a backup or a restore, and of old marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import dagster as dg

from lakegc_core.copies.backup import CopyResult
from lakegc_core.marks.retire import Retirement
from lakegc_core.names import FAILED, Outcome
from lakegc_core.stages.swept_report.result import SweepResult
from lakegc_core.views.report import sweep_report
from lakegc_core.views.words import freed, human_bytes
from lakegc_dagster.metadata.shown import Metadata, cost, place, table

_OUTCOMES = {  # by plain strings: Dagster stores no enums that it does not know
    Outcome.DELETED.value: "gone from the store",
    Outcome.ALREADY_GONE.value: "somebody else had deleted it",
    Outcome.RESCUED.value: "live again: kept",
    Outcome.UNCONFIRMED.value: "not yet unreferenced for long enough: kept for a later sweep",
    Outcome.HELD.value: "kept: a hold keeps it now",
    Outcome.LEFT.value: "not deleted: the sweep was closed",
    Outcome.LOST.value: "found referenced after it was deleted: restore it from a backup, and report this",
}


def sweep_metadata(result: SweepResult) -> Metadata:
    """What became of the objects of a sweep."""
    report = sweep_report(result)
    failures = {name: count for name, count in result.outcomes.items() if name.startswith(FAILED)}
    rows = [
        (
            name,
            f"{result.outcomes.get(name, 0):,}",
            human_bytes(result.bytes_deleted) if name == Outcome.DELETED else "",
            means,
        )
        for name, means in _OUTCOMES.items()
    ]
    rows += [(name, f"{count:,}", "", "launch the sweep again") for name, count in sorted(failures.items())]
    return {
        "in_short": dg.MetadataValue.text(  # no markdown: lists of events would hide it behind a link
            f"Dry run: nothing was deleted. {result.planned:,} objects would be."
            if result.dry_run
            else f"{result.outcomes.get(Outcome.DELETED, 0):,} objects deleted: {freed(report)}."
        ),
        "dagster/row_count": sum(result.outcomes.values()),
        "dry_run": result.dry_run,
        "outcomes": table(("outcome", "objects", "bytes", "meaning"), rows, "lrrl"),
        "planned": result.planned,
        **{name: result.outcomes.get(name, 0) for name in _OUTCOMES},
        "failed": result.failed,
        "bytes_deleted": result.bytes_deleted,
        **cost("freed_per_month", result.bytes_deleted, None if result.dry_run else report["price"]),
        "seconds": round(result.seconds, 3),
        "sweep": result.sweep,
        **({"unreadable": dict(result.unreadable)} if result.unreadable else {}),
        **({"report": place(result.report)} if result.report else {}),
    }


def copy_metadata(result: CopyResult) -> Metadata:
    """What became of the objects of a backup or a restore."""
    rows = [(outcome, f"{count:,}") for outcome, count in result.outcomes.items()]
    problems = [(str(each.get("address")), str(each.get("problem"))) for each in result.problems]
    return {
        "outcomes": table(("outcome", "objects"), rows, "lr"),
        **result.outcomes,
        "bytes_copied": result.bytes,
        "place": place(result.place),
        "seconds": round(result.seconds, 3),
        **({"problems": table(("address", "problem"), problems)} if problems else {}),
    }


def retirement_metadata(results: Iterable[Retirement], removed: Sequence[str]) -> Metadata:
    """What a retirement did, a line a mark; the records in the stores say all of it."""
    done = list(results)
    rows = [
        (result.repository, mark_id, f"{each['expired']:,}", f"{each['deleted']:,}", human_bytes(each["bytes_deleted"]))
        for result in done
        for mark_id, each in result.retired.items()
    ]
    return {
        "retired": table(("repository", "mark", "expired", "deleted", "freed"), rows, "llrrr"),
        "retired_marks": len(rows),
        "artifacts_deleted": sum(result.artifacts for result in done),
        "artifact_bytes": sum(result.bytes for result in done),
        "partitions_removed": list(removed),
    }
