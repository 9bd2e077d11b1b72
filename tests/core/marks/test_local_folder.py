"""In which folder a namespace on blockstore local lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import open_repository
from lakegc_core.store.local import LocalConfig
from lakegc_sandbox import Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY


@pytest.mark.parametrize("name", ["lake", "data"])
@pytest.mark.parametrize("with_rules", [True, False])
def test_a_local_namespace_is_found_below_folders_of_its_own_name(tmp_path: Path, name: str, with_rules: bool) -> None:
    """Without rules the server names no place of its own, only objects."""
    sandbox = Sandbox(tmp_path / "lake" / "data" / name)
    repository = sandbox.create_repository(name)
    repository.upload("main", "a/lake/data/b", b"1")
    if with_rules:
        repository.set_rules(7)
    with SandboxServer(sandbox) as server:
        settings = Settings(server=ServerSettings(server.url, ACCESS_KEY, SECRET_KEY))
        found = open_repository(settings, name, client=LakeFSClient(settings.server))
    assert found.data == LocalConfig(str(tmp_path / "lake" / "data" / name / name))
