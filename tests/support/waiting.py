"""Waiting for a state. How long it takes is no matter of any test: the limit only ever says that something hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

from lakegc_core.lakefs.client import LakeFSClient

T = TypeVar("T")

STARTS = 300.0
"""Seconds for what starts a JVM or Dagster."""


def until(condition: Callable[[], T], what: str, seconds: float = 120.0, *, pause: float = 0.05) -> T:
    """Look again and again until the condition holds; what it said. AssertionError if it hangs for so many seconds."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {seconds:.0f} s in vain until {what}"
        time.sleep(pause)
    return found


def asks_again_at_once(patch: pytest.MonkeyPatch) -> None:
    """Clients of lakeFS that commands and runs open for themselves do not wait before they ask again."""
    patch.setitem(LakeFSClient.__init__.__kwdefaults__, "sleep", lambda seconds: None)
