"""What people see on a materialisation: figures to plot, tables to read. Pure functions over manifests and results.

Nothing here decides anything, but for a few values that are found again by name: `digest` says which mark was looked
at, and the sweep compares it; what the sweep sensor needs stands below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from lakegc_core.copies.backup import CopyResult
from lakegc_core.marks.artifacts import Manifest
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.retire import Retirement
from lakegc_core.marks.stage_run import StageResult
from lakegc_core.pipeline import Review
from lakegc_core.stages.committed_addresses import range_files as range_reading
from lakegc_core.stages.expired_addresses import since as findings
from lakegc_core.stages.namespace_listing import inventory
from lakegc_core.stages.retention_commits.commit_walk import COMMITS_SCHEMA
from lakegc_core.stages.swept_report.authorize import confirmed_at, ready_at
from lakegc_core.stages.swept_report.result import SweepResult
from lakegc_core.stages.uncommitted_addresses import stage as uncommitted_addresses
from lakegc_core.store.base import ALREADY_GONE, DELETED, FAILED
from lakegc_core.views.report import freed, human_bytes, monthly_cost, sweep_report

Metadata = dict[str, Any]
Facts = Mapping[str, Any]

DIGEST = "digest"
STARTED, READY, EXPIRED = "mark_started_at", "may_be_swept_from", "expired_objects"
"""By these names the sweep sensor finds what it may ask for: when a mark was begun, from when a sweep of it can delete
anything, and how much it found."""
_MOST_ROWS = 20  # of a table whose length the repository decides
_BAR = 10  # characters of the longest bar: wider tables are cut off in the UI
_LINE = 48  # characters of the longest line of a place: a wider one makes the page of a partition scroll sideways
_GROUP = 8  # characters of a digest that stand together, for the same reason
SHOWN = 1_000
"""Markdown of so many characters or more the UI of Dagster hides behind a link; what is to be seen is shorter."""

_SCHEMAS: dict[str, pa.Schema] = {
    "namespace_listing": inventory.SCHEMA,
    "uncommitted_addresses": uncommitted_addresses.SCHEMA,
    "retention_commits": COMMITS_SCHEMA,
    "committed_addresses": range_reading.SCHEMA,
    "expired_addresses": findings.SCHEMA,
}
_COLUMNS = {
    "address": "key, relative to the storage namespace",
    "size": "bytes",
    "last_modified": "by the store's clock, UTC",
    "etag": "as the store gives it",
    "unit": "slice or folder it was listed in; empty for the namespace's root",
    "foreign": "not lakeFS's: never a candidate",
    "exact": "false: a second reading of an address, protected in case",
    "kept_by": "head:NAME, tag:NAME, rules, dangling, server or all",
    "reason": "why it is garbage",
    "since": "unreferenced at least since then",
}
_OUTCOMES = {
    DELETED: "gone from the store",
    ALREADY_GONE: "somebody else had deleted it",
    "rescued": "live again: kept",
    "unconfirmed": "not yet unreferenced for long enough: kept for a later sweep",
    "lost": "found referenced after it was deleted: restore it from a backup, and report this",
}


def columns(stage: str) -> dg.TableSchema:
    """The columns of a stage's dataset, with a sentence where the name does not say enough."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                str(column.type),
                _COLUMNS.get(column.name),
                dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in _SCHEMAS[stage]
        ]
    )


def stage_metadata(mark: MarkContext, result: StageResult, review: Review | None = None) -> Metadata:
    """What every marking asset says: what it found first, then how much, how long and where.

    `review`: of the complete mark, for the stage that completes it.
    """
    manifest = result.manifest
    return {
        "dagster/row_count": manifest.rows,
        **_OWN[manifest.stage](manifest.facts),
        **(_judged(mark, review) if review else {}),
        "seconds": manifest.seconds,
        "rows_per_second": round(manifest.rows / max(manifest.seconds, 0.001), 1),
        **_figures(manifest.facts),
        "artifact_bytes": manifest.bytes,
        "datasets": _datasets(manifest),
        "artifacts": _place(f"{mark.mark.location}/{manifest.stage}"),
        STARTED: dg.MetadataValue.timestamp(mark.header.started_at),
        "finished_at": dg.MetadataValue.timestamp(manifest.finished_at),
        "resumed": result.resumed,
        DIGEST: digest_shown(manifest.digest),
    }


def digest_shown(digest: str) -> str:
    """A digest in groups: the UI breaks no line but at a space. `digest_of` reads it."""
    return " ".join(digest[at : at + _GROUP] for at in range(0, len(digest), _GROUP))


def digest_of(shown: object) -> str:
    """The digest that a materialisation shows; those of earlier versions show it in one piece."""
    return str(shown).replace(" ", "")


