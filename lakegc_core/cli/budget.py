"""The options of a sweep's budget."""

from __future__ import annotations

import argparse

from lakegc_core import clock
from lakegc_core.config.budget import BudgetSettings
from lakegc_core.config.sizes import parse_size, parse_time_of_day
from lakegc_core.errors import SettingsError
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.sweep.budget import Budget

EXIT_CODE = 4
"""A sweep ended because its budget was spent, and left garbage that it could have deleted."""


def budget_given(options: argparse.Namespace) -> BudgetSettings:
    """The budget that the options give. SettingsError for one that does not read."""
    return BudgetSettings(
        most_bytes=None if options.most_bytes is None else parse_size(options.most_bytes),
        most_objects=_count("--most-objects", options.most_objects),
        until=None if options.until is None else parse_time_of_day(options.until),
        most_requests=_count("--most-requests", options.most_requests),
    )


def budget_of(repository: RepositoryContext, given: BudgetSettings) -> Budget:
    """The budget of a command that begins now: as the options give it, else as lakegc.yaml says."""
    return Budget.of(repository.policy.budget, clock.now(), given)


def _count(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or not int(value):
        raise SettingsError(f"{name} {value}: write a whole number above 0, or leave it out for no limit.")
    return int(value)
