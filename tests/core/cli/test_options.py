"""What verbs share: the repository that they are given."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from lakegc_core.cli import main
from lakegc_core.cli.entry import parser
from lakegc_core.cli.options import repository_name, writing
from lakegc_core.cli.verbs import VERBS
from lakegc_core.errors import SettingsError
from tests.core.cli.conftest import Desk


@pytest.mark.parametrize("given", ["lake", "lakefs://lake", "lakefs://lake/"])
def test_a_repository_is_named_by_its_name_or_by_its_uri(given: str) -> None:
    assert repository_name(given) == "lake"


@pytest.mark.parametrize("given", ["lakefs://lake/main", "lakefs://lake/main/a/b", "lakefs://lake//", "lakefs://"])
def test_a_uri_of_more_or_less_than_a_repository_is_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="REPO is a repository alone"):
        repository_name(given)


@pytest.mark.parametrize("verb", ["marks", "history", "doctor"])
def test_verbs_take_the_uri_of_a_repository(desk: Desk, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for repository in ("lake", "lakefs://lake/"):
        assert main([verb, repository, "--json", "--quiet"]) in (0, 3)
        found.append(json.loads(capsys.readouterr().out))
    if verb != "doctor":  # it names what it wrote
        assert found[0] == found[1]


def test_of_a_file_that_could_not_be_written_to_its_end_nothing_stays(tmp_path: Path) -> None:
    full = pytest.raises(SettingsError, match=r"--html .*/page cannot be written: full")
    with full, writing("--html", tmp_path / "page") as out:
        out.write(b"half")
        raise OSError(errno.ENOSPC, "full")
    assert not (tmp_path / "page").exists()


def test_a_file_that_cannot_be_opened_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page").write_text("whole", encoding="utf-8")

    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")  # root may write everywhere

    monkeypatch.setattr(Path, "open", denied)
    refused = pytest.raises(SettingsError, match="page cannot be written: Permission denied")
    with refused, writing("--html", tmp_path / "page"):
        pass
    monkeypatch.undo()
    assert (tmp_path / "page").read_text(encoding="utf-8") == "whole"


@pytest.mark.parametrize(
    "command", [["review", "lake", "m1", "--html"], ["report", "lake", "--html"], ["history", "lake", "--metrics"]]
)
def test_a_minus_is_no_name_of_a_file(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It means stdout elsewhere; a file of this name is hard to get rid of."""
    monkeypatch.chdir(tmp_path)
    assert main([*command, "-"]) == 2
    assert f"{command[-1]} -: only --addresses can be written to stdout" in capsys.readouterr().err
    assert not (tmp_path / "-").exists()


_OF_A_REPOSITORY = [
    *(
        (verb, [])
        for verb in ("mark", "run", "marks", "history", "retire", "report", "du", "whatif", "doctor", "drill")
    ),
    *((verb, ["m1"]) for verb in ("review", "sweep", "verify")),
    *((verb, ["m1", "/place"]) for verb in ("backup", "restore")),
    ("explain", ["lakefs://lake/main/path"]),
    ("gone", ["a/**"]),
]


def test_these_are_all_verbs_of_a_repository() -> None:
    assert {verb for verb, _ in _OF_A_REPOSITORY} == {verb.name for verb in VERBS} - {"schema", "try"}


@pytest.mark.parametrize(("verb", "more"), _OF_A_REPOSITORY)
def test_every_verb_begins_with_its_settings(verb: str, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    again = ["--yes"] if verb == "run" else []
    assert main([verb, "lake", *more, *again, "--config", "no-such.yaml"]) == 2
    assert "no-such.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "more"), _OF_A_REPOSITORY)
def test_every_verb_refuses_the_uri_of_a_branch(verb: str, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "lakefs://lake/main", *more]) == 2
    assert "write lake or lakefs://lake" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "means"),
    [
        *((word, True) for word in ("1", "yes", "true", "on", "ON", " true ")),
        *((word, False) for word in ("0", "no", "false", "off", "Off")),
        ("", None),
        ("  ", None),
    ],
)
def test_a_variable_turns_a_switch_on_or_off(said: str, means: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_PROTECT_TAGS", said)
    monkeypatch.setenv("LAKEGC_DRY_RUN", said)
    found = parser(VERBS).parse_args(["run", "lake"])
    assert found.protect_tags is means
    assert found.dry_run is bool(means)


@pytest.mark.parametrize(
    ("switch", "variable", "contrary"),
    [("dry_run", "LAKEGC_DRY_RUN", "--dry-run"), ("protect_tags", "LAKEGC_PROTECT_TAGS", "--no-protect-tags")],
)
def test_a_variable_of_a_switch_that_says_neither_is_wrong_usage(
    switch: str, variable: str, contrary: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "maybe")
    with pytest.raises(SystemExit) as stopped:
        main(["run", "lake"])
    assert stopped.value.code == 2
    assert f"{variable} is 'maybe'. Write 1, yes, true, on to turn it on" in capsys.readouterr().err
    assert getattr(parser(VERBS).parse_args(["run", "lake", contrary]), switch) is (switch == "dry_run")
    assert not parser(VERBS).parse_args(["marks", "lake"]).retired, "verbs without the switch do not mind"


_MISREAD = [
    (["mark", "lake"], "--min-age", "25x", "no duration"),
    (["history", "lake"], "--since", "30", "has no unit: did you mean 30d, 30h, 30m or 30s?"),
    (["history"], "--since", "yesterday", "no duration"),
    (["sweep", "lake", "m1"], "--most-bytes", "lots", "no amount of bytes"),
    (["sweep", "lake", "m1"], "--most-objects", "0", "no whole number of at least 1"),
    (["sweep", "lake", "m1"], "--most-requests", "-1", "no whole number of at least 1"),
    (["run", "lake"], "--until", "6 pm", "no time of day"),
    (["drill", "lake"], "--read-most", "x", "no amount of bytes"),
    (["drill", "lake"], "--objects", "1001", "no whole number from 1 to 1,000"),
    (["retire", "lake"], "--keep", "few", "no whole number"),
    (["gone", "lake", "a/**"], "--most", "-3", "no whole number"),
    (["backup", "lake", "m1", "/spare"], "--parallel", "0", "no whole number of at least 1"),
    (["restore", "lake", "m1"], "--bandwidth", "1MB", "no whole number"),
    (["restore", "lake", "m1"], "--path", "", "names no path"),
    (["du", "lake"], "--together", "branch:a*,main", "'main' names no branch and no tag"),
    (["whatif", "lake"], "--without", "main", "names no branch and no tag"),
    (["mark", "lake"], "--safety", "paranoid", "none of full, standard, none"),
]


@pytest.mark.parametrize(("command", "option", "value", "why"), _MISREAD)
def test_a_value_that_does_not_read_is_wrong_usage_that_names_the_option(
    command: list[str], option: str, value: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command, f"{option}={value}"])
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.startswith(f"usage: lakegc {command[0]} ")
    assert f"argument {option}: " in said and value.split(",")[-1] in said and why in said


@pytest.mark.parametrize(("variable", "value"), [("LAKEGC_MIN_AGE", "25x"), ("LAKEGC_SAFETY", "paranoid")])
def test_of_a_value_that_a_variable_gives_the_variable_is_named_and_verbs_without_the_option_do_not_mind(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit):
        main(["mark", "lake"])
    assert f"'{value}' is no" in (said := capsys.readouterr().err) and f"({variable} says so)" in said
    assert parser(VERBS).parse_args(["marks", "lake"]).repository == "lake"
