"""`review --against`: a mark of lakegc compared with a list that another tool left."""

from __future__ import annotations

import argparse
import sys
from typing import IO, TYPE_CHECKING

from lakegc_core.answers.against import BOTH, COLUMNS, compare, made_of, rows_of_both
from lakegc_core.cli.opening import at_work, complete_mark, opened, own_mark
from lakegc_core.cli.options import STDOUT, addresses_file, show, writing
from lakegc_core.errors import SettingsError
from lakegc_core.marks.context import MarkContext
from lakegc_core.pipeline import write_table
from lakegc_core.sweep.other_tools import OtherMark, find_other_mark
from lakegc_core.views import explained
from lakegc_core.views.progress import Reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def review_against(options: argparse.Namespace, reporter: Reporter) -> int:
    """Compare, and show it; with --addresses FILE --csv, write what only one of both would delete as a table."""
    if options.html:
        raise SettingsError("--html shows a mark alone; it does not go with --against.")
    if options.addresses and not options.csv:
        raise SettingsError(
            "With --against, --addresses FILE needs --csv: each line says who names the object, and why."
        )
    lines = addresses_file(options)
    repository = opened(options, reporter)
    context = complete_mark(repository, own_mark(repository, options.mark_id))
    other = find_other_mark(context, options.against)
    with at_work(context, reporter, "review") as spark:
        if options.addresses == STDOUT:
            _write(spark, context, other, sys.stdout.buffer)
            return 0
        if lines:
            with writing("--addresses", lines) as out:
                count = _write(spark, context, other, out)
            reporter.say(f"{count:,} objects that only one of both would delete are in {lines.absolute()}")
        found = compare(spark, context, other).as_json()
    show(options, found, explained.against_screen(found))
    return 0


def _write(spark: SparkSession, context: MarkContext, other: OtherMark, out: IO[bytes]) -> int:
    """Write the objects that only one of both would delete; return how many."""
    rows = rows_of_both(spark, context, other, made_of(context, other))
    return write_table(rows.where(rows["by"] != BOTH), COLUMNS, out)
