"""The work of `marks`, `history` and `retire`: which marks there are, what came of them, what becomes of old ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from lakegc_core import clock
from lakegc_core.cli.metrics import metrics_file, write_history
from lakegc_core.cli.opening import opened, settings_of
from lakegc_core.cli.options import show, since_of
from lakegc_core.config.settings import Settings
from lakegc_core.errors import LakegcError, SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks import retire
from lakegc_core.marks.catalogue import list_marks
from lakegc_core.marks.context import open_repository
from lakegc_core.names import Json
from lakegc_core.views import history, report, screen
from lakegc_core.views.history_screen import history_screen, marks_lines, other_line
from lakegc_core.views.progress import Reporter


def run_marks(options: argparse.Namespace, reporter: Reporter) -> int:
    context = opened(options, reporter)
    if options.retired:
        records = retire.list_retired(context)
        show(options, records, screen.retired_screen(records))
        return 0
    found = list_marks(context)
    own = history.standing_marks(context, [mark for mark in found if mark["by"] == "lakegc"])
    others = [mark for mark in found if mark["by"] != "lakegc"]
    lines = [*(marks_lines(own) if own else ()), *map(other_line, others)]
    show(options, [*own, *others], "\n".join(lines) or "no marks")
    return 0


def run_history(options: argparse.Namespace, reporter: Reporter) -> int:
    file, since = metrics_file(options), since_of(options)
    if since and file:
        raise SettingsError("Metrics count everything that ever happened. Give --metrics or --since, not both.")
    found = histories_of(options, since, reporter)
    show(
        options,
        {"since": clock.instant(since) if since else None, "repositories": found},
        history_screen(found),
    )
    if file:
        write_history(file, found)
    return code_of(found)


def code_of(histories: Sequence[Json]) -> int:
    """The exit code of a verb that showed these histories: 1 if one of them cannot be read."""
    return int(any("problem" in each for each in histories))


def histories_of(options: argparse.Namespace, since: float, reporter: Reporter) -> list[Json]:
    """The history of each repository that a verb which takes `one_or_all` is asked about."""
    settings = settings_of(options)
    client = LakeFSClient(settings.server)
    names = [each.id for each in client.repositories()] if not options.repository else [options.repository]
    return [_history_of(settings, client, name, since, reporter, alone=bool(options.repository)) for name in names]


def _history_of(
    settings: Settings, client: LakeFSClient, name: str, since: float, reporter: Reporter, *, alone: bool
) -> Json:
    """The history of a repository. Among several, one that cannot be read does not hide the others."""
    try:
        return history.history_of(open_repository(settings, name, client=client, say=reporter.say), since)
    except LakegcError as error:
        if alone:
            raise
        return history.unreadable(name, error)


def run_retire(options: argparse.Namespace, reporter: Reporter) -> int:
    found = report.retirement_report(retire.retire(opened(options, reporter), options.keep, dry_run=options.dry_run))
    show(options, found, screen.retirement_screen(found))
    if stuck := sum(each["stuck"] for each in found["in_quarantine"]):
        of = "1 mark stay" if stuck == 1 else f"{stuck:,} marks stay"
        sys.stderr.write(f"lakegc: the copies of {of} in quarantine until somebody acts: their lines say why.\n")
    return 0
