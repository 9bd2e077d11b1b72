"""What is asked before anything is deleted."""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lakegc_core.cli import marking
from lakegc_core.errors import RefusedError
from lakegc_core.store.local import LocalConfig
from lakegc_core.views.words import comes_back


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
