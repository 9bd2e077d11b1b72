"""The line that says which lakegc.yaml was read, or that none was."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.config.which_file import settings_line
from tests.core.config.conftest import load


def test_the_line_names_the_file_that_was_read_by_its_whole_path(home: Path) -> None:
    Path("lakegc.yaml").write_text("{}")
    assert settings_line(load(home).file) == f"settings: {home}/work/lakegc.yaml"
    assert settings_line(load(home, "{}").file) == f"settings: {home}/named.yaml"


def test_the_line_says_that_none_was_read_and_where_lakegc_looked(home: Path) -> None:
    said = settings_line(load(home).file)
    assert said.startswith(f"settings: none (no lakegc.yaml in this folder, {home}/work; ")
    assert "--config FILE or LAKEGC_CONFIG names one" in said and "lakegc.yml" not in said


def test_a_lakegc_yml_that_nobody_reads_is_told(home: Path) -> None:
    Path("lakegc.yml").write_text("{}")
    assert "lakegc reads lakegc.yaml, not lakegc.yml. Rename it." in settings_line(load(home).file)
    assert "Rename" not in settings_line(load(home, "{}").file), "another file was named"


def test_a_folder_that_is_gone_is_no_reason_to_fail(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert settings_line(None).startswith("settings: none")
