"""The metadata of a marking asset: its columns, what it found, how the guards stand, and every figure to plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg
import pyarrow as pa

from lakegc_core.inventory.carried import OBJECTS_SCHEMA
from lakegc_core.marks.artifacts import Manifest
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.marks.stage_run import StageResult
from lakegc_core.pipeline import Review
from lakegc_core.policy.causes import shares
from lakegc_core.policy.facts import (
    Amount,
    CommitsFacts,
    CommittedFacts,
    ExpiredFacts,
    ListingFacts,
    StagedFacts,
    StageFacts,
    read_facts,
)
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.staged import STAGED_SCHEMA
from lakegc_core.sweep.authorize import best_swept_at, confirmed_at
from lakegc_core.views.words import human_bytes
from lakegc_dagster.config import JUDGED_ANEW, LakegcConfig
from lakegc_dagster.metadata.entries import DIGEST, READY, STARTED, STOPPED_BY, digest_shown
from lakegc_dagster.metadata.in_short import in_short
from lakegc_dagster.metadata.shown import (
    Facts,
    Metadata,
    amounts,
    bars,
    cost,
    lakefs_page,
    place,
    plain,
    records,
    table,
)
from lakegc_dagster.rounds import patience

_SCHEMAS: dict[str, pa.Schema] = {
    "namespace_listing": OBJECTS_SCHEMA,
    "uncommitted_addresses": STAGED_SCHEMA,
    "retention_commits": COMMITS_SCHEMA,
    "committed_addresses": ENTRIES_SCHEMA,
    "expired_addresses": FINDINGS_SCHEMA,
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
    "outcome": "what became of it",
    "attempt": "of the sweep; the outcome of the last one is the final one",
}


def columns(stage: str) -> Metadata:
    """The columns of a stage's dataset."""
    return columns_of(_SCHEMAS[stage])


def columns_of(schema: pa.Schema) -> Metadata:
    """The columns of a dataset, with a sentence where the name does not say enough, where Dagster shows columns."""
    found = [
        dg.TableColumn(
            column.name,
            str(column.type),
            _COLUMNS.get(column.name),
            dg.TableColumnConstraints(nullable=column.nullable),
        )
        for column in schema
    ]
    return {"dagster/column_schema": dg.TableSchema(columns=found)}


def stage_metadata(
    options: LakegcConfig, mark: MarkContext, result: StageResult, review: Review | None = None
) -> Metadata:
    """The metadata of every marking asset: what it found first, then how much, how long and where.

    `review`: of the complete mark, for the stage that completes it.
    """
    manifest = result.manifest
    kind, shown = _SHOWN[manifest.stage]
    facts = read_facts(kind, manifest.facts)
    return {
        "in_short": dg.MetadataValue.text(in_short(options, facts, mark, review)),
        "dagster/row_count": manifest.rows,
        **shown(facts),
        **(_judged(options, mark, review) if review else {}),
        "seconds": manifest.seconds,
        "rows_per_second": round(manifest.rows / max(manifest.seconds, 0.001), 1),
        **_figures(manifest.facts),
        "artifact_bytes": manifest.bytes,
        "datasets": _datasets(manifest),
        "artifacts": place(f"{mark.mark.location}/{manifest.stage}"),
        "lakefs": lakefs_page(mark),
        STARTED: dg.MetadataValue.timestamp(mark.header.started_at),
        "finished_at": dg.MetadataValue.timestamp(manifest.finished_at),
        "resumed": result.resumed,
        DIGEST: digest_shown(manifest.digest),
    }


def _judged(options: LakegcConfig, mark: MarkContext, review: Review) -> Metadata:
    """The verdicts of the guards, and when the mark may be swept. Short, or the UI hides it; the checks say more."""
    failed = [verdict for verdict in review.verdicts if not verdict.passed]
    # What these want may be done after the mark, by the run of the sweep or by hand: the sensor asks all the same.
    stopping = [each.name for each in failed if each.stops and each.name not in JUDGED_ANEW]
    rows = [
        (each.name, "yes" if each.passed else "no", "" if each.passed else each.severity) for each in review.verdicts
    ]
    said = "\n".join(f"- **{each.name}**: {plain(each.description)}" for each in failed)
    why = {"guards_failed": dg.MetadataValue.md(said)}
    return {
        "guards": records(("guard", "holds", "severity"), rows),
        **(why if failed else {}),
        "authorized": review.authorized,
        **({STOPPED_BY: ", ".join(stopping)} if stopping else {}),
        **cost("garbage_per_month", review.report["bytes"]["expired"], review.report["price"]),
        READY: dg.MetadataValue.timestamp(best_swept_at(mark, patience(options.round_cron))),
        "all_confirmed_from": dg.MetadataValue.timestamp(confirmed_at(mark)),
    }


def _figures(facts: Facts) -> Metadata:
    """The plain numbers among a stage's facts, which Dagster plots over the marks."""
    found: Metadata = {}
    for name, value in facts.items():
        if isinstance(value, int) and not isinstance(value, bool) and name != "rows":
            found[name] = value
        elif isinstance(value, Mapping) and set(value) == {"objects", "bytes"}:
            found |= {f"{name}_objects": value["objects"], f"{name}_bytes": value["bytes"]}
    return found


