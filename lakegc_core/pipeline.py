"""The verbs of lakegc as functions over the stages: mark, review, sweep. The command line and Dagster call these.

The stages are in `stages`, how their results are shown in `views/report`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import IO, TYPE_CHECKING

from lakegc_core import clock
from lakegc_core.clock import instant
from lakegc_core.copies.backup import restore
from lakegc_core.copies.drill import drill as drill_of
from lakegc_core.copies.drill_objects import Wanted
from lakegc_core.copies.undo import check_keeps
from lakegc_core.errors import LakegcError
from lakegc_core.marks.address_lists import as_lines
from lakegc_core.marks.artifacts import Manifest, read_once
from lakegc_core.marks.backups import COPIED
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.marks.sweeps import finished_sweeps
from lakegc_core.names import Json, Stage
from lakegc_core.past.origins import garbage_with_origins
from lakegc_core.policy import guards
from lakegc_core.policy.guards import Verdict
from lakegc_core.references.commits.retained import rules_in_force
from lakegc_core.spark.tasks import clear_errors
from lakegc_core.stages import MARKING, swept_report
from lakegc_core.store.base import connect
from lakegc_core.sweep.authorize import judge
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.other_tools import OtherMark
from lakegc_core.sweep.result import SweepResult
from lakegc_core.sweep.sweep import close_sweep
from lakegc_core.views.history import history_of, unreadable
from lakegc_core.views.metrics import metrics_text, stage_seconds
from lakegc_core.views.page import mark as mark_page
from lakegc_core.views.pushgateway import push
from lakegc_core.views.report import mark_report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CSV_COLUMNS = ("address", "size", "last_modified", "since", "path", "commit_id", "cause", "by", "branch")
"""Columns of `review --addresses FILE --csv`; docs/artifacts.md says what they mean."""

PAGE = "report.html"
"""The mark for people, beside its artifacts."""


_MOST_RETIRED = 60  # of which each mark reads the records for its page; `lakegc report` reads all


@dataclass(frozen=True)
class Review:
    """A complete mark as it stands now: its manifests and the verdicts of the guards."""

    manifests: dict[str, Manifest]
    verdicts: list[Verdict]
    report: Json

    @property
    def authorized(self) -> bool:
        return guards.authorized(self.verdicts)


def check_beforehand(context: MarkContext) -> None:
    """RefusedError for a mark that its stages would refuse after hours of listing: of a repository without rules. Needs
    no Spark."""
    if context.mark.manifest(Stage.RETENTION_COMMITS) is None:
        rules_in_force(context)


def mark(spark: SparkSession, context: MarkContext) -> Review:
    """Run the five marking stages, each unless its manifest stands, and judge the result. RefusedError at once for a
    repository without rules, where that is not wanted."""
    check_beforehand(context)
    with read_once():
        with context.lease("mark"):
            for stage in MARKING.values():
                stage(spark, context)
        found = review(context)
        publish(context, found.report)
    return found


def review(context: MarkContext) -> Review:
    """Judge a complete mark again. MarkError if it is not complete or was altered."""
    verdicts = judge(context)
    manifests = context.mark.chain()
    return Review(manifests, verdicts, mark_report(context, manifests, verdicts))


def sweep(
    spark: SparkSession,
    context: MarkContext,
    *,
    dry_run: bool = False,
    accepted: Mapping[str, str] | None = None,
    only: OtherMark | None = None,
    budget: Budget | None = None,
) -> SweepResult:
    """Run `swept_report`, and write the mark's page with what came of it. What a ring should not have taken comes back,
    with all else that sweeps of the mark deleted, if the store keeps it."""
    result = swept_report(spark, context, dry_run=dry_run, accepted=accepted, only=only, budget=budget)
    result = _with_what_came_back(spark, context, result)
    if not dry_run:
        publish(context)
    return result


def _with_what_came_back(spark: SparkSession, context: MarkContext, result: SweepResult) -> SweepResult:
    """The result of a sweep, after what a ring of it should not have taken was brought back, if there is any."""
    if not result.rings.get("gone"):
        return result
    return replace(result, rings={**result.rings, "brought_back": _brought_back(spark, context)})


def _brought_back(spark: SparkSession, context: MarkContext) -> str:
    """Have the store take back what the sweeps of a mark deleted. Returns what came of it, in words."""
    context.say(f"{Stage.SWEPT_REPORT}: a ring took live data; what sweeps of this mark deleted is brought back")
    try:
        check_keeps(context)
        found = restore(spark, context)
    except LakegcError as error:
        return f"nothing was brought back ({error})"
    saved, every = found.outcomes[COPIED], sum(found.outcomes.values())
    return f"{saved:,} of {every:,} objects that sweeps of the mark had deleted were brought back"


def close(spark: SparkSession, context: MarkContext) -> SweepResult:
    """Run `close_sweep`, and write the mark's page with what came of it. What a ring should not have taken comes back,
    as after a sweep."""
    result = _with_what_came_back(spark, context, close_sweep(spark, context))
    publish(context)
    return result


def drill(
    spark: SparkSession,
    context: MarkContext,
    *,
    accepted: Mapping[str, str] | None = None,
    wanted: Wanted | None = None,
) -> Json:
    """Drill undo with a mark (`copies.drill`), and write the mark's page with what came of it."""
    report = drill_of(spark, context, accepted=accepted, wanted=wanted)
    publish(context)
    return report


