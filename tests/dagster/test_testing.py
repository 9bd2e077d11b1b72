"""A team's tests have a lakeFS and a mark, as docs/dagster.md says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.dagster.conftest import ROOT


def test_the_test_of_the_docs_passes_in_a_project_of_nobodys_settings(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # nobody's ~/.lakectl.yaml
    for variable in ("LAKEGC_CONFIG", "LAKEGC_UNSAFE", "LAKEGC_NOW", "LAKECTL_SERVER_ENDPOINT_URL"):
        monkeypatch.delenv(variable, raising=False)
    text = (ROOT / "docs" / "dagster.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n([^`]*lakegc_dagster\.testing[^`]*)```", text)
    scope: dict[str, Any] = {}
    exec(compile(program, "docs/dagster.md", "exec"), scope)
    (name,) = [each for each in scope if each.startswith("test_")]
    scope[name](tmp_path)
