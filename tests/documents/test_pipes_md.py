"""docs/pipes.md: its programs parse, name clients and arguments that there are, and the first of them is whole."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import dagster as dg
import dagster_aws.pipes
import dagster_pipes
import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "pipes.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
ELSEWHERE = {"PipesDatabricksClient", "PipesK8sClient"}
"""Clients of libraries that are not installed here."""


def calls(program: str) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call)]


def found(name: str) -> Any:
    """What the installed libraries have under a name; None if nothing."""
    return next((getattr(each, name) for each in (dg, dagster_aws.pipes, dagster_pipes) if hasattr(each, name)), None)


def test_there_is_a_program_for_each_platform_of_the_table() -> None:
    rows = set(re.findall(r"^\| [^|]+ \| `(Pipes\w+Client)` \|", TEXT, re.MULTILINE))
    assert len(rows) == 6
    assert all(any(name in program for program in PROGRAMS) for name in rows)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program).splitlines()[0])
def test_what_a_program_calls_is_there_and_takes_its_arguments(program: str) -> None:
    for call in calls(program):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        given = {each.arg for each in call.keywords if each.arg}
        if name.startswith("Pipes") and name not in ELSEWHERE:
            assert given <= set(inspect.signature(found(name)).parameters), name
    used = [found(name) for name in re.findall(r"Pipes\w+Client", program) if name not in ELSEWHERE]
    runs = [call for call in calls(program) if getattr(call.func, "attr", "") == "run"]
    for client, call in zip(used, runs, strict=False):
        assert {each.arg for each in call.keywords} <= set(inspect.signature(client.run).parameters), client


def test_every_loader_and_writer_in_the_text_is_one_of_dagster_pipes() -> None:
    named = set(re.findall(r"\b(Pipes\w+(?:Loader|Writer))\b", TEXT))
    assert len(named) >= 4
    assert all(hasattr(dagster_pipes, name) for name in named)


def test_the_first_program_builds_definitions() -> None:
    space: dict[str, Any] = {}
    exec(compile(PROGRAMS[0], "docs/pipes.md", "exec"), space)
    dg.Definitions.validate_loadable(space["defs"])
