"""A home folder with what lakectl keeps there, and settings that are loaded from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.config.settings import Settings

SECRET = "s3cr3t-Wq9/k+not-for-anyone"
LAKECTL = f"""
server:
  endpoint_url: http://lakectl.example:8000/api/v1
credentials:
  access_key_id: AKIALAKECTL
  secret_access_key: {SECRET}
metastore:
  type: ignored
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder that is not the tester's, and a working folder without lakegc.yaml."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path


def load(home: Path, config: str | None = None, **env: str) -> Settings:
    """The settings by this lakegc.yaml, if any, and these variables."""
    path = None
    if config is not None:
        path = home / "named.yaml"
        path.write_text(config, encoding="utf-8")
    return Settings.load(str(path) if path else None, {"HOME": str(home), **env})
