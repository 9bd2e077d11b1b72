"""How many random histories a test tries, and from which number on: the same on every machine.

LAKEGC_SEED (default 0) is the number of the first one. `make search` sets it to numbers that nobody has tried.
"""

from __future__ import annotations

import os

SEED = int(os.environ.get("LAKEGC_SEED", "0"))


def show_something(*counts: int) -> None:
    """The fixed histories have all that a test is about. Random ones need not."""
    assert all(counts) or SEED, f"the histories prove little: {counts}"


def numbers(count: int, *, slow: bool = False) -> range:
    """The numbers of so many histories. Those of a slow test are others than those of the quick one beside it."""
    first = SEED + (1_000 if slow else 0)
    return range(first, first + count)
