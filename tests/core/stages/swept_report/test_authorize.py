"""Whether a mark may be swept, and from when."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from lakegc_core.policy.safety import FULL
from lakegc_core.stages.swept_report.authorize import confirmed_at
from tests.support.old_marks import DAY, Made, maker


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return maker(tmp_path)


def test_the_gap_begins_when_the_commits_had_been_read(made: Made) -> None:
    """What was referred to while they were being read may have been let go before the end."""
    context = made("m1", 0)
    context.policy = SimpleNamespace(safety=None)
    read = context.mark.require("retention_commits")
    assert confirmed_at(context) == read.finished_at + FULL.gap.total_seconds() > read.started_at + DAY
