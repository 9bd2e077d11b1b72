"""A cell is registered for a repository that lakeFS has, and for no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_dagster import register
from lakegc_dagster.partitions import GRID, MARK, Grid
from lakegc_sandbox import Sandbox, SandboxServer


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of Dagster, beside a lakeFS with three repositories."""
    with SandboxServer(Sandbox(tmp_path / "srv", seed=1)) as server:
        for name in ("analytics", "analytics-dev", "images"):
            server.sandbox.create_repository(name)
        for variable, value in {
            "HOME": str(tmp_path),
            "DAGSTER_HOME": str(tmp_path),
            "LAKECTL_SERVER_ENDPOINT_URL": server.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": server.access_key,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": server.secret_key,
        }.items():
            monkeypatch.setenv(variable, value)
        yield tmp_path


def known() -> list[str]:
    with dg.DagsterInstance.get() as instance:
        return GRID.repositories_of(instance)


def test_a_repository_that_lakefs_has_is_registered(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert register.main(["analytics", "m1"]) == 0 == register.main(["lakefs://analytics", "m1"])
    assert capsys.readouterr().out == 2 * "m1|analytics\n"
    assert known() == ["analytics"]


def test_a_team_with_a_prefix_registers_cells_of_its_own(home: Path) -> None:
    assert register.main(["analytics", "m1", "--prefix", "lake/gc"]) == 0
    with dg.DagsterInstance.get() as instance:
        assert Grid.named(("lake", "gc")).marks_of(instance) == ["m1"]
        assert instance.get_dynamic_partitions(str(MARK.name)) == []


def test_a_misspelt_repository_is_refused_and_those_called_alike_are_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert register.main(["analitics", "m1"]) == 2
    said = capsys.readouterr()
    assert "lakeFS has no repository 'analitics'. Did you mean analytics or analytics-dev?" in said.err
    assert said.out == "" and known() == []


def test_an_id_that_no_mark_can_have_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert register.main(["analytics", "latest"]) == 2
    said = capsys.readouterr()
    assert "No mark can have the id 'latest'" in said.err and said.out == "" and known() == []


def test_a_name_like_no_other_is_refused_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert register.main(["warehouse", "m1"]) == 2
    assert "`lakegc history` shows the repositories" in capsys.readouterr().err


def test_a_misspelt_repository_is_refused_where_the_key_may_not_list_the_others(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(self: LakeFSClient) -> None:
        raise LakeFSError("the key may not", 403, "not allowed")

    monkeypatch.setattr(LakeFSClient, "repositories", refused)
    assert register.main(["analitics", "m1"]) == 2
    assert "lakeFS has no repository" in capsys.readouterr().err


def test_a_404_of_a_proxy_does_not_count_as_an_answer_of_lakefs(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost(self: LakeFSClient, name: str) -> None:
        raise LakeFSError("a proxy answered", 404)

    monkeypatch.setattr(LakeFSClient, "repository", lost)
    assert register.main(["analytics", "m1"]) == 1
    assert "a proxy answered" in capsys.readouterr().err and known() == []


def test_a_cell_without_a_home_or_with_an_odd_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    assert register.main(["Analytics!", "m1"]) == 2
    assert register.main(["analytics", "m1"]) == 2
    assert "DAGSTER_HOME is not set" in capsys.readouterr().err
