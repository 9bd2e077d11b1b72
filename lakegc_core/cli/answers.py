"""The work of `explain`, `du` and `whatif`: what keeps objects of a repository, and what other rules would keep."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lakegc_core.answers.du import du
from lakegc_core.answers.explain import explain
from lakegc_core.answers.keepers import check_stands
from lakegc_core.answers.whatif import Wish, whatif
from lakegc_core.cli.opening import at_work, complete_mark, opened
from lakegc_core.cli.options import NO_RULE, show
from lakegc_core.errors import SettingsError
from lakegc_core.marks.context import MarkContext
from lakegc_core.views import answers, explained
from lakegc_core.views.progress import Reporter
from lakegc_core.views.report import price_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_DIGITS = 9  # of the days of a rule: lakeFS keeps 31 bits


def _mark_of(options: argparse.Namespace, reporter: Reporter) -> MarkContext:
    """The mark that an answer is given from."""
    mark = complete_mark(opened(options, reporter), options.mark_id)
    options.mark_id = mark.header.mark_id  # an interrupted command names it
    return mark


def run_explain(options: argparse.Namespace, reporter: Reporter) -> int:
    context = _mark_of(options, reporter)
    with ExitStack() as stack:

        def start() -> SparkSession:
            return stack.enter_context(at_work(context, reporter, "explain", quick=True))

        found = explain(start, context, options.what).as_json()
    show(options, found, explained.explain_screen(found))
    return 0


def run_du(options: argparse.Namespace, reporter: Reporter) -> int:
    context = _mark_of(options, reporter)
    check_stands(context)  # before Spark is started
    with at_work(context, reporter, "du") as spark:
        found = du(spark, context, options.together).as_json() | {"price": price_json(context.settings.price)}
    show(options, found, answers.du_screen(found))
    return 0


def run_whatif(options: argparse.Namespace, reporter: Reporter) -> int:
    wish = Wish(_rules(options.rule), tuple(options.without), options.protect_tags)
    context = _mark_of(options, reporter)
    check_stands(context)
    with at_work(context, reporter, "whatif") as spark:
        found = whatif(spark, context, wish).as_json() | {"price": price_json(context.settings.price)}
    show(options, found, answers.whatif_screen(found))
    return 0


def _rules(given: Sequence[str]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for each in given:
        name, _, days = each.rpartition("=")
        is_number = days.isascii() and days.isdecimal() and len(days) <= _DIGITS
        if not name or name in found or not (days == NO_RULE or is_number):
            raise SettingsError(
                f"--rule {each} is no rule: write each rule once, as default=14 or BRANCH=30, in whole days, "
                f"0 or more, of {_DIGITS} digits at most."
            )
        found[name] = None if days == NO_RULE else int(days)
    return found
