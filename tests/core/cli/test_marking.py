"""What is asked before anything is deleted, and what a review shows and writes."""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakegc_core.cli import main, marking
from lakegc_core.errors import RefusedError
from lakegc_core.store.local import LocalConfig
from lakegc_core.views.words import comes_back
from tests.core.cli.conftest import Desk


def test_the_question_before_a_sweep_says_what_goes_and_whether_the_store_can_bring_it_back(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr(marking, "ask", no)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    context: Any = SimpleNamespace(
        data=LocalConfig(str(tmp_path)), header=SimpleNamespace(storage_namespace="local://lake")
    )
    review: Any = SimpleNamespace(report={"objects": {"expired": 1_200}, "bytes": {"expired": 5_000_000}})
    with pytest.raises(RefusedError, match="Nothing was deleted"):
        marking._confirm(argparse.Namespace(dry_run=False, yes=False), context, review)
    assert asked == ["Delete up to 1,200 objects (5.0 MB) of local://lake? The store cannot bring them back."]


@pytest.mark.parametrize(
    ("versioned", "soft_delete", "said"),
    [
        (False, timedelta(days=7), "They can be brought back for 7 days: the store's soft delete."),
        (True, None, "The store keeps old versions of them until its own rules let them expire."),
        (None, None, "The store does not say whether they can be brought back."),
        (False, timedelta(0), "The store cannot bring them back."),
    ],
)
def test_each_kind_of_store_says_how_long_it_keeps_what_is_deleted(
    versioned: bool | None, soft_delete: timedelta | None, said: str
) -> None:
    assert comes_back(versioned, soft_delete) == said


def test_a_review_writes_the_addresses_alone_to_stdout(desk: Desk, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    desk.mark("m1", garbage=["data/a", "data/ö"])
    assert main(["review", "lake", "m1", "--addresses", "-"]) == 0
    assert capfdbinary.readouterr().out == "data/a\ndata/ö\n".encode()


def test_addresses_and_json_do_not_share_stdout(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review", "lake", "m1", "--addresses", "-", "--json"]) == 2
    assert "both write to stdout" in capsys.readouterr().err


def test_a_review_writes_the_addresses_to_a_file(desk: Desk, tmp_path: Path) -> None:
    desk.mark("m1", garbage=["data/a", "data/ö"])
    assert main(["review", "lake", "m1", "--addresses", str(tmp_path / "list")]) == 0
    assert (tmp_path / "list").read_bytes() == "data/a\ndata/ö\n".encode()
