"""What tests of several rooms start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lake import Lake, lake


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    """A served lake with a repository `lake`."""
    with lake(tmp_path) as found:
        found.create("lake")
        yield found