def _judged(mark: MarkContext, review: Review) -> Metadata:
    """How the guards stand, and when the mark may be swept. Short, or the UI hides it; the checks say more."""
    failed = [verdict for verdict in review.verdicts if not verdict.passed]
    rows = [(verdict.name, "yes" if verdict.passed else f"**no** ({verdict.severity})") for verdict in review.verdicts]
    why = {"guards_failed": dg.MetadataValue.md("\n".join(f"- **{each.name}**: {each.description}" for each in failed))}
    return {
        "guards": _table(("guard", "holds"), rows),
        **(why if failed else {}),
        "authorized": review.authorized,
        **_cost("garbage_per_month", review.report["bytes"]["expired"], review.report["price"]),
        READY: dg.MetadataValue.timestamp(ready_at(mark)),
        "all_confirmed_from": dg.MetadataValue.timestamp(confirmed_at(mark)),
    }


def sweep_metadata(result: SweepResult) -> Metadata:
    """What became of the objects of a sweep."""
    report = sweep_report(result)
    failures = {name: count for name, count in result.outcomes.items() if name.startswith(FAILED)}
    rows = [
        (name, f"{result.outcomes.get(name, 0):,}", human_bytes(result.bytes_deleted) if name == DELETED else "", means)
        for name, means in _OUTCOMES.items()
    ]
    rows += [(name, f"{count:,}", "", "launch the sweep again") for name, count in sorted(failures.items())]
    return {
        "dagster/row_count": sum(result.outcomes.values()),
        "dry_run": result.dry_run,
        "summary": dg.MetadataValue.text(  # no markdown: lists of events would hide it behind a link
            f"Dry run: nothing was deleted. {result.planned:,} objects would be."
            if result.dry_run
            else f"{result.outcomes.get(DELETED, 0):,} objects deleted: {freed(report)}."
        ),
        "outcomes": _table(("outcome", "objects", "bytes", "meaning"), rows, "lrrl"),
        "planned": result.planned,
        **{name: result.outcomes.get(name, 0) for name in _OUTCOMES},
        "failed": result.failed,
        "bytes_deleted": result.bytes_deleted,
        **_cost("freed_per_month", result.bytes_deleted, None if result.dry_run else report["price"]),
        "seconds": round(result.seconds, 3),
        "sweep": result.sweep,
        **({"unreadable": dict(result.unreadable)} if result.unreadable else {}),
        **({"report": _place(result.report)} if result.report else {}),
    }


def copy_metadata(result: CopyResult) -> Metadata:
    """What became of the objects of a backup or a restore."""
    rows = [(outcome, f"{count:,}") for outcome, count in result.outcomes.items()]
    problems = [(str(each.get("address")), str(each.get("problem"))) for each in result.problems]
    return {
        "outcomes": _table(("outcome", "objects"), rows, "lr"),
        **result.outcomes,
        "bytes_copied": result.bytes,
        "place": _place(result.place),
        "seconds": round(result.seconds, 3),
        **({"problems": _table(("address", "problem"), problems)} if problems else {}),
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
        "retired": _table(("repository", "mark", "expired", "deleted", "freed"), rows, "llrrr"),
        "retired_marks": len(rows),
        "artifacts_deleted": sum(result.artifacts for result in done),
        "artifact_bytes": sum(result.bytes for result in done),
        "partitions_removed": list(removed),
    }


def _cost(name: str, size: int, price: Facts | None) -> Metadata:
    """What so many bytes cost a month, to be plotted; nothing without a price. `price`: as reports have it."""
    if price is None:
        return {}
    return {name: round(monthly_cost(size, dict(price)), 6), "currency": price["currency"]}


def _figures(facts: Facts) -> Metadata:
    """The plain numbers among a stage's facts, which Dagster plots over the marks."""
    found: Metadata = {}
    for name, value in facts.items():
        if isinstance(value, int) and not isinstance(value, bool) and name != "rows":
            found[name] = value
        elif isinstance(value, Mapping) and set(value) == {"objects", "bytes"}:
            found |= {f"{name}_objects": value["objects"], f"{name}_bytes": value["bytes"]}
    return found


def _listing(facts: Facts) -> Metadata:
    foreign, foreign_bytes = facts["foreign"], facts["foreign_bytes"]
    rows = [
        ("in the namespace", f"{facts['objects']:,}", human_bytes(facts["bytes"])),
        ("lakeFS's", f"{facts['objects'] - foreign:,}", human_bytes(facts["bytes"] - foreign_bytes)),
        ("not lakeFS's: never touched", f"{foreign:,}", human_bytes(foreign_bytes)),
    ]
    return {"summary": _table(("", "objects", "bytes"), rows, "lrr"), "clock_skew_seconds": facts["clock_skew"]}


