"""What the package says of itself is true: its licence is there, and so is what its classifiers name."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the text of the Apache License 2.0 as the Apache Software Foundation publishes it."""
_PYTHON = "Programming Language :: Python :: "


def test_the_licence_is_the_text_that_the_package_names() -> None:
    assert (PROJECT["license"], PROJECT["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE


def test_the_classifiers_name_the_pythons_that_the_package_takes() -> None:
    named = {each.removeprefix(_PYTHON) for each in PROJECT["classifiers"] if each.startswith(f"{_PYTHON}3.")}
    assert named == {f"3.{minor}" for minor in range(40) if f"3.{minor}.0" in SpecifierSet(PROJECT["requires-python"])}


def test_the_package_says_that_it_is_typed_and_is() -> None:
    assert "Typing :: Typed" in PROJECT["classifiers"]
    for package in ("lakegc_core", "lakegc_dagster"):
        assert (ROOT / package / "py.typed").is_file()


def test_the_package_names_no_home_that_it_does_not_have() -> None:
    assert PROJECT["authors"] == [{"name": "lakegc developers"}]
    assert "urls" not in PROJECT and PROJECT["keywords"] == sorted(PROJECT["keywords"])


def test_the_image_is_built_with_the_licence() -> None:
    """The build of the package fails without it."""
    copied = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert "COPY requirements.lock pyproject.toml README.md LICENSE ./" in copied