# Each `summary` stays markdown, for people: Dagster's own tables align no numbers to the right and group no digits.


def _listing(facts: ListingFacts) -> Metadata:
    foreign, foreign_bytes = facts.foreign, facts.foreign_bytes
    rows = [
        ("in the namespace", f"{facts.objects:,}", human_bytes(facts.bytes)),
        ("lakeFS's", f"{facts.objects - foreign:,}", human_bytes(facts.bytes - foreign_bytes)),
        ("not lakeFS's: never touched", f"{foreign:,}", human_bytes(foreign_bytes)),
    ]
    return {"summary": table(("", "objects", "bytes"), rows, "lrr"), "clock_skew_seconds": facts.clock_skew}


def _staged(facts: StagedFacts) -> Metadata:
    rows = [
        ("pages of the staged dump", f"{facts.pages:,}"),
        ("files of it", f"{facts.files:,}"),
        ("addresses in them", f"{facts.rows:,}"),
    ]
    rows.append(("addresses that branches show", f"{facts.rows_of_branch_listings:,}"))
    return {"summary": table(("read", "count"), rows, "lr")}


def _commits(facts: CommitsFacts) -> Metadata:
    kept = [(reason, f"{count:,}") for reason, count in sorted(facts.kept_by.items())]
    kept += [("**retained**", f"{facts.retained:,}"), ("known", f"{facts.known:,}")]
    found: Metadata = {
        "summary": table(("commits kept by", "commits"), kept, "lr"),
        "tags_protected": facts.tags_protected,
    }
    rules = facts.rules
    if rules is None:
        return found | {"rules": dg.MetadataValue.md("No rules: every commit counts.")}
    days = [("(default)", rules["default"]), *sorted(rules["branches"].items())]
    # Their number beside them, because a table shows only the first ones.
    return found | {"rules": records(("branch", "days"), days, ("string", "int")), "branches_with_rules": len(days) - 1}


def _committed(facts: CommittedFacts) -> Metadata:
    rows = [
        (name, f"{getattr(facts, name):,}") for name in ("metaranges", "references", "ranges", "entries", "addresses")
    ]
    return {"summary": table(("read", "count"), rows, "lr")}


def _expired(facts: ExpiredFacts) -> Metadata:
    groups = {
        "in the namespace": facts.listed,
        "kept: committed": facts.committed,
        "kept: staged": facts.uncommitted,
        "kept: held": facts.held,
        "kept: other repositories": facts.neighbour,
        "kept: too young": facts.young,
        "not lakeFS's": facts.foreign,
        "of it below data/": facts.unknown,
        "not asked about yet": facts.unasked,
        "**garbage**": facts.expired,
        "confirmed": facts.confirmed,
    }
    listed = max(1, facts.listed.objects)
    rows = [
        (title, f"{group.objects:,}", human_bytes(group.bytes), f"{group.objects / listed:.1%}")
        for title, group in groups.items()
    ]
    found: Metadata = {"summary": table(("", "objects", "bytes", "share"), rows, "lrrr")}
    if not facts.expired.objects:
        return found
    # Markdown: beside the names of slices, a column more makes the page of a partition scroll sideways.
    largest = [
        (f"`{each.prefix or '(root)'}`", f"{each.objects:,}", human_bytes(each.bytes)) for each in facts.prefixes
    ]
    return found | {
        **causes_shown(facts),
        "by_age": bars(facts.ages, "age"),
        "by_size": bars(facts.sizes, "size of object"),
        "largest_prefixes": table(("folder", "objects", "bytes"), largest, "lrr"),
    }


def causes_shown(facts: ExpiredFacts) -> Metadata:
    """The causes of garbage, and the folders in which users last saw it."""
    if facts.origins is None:
        return {}
    why = ((share.words, share.amount) for share in shares(facts))
    where = ((each.prefix or "(root)", Amount(each.objects, each.bytes)) for each in facts.origins.folders)
    return {
        "largest_causes": amounts("objects that", why),
        "largest_logical_folders": amounts("folder of paths", where),
    }


_SHOWN: dict[str, tuple[type[StageFacts], Callable[[Any], Metadata]]] = {
    "namespace_listing": (ListingFacts, _listing),
    "uncommitted_addresses": (StagedFacts, _staged),
    "retention_commits": (CommitsFacts, _commits),
    "committed_addresses": (CommittedFacts, _committed),
    "expired_addresses": (ExpiredFacts, _expired),
}
"""By stage, the kind of its facts, and what it found in words."""


def _datasets(manifest: Manifest) -> dg.TableMetadataValue:
    rows = (
        (name, len(parts), sum(part.rows for part in parts), human_bytes(sum(part.bytes for part in parts)))
        for name, parts in manifest.datasets.items()
    )
    return records(("dataset", "files", "rows", "size"), rows, ("string", "int", "int", "string"))
