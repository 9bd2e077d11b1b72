"""How the last marking stage puts rows where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.errors import MarkError
from lakegc_core.names import STAGES, Stage
from lakegc_core.stages import expired_addresses
from tests.support.lake import NO_SPARK, lake
from tests.support.marks import finish


@pytest.mark.parametrize("done", range(4))
def test_the_stage_needs_all_stages_before_it(tmp_path: Path, done: int) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        context = served.begin("lake", "m1")
        for stage in STAGES[:done]:
            finish(context, stage)
        with pytest.raises(MarkError, match="Go on with the mark: lakegc mark lake --mark-id m1"):
            expired_addresses(NO_SPARK, context)
        assert context.mark.manifest(Stage.EXPIRED_ADDRESSES) is None
