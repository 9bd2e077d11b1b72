"""What travels to executors: this package, whole, and the same for the same code."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lakegc_core
from lakegc_core.spark import shipping
from tests.support.waiting import STARTS

ROOT = Path(lakegc_core.__path__[0]).parent

_DRIVER = """
import os, subprocess, sys
root, folder, way = sys.argv[1:]
sys.path.insert(0, root)
from lakegc_core.spark import shipping
if way == "found on a path that it has no more":
    sys.path.remove(root)
if way == "found before another":
    sys.path.insert(0, folder)
ask = [sys.executable, "-c", "import lakegc_core; print(*lakegc_core.__path__)"]
subprocess.run(ask, env=os.environ | shipping.search_path(f":{folder}:"), cwd=folder)
"""


@pytest.mark.parametrize("way", ["found on its path", "found on a path that it has no more", "found before another"])
def test_a_worker_takes_the_drivers_lakegc_whatever_lies_where_it_starts(tmp_path: Path, way: str) -> None:
    (tmp_path / "lakegc_core").mkdir()
    (tmp_path / "lakegc_core/__init__.py").touch()
    command = [sys.executable, "-P", "-c", _DRIVER, str(ROOT), str(tmp_path), way]
    environment = {name: each for name, each in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=STARTS, cwd=tmp_path)
    assert done.stdout.split() == list(lakegc_core.__path__), done.stderr


def test_a_worker_gets_no_standard_library_of_the_driver_which_another_python_cannot_start_with() -> None:
    bare = [sys.executable, "-I", "-S", "-c", "import sys; print(*sys.path, sep='\\n')"]
    library = subprocess.run(bare, capture_output=True, text=True, check=True).stdout.split("\n")
    handed = shipping.search_path()["PYTHONPATH"].split(os.pathsep)
    assert len(set(library) & set(sys.path)) >= 3 and set(handed) & set(library) == set()
    assert {str(Path(place).absolute()) for place in sys.path} - set(library) <= set(handed)


class OfConnect(SimpleNamespace):
    """A session of Spark Connect, as far as lakegc looks at it."""

    __module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(("kind", "here"), [(SimpleNamespace, True), (OfConnect, False)])
def test_a_local_master_is_this_machine_but_where_a_server_has_it(kind: Any, here: bool) -> None:
    assert shipping.runs_here(kind(conf={"spark.master": "local[*]"})) is here
    assert not shipping.runs_here(kind(conf={"spark.master": "yarn"}))


def test_the_zip_holds_every_module_of_the_core_and_nothing_else() -> None:
    root = Path(lakegc_core.__path__[0])
    with zipfile.ZipFile(io.BytesIO(shipping.contents())) as archive:
        names = set(archive.namelist())
        spark = archive.read("lakegc_core/spark/session.py")
    assert {name for name in names if name.endswith(".py")} == {
        path.relative_to(root.parent).as_posix() for path in root.rglob("*.py")
    }
    assert spark == (root / "spark/session.py").read_bytes()
    assert all(name.endswith((".py", ".properties")) for name in names)


def test_the_same_code_is_the_same_zip_and_bears_its_digest() -> None:
    once = shipping.contents()
    shipping.contents.cache_clear()
    assert shipping.contents() == once
    assert shipping.package() == shipping.package() and shipping.package().read_bytes() == once


def test_a_python_that_has_no_lakegc_imports_it_from_the_zip(tmp_path: Path) -> None:
    asked = "import sys; sys.path.insert(1, sys.argv[1]); import lakegc_core.errors as found; print(found.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", asked, str(shipping.package())], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.startswith(str(shipping.package())), done.stderr