def publish(context: MarkContext, report: Json | None = None) -> None:
    """Write the mark's page for people beside its artifacts, and push metrics where lakegc.yaml says so. `report`: of a
    review just made, if there was one.

    Nothing reads either again: that one cannot be written is told, and is no failure of the mark or the sweep.
    """
    known = cache(lambda: report or review(context).report)
    try:
        data = page_of(context, known(), most_retired=_MOST_RETIRED).encode()
        connect(context.workspace).write(f"{context.mark.folder}/{PAGE}", data)
    except LakegcError as error:
        context.say(f"{PAGE} was not written ({error}); `lakegc review --html FILE` makes it anew")
    if context.settings.metrics.pushgateway is not None:
        _push_metrics(context, context.settings.metrics.pushgateway, known)


def _push_metrics(context: MarkContext, gateway: str, report: Callable[[], Json]) -> None:
    name = context.repository.id
    try:
        seconds = stage_seconds([report()])
        now = clock.now().timestamp()
        push(gateway, name, metrics_text([history_of(context, strict=True)], now, {name: seconds}, plain=True))
    except LakegcError as error:
        context.say(f"the metrics were not pushed ({error}); the next mark or sweep pushes them again")


def page_of(context: MarkContext, report: Json, *, most_retired: int | None = None) -> str:
    """The mark as a page of HTML, with its sweeps so far and the history of the repository. `report`: of a review.

    A history that cannot be read is told on the page: it hides no mark. `most_retired`: see `history_of`.
    """
    try:
        history = history_of(context, judged=False, most_retired=most_retired)
    except LakegcError as error:
        history = unreadable(context.repository.id, error)
    return mark_page.page(report, finished_sweeps(context), history)


def expired_of(context: MarkContext) -> Iterator[str]:
    """The expired addresses of a mark, relative to the namespace, streamed part by part."""
    return context.mark.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA).values("address")


def write_csv(spark: SparkSession, context: MarkContext, out: IO[bytes]) -> int:
    """Write the expired addresses as a table (CSV_COLUMNS): what the mark knows of each, and where it was last shown.
    Returns how many there are."""
    return write_table(garbage_with_origins(spark, context), CSV_COLUMNS, out)


def write_table(rows: DataFrame, columns: Sequence[str], out: IO[bytes]) -> int:
    """Write these columns of rows as CSV with a header, times as instants; return how many rows there are."""
    text = io.TextIOWrapper(out, "utf-8", newline="", write_through=True)
    try:
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(columns)
        count = 0
        with clear_errors():
            for row in rows.select(*columns).toLocalIterator():
                lines.writerow([instant(each.timestamp()) if isinstance(each, datetime) else each for each in row])
                count += 1
        return count
    finally:
        text.detach()


def write_addresses(context: MarkContext, out: IO[bytes]) -> int:
    """Write the expired addresses as UTF-8, one a line; return how many."""
    count = 0
    for address in expired_of(context):
        out.write(as_lines([address]))
        count += 1
    return count
