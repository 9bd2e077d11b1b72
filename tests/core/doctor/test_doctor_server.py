"""What the version and the edition of lakeFS mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from lakegc_core.config.settings import ServerSettings
from lakegc_core.doctor.finding import Finding, Level
from lakegc_core.doctor.server import DEFECTS, about, examine_server
from lakegc_core.lakefs.models import ServerConfig, Storage
from lakegc_core.policy.holds import problem_of
from tests.core.doctor.conftest import Patient

SETTINGS = ServerSettings("", "", "")


def server(version: str, edition: str = "lakeFS") -> ServerConfig:
    return ServerConfig(version, (Storage("s3"),), edition)


def names(findings: Iterable[Finding]) -> list[str]:
    return [each.name for each in findings]


@pytest.mark.parametrize(
    ("version", "level"),
    [("1.2.9", Level.ALARM), ("1.71.0", Level.WARNING), ("1.72.0", None), ("1.84.0", None), ("dev", Level.NOTE)],
)
def test_versions_are_told_apart(version: str, level: Level | None) -> None:
    found = list(examine_server(server(version), SETTINGS))
    assert [(each.name, each.level) for each in found] == ([("server-version", level)] if level else [])


def test_a_server_that_may_compact_is_named_unless_lakegc_yaml_says_that_it_does_not() -> None:
    enterprise = server("1.100.0", "lakeFS-Enterprise")
    never = replace(SETTINGS, compaction="never")
    assert names(examine_server(enterprise, SETTINGS)) == ["enterprise", "compaction"]
    assert names(examine_server(enterprise, never)) == ["enterprise"]
    assert names(examine_server(server("1.99.0", "lakeFS-Enterprise"), SETTINGS)) == ["enterprise"]


def test_on_a_server_of_another_edition_the_verb_says_how_to_hold_pinned_commits(on_folder: Patient) -> None:
    """Not where the server says that it is open source, nor where it says nothing."""
    sandbox = on_folder.server.sandbox
    for edition in ("lakeFS", ""):
        sandbox.version_context = edition
        assert "enterprise" not in names(on_folder.examine().findings)
    sandbox.version_context = "lakeFS-Enterprise"
    found = on_folder.finding("enterprise")
    assert found.level is Level.NOTE and "lakeFS-Enterprise" in found.what
    hold = re.search('"(commit:)ID"', found.do)
    assert hold and "tag" in found.do and problem_of(f"{hold[1]}0a1b") is None


def test_the_known_defects_are_those_of_the_version_and_all_where_it_is_not_known() -> None:
    def known(version: str) -> list[str]:
        defects: list[str] = about(server(version))["known_defects"]
        return defects

    assert any("branch that is deleted" in text for text in known("1.73.0"))
    assert not any("branch that is deleted" in text for text in known("1.74.0"))
    assert any("working directory" in text for text in known("v1.84.0"))
    assert not any("working directory" in text for text in known("1.75.1"))
    assert known("dev") == [defect.text for defect in DEFECTS]


def test_an_old_server_is_named_by_the_verb(on_folder: Patient) -> None:
    on_folder.server.sandbox.version = "1.70.1"
    assert "1.70.1" in on_folder.finding("server-version").what