def _staged(facts: Facts) -> Metadata:
    rows = [
        ("pages of the staged dump", f"{facts['pages']:,}"),
        ("files of it", f"{facts['files']:,}"),
        ("addresses in them", f"{facts['rows']:,}"),
    ]
    if "rows_of_branch_listings" in facts:
        rows.append(("addresses that branches show", f"{facts['rows_of_branch_listings']:,}"))
    return {"summary": _table(("read", "count"), rows, "lr")}


def _commits(facts: Facts) -> Metadata:
    kept = [(reason, f"{count:,}") for reason, count in sorted(facts["kept_by"].items())]
    kept += [("**retained**", f"{facts['retained']:,}"), ("known", f"{facts['known']:,}")]
    found: Metadata = {
        "summary": _table(("commits kept by", "commits"), kept, "lr"),
        "tags_protected": facts["tags_protected"],
    }
    rules = facts.get("rules")
    if rules is None:
        return found | {"rules": dg.MetadataValue.md("No rules: every commit counts.")}
    days = [
        ("(default)", f"{rules['default']:,}"),
        *((name, f"{n:,}") for name, n in sorted(rules["branches"].items())),
    ]
    return found | {"rules": _table(("branch", "days"), days, "lr")}


def _committed(facts: Facts) -> Metadata:
    rows = [(name, f"{facts[name]:,}") for name in ("metaranges", "references", "ranges", "entries", "addresses")]
    return {"summary": _table(("read", "count"), rows, "lr")}


def _expired(facts: Facts) -> Metadata:
    groups = {
        "in the namespace": "listed",
        "kept: committed": "committed",
        "kept: staged": "uncommitted",
        "kept: held": "held",
        "kept: other repositories": "neighbour",
        "kept: too young": "young",
        "not lakeFS's": "foreign",
        "of it below data/": "unknown",
        "not asked about yet": "unasked",
        "**garbage**": "expired",
        "confirmed": "confirmed",
    }
    listed = max(1, facts["listed"]["objects"])
    rows = [
        (
            title,
            f"{facts[group]['objects']:,}",
            human_bytes(facts[group]["bytes"]),
            f"{facts[group]['objects'] / listed:.1%}",
        )
        for title, group in groups.items()
    ]
    found: Metadata = {"summary": _table(("", "objects", "bytes", "share"), rows, "lrrr")}
    if not facts["expired"]["objects"]:
        return found
    largest = [
        (f"`{each['prefix'] or '(root)'}`", f"{each['objects']:,}", human_bytes(each["bytes"]))
        for each in facts["prefixes"]
    ]
    return found | {
        "by_age": _bars(facts["ages"], "age"),
        "by_size": _bars(facts["sizes"], "size of object"),
        "largest_prefixes": _table(("folder", "objects", "bytes"), largest, "lrr"),
    }


def _bars(classes: Sequence[Facts], title: str) -> dg.MarkdownMetadataValue:
    """Bytes by class ({name, objects, bytes} each), with bars of text: pictures are too long for the UI."""
    most = max((each["bytes"] for each in classes), default=0) or 1
    rows = [
        (
            each["name"],
            f"{each['objects']:,}",
            human_bytes(each["bytes"]),
            "█" * max(round(_BAR * each["bytes"] / most), 1 if each["bytes"] else 0),
        )
        for each in classes
    ]
    return _table((title, "objects", "bytes", ""), rows, "lrrl")


_OWN: dict[str, Callable[[Facts], Metadata]] = {
    "namespace_listing": _listing,
    "uncommitted_addresses": _staged,
    "retention_commits": _commits,
    "committed_addresses": _committed,
    "expired_addresses": _expired,
}


def _datasets(manifest: Manifest) -> dg.MarkdownMetadataValue:
    rows = (
        (
            name,
            f"{len(parts):,}",
            f"{sum(part.rows for part in parts):,}",
            human_bytes(sum(part.bytes for part in parts)),
        )
        for name, parts in manifest.datasets.items()
    )
    return _table(("dataset", "files", "rows", "size"), rows, "lrrr")


def _place(uri: str) -> dg.MarkdownMetadataValue:
    """A URI on as many lines as it needs, broken at slashes."""
    lines = [""]
    for part in re.findall(r"[^/]*/*", uri):
        if lines[-1] and len(lines[-1]) + len(part) > _LINE:
            lines.append("")
        lines[-1] += part
    return dg.MetadataValue.md("  \n".join(f"`{line}`" for line in lines))


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], alignment: str = "") -> dg.MarkdownMetadataValue:
    """A markdown table. `alignment`: a letter a column, l or r."""
    rules = [":---" if letter == "l" else "---:" for letter in alignment.ljust(len(titles), "l")]
    every = [list(row) for row in rows]
    shown = every[:_MOST_ROWS]
    lines = [_line(titles), _line(rules), *map(_line, shown)]
    text = "\n".join(lines)
    if len(every) > len(shown):
        text += f"\n\n… and {len(every) - len(shown):,} more"
    return dg.MetadataValue.md(text)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
