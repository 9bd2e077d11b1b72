"""The options of a sweep's budget, and the exit code of a sweep that it stopped."""

from __future__ import annotations

from datetime import time

from lakegc_core.cli import marking
from lakegc_core.cli.budget import budget_given
from lakegc_core.cli.entry import parser
from lakegc_core.cli.verbs import VERBS
from lakegc_core.config.budget import BudgetSettings
from lakegc_core.sweep.result import SweepResult

OVER = {"objects": 1, "bytes": 2}


def test_the_options_are_read_and_what_is_left_out_is_not_given() -> None:
    given = ["--most-bytes", "2TB", "--most-objects", "5", "--until", "06:00", "--most-requests", "7"]
    parse = parser(VERBS).parse_args
    assert budget_given(parse(["sweep", "lake", "m1", *given])) == BudgetSettings(2 * 10**12, 5, time(6), 7)
    assert budget_given(parse(["run", "lake"])) == BudgetSettings()


def test_a_sweep_that_its_budget_stopped_has_an_exit_code_of_its_own() -> None:
    stopped = SweepResult("lake", "m1", 1, {"deleted": 1, "over_budget": 1}, 9, 1, 1.0, None, over_budget=OVER)
    failed = SweepResult("lake", "m1", 1, {"failed:x": 1, "over_budget": 1}, 9, 1, 1.0, None, over_budget=OVER)
    dry = SweepResult("lake", "m1", 1, {"over_budget": 1}, 0, 1, 1.0, None, over_budget=OVER, dry_run=True)
    assert [marking._end(each) for each in (stopped, failed, dry)] == [4, 1, 0]
