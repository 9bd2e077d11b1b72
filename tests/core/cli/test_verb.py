"""Other packages bring verbs to `lakegc` by entry points; the core knows none of them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lakegc_core.cli import verb
from lakegc_sandbox import verbs

ROOT = Path(__file__).parents[3]


@pytest.fixture
def metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The entry points of a package that is installed in a folder of the path."""
    folder = tmp_path / "a_package-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: a-package\nVersion: 1\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(ROOT)])  # only that package has any
    return folder / "entry_points.txt"


def test_the_verbs_of_an_installed_package_are_found_in_the_order_of_their_names(metadata: Path) -> None:
    metadata.write_text(
        "[lakegc.verbs]\nsandbox = lakegc_sandbox.verbs:SANDBOX\ndemo = lakegc_sandbox.verbs:DEMO\n", encoding="utf-8"
    )
    assert verb.from_elsewhere() == [verbs.DEMO, verbs.SANDBOX]


def test_a_verb_whose_package_is_not_installed_is_left_out(metadata: Path) -> None:
    metadata.write_text(
        "[lakegc.verbs]\ndemo = lakegc_sandbox.verbs:DEMO\nother = no_such_package.verbs:OTHER\n", encoding="utf-8"
    )
    assert verb.from_elsewhere() == [verbs.DEMO]


def test_the_sandbox_names_its_verbs_where_pip_finds_them(metadata: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = project["entry-points"][verb.GROUP]
    metadata.write_text(
        "\n".join([f"[{verb.GROUP}]", *(f"{name} = {value}" for name, value in points.items())]), encoding="utf-8"
    )
    assert {each.name for each in verb.from_elsewhere()} == set(points) == {"demo", "sandbox"}


def test_the_core_alone_has_its_own_verbs_and_imports_no_sandbox() -> None:
    program = (
        "import sys\n"
        "from lakegc_core.cli import entry\n"
        "found = entry.parser(entry.VERBS).format_help()\n"
        "assert 'sandbox' not in found and '    restore ' in found, found\n"
        "assert not [name for name in sys.modules if name.startswith('lakegc_sandbox')]\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
