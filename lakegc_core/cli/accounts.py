"""The work of `gone` and `verify`: accounts for people who have to answer for what was deleted."""

from __future__ import annotations

import argparse

from lakegc_core.answers.gone import check_asked, gone
from lakegc_core.answers.verify import on_record, verify
from lakegc_core.cli.opening import at_work, complete_mark, opened, own_mark
from lakegc_core.cli.options import show
from lakegc_core.errors import RefusedError
from lakegc_core.views import accounts
from lakegc_core.views.progress import Reporter

UNPROVEN = 5
"""The exit code where nothing differs, and not everything can be checked."""


def run_gone(options: argparse.Namespace, reporter: Reporter) -> int:
    check_asked(options.paths, options.most)  # before Spark is started
    context = complete_mark(opened(options, reporter), options.mark_id)
    with at_work(context, reporter, "gone") as spark:
        found = gone(spark, context, options.paths, options.most).as_json()
    show(options, found, accounts.gone_screen(found))
    return 0


def run_verify(options: argparse.Namespace, reporter: Reporter) -> int:
    context = opened(options, reporter)
    mark_id = own_mark(context, options.mark_id)
    on_record(context, mark_id)  # before Spark is started
    with at_work(context, reporter, "verify", quick=True) as spark:
        found = verify(spark, context, mark_id)
    told = found.as_json()
    show(options, told, accounts.verify_screen(told))
    if found.differs:
        return RefusedError.exit_code
    return 0 if found.is_whole else UNPROVEN
