"""A disk that is full under a mark: it says so, nothing is lost, and the same command goes on once there is room."""

from __future__ import annotations

import shlex
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from lakegc_sandbox import Sandbox, SandboxServer
from tests.support.strangers import tmpfs, with_mounts


@pytest.mark.slow
def test_a_mark_on_a_full_disk_says_so_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    with SandboxServer(Sandbox(tmp_path / "srv", seed=1)) as server:
        repository = server.sandbox.create_repository("alpha", age=timedelta(days=100))
        repository.upload("main", "a", b"1", age=timedelta(days=90))
        repository.commit("main", "one")
        repository.set_rules(7)
        config = tmp_path / "lakegc.yaml"
        config.write_text(
            f'server: {{endpoint_url: "{server.url}"}}\nspark: {{master: "local[1]"}}\n'
            f'stores: [{{match: "local://", root: "{server.sandbox.root}"}}]\n'
        )
        command = [sys.executable, "-m", "lakegc_core.cli", "mark", "alpha", "--mark-id", "m1", "--config", str(config)]
        variables = {
            "HOME": str(tmp_path),
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": server.access_key,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": server.secret_key,
        }
        artifacts = server.sandbox.root / "alpha/_lakefs/retention/gc/lakegc"
        artifacts.mkdir(parents=True)
        before = set(server.sandbox.root.rglob("*"))
        told = tmp_path / "told"
        first = [
            tmpfs(artifacts, "size=16k"),
            f"if {shlex.join(command)} 2> {told}; then exit 99; fi",
            shlex.join(["mount", "-o", "remount,size=64m", str(artifacts)]),
        ]
        after = with_mounts(first, command, variables)
        assert "ENOSPC: No space left on device" in told.read_text(), told.read_text()
        assert "Please report this" not in told.read_text()
        assert after.code == 0 and "mark m1 · complete" in after.out, after.err[-2000:]
        assert before <= set(server.sandbox.root.rglob("*"))
