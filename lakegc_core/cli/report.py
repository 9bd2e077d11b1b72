"""The work of `report`: what is garbage and what was freed, as a page to be forwarded."""

from __future__ import annotations

import argparse

from lakegc_core import clock, pipeline
from lakegc_core.answers.du import du
from lakegc_core.answers.whatif import Wish, whatif
from lakegc_core.cli.history import code_of, histories_of
from lakegc_core.cli.opening import at_work, complete_mark, opened
from lakegc_core.cli.options import page_file, show, since_of, write_page
from lakegc_core.errors import SettingsError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.sweeps import finished_sweeps
from lakegc_core.names import Json
from lakegc_core.views.history import history_of, summed
from lakegc_core.views.history_screen import history_screen
from lakegc_core.views.page.mark import page
from lakegc_core.views.page.overview import overview
from lakegc_core.views.progress import Reporter


def run_report(options: argparse.Namespace, reporter: Reporter) -> int:
    since = since_of(options)
    file = page_file(options)
    if options.answers and not options.repository:
        raise SettingsError("--answers asks about one repository: name it.")
    if options.answers and not (file or options.json):
        raise SettingsError("--answers go into the page or the JSON: give --html FILE or --json.")
    if options.repository:
        found = _of_one(options, since, reporter)
        histories = [found["history"]]
    else:
        histories = histories_of(options, since, reporter)
        found = {"at": clock.instant(clock.now().timestamp()), "since": clock.instant(since) if since else None}
        found |= summed(histories) | {"repositories": histories}
    if file:
        write_page(file, _page_of_one(found) if options.repository else _page_of_all(found), reporter)
    elif not options.json:
        reporter.say("--html FILE writes this as a page with pictures")
    show(options, found, history_screen(histories))
    return code_of(histories)


def _of_one(options: argparse.Namespace, since: float, reporter: Reporter) -> Json:
    """All that the page of a repository shows, by its newest complete mark."""
    context = complete_mark(opened(options, reporter))
    found: Json = {
        "history": history_of(context, since),
        "mark": pipeline.review(context).report,
        "sweeps": finished_sweeps(context),
        "usage": None,
        "curves": None,
    }
    return found | (_answers(context, reporter) if options.answers else {})


def _answers(context: MarkContext, reporter: Reporter) -> Json:
    with at_work(context, reporter, "report") as spark:
        usage = du(spark, context).as_json()
        return {"usage": usage, "curves": whatif(spark, context, Wish({})).as_json()["curves"]}


def _page_of_one(found: Json) -> str:
    return page(found["mark"], found["sweeps"], found["history"], found["usage"], found["curves"])


def _page_of_all(found: Json) -> str:
    return overview(found["repositories"], found["at"], found["since"])
