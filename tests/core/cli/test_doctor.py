"""The verb `doctor`: its exit codes, its JSON, its page, and that it needs no Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lakegc_core.cli import main
from lakegc_core.cli.doctor import doctor_screen
from lakegc_core.doctor.finding import Diagnosis, Finding, Level
from lakegc_sandbox import Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY

Told = tuple[int, str]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxServer]:
    """A served sandbox with a sound repository `lake`, which the environment names."""
    with SandboxServer(Sandbox(tmp_path / "lakefs")) as running:
        running.sandbox.create_repository("lake", age=timedelta(days=9)).set_rules(7)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", running.url)
        monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", SECRET_KEY)
        yield running


@pytest.fixture
def lakegc(capsys: pytest.CaptureFixture[str], server: SandboxServer) -> Callable[..., Told]:
    """Runs a command; its exit code and its stdout."""

    def run(*arguments: str) -> Told:
        code = main(arguments)
        return code, capsys.readouterr().out

    return run


def test_a_sound_repository_ends_with_0_and_one_page(lakegc: Callable[..., Told]) -> None:
    code, page = lakegc("doctor", "lake", "--quiet")
    assert code == 0
    assert page.startswith("lake · doctor · 1 note\n")
    assert "lakeFS 1.84.0 · lakeFS" in page and "looked at   the server, rights in lakeFS" in page
    assert max(len(line) for line in page.splitlines()) <= 120


def test_an_alarm_ends_with_3_and_is_whole_in_the_json(lakegc: Callable[..., Told], server: SandboxServer) -> None:
    server.sandbox.repository("lake").set_rules(-1)
    code, text = lakegc("doctor", "lake", "--json", "--quiet")
    assert code == 3 and text.count("\n") == 1
    found: dict[str, Any] = json.loads(text)
    assert found["repository"] == "lake" and found["counts"]["alarm"] == 1
    assert found["findings"][0]["name"] == "negative-rule" and found["findings"][0]["level"] == "alarm"


def test_a_warning_is_shown_and_ends_with_0(lakegc: Callable[..., Told], server: SandboxServer) -> None:
    server.sandbox.repository("lake").set_rules(7, {"gone": 3})
    code, page = lakegc("doctor", "lake", "--quiet")
    assert code == 0
    assert "! warning  1 rules are for branches that do not exist: gone. [rule-without-branch]" in page
    assert "why   " in page and "do    Correct the names" in page


def test_without_a_name_all_repositories_are_looked_at(lakegc: Callable[..., Told], server: SandboxServer) -> None:
    assert lakegc("doctor", "--quiet")[1].startswith("all repositories · doctor · nothing found\n")
    server.sandbox.create_repository("bare")
    code, page = lakegc("doctor", "--quiet")
    assert code == 3 and "\nbare\n  ✗ alarm" in page and "nothing found in lake" in page
    assert json.loads(lakegc("doctor", "--json", "--quiet")[1])["repositories"][0]["repository"] == "bare"


def test_an_unknown_repository_ends_with_1(lakegc: Callable[..., Told]) -> None:
    assert lakegc("doctor", "none", "--quiet")[0] == 1


def test_no_spark_session_is_started(lakegc: Callable[..., Told], monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a session")

    monkeypatch.setattr("lakegc_core.spark.session.session", session)
    monkeypatch.setitem(sys.modules, "pyspark", None)  # an import of it fails
    assert lakegc("doctor", "lake", "--quiet")[0] == 0
    assert lakegc("doctor", "--quiet")[0] == 0


def test_findings_are_wrapped_below_their_signs_and_parts_without_any_are_few_words() -> None:
    finding = Finding("long", Level.ALARM, "word " * 40 + "end.", "because.", "this.")
    parts = tuple(Diagnosis(f"r{number}", {}, (), ()) for number in range(30))
    page = doctor_screen(Diagnosis("", {}, ("a", "b"), (finding,), parts))
    assert page.startswith("all repositories · doctor · 1 alarm\n")
    assert all(len(line) <= 120 for line in page.splitlines())
    assert "r19 …" in page and "r20" not in page


def test_a_finding_cannot_change_the_page_by_the_name_of_a_key() -> None:
    finding = Finding("key", Level.NOTE, "data/\x1b[31mred\n  nothing found", "because.", "this.")
    page = doctor_screen(Diagnosis("lake", {}, ("a",), (finding,)))
    assert all(line.isprintable() for line in page.split("\n")) and r"data/\x1b[31mred\n" in page
