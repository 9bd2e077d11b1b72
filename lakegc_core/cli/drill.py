"""The work of `drill`: brings back what a drill that was killed had deleted, or drills."""

from __future__ import annotations

import argparse
import sys

from lakegc_core import pipeline
from lakegc_core.cli.marking import accepted_by
from lakegc_core.cli.opening import at_work, complete_mark, opened
from lakegc_core.cli.options import show
from lakegc_core.copies import drill as drilling
from lakegc_core.copies.drill_objects import Wanted
from lakegc_core.errors import RefusedError, SettingsError
from lakegc_core.marks import drills
from lakegc_core.marks.context import MarkContext, RepositoryContext
from lakegc_core.names import Json
from lakegc_core.policy.safety import DRILL_BYTES
from lakegc_core.views.drills import WAYS, drill_screen, failed_drill
from lakegc_core.views.progress import Reporter, ask
from lakegc_core.views.words import human_bytes


def run_drill(options: argparse.Namespace, reporter: Reporter) -> int:
    wanted = Wanted(options.objects, DRILL_BYTES if options.read_most is None else options.read_most)
    accepted = accepted_by(options)
    repository = opened(options, reporter)
    for left in drills.unfinished(repository):
        report = _finished(repository, left, reporter)
        if report["sweep"] is not None:
            return _end(options, report)
    context = complete_mark(repository, options.mark_id)
    drilling.check_garbage(context)
    way, _ = drilling.way_of(context)  # before Spark is started
    drilling.check_guards(context, accepted, wanted)
    _confirm(options, context, wanted, way)
    with at_work(context, reporter, "drill") as spark:
        return _end(options, pipeline.drill(spark, context, accepted=accepted, wanted=wanted))


def _finished(repository: RepositoryContext, left: drills.Drill, reporter: Reporter) -> Json:
    repository.say(f"Drill {left.name} is not over: what it deleted is brought back and compared now, nothing else.")
    with at_work(repository, reporter, "drill") as spark:
        return drilling.finish(spark, repository, left)


def _confirm(options: argparse.Namespace, context: MarkContext, wanted: Wanted, way: str) -> None:
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise SettingsError("`drill` deletes: without a terminal it needs --yes.")
    what = f"up to {wanted.objects:,} objects (of {human_bytes(wanted.bytes)} in all) of the garbage"
    asked = f"Delete {what} that mark {context.header.mark_id} found, and bring them back {WAYS[way]}?"
    if not ask(asked):
        raise RefusedError("Not confirmed. Nothing was deleted.")


def _end(options: argparse.Namespace, report: Json) -> int:
    show(options, report, drill_screen(report))
    if not report["passed"]:
        sys.stderr.write(f"lakegc: {failed_drill(report)}\n")
    return 0 if report["passed"] else 1
