"""What travels to executors: this package, whole, and the same for the same code."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import lakegc_core
from lakegc_core.spark import shipping


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
