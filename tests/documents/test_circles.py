"""No modules import each other in a circle, not even for types alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules(package: str) -> dict[str, Path]:
    found = (path.relative_to(ROOT) for path in (ROOT / package).rglob("*.py"))
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): ROOT / path for path in found}


def imported(path: Path) -> Iterator[str]:
    """The names that a module imports, and the modules that they are of."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                yield f"{node.module}.{name.name}"
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("package", ["lakegc_core", "lakegc_dagster", "lakegc_sandbox"])
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    known = modules(package)
    graph = {name: {each for each in imported(path) if each in known} - {name} for name, path in known.items()}
    packages = {name for name, path in known.items() if path.name == "__init__.py"}
    try:
        TopologicalSorter({name: each - packages for name, each in graph.items()}).prepare()
    except CycleError as error:
        pytest.fail(" ← ".join(error.args[1]))
