"""The verbs `explain`, `du` and `whatif`: what keeps objects of a repository, and what other rules would keep."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lakegc_core.answers.du import du
from lakegc_core.answers.explain import explain
from lakegc_core.answers.whatif import Wish, whatif
from lakegc_core.cli.options import complete_mark, name_repository, opened, option, show, spark_of
from lakegc_core.cli.verb import Verb
from lakegc_core.errors import SettingsError
from lakegc_core.marks.context import MarkContext
from lakegc_core.views import answers
from lakegc_core.views.progress import Reporter
from lakegc_core.views.report import price_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_RULE = "none"


def _by_mark(to: argparse.ArgumentParser) -> None:
    name_repository(to)
    option(to, "--mark-id", metavar="ID", help="answer from this complete mark (default: the newest one)")


def _du_arguments(to: argparse.ArgumentParser) -> None:
    _by_mark(to)
    text = "count these branches and tags together: branch:GLOB or tag:GLOB, several with commas between them"
    to.add_argument("--together", metavar="PATTERNS", action="append", default=[], help=text)


def _whatif_arguments(to: argparse.ArgumentParser) -> None:
    _by_mark(to)
    text = f"days of a rule, as `default=14` or `main=30`; `main={_NO_RULE}` for no rule of that branch"
    to.add_argument("--rule", metavar="NAME=DAYS", action="append", default=[], help=text)
    text = "as if these were gone: branch:GLOB or tag:GLOB"
    to.add_argument("--without", metavar="PATTERN", action="append", default=[], help=text)
    text = "as if tagged commits were kept, or were not"
    to.add_argument("--protect-tags", action=argparse.BooleanOptionalAction, default=None, help=text)


def _explain_arguments(to: argparse.ArgumentParser) -> None:
    _by_mark(to)
    text = "lakefs://REPO/REF/PATH, a path (all its versions), or the address of an object in the store"
    to.add_argument("what", metavar="WHAT", help=text)


def _mark_of(options: argparse.Namespace, reporter: Reporter) -> MarkContext:
    """The mark that an answer is given from."""
    mark = complete_mark(opened(options, reporter), options.mark_id)
    options.mark_id = mark.header.mark_id  # an interrupted command names it
    return mark


def _explain(options: argparse.Namespace, reporter: Reporter) -> int:
    context = _mark_of(options, reporter)
    with ExitStack() as stack:

        def start() -> SparkSession:
            spark = spark_of(context.settings, quick=True)
            stack.enter_context(reporter.watch(spark))
            return spark

        found = explain(start, context, options.what).as_json()
    show(options, found, answers.explain_screen(found))
    return 0


def _du(options: argparse.Namespace, reporter: Reporter) -> int:
    sets = [[each.strip() for each in together.split(",")] for together in options.together]
    context = _mark_of(options, reporter)
    spark = spark_of(context.settings)
    with reporter.watch(spark):
        found = du(spark, context, sets).as_json() | {"price": price_json(context.settings.price)}
    show(options, found, answers.du_screen(found))
    return 0


def _whatif(options: argparse.Namespace, reporter: Reporter) -> int:
    wish = Wish(_rules(options.rule), tuple(options.without), options.protect_tags)
    context = _mark_of(options, reporter)
    spark = spark_of(context.settings)
    with reporter.watch(spark):
        found = whatif(spark, context, wish).as_json() | {"price": price_json(context.settings.price)}
    show(options, found, answers.whatif_screen(found))
    return 0


def _rules(given: Sequence[str]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for each in given:
        name, _, days = each.rpartition("=")
        if not name or name in found or not (days == _NO_RULE or days.removeprefix("-").isdecimal()):
            raise SettingsError(f"--rule {each} is no rule: write each rule once, as default=14 or BRANCH=30.")
        found[name] = None if days == _NO_RULE else int(days)
    return found


VERBS = (
    Verb("explain", "show why an object, or each version of a path, is kept or gone", _explain_arguments, _explain),
    Verb("du", "show what each branch, tag and hold keeps, and what would go without it", _du_arguments, _du),
    Verb(
        "whatif",
        "show what would be garbage with other rules, branches or tags, and what each number of days keeps",
        _whatif_arguments,
        _whatif,
    ),
)
