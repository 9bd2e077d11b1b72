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
@pytest.mark.parametrize("committed", [True, False])
def test_a_local_namespace_is_found_below_folders_of_its_own_name(
    tmp_path: Path, name: str, with_rules: bool, committed: bool
) -> None:
    """Without rules, and with nothing staged, the server names no place of its own, only objects."""
    sandbox = Sandbox(tmp_path / "lake" / "data" / name)
    repository = sandbox.create_repository(name)
    repository.upload("main", "a/lake/data/b", b"1")
    if committed:
        repository.commit("main", "b")
    if with_rules:
        repository.set_rules(7)
    with SandboxServer(sandbox) as server:
        settings = Settings(server=ServerSettings(server.url, ACCESS_KEY, SECRET_KEY))
        found = open_repository(settings, name, client=LakeFSClient(settings.server))
    assert found.data == LocalConfig(str(tmp_path / "lake" / "data" / name / name))


def test_the_commits_to_keep_are_asked_for_only_where_what_is_staged_was_told(tmp_path: Path) -> None:
    """Where a branch's head is a commit that lakeFS does not know, the first question fails and the second kills it."""
    sandbox = Sandbox(tmp_path)
    sandbox.create_repository("lake").upload("main", "a", b"1")
    with SandboxServer(sandbox) as server:
        server.fault = lambda method, path, query: (
            (404, {"message": "commit not found"}) if path.endswith("/gc/prepare_uncommited") else None
        )
        settings = Settings(server=ServerSettings(server.url, ACCESS_KEY, SECRET_KEY))
        found = open_repository(settings, "lake", client=LakeFSClient(settings.server, sleep=lambda seconds: None))
        assert found.data == LocalConfig(str(tmp_path / "lake"))
        assert not any("prepare_commits" in path for _, path in server.requests)
