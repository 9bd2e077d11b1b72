"""A store for what marks and sweeps leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.store.local import LocalConfig, LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalConfig(str(tmp_path)).connect()
