"""`--metrics FILE`: which verbs write it, when they do, and what they say where they cannot."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from lakegc_core import pipeline
from lakegc_core.cli import main, marking, opening
from lakegc_core.errors import RefusedError, StoreError
from lakegc_core.sweep.result import SweepResult
from tests.core.cli.conftest import Desk
from tests.core.views.test_metrics import parsed

RESULT = SweepResult("lake", "m1", 1, {"deleted": 1}, 10, 1, 2.5, None, versioned=False, price=None)
MARK = ["--mark-id", "m1", "--safety", "none", "--min-age", "24h"]
COMMANDS = {
    "mark": ["mark", "lake", *MARK],
    "run": ["run", "lake", *MARK, "--yes"],
    "sweep": ["sweep", "lake", "m1", "--yes"],
    "close": ["sweep", "lake", "m1", "--close"],
    "history": ["history", "lake"],
    "all": ["history"],
}


@pytest.fixture
def file(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where metrics go, beside a lake whose mark `m1` stands. Nothing of Spark's runs."""
    desk.mark("m1", garbage=["data/a", "data/b"])
    monkeypatch.setattr(opening, "spark_of", lambda *_, **__: None)
    monkeypatch.setattr(pipeline, "mark", lambda spark, context: pipeline.review(context))
    monkeypatch.setattr(pipeline, "sweep", lambda *_, **__: RESULT)
    monkeypatch.setattr(pipeline, "close", lambda *_: RESULT)
    return tmp_path / "lakegc.prom"


def figures(file: Path) -> dict[str, float]:
    """Each metric of repository `lake`; those of stages by the stage."""
    found = parsed(file.read_text(encoding="utf-8"))
    assert {dict(labels)["repository"] for _, labels in found} == {"lake"}
    return {dict(labels).get("stage", name): value for (name, labels), value in found.items()}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_writes_the_metrics_of_its_repository(command: str, file: Path) -> None:
    assert main([*COMMANDS[command], "--metrics", str(file), "--quiet"]) == 0
    found = figures(file)
    assert (found["lakegc_garbage_bytes"], found["lakegc_garbage_objects"]) == (20, 2)
    assert ("namespace_listing" in found) is (command in ("mark", "run", "sweep"))
    assert found.get("swept_report") == (2.5 if command in ("run", "sweep", "close") else None)


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_metrics_are_written_where_a_guard_refuses(command: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise RefusedError("no")

    monkeypatch.setattr(pipeline, "sweep", refuses)
    assert main([*COMMANDS[command], "--metrics", str(file), "--quiet"]) == 3
    assert figures(file)["lakegc_garbage_bytes"] == 20


def test_metrics_are_written_although_nobody_reads_stdout(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(marking, "show", breaks)
    main([*COMMANDS["mark"], "--metrics", str(file), "--quiet"])
    assert figures(file)["lakegc_garbage_bytes"] == 20


def test_metrics_of_the_last_command_stay_where_one_fails(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise StoreError("gone")

    file.write_text("old", encoding="utf-8")
    monkeypatch.setattr(pipeline, "mark", fails)
    assert main([*COMMANDS["mark"], "--metrics", str(file), "--quiet"]) == 1
    assert file.read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_there_is_refused_before_any_work(
    command: str, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("mark", "sweep", "close", "review"):
        monkeypatch.setattr(pipeline, name, None)
    assert main([*COMMANDS[command], "--metrics", str(file.parent / "none" / "x.prom")]) == 2
    assert "no file in a folder that exists" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_told_and_the_mark_is_done(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("lakegc_core.views.metrics.write_metrics", full)
    assert main([*COMMANDS["mark"], "--metrics", str(file)]) == 1
    said = capsys.readouterr()
    assert "m1 · complete" in said.out and "(No space left on device). All else of the command is done" in said.err


def test_a_part_of_the_history_makes_no_metrics(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "lake", "--since", "3d", "--metrics", str(file)]) == 2
    assert "Give --metrics or --since" in capsys.readouterr().err and not file.exists()


def test_a_device_and_a_link_are_no_file_for_metrics_and_stay_what_they_are(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each write puts a new file in the place of the old one: root would lose /dev/null in this way."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "elsewhere.prom")
    for there in (pipe, link):
        assert main(["history", "lake", "--metrics", str(there), "--quiet"]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"lakegc: --metrics {there} is a link or a device") and "Name a plain file" in said
    assert pipe.is_fifo() and link.is_symlink() and not (tmp_path / "elsewhere.prom").exists()
