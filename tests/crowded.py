"""As if there were more of everything than a worker can hold: Spark joins and shuffles what workers else look up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakegc_core.stages import candidates, findings, gathering, inventory, judging

LIMITS = (
    (candidates, "MOST"),
    (judging, "MOST"),
    (inventory, "MOST"),
    (findings, "MOST_CARRIED"),
    (gathering, "_FEW_ROWS"),
)


@contextmanager
def crowded(really: bool = True) -> Iterator[None]:
    """For as long as the block lasts, in this process: where what a mark does is decided."""
    with pytest.MonkeyPatch.context() as patch:
        for module, limit in LIMITS if really else ():
            patch.setattr(module, limit, -1)
        yield
