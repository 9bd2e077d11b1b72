"""The options of a sweep's budget."""

from __future__ import annotations

import argparse

from lakegc_core import clock
from lakegc_core.config.budget import BudgetSettings
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.sweep.budget import Budget

EXIT_CODE = 4
"""A sweep ended because its budget was spent, and left garbage that it could have deleted."""


def budget_given(options: argparse.Namespace) -> BudgetSettings:
    """The budget that the options give."""
    return BudgetSettings(options.most_bytes, options.most_objects, options.until, options.most_requests)


def budget_of(repository: RepositoryContext, given: BudgetSettings) -> Budget:
    """The budget of a command that begins now: as the options give it, else as lakegc.yaml says."""
    return Budget.of(repository.policy.budget, clock.now(), given)
