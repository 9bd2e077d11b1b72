"""What verbs open: the repository that is named, and the newest mark by the word for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.cli import main, marking
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import begin_mark
from lakegc_core.marks.shelf import marks
from tests.core.cli.conftest import Desk
from tests.support.lake import MIN_AGE, NOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("verb", ["mark", "marks", "history", "report", "doctor"])
@pytest.mark.parametrize(("name", "code"), [("lak", 1), ("local://lake", 2), ("local://lake/", 2)])
def test_who_names_a_repository_wrongly_is_told_the_right_name(
    desk: Desk, verb: str, name: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, name, "--quiet"]) == code
    assert capsys.readouterr().err.endswith(" Did you mean lake?\n")


def ends(*_: object) -> None:
    raise MarkError("enough is known")


@pytest.mark.parametrize("arguments", [["mark"], ["sweep", "latest"], ["run", "--yes"], ["doctor"]])
def test_a_verb_that_judges_says_first_that_no_lakegc_yaml_was_read_although_a_lakegc_yml_is_there(
    desk: Desk,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(marking, "_marked", ends)
    (tmp_path / "lakegc.yml").write_text("server: {}")
    verb, *more = arguments
    main([verb, "lake", *more])
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith(f"settings: none (no lakegc.yaml in this folder, {tmp_path}; ")
    assert "lakegc reads lakegc.yaml, not lakegc.yml" in first


def test_a_verb_that_judges_names_the_file_of_settings_that_it_reads(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(marking, "_marked", ends)
    (tmp_path / "own.yaml").write_text("{}")
    main(["mark", "lake", "--config", str(tmp_path / "own.yaml")])
    assert capsys.readouterr().err.startswith(f"settings: {tmp_path}/own.yaml\n")


@pytest.fixture
def two(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk with the mark `z`, the mark `a` that was begun an hour later, and one after it that did not finish."""
    for hours, mark_id, garbage in ((2, "z", ["data/old"]), (1, "a", ["data/new"])):
        monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp() - hours * 3600))
        desk.mark(mark_id, garbage, sound=True)
    monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp()))
    begin_mark(desk.repository(), "unfinished", min_age=MIN_AGE, safety_level="none")
    return desk


def given(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[Any, str]:
    """What a command says: its JSON, and stderr."""
    assert main([*arguments, "--json"]) == code
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_a_review_of_the_latest_mark_is_of_the_complete_one_that_was_begun_last_and_says_so(
    two: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    found, said = given(capsys, "review", "lake", "latest")
    assert found["mark_id"] == "a" and said == "latest is mark a\n"
    found, said = given(capsys, "review", "lake", "z")
    assert found["mark_id"] == "z" and said == ""


def test_the_addresses_of_the_latest_mark_stand_alone_on_stdout(two: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["review", "lake", "latest", "--addresses", "-"]) == 0
    assert capfd.readouterr() == ("data/new\n", "latest is mark a\n")


def asked_before_a_sweep(monkeypatch: pytest.MonkeyPatch, answer: type[BaseException] | bool) -> list[str]:
    """Have somebody at a terminal who answers this; the questions."""
    questions: list[str] = []

    def ask(question: str) -> bool:
        questions.append(question)
        if isinstance(answer, bool):
            return answer
        raise answer

    monkeypatch.setattr(marking, "ask", ask)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    return questions


def test_the_question_before_a_sweep_of_the_latest_mark_names_it(
    two: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = asked_before_a_sweep(monkeypatch, False)
    assert main(["sweep", "lake", "latest", "--quiet"]) == 3
    assert [question.partition("? ")[0] for question in questions] == [
        "Delete up to 1 object (10 B) of local://lake, which mark a found"
    ]


@pytest.mark.parametrize("before", [[], ["--dry-run"]])
def test_an_interrupted_sweep_of_the_latest_mark_goes_on_with_that_mark(
    two: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], before: Sequence[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(marking, "_confirm", interrupted)
    assert main(["sweep", *before, "lake", "latest"]) == 130
    again = " ".join(["lakegc", "sweep", *before, "lake", "a"])
    assert capsys.readouterr().err.endswith(f"To go on where it stopped: {again}\n")


def test_the_latest_mark_is_backed_up_and_restored(
    sparing: SparkSession, desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.mark("m1", garbage=[])
    for verb in ("backup", "restore"):
        found, said = given(capsys, verb, "lake", "latest", str(tmp_path / "there"))
        assert found["mark_id"] == "m1" and said.startswith("latest is mark m1\n")


def test_questions_are_answered_from_the_latest_mark(
    sparing: SparkSession, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.with_an_object()
    assert main(["mark", "lake", "--quiet", "--mark-id", "m1", "--safety", "none", "--min-age", "1h"]) == 0
    capsys.readouterr()
    for arguments in (["du", "lake"], ["whatif", "lake"], ["explain", "lake", "a"]):
        found, said = given(capsys, *arguments, "--mark-id", "latest")
        assert found["mark_id"] == "m1" and said.startswith("latest is mark m1\n")


@pytest.mark.parametrize("arguments", [["review", "lake", "latest"], ["sweep", "lake", "latest", "--close"]])
def test_without_a_complete_mark_there_is_no_latest_one(
    desk: Desk, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    begin_mark(desk.repository(), "unfinished", min_age=MIN_AGE, safety_level="none")
    found, _ = given(capsys, *arguments, code=1)
    assert "has no complete mark. `lakegc mark lake` makes one" in found["error"]


@pytest.mark.parametrize("arguments", [["mark", "lake"], ["run", "lake", "--yes"]])
def test_no_new_mark_is_called_latest(desk: Desk, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    found, _ = given(capsys, *arguments, "--mark-id", "latest", code=2)
    assert "No mark can have the id 'latest'" in found["error"]
    assert marks(desk.repository().workspace) == []
