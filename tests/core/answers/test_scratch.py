"""The folder of an answer goes with it, and so does what older questions have left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.answers.scratch import FOLDER, scratch
from lakegc_core.errors import StoreError
from lakegc_core.store.local import LocalStore
from tests.support.lake import lake


def test_what_an_answer_wrote_is_gone_afterwards_and_so_is_what_a_broken_one_left_a_day_ago(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        context = served.open("lake")
        store, home = context.workspace.connect(), f"{context.home}/{FOLDER}"
        store.write(f"{home}/20250330T115900-0/a/part", b"old")
        store.write(f"{home}/20250331T115900-0/a/part", b"of a question that is being answered")
        with pytest.raises(RuntimeError), scratch(context) as folder:
            store.write(f"{folder}/a/b/part", b"1")
            raise RuntimeError
        left = [file for file in (served.files("lake") / home).rglob("*") if file.is_file()]
        assert [file.read_bytes() for file in left] == [b"of a question that is being answered"]


def test_what_cannot_be_removed_is_said_and_spoils_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: LocalStore, keys: Sequence[str], gate: Any = None) -> list[str]:
        raise StoreError("no")

    with lake(tmp_path) as served:
        served.create("lake")
        said: list[str] = []
        context = served.open("lake")
        object.__setattr__(context, "say", said.append)
        monkeypatch.setattr(LocalStore, "delete_many", fails)
        with scratch(context) as folder:
            context.workspace.connect().write(f"{folder}/part", b"1")
        assert len(said) == 1 and "could not be removed (no)" in said[0]
