"""As if there were more of everything than a worker can hold: Spark joins and shuffles what workers else look up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from lakegc_core.judging import optimized, since
from lakegc_core.tables import gather as gathering
from lakegc_core.tables import joins

LIMITS = (
    (joins, "MOST"),
    (since, "MOST_CARRIED"),
    (gathering, "_FEW_ROWS"),
)


@contextmanager
def crowded(really: bool = True) -> Iterator[None]:
    """For as long as the block lasts, in this process: where what a mark does is decided."""
    with _beyond(LIMITS if really else ()):
        yield


@contextmanager
def large_index() -> Iterator[None]:
    """The same of the index alone, of which few rows count."""
    with _beyond(((optimized, "_INDEX_ROWS"),), 0):
        yield


@contextmanager
def _beyond(limits: Iterable[tuple[ModuleType, str]], limit: int = -1) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name in limits:
            patch.setattr(module, name, limit)
        yield
