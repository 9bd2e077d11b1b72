"""A `dg` project in a folder, and ticks of its sensors as a code server has them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

ROOT = Path(__file__).parents[2]
TYPE = "lakegc_dagster.LakegcComponent"
KEYS = ("endpoint_url", "access_key_id", "secret_access_key")
"""Attributes that name a server."""
PROJECT = """
[project]
name = "{name}"
version = "1"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "{name}"
"""
DEFINITIONS = """
from pathlib import Path
import dagster as dg

@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
_numbers = count(1)


@dataclass
class Project:
    """A `dg` project of a team's own, as `create-dagster` lays it out. Modules are imported once a process, so that
    each has a name of its own."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.root / self.name / "defs"

    def add(self, component: str, attributes: str) -> None:
        """A component's defs.yaml with these lines of attributes."""
        lines = "".join(f"  {line}\n" for line in attributes.splitlines())
        self.write(component, f"type: {TYPE}\nattributes:\n{lines}")

    def write(self, component: str, text: str) -> None:
        (self.folder / component).mkdir()
        (self.folder / component / "defs.yaml").write_text(text)

    def load(self) -> dg.Definitions:
        return dg.load_from_defs_folder(path_within_project=self.root / self.name)

    def fails(self) -> str:
        """Why it does not load."""
        with pytest.raises(Exception, match="Error while loading component") as caught:
            self.load()
        return str(caught.value.__cause__)


def new_project(root: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project without components, whose package can be imported."""
    found = Project(root, f"lakes_{next(_numbers)}")
    found.folder.mkdir(parents=True)
    (root / "pyproject.toml").write_text(PROJECT.format(name=found.name))
    for file in (found.folder / "__init__.py", root / found.name / "__init__.py"):
        file.touch()
    (root / found.name / "definitions.py").write_text(DEFINITIONS)
    monkeypatch.syspath_prepend(str(root))
    return found


def package_metadata(folder: Path) -> Path:
    """What installing the package, as pyproject.toml stands now, puts beside it: a folder with its entry points.

    The package that runs the tests may have been installed before they changed.
    """
    source, target = folder / "source", folder / "metadata"
    for each in (source, target):
        each.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    program = "import sys; from setuptools import build_meta as b; b.prepare_metadata_for_build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, str(target)], cwd=source, capture_output=True, check=True)
    (found,) = target.glob("*.dist-info")
    return found


def tick(defs: dg.Definitions, name: str, instance: dg.DagsterInstance) -> SensorExecutionData:
    """One evaluation of a sensor, which gets what resources it requires and no other."""
    repository, sensor = defs.get_repository_def(), defs.resolve_sensor_def(name)
    every = repository.get_top_level_resources()
    with dg.SensorEvaluationContext(
        instance_ref=instance.get_ref(),
        sensor_name=name,
        repository_def=repository,
        resources={key: every[key] for key in sensor.required_resource_keys},
    ) as context:
        return sensor.evaluate_tick(context)
