"""The verbs `marks` and `retire`: which marks there are, and what becomes of old ones."""

from __future__ import annotations

import argparse

from lakegc_core.cli.options import flag, name_repository, opened, option, show
from lakegc_core.cli.verb import Verb
from lakegc_core.marks import retire
from lakegc_core.marks.catalogue import list_marks
from lakegc_core.policy.safety import KEEP_MARKS
from lakegc_core.views import report, screen
from lakegc_core.views.progress import Reporter
from lakegc_core.views.words import human_bytes


def _marks_arguments(to: argparse.ArgumentParser) -> None:
    name_repository(to)
    flag(to, "--retired", "list those that were retired instead, and what they freed")


def _retire_arguments(to: argparse.ArgumentParser) -> None:
    name_repository(to)
    option(to, "--keep", metavar="N", type=int, help=f"newest complete marks to keep (default: {KEEP_MARKS})")
    flag(to, "--dry-run", "say what would be retired")


def _marks(options: argparse.Namespace, reporter: Reporter) -> int:
    context = opened(options, reporter)
    if options.retired:
        records = retire.list_retired(context)
        show(options, records, screen.retired_screen(records))
        return 0
    found = list_marks(context)
    lines = [
        f"  {mark['mark_id']:<28} {mark['by']:<8} {mark.get('state', ''):<28} "
        + (f"{mark['expired']:>12,} expired {human_bytes(mark['expired_bytes']):>10}" if "expired" in mark else "")
        for mark in found
    ]
    show(options, found, "\n".join(line.rstrip() for line in lines) or "no marks")
    return 0


def _retire(options: argparse.Namespace, reporter: Reporter) -> int:
    found = report.retirement_report(retire.retire(opened(options, reporter), options.keep, dry_run=options.dry_run))
    show(options, found, screen.retirement_screen(found))
    return 0


VERBS = (
    Verb("marks", "list the marks of a repository, newest first", _marks_arguments, _marks),
    Verb(
        "retire",
        "delete the artifacts of old marks that nothing needs; a record of each stays",
        _retire_arguments,
        _retire,
    ),
)
