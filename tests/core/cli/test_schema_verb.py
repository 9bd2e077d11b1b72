"""`lakegc schema` prints what an editor needs, and asks for no server."""

from __future__ import annotations

import json

import pytest

from lakegc_core.cli import main
from lakegc_core.config.schema import lakegc_yaml_schema


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_the_schema_is_printed_as_one_json_document(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", *more]) == 0
    assert json.loads(capsys.readouterr().out) == lakegc_yaml_schema()
