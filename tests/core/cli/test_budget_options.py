"""The options of a sweep's budget, and the exit code of a sweep that it stopped."""

from __future__ import annotations

import argparse
from datetime import time

import pytest

from lakegc_core.cli import main, marking
from lakegc_core.cli.budget import budget_given
from lakegc_core.config.budget import BudgetSettings
from lakegc_core.sweep.result import SweepResult

NONE = {"most_bytes": None, "most_objects": None, "until": None, "most_requests": None}
OVER = {"objects": 1, "bytes": 2}


def test_the_options_are_read_and_what_is_left_out_is_not_given() -> None:
    given = argparse.Namespace(most_bytes="2TB", most_objects="5", until="06:00", most_requests="7")
    assert budget_given(given) == BudgetSettings(2 * 10**12, 5, time(6), 7)
    assert budget_given(argparse.Namespace(**NONE)) == BudgetSettings()


@pytest.mark.parametrize(
    ("option", "value"),
    [("--most-bytes", "lots"), ("--most-objects", "0"), ("--until", "6 pm"), ("--most-requests", "-1")],
)
def test_a_budget_that_does_not_read_is_wrong_usage_before_anything_is_asked(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "lake", "m1", f"{option}={value}"]) == 2
    assert value in capsys.readouterr().err


def test_a_sweep_that_its_budget_stopped_has_an_exit_code_of_its_own() -> None:
    stopped = SweepResult("lake", "m1", 1, {"deleted": 1, "over_budget": 1}, 9, 1, 1.0, None, over_budget=OVER)
    failed = SweepResult("lake", "m1", 1, {"failed:x": 1, "over_budget": 1}, 9, 1, 1.0, None, over_budget=OVER)
    dry = SweepResult("lake", "m1", 1, {"over_budget": 1}, 0, 1, 1.0, None, over_budget=OVER, dry_run=True)
    assert [marking._end(each) for each in (stopped, failed, dry)] == [4, 1, 0]
