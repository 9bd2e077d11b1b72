"""A lakeFS that says what a test wants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.scripted_lakefs import Scripted


@pytest.fixture
def server() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.close()
