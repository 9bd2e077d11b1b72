"""The wheel, in an environment that has what it depends on and nothing of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_DEVELOPMENT = ("tests/", "benchmarks/", "deploy/", "docs/")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("lakegc_core", "lakegc_dagster", "lakegc_sandbox", "pyproject.toml", "README.md", "LICENSE"):
        (source / name).symlink_to(ROOT / name)  # setuptools leaves a build folder beside what it builds
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(folder), str(source))
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel."""
    home = tmp_path_factory.mktemp("env")
    run(sys.executable, "-m", "venv", "--without-pip", str(home))
    (site,) = home.glob("lib/python3*/site-packages")
    # A path that such a file names is searched, and its own .pth files are not read: so the working copy is not there.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "install", "-q", "--no-deps", str(wheel))
    return home / "bin"


def run(*command: str, **environment: str) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEGC_", "LAKECTL_", "PYTHON"))}
    done = subprocess.run(command, capture_output=True, text=True, env=own | environment, cwd="/", timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_the_wheel_holds_the_packages_and_their_licence_and_nothing_of_the_development(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
        verbs = archive.read(entry_points).decode()
    for name in ("lakegc_core/py.typed", "lakegc_dagster/py.typed", "lakegc_core/cli/__init__.py"):
        assert name in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(_DEVELOPMENT)]
    in_tree = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("lakegc_*/**/*.p*")
        if path.suffix in (".py", ".properties")
    }
    assert in_tree == {name for name in names if name.endswith((".py", ".properties"))}
    assert "lakegc = lakegc_core.cli:command" in verbs and "lakegc_dagster = lakegc_dagster" in verbs


@pytest.mark.slow
def test_its_command_runs_the_demo_without_the_working_copy(elsewhere: Path, tmp_path: Path) -> None:
    assert version("lakegc") in run(str(elsewhere / "lakegc"), "--version")
    where = "import lakegc_core; print(lakegc_core.__file__)"
    assert str(elsewhere.parent) in run(str(elsewhere / "python"), "-c", where)
    told = run(str(elsewhere / "lakegc"), "demo", HOME=str(tmp_path))
    assert "all 141 visible objects still read" in told


@pytest.mark.slow
def test_its_definitions_load_without_settings_lakefs_and_java(elsewhere: Path, tmp_path: Path) -> None:
    load = "from lakegc_dagster.definitions import defs; print(len(defs.resolve_asset_graph().get_all_asset_keys()))"
    assert run(str(elsewhere / "python"), "-W", "ignore", "-c", load, HOME=str(tmp_path), JAVA_HOME="/nowhere") == "6\n"
