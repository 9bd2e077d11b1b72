"""What the command says when it ends otherwise than it should."""

from __future__ import annotations

from typing import Any

import pytest

from lakegc_core.cli import main, marking
from lakegc_core.marks.context import RepositoryContext


@pytest.mark.parametrize("given", [[], ["--mark-id", "m1"]])
def test_a_mark_that_is_interrupted_names_the_command_that_goes_on_with_it(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[str] = []

    def interrupted(context: RepositoryContext, mark_id: str, **options: Any) -> None:
        begun.append(mark_id)
        raise KeyboardInterrupt

    monkeypatch.setattr(marking, "opened", lambda *_: None)
    monkeypatch.setattr(marking, "begin_mark", interrupted)
    assert main(["mark", "lake", *given]) == 130
    assert f"To go on where it stopped: lakegc mark lake --mark-id {begun[0]}\n" in capsys.readouterr().err


def test_other_commands_go_on_as_they_were(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(marking, "opened", interrupted)
    assert main(["sweep", "lake", "m1", "--yes"]) == 130
    assert "To go on where it stopped: lakegc sweep lake m1 --yes\n" in capsys.readouterr().err
